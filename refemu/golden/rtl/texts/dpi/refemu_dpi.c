/* See refemu_dpi.h. C99 and POSIX. */
#define _POSIX_C_SOURCE 200809L
#define _GNU_SOURCE /* pipe2 */

#include "refemu_dpi.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEP = 1, RUN = 2, RESET = 3, CLOSE = 4 };
enum { WORDS = 64, TEXT = 2048, TAIL = 1024, HEAD = 8 };
#define MAGIC 0x554d4652u
#define FRAME ((size_t)1 << 20)      /* bytes of a batch sent at once */
#define LONGEST_HELLO ((size_t)1 << 26)
/* Nanoseconds of polling for a reply before a sleep: waking up takes longer than most transactions. */
#define AWAKE_NS 60000L
#define ASLEEP 32 /* replies without polling after polling found none */
#define PATIENCE 600 /* seconds to wait for a server; $REFEMU_TIMEOUT overrides it */
#define GRACE 1000   /* milliseconds for a server to end after SIGTERM, or after its pipe was closed */

/* Handles stay in a list forever, so that a closed one is recognized. */
typedef struct refemu {
  struct refemu *next;
  int open;
  pid_t process;
  int to, from;
  int asleep; /* replies left without polling */
  FILE *words; /* standard error of the server */
  size_t words_in, words_out;
  char *hello, *digest;
  unsigned char *buffer;
  size_t room;
  char spec[256];
  char error[TEXT];
} refemu;

static refemu *handles;
static pthread_mutex_t listed = PTHREAD_MUTEX_INITIALIZER;
static __thread char last_error[TEXT]; /* of this thread's last refemu_open */

static refemu *known(void *handle) {
  refemu *each;
  pthread_mutex_lock(&listed);
  for (each = handles; each != NULL && (void *)each != handle; each = each->next) {
  }
  pthread_mutex_unlock(&listed);
  return each;
}

/* Requires an open handle; sets its error, or that of refemu_error(NULL) if there is no handle. */
static refemu *usable(void *handle, const char *function) {
  refemu *h = known(handle);
  if (h == NULL)
    snprintf(last_error, TEXT, "%s: the handle is not one of refemu_open%s", function,
             handle == NULL ? ", got NULL" : "");
  else if (!h->open && h->process == 0 && h->error[0] == '\0')
    snprintf(h->error, TEXT, "%s: the handle of %s was closed", function, h->spec);
  else if (h->open)
    h->error[0] = '\0';
  return h != NULL && h->open ? h : NULL;
}

static void put(unsigned char *at, uint32_t word) {
  int byte;
  for (byte = 0; byte < 4; byte++) at[byte] = (unsigned char)(word >> 8 * byte);
}

static uint32_t get(const unsigned char *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static int little_endian(void) {
  const uint32_t one = 1;
  return *(const unsigned char *)&one == 1;
}

/* A write that fails with EPIPE if the process has ended, without SIGPIPE in this program, whatever its handler. */
static ssize_t write_quietly(int file, const void *data, size_t size) {
  sigset_t pipe_only, before, pending;
  ssize_t done;
  int was_pending, error, taken;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  sigemptyset(&pending);
  sigpending(&pending);
  was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
  done = write(file, data, size);
  error = errno;
  if (done < 0 && error == EPIPE && !was_pending) {
    sigpending(&pending);
    if (sigismember(&pending, SIGPIPE) == 1) sigwait(&pipe_only, &taken);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return done;
}

static int send_all(int file, const unsigned char *data, size_t size) {
  while (size > 0) {
    ssize_t done = write_quietly(file, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return 0;
    data += done;
    size -= (size_t)done;
  }
  return 1;
}

/* Result of a read; -1 after the timeout of a server. */
static ssize_t read_in_time(int file, unsigned char *data, size_t size) {
  const char *named = getenv("REFEMU_TIMEOUT");
  long seconds = named != NULL ? strtol(named, NULL, 10) : PATIENCE;
  struct pollfd watch;
  int ready;
  watch.fd = file;
  watch.events = POLLIN;
  if (seconds < 1 || seconds > 1000000) seconds = PATIENCE;
  do ready = poll(&watch, 1, (int)seconds * 1000);
  while (ready < 0 && errno == EINTR);
  return ready > 0 ? read(file, data, size) : -1;
}

static int receive(int file, unsigned char *data, size_t size) {
  while (size > 0) {
    ssize_t done = read_in_time(file, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return 0;
    data += done;
    size -= (size_t)done;
  }
  return 1;
}

static long since(const struct timespec *begin) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long)(now.tv_sec - begin->tv_sec) * 1000000000L + (now.tv_nsec - begin->tv_nsec);
}

/* Polls for a reply for AWAKE_NS, unless polling recently failed, as on a busy machine; the read that follows waits for
   the rest. */
static void wait_awake(refemu *h) {
  struct pollfd watch;
  struct timespec begin;
  if (h->asleep > 0) {
    h->asleep--;
    return;
  }
  watch.fd = h->from;
  watch.events = POLLIN;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  while (poll(&watch, 1, 0) == 0) {
    if (since(&begin) >= AWAKE_NS) {
      h->asleep = ASLEEP;
      return;
    }
  }
}

static int enlarge(refemu *h, size_t size) {
  unsigned char *more;
  if (size <= h->room) return 1;
  more = (unsigned char *)realloc(h->buffer, size);
  if (more == NULL) return 0;
  h->buffer = more;
  h->room = size;
  return 1;
}

/* The last lines of the server's standard error. */
static void last_words(refemu *h, char *text, size_t room) {
  long size;
  size_t have = 0;
  text[0] = '\0';
  if (h->words == NULL || fseek(h->words, 0, SEEK_END) != 0 || (size = ftell(h->words)) < 0) return;
  fseek(h->words, size > (long)room - 1 ? size - ((long)room - 1) : 0, SEEK_SET);
  have = fread(text, 1, room - 1, h->words);
  while (have > 0 && (text[have - 1] == '\n' || text[have - 1] == ' ')) have--;
  text[have] = '\0';
}

static void release(refemu *h) {
  if (h->to >= 0) close(h->to);
  if (h->from >= 0) close(h->from);
  if (h->words != NULL) fclose(h->words);
  free(h->hello);
  free(h->digest);
  free(h->buffer);
  h->to = h->from = -1;
  h->words = NULL;
  h->hello = h->digest = NULL;
  h->buffer = NULL;
  h->room = 0;
  h->open = 0;
}

/* Collects the process, and kills it if it does not end. */
static pid_t collect(refemu *h, int *status) {
  const struct timespec step = {0, 1000000L};
  pid_t ended = 0;
  int waited;
  for (waited = 0; ended == 0 && waited <= GRACE; waited++) {
    ended = waitpid(h->process, status, WNOHANG);
    if (ended < 0 && errno == EINTR) ended = 0;
    if (ended == 0) nanosleep(&step, NULL);
  }
  if (ended != 0) return ended;
  kill(h->process, SIGKILL);
  do ended = waitpid(h->process, status, 0);
  while (ended < 0 && errno == EINTR);
  return ended;
}

/* Collects a process that ended or sent no frame, and reports how it ended and its last output. */
static int dead(refemu *h, const char *what) {
  char words[TAIL], how[128];
  int status = 0;
  pid_t ended;
  close(h->to);
  close(h->from);
  h->to = h->from = -1;
  kill(h->process, SIGTERM);
  ended = collect(h, &status);
  if (ended < 0)
    snprintf(how, sizeof how, "was collected by another part of this program");
  else if (WIFSIGNALED(status))
    snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(status));
  else
    snprintf(how, sizeof how, "ended with exit code %d", WEXITSTATUS(status));
  last_words(h, words, sizeof words);
  snprintf(h->error, TEXT, "%.300s: %.100s: the process %s%s%s", h->spec, what, how,
           words[0] != '\0' ? "; its last output: " : "", words);
  release(h);
  return REFEMU_DEAD;
}

/* The words of a command line, separated by spaces; the path of a program is not split. */
static int split(char *text, char **words, int count) {
  char *state = NULL, *word;
  if (strchr(text, '/') != NULL && access(text, X_OK) == 0) {
    words[count++] = text;
    return count;
  }
  for (word = strtok_r(text, " ", &state); word != NULL && count < WORDS - 1; word = strtok_r(NULL, " ", &state))
    words[count++] = word;
  return count;
}

static int beyond_standard(int file) {
  int moved = file;
  if (file >= 0 && file <= 2) {
    moved = fcntl(file, F_DUPFD_CLOEXEC, 3);
    close(file);
  }
  return moved;
}

/* A pipe that no other thread's child inherits. */
static int private_pipe(int ends[2]) {
#ifdef __linux__
  return pipe2(ends, O_CLOEXEC);
#else
  if (pipe(ends) != 0) return -1;
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  return 0;
#endif
}

/* Starts the process; 0 and an error message if that fails. */
static int start(refemu *h, const char *spec) {
  const char *named = getenv("REFEMU");
  char serve[] = "serve", command[4096], options[4096], *words[WORDS + 1];
  int down[2] = {-1, -1}, up[2] = {-1, -1}, end, count, errors;
  if (named == NULL || named[0] == '\0') named = "refemu";
  if (strlen(named) >= sizeof command || strlen(spec) >= sizeof options) {
    snprintf(h->error, TEXT, "refemu_open: $REFEMU and the spec must have less than %zu characters", sizeof command);
    return 0;
  }
  strcpy(command, named);
  strcpy(options, spec);
  count = split(command, words, 0);
  if (count == 0 || count > WORDS - 8) {
    snprintf(h->error, TEXT, "refemu_open: $REFEMU must be a command of at most %d words, got '%.200s'", WORDS - 8, named);
    return 0;
  }
  words[count++] = serve;
  count = split(options, words, count);
  words[count] = NULL;
  h->words = tmpfile();
  if (h->words == NULL || private_pipe(down) != 0 || private_pipe(up) != 0) {
    snprintf(h->error, TEXT, "refemu_open: no pipe or temporary file: %s", strerror(errno));
    for (end = 0; end < 2; end++) {
      if (down[end] >= 0) close(down[end]);
      if (up[end] >= 0) close(up[end]);
    }
    return 0;
  }
  for (end = 0; end < 2; end++) {
    down[end] = beyond_standard(down[end]);
    up[end] = beyond_standard(up[end]);
  }
  errors = fileno(h->words);
  h->process = fork();
  if (h->process == 0) {
    int none = fcntl(errors, F_DUPFD, 3); /* in case it is one of those replaced now */
    sigset_t nothing;
    sigemptyset(&nothing);
    sigprocmask(SIG_SETMASK, &nothing, NULL);
    fcntl(none, F_SETFD, FD_CLOEXEC);
    if (dup2(down[0], 0) == 0 && dup2(up[1], 1) == 1 && dup2(none, 2) == 2) {
      execvp(words[0], words);
      fprintf(stderr, "cannot start %s: %s; set $REFEMU to the refemu command\n", words[0], strerror(errno));
    }
    fflush(stderr);
    _exit(127);
  }
  close(down[0]);
  close(up[1]);
  h->to = down[1];
  h->from = up[0];
  if (h->process < 0) {
    snprintf(h->error, TEXT, "refemu_open: no process: %s", strerror(errno));
    return 0;
  }
  fcntl(errors, F_SETFD, FD_CLOEXEC);
  return 1;
}

/* The value of "key" at the top level of the hello: objects in it may have the same key. NULL where there is none. */
static const char *value_of(const char *json, const char *key) {
  char quoted[64];
  int depth = 0;
  snprintf(quoted, sizeof quoted, "\"%s\": ", key);
  for (; *json != '\0'; json++) {
    if (*json == '{' || *json == '[') depth++;
    if (*json == '}' || *json == ']') depth--;
    if (*json != '"') continue;
    if (depth == 1 && strncmp(json, quoted, strlen(quoted)) == 0) return json + strlen(quoted);
    for (json++; *json != '"'; json++) {
      if (*json == '\\') json++;
      if (*json == '\0') return NULL;
    }
  }
  return NULL;
}

/* A number of words of a frame; 0 if it is invalid. */
static size_t words_of(const char *text) {
  unsigned long count = text != NULL && *text >= '1' && *text <= '9' ? strtoul(text, NULL, 10) : 0;
  return count <= FRAME / 4 ? (size_t)count : 0;
}

static int greet(refemu *h) {
  unsigned char head[12];
  const char *digest;
  size_t size;
  if (!receive(h->from, head, sizeof head)) return dead(h, "no hello");
  if (get(head) != MAGIC) return dead(h, "its first output is not a hello of refemu serve");
  if (get(head + 4) != REFEMU_PROTOCOL) return dead(h, "it has another version of the protocol: rerun refemu export dpi");
  size = get(head + 8);
  if (size > LONGEST_HELLO || (h->hello = (char *)malloc(size + 1)) == NULL) return dead(h, "the hello is too long");
  if (!receive(h->from, (unsigned char *)h->hello, size)) return dead(h, "the hello is incomplete");
  h->hello[size] = '\0';
  h->words_in = words_of(value_of(h->hello, "words_in"));
  h->words_out = words_of(value_of(h->hello, "words_out"));
  digest = value_of(h->hello, "digest");
  if (h->words_in == 0 || h->words_out == 0)
    return dead(h, "the hello has no words_in or words_out that fit into a frame");
  if (digest == NULL || *digest != '"' || strspn(digest + 1, "0123456789abcdef") < 64)
    return dead(h, "the hello has no digest of 64 digits");
  if ((h->digest = (char *)calloc(65, 1)) == NULL) return dead(h, "no memory for a digest");
  memcpy(h->digest, digest + 1, 64);
  if (!enlarge(h, HEAD + 4 * (h->words_in > h->words_out ? h->words_in : h->words_out)))
    return dead(h, "no memory for a transaction");
  return REFEMU_OK;
}

void *refemu_open_as(const char *spec, size_t words_in, size_t words_out, const char *digest) {
  refemu *h = (refemu *)calloc(1, sizeof *h);
  last_error[0] = '\0';
  if (h == NULL || spec == NULL || !little_endian()) {
    snprintf(last_error, TEXT, "refemu_open: %s",
             h == NULL ? "no memory" : spec == NULL ? "a spec is needed, got NULL" : "needs a little-endian machine");
    free(h);
    return NULL;
  }
  h->to = h->from = -1;
  snprintf(h->spec, sizeof h->spec, "%s", spec);
  if (start(h, spec) && greet(h) == REFEMU_OK && words_in != 0 &&
      (words_in != h->words_in || words_out != h->words_out || (digest[0] != '\0' && strcmp(digest, h->digest) != 0))) {
    snprintf(h->error, TEXT,
             "%.200s: this program is made for another unit, configuration or version: words in %zu, out %zu, digest "
             "%.64s, the server has %zu, %zu, %.64s; export dpi anew",
             h->spec, words_in, words_out, digest, h->words_in, h->words_out, h->digest);
    close(h->to); /* which ends the server */
    h->to = -1;
    collect(h, NULL);
  }
  if (h->error[0] != '\0') {
    memcpy(last_error, h->error, TEXT);
    release(h);
    free(h);
    return NULL;
  }
  h->open = 1;
  pthread_mutex_lock(&listed);
  h->next = handles;
  handles = h;
  pthread_mutex_unlock(&listed);
  return h;
}

void *refemu_open(const char *spec) { return refemu_open_as(spec, 0, 0, ""); }

/* A request and its reply, which is `want` bytes. */
static int ask(refemu *h, uint32_t kind, const uint32_t *in, size_t size, uint32_t *out, size_t want) {
  unsigned char head[HEAD];
  size_t have;
  if (!enlarge(h, HEAD + (size > want ? size : want))) {
    snprintf(h->error, TEXT, "%s: no memory for a frame", h->spec);
    return REFEMU_REFUSED;
  }
  put(h->buffer, kind);
  put(h->buffer + 4, (uint32_t)size);
  if (size > 0) memcpy(h->buffer + HEAD, in, size);
  if (!send_all(h->to, h->buffer, HEAD + size)) return dead(h, "the process no longer reads");
  /* Usually one read: only an error is longer than the requested reply. */
  wait_awake(h);
  for (have = 0; have < HEAD;) {
    ssize_t done = read_in_time(h->from, h->buffer + have, HEAD + want - have);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return dead(h, "no reply");
    have += (size_t)done;
  }
  memcpy(head, h->buffer, HEAD);
  size = get(head + 4);
  if (get(head) == 0 && size == want) {
    if (!receive(h->from, h->buffer + have, HEAD + want - have)) return dead(h, "the reply is incomplete");
    if (want > 0) memcpy(out, h->buffer + HEAD, want);
    return REFEMU_OK;
  }
  if (get(head) != 1) return dead(h, "the reply does not have the unit's number of words");
  if (!enlarge(h, HEAD + size)) return dead(h, "no memory for an error message");
  if (have < HEAD + size && !receive(h->from, h->buffer + have, HEAD + size - have))
    return dead(h, "the error message is incomplete");
  if (size >= TEXT) size = TEXT - 1;
  memcpy(h->error, h->buffer + HEAD, size);
  h->error[size] = '\0';
  if (size == 0) snprintf(h->error, TEXT, "%s: rejected without a reason", h->spec);
  return REFEMU_REFUSED;
}

int refemu_step(void *handle, const uint32_t *in, uint32_t *out) {
  refemu *h = usable(handle, "refemu_step");
  return h == NULL ? REFEMU_DEAD : ask(h, STEP, in, 4 * h->words_in, out, 4 * h->words_out);
}

int refemu_run(void *handle, const uint32_t *in, uint32_t *out, size_t rows) {
  refemu *h = usable(handle, "refemu_run");
  size_t most, done, part;
  int status = REFEMU_OK;
  if (h == NULL) return REFEMU_DEAD;
  most = FRAME / (4 * (h->words_in > h->words_out ? h->words_in : h->words_out));
  if (most == 0) most = 1;
  for (done = 0; done < rows && status == REFEMU_OK; done += part) {
    part = rows - done < most ? rows - done : most;
    status = ask(h, RUN, in + done * h->words_in, 4 * part * h->words_in, out + done * h->words_out,
                 4 * part * h->words_out);
    if (status == REFEMU_REFUSED && done > 0) {
      char text[TEXT];
      memcpy(text, h->error, TEXT);
      snprintf(h->error, TEXT, "%.1900s, counted from row %zu of the batch on", text, done);
    }
  }
  return status;
}

int refemu_reset(void *handle) {
  refemu *h = usable(handle, "refemu_reset");
  return h == NULL ? REFEMU_DEAD : ask(h, RESET, NULL, 0, NULL, 0);
}

int refemu_close(void *handle) {
  refemu *h = usable(handle, "refemu_close");
  int status;
  if (h == NULL) return REFEMU_DEAD;
  status = ask(h, CLOSE, NULL, 0, NULL, 0);
  if (status != REFEMU_OK) return status;
  collect(h, NULL);
  h->process = 0;
  h->error[0] = '\0';
  release(h);
  return REFEMU_OK;
}

const char *refemu_error(void *handle) {
  refemu *h = handle == NULL ? NULL : known(handle);
  return h == NULL ? last_error : h->error;
}

size_t refemu_words_in(void *handle) {
  refemu *h = usable(handle, "refemu_words_in");
  return h == NULL ? 0 : h->words_in;
}

size_t refemu_words_out(void *handle) {
  refemu *h = usable(handle, "refemu_words_out");
  return h == NULL ? 0 : h->words_out;
}

const char *refemu_hello(void *handle) {
  refemu *h = usable(handle, "refemu_hello");
  return h == NULL ? "" : h->hello;
}
