/* A unit of refemu as a C function: a live predictor for simulators (DPI-C) and for any C program.

   Every handle is a separate process, `$REFEMU serve SPEC`, on two pipes; no Python runs in this one. A transaction is
   an array of 32-bit words (svBitVecVal), least significant first; its ports are those of the hello frame, the first in
   the lowest bits, lanes ascending. Bits above the ports mean nothing in inputs and are 0 in answers.

   $REFEMU names the command, one word or several ("python3 -m refemu"); default refemu.

   Functions return REFEMU_OK, REFEMU_REFUSED if the transaction is invalid (the state is unchanged, and the next one is
   answered), or REFEMU_DEAD if the server has ended; refemu_error has the message. Any thread may open handles; one
   thread at a time may use a handle. A server that is silent for 600 seconds, or $REFEMU_TIMEOUT, is ended. */
#ifndef REFEMU_DPI_H
#define REFEMU_DPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REFEMU_PROTOCOL 1
#define REFEMU_OK 0
#define REFEMU_REFUSED 1
#define REFEMU_DEAD 2

/* Starts a server. spec: a unit, "orizuru:n=16,k=2", optionally with options of `refemu serve`, "bfp_aligner:paper --care".
   NULL if that fails; refemu_error(NULL) has the reason. */
void *refemu_open(const char *spec);

/* refemu_open for programs that know their words: an error unless the server has exactly these numbers and this digest
   ("" for any). */
void *refemu_open_as(const char *spec, size_t words_in, size_t words_out, const char *digest);

/* Number of words of a transaction, and of its answer. */
size_t refemu_words_in(void *handle);
size_t refemu_words_out(void *handle);

/* JSON: refemu, unit, version, set, parameters, timing, ports, words_in, words_out, digest. */
const char *refemu_hello(void *handle);

/* One transaction. */
int refemu_step(void *handle, const uint32_t *in, uint32_t *out);

/* Rows of transactions in turn. After an error, refemu_error names the first row of the failing frame: the rows before it
   are answered, and those from it on changed no state. */
int refemu_run(void *handle, const uint32_t *in, uint32_t *out, size_t rows);

/* Resets the unit. */
int refemu_reset(void *handle);

/* Ends the server. Any later use of the handle returns REFEMU_DEAD. */
int refemu_close(void *handle);

/* The error of the last call with a handle, or of this thread's last failed refemu_open (NULL); "" if there was none. For a
   server that ended it includes the server's last output, permanently. */
const char *refemu_error(void *handle);

#ifdef __cplusplus
}
#endif
#endif
