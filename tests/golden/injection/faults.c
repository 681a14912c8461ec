/* Preloaded: makes the n-th call that changes files, or the n-th large allocation, fail or raise a signal.
   Calls count from `arm` on, in the process that calls it and all that it starts, not in the one that started it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LARGE = 1 << 12, STREAMS = 3 };
struct plan { long armed, memory, at, action, count, parent; };
static struct plan *plan;

__attribute__((constructor)) static void start(void) {
  plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* action: an errno, or minus a signal. at: number of the call, 0 for none. */
void arm(long memory, long at, long action) {
  *plan = (struct plan){0, memory, at, action, 0, getppid()};
  plan->armed = 1;
}

long disarm(void) {
  plan->armed = 0;
  return plan->count;
}

static int fails(int memory) {
  if (!plan || !plan->armed || plan->memory != memory || getpid() == plan->parent) return 0;
  if (__sync_add_and_fetch(&plan->count, 1) != plan->at) return 0;
  if (plan->action < 0) {
    raise((int)-plan->action);
    return 0;
  }
  errno = (int)plan->action;
  return 1;
}

static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); }

#define NEXT(type, name) static type (*next)(); if (!next) next = (type (*)())dlsym(RTLD_NEXT, name)
#define OPEN(name, head, ...)                                          \
  int name head {                                                      \
    va_list list;                                                      \
    va_start(list, flags);                                             \
    unsigned mode = va_arg(list, unsigned);                            \
    va_end(list);                                                      \
    NEXT(int, #name);                                                  \
    return writes(flags) && strncmp(path, "/dev/", 5) && fails(0) ? -1 : next(__VA_ARGS__, flags, mode); \
  }
OPEN(open, (const char *path, int flags, ...), path)
OPEN(open64, (const char *path, int flags, ...), path)
OPEN(openat, (int at, const char *path, int flags, ...), at, path)
OPEN(openat64, (int at, const char *path, int flags, ...), at, path)

#define CALL(type, name, head, when, ...)              \
  type name head {                                     \
    NEXT(type, #name);                                 \
    return (when) && fails(0) ? (type)-1 : next(__VA_ARGS__); \
  }
CALL(ssize_t, write, (int f, const void *d, size_t n), f >= STREAMS, f, d, n)
CALL(ssize_t, writev, (int f, const struct iovec *d, int n), f >= STREAMS, f, d, n)
CALL(ssize_t, pwrite64, (int f, const void *d, size_t n, off64_t o), 1, f, d, n, o)
CALL(ssize_t, sendfile64, (int o, int f, off64_t *at, size_t n), 1, o, f, at, n)
CALL(ssize_t, copy_file_range, (int f, off64_t *a, int o, off64_t *b, size_t n, unsigned g), 1, f, a, o, b, n, g)
CALL(int, fsync, (int f), 1, f)
CALL(int, fdatasync, (int f), 1, f)
CALL(int, ftruncate64, (int f, off64_t n), 1, f, n)
CALL(int, rename, (const char *a, const char *b), 1, a, b)
CALL(int, renameat, (int f, const char *a, int g, const char *b), 1, f, a, g, b)
CALL(int, mkdir, (const char *p, mode_t m), 1, p, m)
CALL(int, mkdirat, (int f, const char *p, mode_t m), 1, f, p, m)
CALL(int, link, (const char *a, const char *b), 1, a, b)
CALL(int, symlink, (const char *a, const char *b), 1, a, b)
CALL(int, chmod, (const char *p, mode_t m), 1, p, m)
CALL(int, fchmod, (int f, mode_t m), 1, f, m)

size_t fwrite(const void *d, size_t size, size_t n, FILE *file) {
  NEXT(size_t, "fwrite");
  return fileno(file) >= STREAMS && fails(0) ? 0 : next(d, size, n, file);
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *malloc(size_t n) { return n >= LARGE && fails(1) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return n * size >= LARGE && fails(1) ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return n >= LARGE && fails(1) ? NULL : __libc_realloc(p, n); }
