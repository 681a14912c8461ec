"""A LeanKV page in Triton, dequantized: pair K8V4, 128 features, 32 tokens [leankv §5.2, §6.2].

On a GPU where the driver finds one, else in Triton's interpreter. docs/leankv-page.md lists the bytes.
"""

import os
import warnings

from examples.kernels import host

GPU = host.gpu()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import numpy as np  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

DEVICE = "cuda" if GPU else "cpu"
WORDS = 3392  #: 16-bit words of a page


@triton.jit
def dequantize(words, halves, counts, key, value, WORDS: tl.constexpr):
    """A program dequantizes one token of one page: words as int32, and the same words as fp16."""
    row, t, f = tl.program_id(0), tl.program_id(1), tl.arange(0, 128)
    there, page = f * 0 + t < tl.load(counts + row), row * WORDS
    p, q = f // 2, f // 4
    k = tl.load(words + page + ((p // 4 % 4 * 32 + t) * 4 + p // 16) * 4 + p % 4) >> (f % 2 * 8) & 255
    v = tl.load(words + page + 2112 + ((q % 4 * 16 + t // 2) * 8 + q // 4) * 2 + t % 2) >> (f % 4 * 4) & 15
    meta = halves + page + 2 * t
    key_scale, key_zero = tl.load(meta + 2048).to(tl.float32), tl.load(meta + 2049).to(tl.float32)
    val_scale, val_zero = tl.load(meta + 3136).to(tl.float32), tl.load(meta + 3137).to(tl.float32)
    out = (row * 32 + t) * 128 + f
    tl.store(key + out, k.to(tl.float32) * key_scale - key_zero, mask=there)
    tl.store(value + out, v.to(tl.float32) * val_scale - val_zero, mask=there)


def prepare_page_reader(manifest, arrays):
    """A launch of `dequantize` on the stimulus of a set."""
    rows = manifest["rows"]
    words = torch.from_numpy(host.int32(arrays["in.images"])).to(DEVICE)
    halves = torch.from_numpy(arrays["in.images"].view(np.float16)).to(DEVICE)
    counts = torch.from_numpy(host.int32(arrays["in.n_high"])).to(DEVICE)
    key, value = (torch.zeros((rows, 32, 128), dtype=torch.float32, device=DEVICE) for _ in range(2))

    def launch():
        dequantize[(rows, 32)](words, halves, counts, key, value, WORDS=WORDS)
        return host.page_answers(manifest, arrays, key.cpu().numpy(), value.cpu().numpy())

    return launch


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)
    np.seterr(all="ignore")
    host.main({"page_reader": prepare_page_reader}, GPU or "interpreter", not GPU)
