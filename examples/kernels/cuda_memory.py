"""LeanKV's memory manager and compressor in numba.cuda: offsets by a prefix sum [leankv §5.2], codes of a group [§4].

On a GPU where the driver finds one, else in numba's simulator.
"""

import os
import warnings

from examples.kernels import host, memory

GPU = host.gpu()
if not GPU:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before numba is imported

import numpy as np  # noqa: E402
from numba import cuda, float32, int32, int64  # noqa: E402

HEADS = 64  #: heads of a row, at most
FEATURES = 128  #: features of a group, at most


@cuda.jit
def allocate(counts, base, ends):
    """A block adds the pages of all heads of a row; ends: of the region of each head, which begins where the last ends.

    In every level a thread adds the sum of the head that is twice as far away.
    """
    i, t, heads = cuda.blockIdx.x, cuda.threadIdx.x, counts.shape[1]
    sums = cuda.shared.array(HEADS, int64)
    sums[t] = counts[i, t]
    cuda.syncthreads()
    step = 1
    while step < heads:
        more = sums[t - step] if t >= step else 0
        cuda.syncthreads()
        sums[t] += more
        cuda.syncthreads()
        step *= 2
    ends[i, t] = base[i] + sums[t]


@cuda.jit
def quantize(x, bits, least, most, steps, words):
    """A block quantizes a group: the range by a tree, then a thread for each feature, then one for each word."""
    i, t, features = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[1]
    low = cuda.shared.array(FEATURES, float32)
    high = cuda.shared.array(FEATURES, float32)
    code = cuda.shared.array(FEATURES, int32)
    low[t] = x[i, t] + np.float32(0)  # -0 becomes +0
    high[t] = low[t]
    cuda.syncthreads()
    half = features // 2
    while half > 0:
        if t < half:
            low[t] = min(low[t], low[t + half])
            high[t] = max(high[t], high[t + half])
        cuda.syncthreads()
        half //= 2
    largest = (1 << bits[i]) - 1
    step = np.float32(np.float32(high[0] - low[0]) / np.float32(largest))
    code[t] = 0
    if step != 0:  # else all features are equal
        exact = np.float32(np.float32(x[i, t] - low[0]) / step)
        whole = int(exact)
        rest = exact - np.float32(whole)
        if rest > 0.5 or (rest == 0.5 and whole % 2 == 1):
            whole += 1
        code[t] = min(whole, largest)
    cuda.syncthreads()
    per = 16 // bits[i]
    if t < features // per:
        word = 0
        for lane in range(per):
            word |= code[t * per + lane] << (lane * bits[i])
        words[i, t] = word
    if t == 0:
        least[i], most[i], steps[i] = low[0], high[0], step


def prepare_allocate(manifest, arrays):
    """A launch of `allocate` on the stimulus of a set."""
    counts, base = (np.ascontiguousarray(arrays[f"in.{name}"], np.int64) for name in ("counts", "base"))
    rows, heads = counts.shape
    ends = np.zeros((rows, heads), np.int64)

    def launch():
        allocate[rows, heads](counts, base, ends)
        return {"out.inclusive": ends}

    return launch


def prepare_quantize(manifest, arrays):
    """A launch of `quantize` on the stimulus of a set."""
    x, bits = arrays["in.x"].view(np.float16).astype(np.float32), host.int32(arrays["in.bits"])
    rows, features = x.shape
    least, most, steps = (np.zeros(rows, np.float32) for _ in range(3))
    words = np.zeros((rows, features // 2), np.int32)

    def launch():
        quantize[rows, features](x, bits, least, most, steps, words)
        return memory.answers(least, most, steps, words)

    return launch


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # small grids
    host.main({"prefix_sum": prepare_allocate, "kv_quantizer": prepare_quantize}, GPU or "simulator", not GPU)
