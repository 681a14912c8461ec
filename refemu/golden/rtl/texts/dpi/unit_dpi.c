/* See ${unit}_dpi.h. */
#include "${unit}_dpi.h"

void *${unit}_open(void) {
  return refemu_open_as(${upper}_SPEC, ${upper}_WORDS_IN, ${upper}_WORDS_OUT, ${upper}_DIGEST);
}

int ${unit}_step(void *handle, const uint32_t *in, uint32_t *out) { return refemu_step(handle, in, out); }
