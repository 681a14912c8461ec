/* Outlier-victim pairs to exponents and integers [olive §4.2, Fig. 6b]; widths come from the header of the golden set. */
#ifndef OVP_DECODER_H
#define OVP_DECODER_H
#include <stddef.h>
#include "ovp_decoder_vec.h"

void ovp_decoder(size_t rows, const OVP_DECODER_PAIR_TYPE *pair, const OVP_DECODER_BIAS_TYPE *bias,
                 OVP_DECODER_EXPONENT_TYPE *exponent, OVP_DECODER_BASE_INT_TYPE *base_int,
                 OVP_DECODER_ILLEGAL_TYPE *illegal);
#endif
