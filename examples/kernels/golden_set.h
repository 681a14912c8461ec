/* A golden set for C: reads the raw arrays of SET/bin, compares answers with them, writes answers for `refemu diff`.

   C99, header only. The set's own header (SET/include/<unit>_vec.h) has rows, lanes and types. Every function ends the
   program with exit code 2 if a file is missing or its size differs from the header's. */
#ifndef GOLDEN_SET_H
#define GOLDEN_SET_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct golden_output {
    const char *name; /* of the array: "out.exponent" */
    const void *got, *want, *care; /* care: 1 = this bit counts; NULL: all do */
    size_t lanes, size; /* size: bytes of one lane */
};

static void golden_stop(const char *what, const char *about)
{
    fprintf(stderr, "golden set: %s: %s\n", about, what);
    exit(2);
}

/* Directory of the set, the first argument of a program that takes SET [ANSWERS.csv]; without it, stops. */
static inline const char *golden_argument(int argc, char **argv)
{
    if (argc < 2)
        golden_stop("usage: SET [ANSWERS.csv]", argv[0]);
    return argv[1];
}

static void *golden_memory(size_t count, size_t size)
{
    void *data = calloc(count ? count : 1, size);
    if (!data)
        golden_stop("no memory", "answers");
    return data;
}

/* The array `name` of the set in directory `set`: rows * lanes values of `size` bytes. */
static void *golden_read(const char *set, const char *name, size_t rows, size_t lanes, size_t size)
{
    const uint16_t one = 1;
    char path[4096];
    FILE *file;
    void *data = golden_memory(rows * lanes, size);
    if (*(const unsigned char *)&one != 1)
        golden_stop("arrays are little-endian, this machine is not", set);
    if (snprintf(path, sizeof path, "%s/bin/%s.bin", set, name) >= (int)sizeof path)
        golden_stop("path is too long", set);
    if (!(file = fopen(path, "rb")))
        golden_stop("cannot be opened; export with `refemu generate --bin`", path);
    if (fread(data, size, rows * lanes, file) != rows * lanes || fgetc(file) != EOF)
        golden_stop("its size differs from the header's", path);
    fclose(file);
    return data;
}

/* GOLDEN_READ(set, OVP_DECODER, PAIR, "in.pair"): rows, lanes and type from the set's header. */
#define GOLDEN_READ(set, UNIT, PORT, name) \
    ((UNIT##_##PORT##_TYPE *)golden_read(set, name, UNIT##_ROWS, UNIT##_##PORT##_LANES, sizeof(UNIT##_##PORT##_TYPE)))

/* Memory for the answers of a port. */
#define GOLDEN_ANSWER(UNIT, PORT) \
    ((UNIT##_##PORT##_TYPE *)golden_memory((size_t)UNIT##_ROWS * UNIT##_##PORT##_LANES, sizeof(UNIT##_##PORT##_TYPE)))

/* One output: the answers, the expected values, and which bits of them count. */
#define GOLDEN_OUTPUT(set, UNIT, PORT, name, got) \
    { name, got, GOLDEN_READ(set, UNIT, PORT, name), \
      UNIT##_##PORT##_HAS_CARE ? GOLDEN_READ(set, UNIT, PORT, name ".care") : NULL, \
      UNIT##_##PORT##_LANES, sizeof(UNIT##_##PORT##_TYPE) }

static uint64_t golden_value(const void *data, size_t index, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, (const char *)data + index * size, size);
    return value;
}

/* Prints the first difference of every output; returns how many rows differ in some bit that counts. */
static size_t golden_compare(const struct golden_output *outputs, size_t count, size_t rows)
{
    size_t differ = 0;
    char *told = golden_memory(count, 1);
    for (size_t row = 0; row < rows; row++) {
        int wrong = 0;
        for (size_t n = 0; n < count; n++)
            for (size_t lane = 0; lane < outputs[n].lanes; lane++) {
                size_t at = row * outputs[n].lanes + lane, size = outputs[n].size;
                uint64_t got = golden_value(outputs[n].got, at, size), want = golden_value(outputs[n].want, at, size);
                uint64_t care = outputs[n].care ? golden_value(outputs[n].care, at, size) : UINT64_MAX;
                if ((got ^ want) & care && !told[n]) {
                    told[n] = 1;
                    printf("row %zu, %s[%zu]: got 0x%llx, want 0x%llx\n", row, outputs[n].name, lane,
                           (unsigned long long)got, (unsigned long long)want);
                }
                wrong |= ((got ^ want) & care) != 0;
            }
        differ += wrong;
    }
    free(told);
    return differ;
}

/* The answers as CSV, which `refemu diff SET answers.csv` decodes and explains. */
static void golden_write(const char *path, const struct golden_output *outputs, size_t count, size_t rows)
{
    FILE *file = fopen(path, "w");
    if (!file)
        golden_stop("cannot be written", path);
    for (size_t row = 0; row <= rows; row++) { /* line 0 is the header */
        const char *comma = "";
        for (size_t n = 0; n < count; n++)
            for (size_t lane = 0; lane < outputs[n].lanes; lane++, comma = ",")
                if (row)
                    fprintf(file, "%s%llu", comma, (unsigned long long)golden_value(
                            outputs[n].got, (row - 1) * outputs[n].lanes + lane, outputs[n].size));
                else if (outputs[n].lanes > 1)
                    fprintf(file, "%s%s.%zu", comma, outputs[n].name, lane);
                else
                    fprintf(file, "%s%s", comma, outputs[n].name);
        fputc('\n', file);
    }
    if (fclose(file))
        golden_stop("cannot be written", path);
}

/* Compares, writes a CSV if `csv` is not NULL, prints PASS or FAIL; returns the exit code: 0 equal, 1 different. */
static int golden_finish(const struct golden_output *outputs, size_t count, size_t rows, double seconds,
                         const char *csv)
{
    size_t differ = golden_compare(outputs, count, rows);
    if (csv)
        golden_write(csv, outputs, count, rows);
    printf("%s %zu of %zu rows, %.3e s\n", differ ? "FAIL" : "PASS", differ ? differ : rows, rows, seconds);
    return differ ? 1 : 0;
}

static double golden_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }
#endif
