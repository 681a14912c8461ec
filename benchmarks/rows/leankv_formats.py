"""KV quantization and page reads against NumPy (performance rows PERF-20, PERF-21)."""

from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, pairs
from benchmarks.rows.arith import normal
from refemu.formats import K8V4, Affine, UnifiedPage
from refemu.formats.leankv.compiled import affine as affine_compiled
from refemu.formats.leankv.compiled import kv_page as kv_page_compiled

VECTORS, FEATURES = 1 << 13, 128


def numpy_quantize(x: np.ndarray) -> np.ndarray:
    """A user's code: minimum, maximum, divide, round, two codes per byte. Packed words only."""
    wide = x.astype(np.float32)
    low = wide.min(axis=1, keepdims=True)
    step = (wide.max(axis=1, keepdims=True) - low) / np.float32(15)
    code = np.rint((wide - low) / step).astype(np.uint8)
    return (code[:, ::2] | (code[:, 1::2] << 4)).view(np.uint16)


def quantize() -> list[Row]:
    """fp16 vectors of 128 features to packed 4-bit codes, scales and zero points."""
    x, fmt = normal((VECTORS, FEATURES), 3).astype(np.float16), Affine(4)
    return [
        pairs(
            "PERF-20",
            f"Affine(4) encode and pack {VECTORS} x {FEATURES} fp16",
            "NumPy min, max, rint, shift",
            lambda: numpy_quantize(x),
            lambda: affine_compiled.encode_words(fmt, x),
            lambda theirs, ours: np.array_equal(theirs, ours[0]),
            4,
        )
    ]


def page() -> list[Row]:
    """All tokens of 256 pages of K8V4, head size 128, to records, and back."""
    fmt = UnifiedPage(FEATURES, K8V4)
    words = normal((256, fmt.size // 2), 5).view(np.uint32).astype(np.uint16)
    pages, slots = np.repeat(np.arange(256), fmt.tokens), np.tile(np.arange(fmt.tokens), 256)
    index = pages[:, None], fmt.slot_words[slots]
    records, copy = words[index], words.copy()

    def numpy_write() -> np.ndarray:
        copy[index] = records
        return copy

    def write() -> np.ndarray:
        kv_page_compiled.write(fmt, words, pages, slots, records)
        return words

    what = f"{len(slots)} tokens, 256 pages of K8V4"
    return [
        pairs(
            "PERF-21",
            f"read {what}",
            "NumPy fancy indexing",
            lambda: words[index],
            lambda: kv_page_compiled.read(fmt, words, pages, slots),
            np.array_equal,
            5,
        ),
        pairs("PERF-21", f"write {what}", "NumPy fancy indexing", numpy_write, write, np.array_equal, 5),
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {"PERF-20": quantize, "PERF-21": page}
