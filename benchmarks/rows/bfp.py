"""BFP and INT4 encoding against NumPy."""

from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, pairs
from benchmarks.rows.arith import normal
from refemu.formats import BFP8, INT4_G128, BfpTensor
from refemu.formats.compiled import groupint as groupint_compiled
from refemu.formats.harmonia.compiled import bfp as bfp_compiled
from refemu.units.harmonia.bfp_converter import compiled as bfp_converter_compiled


def numpy_encode(x: np.ndarray, axis: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """A user's code for groups of 32: maximum of the fields, one shift; signed codes and exponents."""
    word = np.moveaxis(x.view(np.uint16), axis, -1)
    grouped = word.reshape(*word.shape[:-1], -1, 32)
    field = (grouped >> 10) & 31
    exponent = field.max(axis=-1)
    significand = (grouped & 0x3FF) | (np.minimum(field, 1) << 10)
    shift = 3 + np.maximum(exponent, 1)[..., None] - np.maximum(field, 1)
    code = np.right_shift(significand, np.minimum(shift, 15)).astype(np.int16)
    code = np.where(grouped >> 15 == 1, -code, code)
    return np.moveaxis(code.reshape(word.shape), -1, axis), np.moveaxis(exponent, -1, axis)


def same(theirs: tuple[np.ndarray, np.ndarray], ours: BfpTensor) -> bool:
    """Equal codes and exponents."""
    return np.array_equal(theirs[0], ours.signed()) and np.array_equal(theirs[1], ours.exponent)


def encode() -> list[Row]:
    """fp16 to signs, 8-bit magnitudes and exponents, groups of 32 along the last axis; torch is in `rivals`."""
    x = normal((1 << 10, 1 << 10), 11).astype(np.float16)
    return [
        pairs(
            "PERF-15",
            "BFP8 encode 2^20 fp16 along rows",
            "NumPy shifts on uint16",
            lambda: numpy_encode(x),
            lambda: bfp_compiled.encode(BFP8, x),
            same,
            15,
        )
    ]


def encode_tokens() -> list[Row]:
    """The same along tokens, as V is grouped."""
    x = normal((1 << 10, 1 << 10), 12).astype(np.float16)
    return [
        pairs(
            "BFP-V",
            "BFP8 encode 2^20 fp16 along tokens",
            "NumPy shifts on uint16",
            lambda: numpy_encode(x, 0),
            lambda: bfp_compiled.encode(BFP8, x, 0),
            same,
        )
    ]


def convert() -> list[Row]:
    """The converter as a whole: codes and the counters of its stream of blocks."""
    x = normal((1 << 10, 1 << 10), 13).astype(np.float16)
    return [
        pairs(
            "BFP-CONV",
            "bfp_converter, 2^20 fp16 in blocks of 8 x 32",
            "NumPy shifts on uint16",
            lambda: numpy_encode(x),
            lambda: bfp_converter_compiled.convert(x),
            lambda theirs, ours: same(theirs, ours.tensor),
        )
    ]


def numpy_int4(w: np.ndarray) -> np.ndarray:
    """A user's code for INT4 weights in groups of 128."""
    grouped = w.reshape(w.shape[0], -1, 128).astype(np.float64)
    scale = (np.abs(grouped).max(axis=-1) / 7).astype(np.float16).astype(np.float64)
    return np.clip(np.rint(grouped / scale[..., None]), -8, 7).astype(np.int8).reshape(w.shape)


def weights() -> list[Row]:
    """float32 weights to INT4 codes and fp16 factors."""
    w = normal((1 << 10, 1 << 10), 14)
    return [
        pairs(
            "BFP-INT4",
            "INT4_G128 encode 2^20 float32",
            "NumPy divide, rint, clip",
            lambda: numpy_int4(w),
            lambda: groupint_compiled.encode(INT4_G128, w),
            lambda theirs, ours: np.array_equal(theirs, ours.code),
        )
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {
    "PERF-15": encode,
    "BFP-V": encode_tokens,
    "BFP-CONV": convert,
    "BFP-INT4": weights,
}
