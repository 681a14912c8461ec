#include "bfp_dot.h"

#include <math.h>
#include <string.h>

enum { LANES = BFP_PE_B_LANES, M8W4 = 0, M8M4 = 1, M8M8 = 2, OVERFLOW_ = 1, UNDERFLOW_ = 2, INVALID_ = 4 };

/* A partial sum is counted in units of 2^(POINT[mode] + exponents). */
static const int POINT[3] = {-22, -40, -44};

static uint32_t word(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return isnan(x) ? 0x7fc00000u : bits; /* inf - inf has the sign bit set on some processors, not on others */
}

static float from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float x = exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    return bits >> 15 ? -x : x;
}

/* p * 2^x rounded to FP16, to nearest, ties to even. |p| < 2^22 and x >= -42, so that `drop` is below 20. */
static float to_half(int32_t p, int x, unsigned *flags)
{
    uint32_t m = (uint32_t)(p < 0 ? -p : p), rest;
    int drop = x < -24 ? -24 - x : 0; /* bits of p below the last place of an FP16 subnormal ... */
    while (m >> drop > 2047)          /* ... or of the 11 significant bits */
        drop++;
    rest = m & ((1u << drop) - 1);
    m >>= drop;
    if (drop && (rest > 1u << (drop - 1) || (rest == 1u << (drop - 1) && m & 1)))
        m++;
    float y = ldexpf((float)m, x + drop);
    if (y > 65504.0f) {
        y = INFINITY;
        *flags |= OVERFLOW_;
    } else if (rest && y < 0x1p-14f) {
        *flags |= UNDERFLOW_;
    }
    return p < 0 ? -y : y;
}

static int32_t dot(int mode, const uint8_t *a_sign, const uint8_t *a_mag, const uint8_t *b, const uint8_t *b_sign)
{
    int32_t sum = 0;
    for (int k = 0; k < LANES; k++) {
        int right = mode == M8W4 ? b[k] - (b[k] >> 3) * 16 : b[k]; /* INT4 is two's complement of four bits */
        sum += (a_sign[k] ^ b_sign[k] ? -1 : 1) * a_mag[k] * right;
    }
    return sum;
}

void bfp_dot(size_t rows, const uint8_t *first, const uint8_t *mode, const uint8_t *clear, const uint8_t *a_sign,
             const uint8_t *a_mag, const uint8_t *a_exp, const uint8_t *b, const uint8_t *b_sign, const uint8_t *b_exp,
             const uint16_t *w_scale, uint32_t *acc, uint8_t *flags, uint32_t *psum, uint32_t *value)
{
    const int half = strcmp(BFP_PE_CONFIG_PARTIAL, "fp16") == 0;
    float total = 0;
    unsigned sticky = 0;
    for (size_t i = 0; i < rows; i++) {
        int32_t p = dot(mode[i], a_sign + LANES * i, a_mag + LANES * i, b + LANES * i, b_sign + LANES * i);
        int x = POINT[mode[i]] + (a_exp[i] ? a_exp[i] : 1); /* exponent 0 is that of the subnormals, as 1 */
        x += mode[i] == M8W4 ? 0 : b_exp[i] ? b_exp[i] : 1;
        if (first[i] || clear[i])
            total = 0, sticky = 0;
        float v = half ? to_half(p, x, &sticky) : ldexpf((float)p, x);
        if (mode[i] == M8W4)
            v *= from_half(w_scale[i]); /* exact: 11 by 11 bits (exact partials: rounded once) */
        total += v;
        if (isnan(total))
            sticky |= INVALID_;
        acc[i] = word(total);
        flags[i] = (uint8_t)sticky;
        psum[i] = (uint32_t)p & ((1u << BFP_PE_ST_PSUM_BITS) - 1);
        value[i] = word(v);
    }
}
