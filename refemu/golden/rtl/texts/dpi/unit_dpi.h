/* $unit in configuration $config as a C function: see refemu_dpi.h.
   $paper: $meaning. */
#ifndef ${upper}_DPI_H
#define ${upper}_DPI_H

#include "refemu_dpi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ${upper}_SPEC "$spec"
#define ${upper}_SET "$set"
#define ${upper}_DIGEST "$digest"
#define ${upper}_WORDS_IN $words_in
#define ${upper}_WORDS_OUT $words_out
/* 1: a transaction is one clock edge, and there is a state. */
#define ${upper}_CLOCKED $clocked

/* refemu_open and refemu_step for this unit, under its own names, since every SystemVerilog package declares them with the
   widths of its unit. */
void *${unit}_open(void);
int ${unit}_step(void *handle, const uint32_t *in, uint32_t *out);

/* The lowest bit of every port in the words, the bits of a lane and the number of lanes. set_ and get_ use sign-extended
   values for a signed port. care_: bits of an output that a device must match. */
static inline uint64_t ${unit}_field(const uint32_t *words, unsigned lsb, unsigned bits) {
  uint64_t value = words[lsb / 32] >> lsb % 32;
  unsigned have = 32 - lsb % 32, word = lsb / 32 + 1;
  for (; have < bits; have += 32, word++) value |= (uint64_t)words[word] << have;
  return bits == 64 ? value : value & ~(~(uint64_t)0 << bits);
}

static inline int64_t ${unit}_signed(uint64_t value, unsigned bits) {
  uint64_t sign = (uint64_t)1 << (bits - 1);
  return (int64_t)((value ^ sign) - sign);
}

static inline void ${unit}_put(uint32_t *words, unsigned lsb, unsigned bits, uint64_t value) {
  unsigned bit;
  for (bit = 0; bit < bits; bit++) {
    uint32_t one = (uint32_t)1 << (lsb + bit) % 32;
    words[(lsb + bit) / 32] = (words[(lsb + bit) / 32] & ~one) | (value >> bit & 1 ? one : 0);
  }
}

$fields
#ifdef __cplusplus
}
#endif
#endif
