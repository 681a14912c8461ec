/* Included before refemu_dpi.c: its n-th call of the system or the allocator fails, n from $FAULT_AT, errno from
   $FAULT_ERRNO. At the end the number of calls is written to the file $FAULT_COUNT. Calls in loops that wait do not count. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int fault_calls;

static int fault(void) {
  if (++fault_calls != atoi(getenv("FAULT_AT"))) return 0;
  errno = atoi(getenv("FAULT_ERRNO"));
  return 1;
}

__attribute__((destructor)) static void fault_count(void) {
  FILE *file = fopen(getenv("FAULT_COUNT"), "w");
  if (file) fprintf(file, "%d", fault_calls), fclose(file);
}

#define malloc(n) (fault() ? NULL : malloc(n))
#define calloc(n, size) (fault() ? NULL : calloc(n, size))
#define realloc(p, n) (fault() ? NULL : realloc(p, n))
#define tmpfile() (fault() ? NULL : tmpfile())
#define fread(d, size, n, file) (fault() ? 0 : fread(d, size, n, file))
#define read(f, d, n) (fault() ? -1 : read(f, d, n))
#define write(f, d, n) (fault() ? -1 : write(f, d, n))
#define poll(f, n, t) ((t) != 0 && fault() ? -1 : poll(f, n, t))
#define pipe2(f, flags) (fault() ? -1 : pipe2(f, flags))
#define fcntl(...) (fault() ? -1 : fcntl(__VA_ARGS__))
#define fork() (fault() ? -1 : fork())
#define dup2(a, b) (fault() ? -1 : dup2(a, b))
#define waitpid(p, s, o) ((o) == 0 && fault() ? -1 : waitpid(p, s, o))
