/* cc -DIN=12 -DOUT=17 run.c device.c -o run && ./run ovp_decoder-int4.json
   IN, OUT: "bits" of the suite's file. A word is little-endian bytes; first is 1 where registers are reset. */
#include <stdio.h>
#include <string.h>
#define DIGITS(bits) (((bits) + 3) / 4)
#define BYTES(bits) (((bits) + 7) / 8)
void device(int first, const unsigned char *in, unsigned char *out);
static char line[DIGITS(IN) + 2 * DIGITS(OUT) + 4096], in_[DIGITS(IN) + 1], out_[DIGITS(OUT) + 1], care_[DIGITS(OUT) + 1];
static unsigned char in[BYTES(IN)], want[BYTES(OUT)], care[BYTES(OUT)], got[BYTES(OUT)];

static void bytes(const char *text, unsigned char *out, int size) {
    int digits = (int)strlen(text);
    memset(out, 0, (size_t)size);
    for (int i = 0; i < digits && i / 2 < size; i++) {
        char c = text[digits - 1 - i];
        out[i / 2] |= (unsigned char)((c <= '9' ? c - '0' : c - 'a' + 10) << i % 2 * 4);
    }
}

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    int id, first, tests = 0, failed[2] = {0, 0};
    char result;
    if (!file) return fprintf(stderr, "give the suite's JSON file\n"), 2;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "{\"tcId\": %d, \"first\": %d, \"in\": \"%[0-9a-f]\", \"out\": \"%[0-9a-f]\", \"care\": \"%[0-9a-f]\", "
                         "\"result\": \"%c", &id, &first, in_, out_, care_, &result) != 6) continue;
        bytes(in_, in, BYTES(IN)), bytes(out_, want, BYTES(OUT)), bytes(care_, care, BYTES(OUT));
        device(first, in, got), tests++;
        int wrong = 0;
        for (int i = 0; i < BYTES(OUT); i++) wrong |= (got[i] ^ want[i]) & care[i];
        if (wrong) failed[result == 'a']++, printf("test %d (%s)\n", id, result == 'a' ? "acceptable" : "valid");
    }
    printf("%d tests, %d valid and %d acceptable ones differ\n", tests, failed[0], failed[1]);
    return !tests || failed[0];
}
