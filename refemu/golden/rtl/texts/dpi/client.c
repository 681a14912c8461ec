/* Sends the golden set of $set through a live server and compares its answers: build/client DIR, DIR a set with hex/.
   --single: transaction by transaction, not in rows. --time SECONDS: also print rates, for single transactions and for rows. */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "${unit}_dpi.h"

enum { IN = ${upper}_WORDS_IN, OUT = ${upper}_WORDS_OUT, CLOCKED = ${upper}_CLOCKED };
enum { IN_BITS = $bits_in, OUT_BITS = $bits_out }; /* of the ports of the set, without masks */

typedef struct {
  size_t rows;
  uint32_t *words;      /* rows x count */
  unsigned char *first; /* 1 where a case begins */
} table;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "FAIL %s: %s\n", what, why);
  exit(1);
}

/* The words of a file for $$readmemh: one a line, a comment first, a sentinel of ones last. The bits above `bits` are the
   flag `first`. */
static table read_words(const char *folder, const char *name, size_t bits, size_t count, int flagged) {
  char path[4096], *line = NULL;
  size_t room = 0, digits = (bits + (size_t)flagged + 3) / 4, most = 0;
  table t = {0, NULL, NULL};
  FILE *file;
  int whole = 0;
  snprintf(path, sizeof path, "%s/hex/%s", folder, name);
  file = fopen(path, "r");
  if (file == NULL) fail(path, "cannot be opened");
  while (getline(&line, &room, file) > 0) {
    size_t digit, length = strcspn(line, "\r\n"), ones = 0;
    uint32_t *row;
    if (strncmp(line, "//", 2) == 0) continue;
    if (length != digits || whole) fail(path, "a word has a wrong number of digits, or follows the sentinel");
    if (t.rows == most) {
      most = most ? 2 * most : 1024;
      t.words = (uint32_t *)realloc(t.words, most * count * sizeof *t.words);
      t.first = (unsigned char *)realloc(t.first, most);
      if (t.words == NULL || t.first == NULL) fail(path, "no memory");
    }
    row = t.words + t.rows * count;
    memset(row, 0, count * sizeof *row);
    t.first[t.rows] = 0;
    for (digit = 0; digit < digits; digit++) {
      char text[2] = {line[digits - 1 - digit], '\0'}, *end;
      unsigned long nibble = strtoul(text, &end, 16);
      unsigned bit;
      if (*end != '\0') fail(path, "a word has a character other than a hex digit");
      for (bit = 0; bit < 4; bit++) {
        size_t at = 4 * digit + bit;
        uint32_t one = nibble >> bit & 1;
        ones += one;
        if (at < bits)
          row[at / 32] |= one << at % 32;
        else if (flagged && at == bits)
          t.first[t.rows] = (unsigned char)one;
      }
    }
    if (ones == bits + (size_t)flagged && feof(file) == 0) {
      int next = getc(file);
      if (next == EOF) {
        whole = 1;
        continue;
      }
      ungetc(next, file);
    }
    t.rows++;
  }
  free(line);
  fclose(file);
  if (!whole || t.rows == 0) fail(path, "no sentinel at its end: truncated or wrong file");
  return t;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void asked(void *predictor, int status) {
  if (status != REFEMU_OK) fail(${upper}_SET, refemu_error(predictor));
}

/* End of the rows of a case; a unit without a state has all rows in one. */
static size_t case_end(const table *in, size_t row) {
  size_t end = row + 1;
  while (end < in->rows && !(CLOCKED && in->first[end])) end++;
  return end;
}

static void timed(void *predictor, const table *in, uint32_t *out, double seconds) {
  double begin = now(), single, batch;
  size_t transactions = 0, rows = 0, row;
  do {
    for (row = 0; row < in->rows; row++) {
      if (CLOCKED && in->first[row]) asked(predictor, refemu_reset(predictor));
      asked(predictor, ${unit}_step(predictor, in->words + row * IN, out + row * OUT));
      transactions++;
      if (now() - begin > seconds) break;
    }
  } while (now() - begin < seconds);
  single = (double)transactions / (now() - begin);
  begin = now();
  do {
    size_t end;
    for (row = 0; row < in->rows; row = end) {
      end = case_end(in, row);
      if (CLOCKED) asked(predictor, refemu_reset(predictor));
      asked(predictor, refemu_run(predictor, in->words + row * IN, out + row * OUT, end - row));
      rows += end - row;
      if (now() - begin > seconds) break;
    }
  } while (now() - begin < seconds);
  batch = (double)rows / (now() - begin);
  printf("RATE %.0f single transactions a second, %.0f rows a second\n", single, batch);
}

int main(int count, char **words) {
  const char *folder = NULL;
  int single = 0, word, masked;
  double seconds = 0;
  table in, want, care = {0, NULL, NULL};
  uint32_t *out;
  size_t row, end, differ = 0, first = 0, at;
  char path[4096];
  FILE *file;
  void *predictor;
  for (word = 1; word < count; word++) {
    if (strcmp(words[word], "--single") == 0)
      single = 1;
    else if (strcmp(words[word], "--time") == 0 && word + 1 < count)
      seconds = atof(words[++word]);
    else
      folder = words[word];
  }
  if (folder == NULL) fail("client", "name the directory of the golden set");
  in = read_words(folder, "stim.mem", IN_BITS, IN, CLOCKED);
  want = read_words(folder, "gold.mem", OUT_BITS, OUT, 0);
  snprintf(path, sizeof path, "%s/hex/care.mem", folder);
  file = fopen(path, "r");
  masked = file != NULL;
  if (masked) {
    fclose(file);
    care = read_words(folder, "care.mem", OUT_BITS, OUT, 0);
  }
  if (in.rows != want.rows || (masked && care.rows != in.rows)) fail(folder, "its files have different numbers of rows");
  out = (uint32_t *)calloc(in.rows * OUT, sizeof *out);
  predictor = ${unit}_open();
  if (out == NULL || predictor == NULL) fail("client", out == NULL ? "no memory" : refemu_error(NULL));
  for (row = 0; row < in.rows; row = end) {
    end = case_end(&in, row);
    asked(predictor, refemu_reset(predictor));
    if (!single) asked(predictor, refemu_run(predictor, in.words + row * IN, out + row * OUT, end - row));
    for (at = row; single && at < end; at++)
      asked(predictor, ${unit}_step(predictor, in.words + at * IN, out + at * OUT));
  }
  for (row = in.rows; row-- > 0;) {
    int wrong = 0;
    for (at = 0; at < OUT_BITS; at++) {
      size_t word_at = row * OUT + at / 32;
      uint32_t counts = masked ? care.words[word_at] : ~(uint32_t)0;
      wrong |= ((out[word_at] ^ want.words[word_at]) & counts) >> at % 32 & 1;
    }
    if (wrong) first = row;
    differ += (size_t)wrong;
  }
  if (seconds > 0) timed(predictor, &in, out, seconds);
  asked(predictor, refemu_close(predictor));
  if (differ > 0) {
    printf("FAIL %zu of %zu rows of %s differ, the first is row %zu\n", differ, in.rows, ${upper}_SET, first);
    return 1;
  }
  printf("PASS %zu rows of %s, digest %s\n", in.rows, ${upper}_SET, ${upper}_DIGEST);
  return 0;
}
