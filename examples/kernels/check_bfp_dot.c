/* bfp_dot against a golden set of bfp_pe: check_bfp_dot SET [ANSWERS.csv]. */
#include "bfp_dot.h"
#include "golden_set.h"

#define IN(PORT, name) GOLDEN_READ(set, BFP_PE, PORT, name)

int main(int argc, char **argv)
{
    const char *set = golden_argument(argc, argv);
    const uint8_t *first = golden_read(set, "first", BFP_PE_ROWS, 1, 1);
    const uint8_t *mode = IN(MODE, "in.mode"), *clear = IN(CLEAR, "in.clear");
    const uint8_t *a_sign = IN(A_SIGN, "in.a_sign"), *a_mag = IN(A_MAG, "in.a_mag"), *a_exp = IN(A_EXP, "in.a_exp");
    const uint8_t *b = IN(B, "in.b"), *b_sign = IN(B_SIGN, "in.b_sign"), *b_exp = IN(B_EXP, "in.b_exp");
    const uint16_t *w_scale = IN(W_SCALE, "in.w_scale");
    uint32_t *acc = GOLDEN_ANSWER(BFP_PE, ACC), *psum = GOLDEN_ANSWER(BFP_PE, ST_PSUM);
    uint32_t *value = GOLDEN_ANSWER(BFP_PE, ST_VALUE);
    uint8_t *flags = GOLDEN_ANSWER(BFP_PE, FLAGS);

    int loops = 1 + 200000 / BFP_PE_ROWS;
    double begin = golden_seconds();
    for (int n = 0; n < loops; n++)
        bfp_dot(BFP_PE_ROWS, first, mode, clear, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale, acc, flags, psum,
                value);
    double seconds = (golden_seconds() - begin) / loops;

    const struct golden_output outputs[] = {
        GOLDEN_OUTPUT(set, BFP_PE, ACC, "out.acc", acc),
        GOLDEN_OUTPUT(set, BFP_PE, FLAGS, "out.flags", flags),
        GOLDEN_OUTPUT(set, BFP_PE, ST_PSUM, "st.psum", psum),
        GOLDEN_OUTPUT(set, BFP_PE, ST_VALUE, "st.value", value),
    };
    return golden_finish(outputs, sizeof outputs / sizeof *outputs, BFP_PE_ROWS, seconds, argv[2]);
}
