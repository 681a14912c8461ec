"""A LeanKV page in numba.cuda, dequantized: pair K8V4, 128 features, 32 tokens [leankv §5.2, §6.2].

On a GPU where the driver finds one, else in numba's simulator. docs/leankv-page.md lists the bytes.
"""

import os
import warnings

from examples.kernels import host

GPU = host.gpu()
if not GPU:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before numba is imported

import numpy as np  # noqa: E402
from numba import cuda  # noqa: E402

TOKENS, FEATURES, WORDS = 32, 128, 3392
KEY_META, VAL, VAL_META = 2048, 2112, 3136  #: first words of the segments


@cuda.jit
def dequantize(words, halves, counts, key, value):
    """A block dequantizes a page, a thread one token; float32 from int32 words, and from their values as fp16."""
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    if t >= counts[row]:
        return
    key_meta, val_meta = KEY_META + 2 * t, VAL_META + 2 * t
    for f in range(FEATURES):
        p, q = f // 2, f // 4
        k = words[row, ((p // 4 % 4 * TOKENS + t) * 4 + p // 16) * 4 + p % 4] >> (f % 2 * 8) & 255
        v = words[row, VAL + ((q % 4 * 16 + t // 2) * 8 + q // 4) * 2 + t % 2] >> (f % 4 * 4) & 15
        key[row, t, f] = np.float32(halves[row, key_meta] * np.float32(k)) - halves[row, key_meta + 1]
        value[row, t, f] = np.float32(halves[row, val_meta] * np.float32(v)) - halves[row, val_meta + 1]


def prepare_page_reader(manifest, arrays):
    """A launch of `dequantize` on the stimulus of a set."""
    words, counts = arrays["in.images"], host.int32(arrays["in.n_high"])
    rows = manifest["rows"]
    halves = np.ascontiguousarray(words.view(np.float16).astype(np.float32))
    key, value = (np.zeros((rows, TOKENS, FEATURES), np.float32) for _ in range(2))
    wide = host.int32(words)

    def launch():
        dequantize[rows, TOKENS](wide, halves, counts, key, value)
        return host.page_answers(manifest, arrays, key, value)

    return launch


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # infinities, and small grids
    host.main({"page_reader": prepare_page_reader}, GPU or "simulator", not GPU)
