/* A LeanKV page and the function that dequantizes pages. [leankv §5.2, §6.2] */
#ifndef PAGE_READER_H
#define PAGE_READER_H
#include <stddef.h>
#include <stdint.h>

#include "page_reader_vec.h"

enum { TOKENS = 32, FEATURES = 128, K_VEC = 4, K_GROUP = 4, V_VEC = 2, V_GROUP = 8 };

/* Precision pair K8V4, 128 features, 6784 bytes, little-endian; offsets in bytes */
struct leankv_page {
    uint16_t key[4][TOKENS][K_GROUP][K_VEC];        /*    0 word 16 g + 4 r + l of token t: key[r][t][g][l] */
    uint16_t key_meta[TOKENS][2];                   /* 4096 fp16 scale and zero */
    uint16_t val[4][TOKENS / V_VEC][V_GROUP][V_VEC]; /* 4224 word 4 g + r of token t: val[r][t / 2][g][t % 2] */
    uint16_t val_meta[TOKENS][2];                   /* 6272 fp16 scale and zero */
    uint32_t score[TOKENS];                         /* 6400 float32 patterns */
    int32_t pos[TOKENS];                            /* 6528 */
    uint8_t unused[128];                            /* 6656 */
};

void page_reader(size_t rows, const PAGE_READER_IMAGES_TYPE *images, const PAGE_READER_N_HIGH_TYPE *n_high,
                 PAGE_READER_KEY_TYPE *key, PAGE_READER_VALUE_TYPE *value, PAGE_READER_SCORE_TYPE *score,
                 PAGE_READER_POSITION_TYPE *position);
#endif
