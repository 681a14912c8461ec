/* page_reader against a golden set: check_page_reader SET [ANSWERS.csv]. */
#include "golden_set.h"
#include "page_reader.h"

int main(int argc, char **argv)
{
    const char *set = golden_argument(argc, argv);
    const PAGE_READER_IMAGES_TYPE *images = GOLDEN_READ(set, PAGE_READER, IMAGES, "in.images");
    const PAGE_READER_N_HIGH_TYPE *n_high = GOLDEN_READ(set, PAGE_READER, N_HIGH, "in.n_high");
    PAGE_READER_KEY_TYPE *key = GOLDEN_ANSWER(PAGE_READER, KEY);
    PAGE_READER_VALUE_TYPE *value = GOLDEN_ANSWER(PAGE_READER, VALUE);
    PAGE_READER_SCORE_TYPE *score = GOLDEN_ANSWER(PAGE_READER, SCORE);
    PAGE_READER_POSITION_TYPE *position = GOLDEN_ANSWER(PAGE_READER, POSITION);

    double begin = golden_seconds();
    page_reader(PAGE_READER_ROWS, images, n_high, key, value, score, position);
    double seconds = golden_seconds() - begin;

    const struct golden_output outputs[] = {
        GOLDEN_OUTPUT(set, PAGE_READER, KEY, "out.key", key),
        GOLDEN_OUTPUT(set, PAGE_READER, VALUE, "out.value", value),
        GOLDEN_OUTPUT(set, PAGE_READER, SCORE, "out.score", score),
        GOLDEN_OUTPUT(set, PAGE_READER, POSITION, "out.position", position),
    };
    return golden_finish(outputs, sizeof outputs / sizeof *outputs, PAGE_READER_ROWS, seconds, argv[2]);
}
