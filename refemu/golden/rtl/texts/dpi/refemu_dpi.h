/* A unit of refemu as a C function: a live predictor for simulators (DPI-C) and for any C program.

   Every handle is a process of its own, `$REFEMU serve SPEC`, on two pipes; no Python runs in this one. A transaction is
   an array of 32-bit words (svBitVecVal), least significant first; its ports are those of the hello frame, the first in
   the lowest bits, lanes ascending. Bits above the ports mean nothing in inputs and are 0 in answers.

   $REFEMU names the command, one word or several ("python3 -m refemu"); default refemu.

   Functions answer REFEMU_OK, REFEMU_REFUSED where the unit does not take the transaction (its state is as it was, and
   the next one is answered), or REFEMU_DEAD where no process answers any more; refemu_error has the sentence. Any thread
   may open handles, and one at a time may use a handle. A server that says nothing for 600 seconds, or as many as
   $REFEMU_TIMEOUT names, is ended. */
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

/* Starts a server. spec: a unit as everywhere in refemu, "orizuru:n=16,k=2", behind it options of `refemu serve`,
   "bfp_aligner:paper --care". NULL where there is none; refemu_error(NULL) says why. */
void *refemu_open(const char *spec);

/* As refemu_open, for programs that know their words beforehand: an error unless the server has just these numbers and
   this digest ("" for any). */
void *refemu_open_as(const char *spec, size_t words_in, size_t words_out, const char *digest);

/* Words of a transaction, and of its answer. */
size_t refemu_words_in(void *handle);
size_t refemu_words_out(void *handle);

/* JSON: refemu, unit, version, set, parameters, timing, ports, words_in, words_out, digest. */
const char *refemu_hello(void *handle);

/* One transaction. */
int refemu_step(void *handle, const uint32_t *in, uint32_t *out);

/* Rows of transactions, one after the other. What was refused in a batch changed nothing in the rows from the one that
   refemu_error names as the first of its frame on; the rows before it are answered. */
int refemu_run(void *handle, const uint32_t *in, uint32_t *out, size_t rows);

/* Back to the state of a device that was reset. */
int refemu_reset(void *handle);

/* Ends the server. The handle may be used no more; what does so gets REFEMU_DEAD. */
int refemu_close(void *handle);

/* The error of the last call with a handle, or of this thread's last refemu_open that gave none (NULL): "" if there was none. Behind
   a process that died stand its last words; they stay. */
const char *refemu_error(void *handle);

#ifdef __cplusplus
}
#endif
#endif
