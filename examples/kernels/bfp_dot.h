/* Dot products of block floating point groups [harmonia §IV-B]: exact integer sums, accumulated in float32. */
#ifndef BFP_DOT_H
#define BFP_DOT_H
#include <stddef.h>
#include "bfp_pe_vec.h"

/* first: 1 where a reduction starts from reset. acc, value: words of float32. flags: sticky over a reduction. */
void bfp_dot(size_t rows, const uint8_t *first, const uint8_t *mode, const uint8_t *clear, const uint8_t *a_sign,
             const uint8_t *a_mag, const uint8_t *a_exp, const uint8_t *b, const uint8_t *b_sign, const uint8_t *b_exp,
             const uint16_t *w_scale, uint32_t *acc, uint8_t *flags, uint32_t *psum, uint32_t *value);
#endif
