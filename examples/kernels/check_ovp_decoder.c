/* ovp_decoder against a golden set: check_ovp_decoder SET [ANSWERS.csv]. */
#include "golden_set.h"
#include "ovp_decoder.h"

int main(int argc, char **argv)
{
    const char *set = golden_argument(argc, argv);
    const OVP_DECODER_PAIR_TYPE *pair = GOLDEN_READ(set, OVP_DECODER, PAIR, "in.pair");
    const OVP_DECODER_BIAS_TYPE *bias = GOLDEN_READ(set, OVP_DECODER, BIAS, "in.bias");
    OVP_DECODER_EXPONENT_TYPE *exponent = GOLDEN_ANSWER(OVP_DECODER, EXPONENT);
    OVP_DECODER_BASE_INT_TYPE *base_int = GOLDEN_ANSWER(OVP_DECODER, BASE_INT);
    OVP_DECODER_ILLEGAL_TYPE *illegal = GOLDEN_ANSWER(OVP_DECODER, ILLEGAL);

    int loops = 1 + 2000000 / OVP_DECODER_ROWS;
    double begin = golden_seconds();
    for (int n = 0; n < loops; n++)
        ovp_decoder(OVP_DECODER_ROWS, pair, bias, exponent, base_int, illegal);
    double seconds = (golden_seconds() - begin) / loops;

    const struct golden_output outputs[] = {
        GOLDEN_OUTPUT(set, OVP_DECODER, EXPONENT, "out.exponent", exponent),
        GOLDEN_OUTPUT(set, OVP_DECODER, BASE_INT, "out.base_int", base_int),
        GOLDEN_OUTPUT(set, OVP_DECODER, ILLEGAL, "out.illegal", illegal),
    };
    return golden_finish(outputs, sizeof outputs / sizeof *outputs, OVP_DECODER_ROWS, seconds, argv[2]);
}
