"""LeanKV's memory manager and compressor in Triton: offsets by a prefix sum [leankv §5.2], codes of a group [§4].

On a GPU where the driver finds one, else in Triton's interpreter. Needs the extra `triton` (with torch about 2 GB).
"""

import os
import warnings

from examples.kernels import host, memory

GPU = host.gpu()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import numpy as np  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

DEVICE = "cuda" if GPU else "cpu"


@triton.jit
def allocate(counts, base, ends, heads, N: tl.constexpr):
    """A program adds the pages of all heads of a row, by Triton's scan."""
    i, t = tl.program_id(0), tl.arange(0, N)
    own = tl.load(counts + i * heads + t, mask=t < heads, other=0)
    tl.store(ends + i * heads + t, tl.load(base + i) + tl.cumsum(own, 0), mask=t < heads)


@triton.jit
def quantize(x, bits, least, most, steps, words, F: tl.constexpr):
    """A program quantizes a group; codes are added into their words, whose bits they do not share."""
    i, t = tl.program_id(0), tl.arange(0, F)
    value, width = tl.load(x + i * F + t) + 0.0, tl.load(bits + i)  # -0 becomes +0
    low, high = tl.min(value, 0), tl.max(value, 0)
    largest = (1 << width) - 1
    step = tl.math.div_rn(tl.zeros_like(value) + (high - low), tl.zeros_like(value) + largest.to(tl.float32))
    divisor = tl.where(step == 0, 1.0, step)  # all features are equal
    exact = tl.math.div_rn(value - low, divisor)
    whole = exact.to(tl.int32)
    rest = exact - whole.to(tl.float32)
    whole += ((rest > 0.5) | ((rest == 0.5) & (whole % 2 == 1))).to(tl.int32)
    code = tl.where(step == 0, 0, tl.minimum(whole, largest))
    per = 16 // width
    w = tl.arange(0, F // 2)
    here = (t[None, :] // per) == w[:, None]
    tl.store(words + i * (F // 2) + w, tl.sum(tl.where(here, (code << (t % per * width))[None, :], 0), 1))
    tl.store(least + i, low)
    tl.store(most + i, high)
    tl.store(steps + i, tl.max(step, 0))


def put(array):
    """An array on the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(DEVICE)


def prepare_allocate(manifest, arrays):
    """A launch of `allocate` on the stimulus of a set."""
    counts, base = (put(arrays[f"in.{name}"].astype(np.int64)) for name in ("counts", "base"))
    rows, heads = counts.shape
    ends, width = torch.zeros((rows, heads), dtype=torch.int64, device=DEVICE), triton.next_power_of_2(heads)

    def launch():
        allocate[(rows,)](counts, base, ends, heads, N=width)
        return {"out.inclusive": ends.cpu().numpy()}

    return launch


def prepare_quantize(manifest, arrays):
    """A launch of `quantize` on the stimulus of a set."""
    x, bits = put(arrays["in.x"].view(np.float16).astype(np.float32)), put(host.int32(arrays["in.bits"]))
    rows, features = x.shape
    least, most, steps = (torch.zeros(rows, dtype=torch.float32, device=DEVICE) for _ in range(3))
    words = torch.zeros((rows, features // 2), dtype=torch.int32, device=DEVICE)

    def launch():
        quantize[(rows,)](x, bits, least, most, steps, words, F=features, enable_fp_fusion=False)
        return memory.answers(*(array.cpu().numpy() for array in (least, most, steps, words)))

    return launch


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)
    host.main({"prefix_sum": prepare_allocate, "kv_quantizer": prepare_quantize}, GPU or "interpreter", not GPU)
