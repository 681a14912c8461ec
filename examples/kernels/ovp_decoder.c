#include "ovp_decoder.h"

#include <string.h>

enum {
    WIDTH = OVP_DECODER_PAIR_BITS / 2,
    MANTISSA = OVP_DECODER_CONFIG_OUTLIER_1, /* bits of an outlier's mantissa */
    IDENTIFIER = 1 << (WIDTH - 1),           /* the code 10..0: its partner is an outlier, itself a victim */
    CODE = (1 << WIDTH) - 1
};

static const int8_t FLINT_EXPONENT[8] = {0, 0, 0, 0, 4, 2, 0, 0}; /* 16 and 8 are 1 << 4 and 2 << 2 [olive Tbl. 3] */
static const int8_t FLINT_INTEGER[8] = {0, 1, 2, 3, 1, 2, 4, 6};

/* Integer of one element beside `partner`; its shift goes to `exponent`. */
static int lane(int code, int partner, int bias, int *exponent)
{
    int magnitude = code & (IDENTIFIER - 1), negative = code >> (WIDTH - 1), value;
    *exponent = 0;
    if (code == IDENTIFIER)
        return 0;
    if (partner == IDENTIFIER) {
        *exponent = (bias + (magnitude >> MANTISSA)) & ((1 << OVP_DECODER_EXPONENT_BITS) - 1);
        value = magnitude ? 1 << MANTISSA | (magnitude & ((1 << MANTISSA) - 1)) : 0;
    } else if (strcmp(OVP_DECODER_CONFIG_NORMAL, "flint4") == 0) {
        *exponent = FLINT_EXPONENT[magnitude & 7];
        value = FLINT_INTEGER[magnitude & 7];
    } else {
        return code - (negative << WIDTH);
    }
    return negative ? -value : value;
}

void ovp_decoder(size_t rows, const OVP_DECODER_PAIR_TYPE *pair, const OVP_DECODER_BIAS_TYPE *bias,
                 OVP_DECODER_EXPONENT_TYPE *exponent, OVP_DECODER_BASE_INT_TYPE *base_int,
                 OVP_DECODER_ILLEGAL_TYPE *illegal)
{
    for (size_t row = 0; row < rows; row++) {
        int code[2] = {pair[row] & CODE, pair[row] >> WIDTH}; /* the left element is in the low half */
        for (int n = 0; n < 2; n++) {
            int shift, value = lane(code[n], code[1 - n], bias[row], &shift);
            exponent[2 * row + n] = (OVP_DECODER_EXPONENT_TYPE)shift;
            base_int[2 * row + n] = (OVP_DECODER_BASE_INT_TYPE)(value & CODE); /* two's complement of WIDTH bits */
        }
        illegal[row] = (code[0] == IDENTIFIER && (code[1] & (IDENTIFIER - 1)) == 0) ||
                       (code[1] == IDENTIFIER && (code[0] & (IDENTIFIER - 1)) == 0);
    }
}
