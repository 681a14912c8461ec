#include "page_reader.h"

#include <math.h>
#include <string.h>

typedef char page_has_6784_bytes[sizeof(struct leankv_page) == 6784 ? 1 : -1];

/* Value of an fp16 pattern. */
static float half(uint16_t word)
{
    int field = word >> 10 & 31, fraction = word & 1023;
    float value = field == 31 ? (fraction ? NAN : INFINITY)
                              : ldexpf((float)(field ? fraction | 1024 : fraction), (field ? field : 1) - 25);
    return word >> 15 ? -value : value;
}

static uint32_t pattern(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return value != value ? 0x7fc00000u : word; /* every NaN is the same one in a set */
}

/* Pattern of fp16, rounded to nearest, ties to even. */
static uint16_t narrow(float value)
{
    uint32_t word = pattern(value), magnitude = word & 0x7fffffffu, kept, rest, tie;
    uint16_t sign = (uint16_t)(word >> 16 & 0x8000u);
    if (magnitude >= 0x7f800000u)
        return magnitude > 0x7f800000u ? 0x7e00u : (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* subnormal, in units of 2**-24: exact in float, rounded by rintf */
        return (uint16_t)(sign | (uint16_t)rintf(ldexpf(value < 0 ? -value : value, 24)));
    }
    kept = (magnitude - 0x38000000u) >> 13;
    rest = magnitude & 0x1fffu;
    tie = 0x1000u;
    kept += rest > tie || (rest == tie && (kept & 1));
    return (uint16_t)(sign | (kept > 0x7c00u ? 0x7c00u : kept));
}

/* A code dequantized, in the type of the output. */
static uint32_t stored(int code, const uint16_t meta[2])
{
    float value = half(meta[0]) * (float)code - half(meta[1]);
    return sizeof(PAGE_READER_KEY_TYPE) == 4 ? pattern(value) : narrow(value);
}

void page_reader(size_t rows, const PAGE_READER_IMAGES_TYPE *images, const PAGE_READER_N_HIGH_TYPE *n_high,
                 PAGE_READER_KEY_TYPE *key, PAGE_READER_VALUE_TYPE *value, PAGE_READER_SCORE_TYPE *score,
                 PAGE_READER_POSITION_TYPE *position)
{
    for (size_t row = 0; row < rows; row++) {
        struct leankv_page page; /* on a little-endian machine the words of an image are its bytes */
        memcpy(&page, images + row * PAGE_READER_IMAGES_LANES, sizeof page);
        for (size_t t = 0; t < TOKENS; t++) {
            size_t out = row * TOKENS + t;
            int there = t < n_high[row];
            for (size_t f = 0; f < FEATURES; f++) {
                size_t p = f / 2, q = f / 4;
                int k = page.key[p / 4 % 4][t][p / 16][p % 4] >> f % 2 * 8 & 255;
                int v = page.val[q % 4][t / 2][q / 4][t % 2] >> f % 4 * 4 & 15;
                key[out * FEATURES + f] = (PAGE_READER_KEY_TYPE)(there ? stored(k, page.key_meta[t]) : 0);
                value[out * FEATURES + f] = (PAGE_READER_VALUE_TYPE)(there ? stored(v, page.val_meta[t]) : 0);
            }
            score[out] = there ? page.score[t] : 0;
            position[out] = there ? page.pos[t] : 0;
        }
    }
}
