/* Does what its words say with a handle and prints a line for each: `probe open SPEC step run reset close ...`.
   kill: SIGKILL to the process whose number is in the file PROBE_PID. again: a second handle beside the first. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "refemu_dpi.h"

static void show(const char *what, int status, void *handle) { printf("%s %d %s\n", what, status, refemu_error(handle)); }

int main(int count, char **words) {
  static uint32_t in[1 << 19], out[1 << 19];
  void *h = NULL, *first = NULL;
  int word;
  setvbuf(stdout, NULL, _IONBF, 0);
  for (word = 1; word < count; word++) {
    const char *what = words[word];
    if (strcmp(what, "open") == 0 || strcmp(what, "again") == 0) {
      first = h;
      h = refemu_open(words[++word]);
      show(what, h == NULL, h);
    } else if (strcmp(what, "wrong") == 0) {
      h = refemu_open_as(words[++word], 7, 7, "");
      show(what, h == NULL, h);
    } else if (strcmp(what, "digest") == 0) {
      h = refemu_open_as(words[++word], 1, 1, "0000");
      show(what, h == NULL, h);
    } else if (strcmp(what, "swap") == 0) {
      void *other = h;
      h = first;
      first = other;
    } else if (strcmp(what, "words") == 0) {
      printf("words %zu %zu\n", refemu_words_in(h), refemu_words_out(h));
    } else if (strcmp(what, "set") == 0) {
      int at = atoi(words[++word]);
      in[at] = (uint32_t)strtoul(words[++word], NULL, 16);
    } else if (strcmp(what, "step") == 0) {
      show(what, refemu_step(h, in, out), h);
      printf("out %08x %08x\n", (unsigned)out[0], (unsigned)out[1]);
    } else if (strcmp(what, "run") == 0) {
      show(what, refemu_run(h, in, out, (size_t)atoi(words[++word])), h);
    } else if (strcmp(what, "reset") == 0) {
      show(what, refemu_reset(h), h);
    } else if (strcmp(what, "close") == 0) {
      show(what, refemu_close(h), h);
    } else if (strcmp(what, "none") == 0) {
      h = NULL;
    } else if (strcmp(what, "kill") == 0) {
      int process = 0;
      siginfo_t ended;
      FILE *file = fopen(getenv("PROBE_PID"), "r");
      if (file == NULL || fscanf(file, "%d", &process) != 1 || kill(process, SIGKILL) != 0) return 3;
      fclose(file);
      waitid(P_PID, (id_t)process, &ended, WEXITED | WNOWAIT); /* its pipes are closed now; it stays to be collected */
    } else {
      return 2;
    }
  }
  puts("end");
  return 0;
}
