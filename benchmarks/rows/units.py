"""OliVe's pairs of fp16 tensors, its units and Harmonia's PE, compiled, against NumPy on decoded values."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.pairs import Row, pairs
from benchmarks.rows.arith import normal
from benchmarks.rows.formats import numpy_encode
from refemu.formats import OVP_INT4, OVP_INT8, Ovp
from refemu.formats.olive.compiled import ovp as ovp_compiled
from refemu.units.harmonia.bfp_accumulator import exponent
from refemu.units.harmonia.bfp_pe import compiled as bfp_pe_compiled
from refemu.units.olive.mmaovp import compiled as mmaovp_compiled
from refemu.units.olive.olive_edp import compiled as olive_edp_compiled

TYPES = {"int4": (OVP_INT4, "ovpi4"), "int8": (OVP_INT8, "ovpi8")}
BIAS = {"int4": 2, "int8": 4}  #: bias of the outliers with each type


def half(shape: tuple[int, ...], seed: int, deviation: float = 3) -> np.ndarray:
    """fp16 values in grid units of int4, a few of them outliers."""
    return (normal(shape, seed) * np.float32(deviation)).astype(np.float16)


def encode() -> list[Row]:
    """A tensor of fp16 values to packed pairs, by a scale: float32 division, as for a layer's input."""
    x, scale = half((1 << 11, 1 << 9), 3, 1.5), np.float32(0.5)
    return [
        pairs(
            "OLIVE-ENC16",
            "OVP_INT4 encode 2^20 fp16, one scale, to packed pairs",
            "NumPy where chain",
            lambda: numpy_encode(x.astype(np.float32) / scale),
            lambda: ovp_compiled.encode_pairs(OVP_INT4, x, scale),
            lambda theirs, ours: np.array_equal(theirs, ours.reshape(-1)),
        )
    ]


def decode() -> list[Row]:
    """Packed pairs back to fp16 values, carried in float32 as everywhere in the runtime."""
    packed, scale = ovp_compiled.encode_pairs(OVP_INT4, half((1 << 11, 1 << 9), 3)), np.float32(0.5)
    wide = _table(OVP_INT4).astype(np.float32) * scale
    return [
        pairs(
            "OLIVE-DEC16",
            "OVP_INT4 decode 2^19 packed pairs to fp16 values",
            "np.take on a 256-entry table",
            lambda: np.take(wide, packed, axis=0),
            lambda: ovp_compiled.dequantize_pairs(OVP_INT4, packed, scale),
            lambda theirs, ours: np.array_equal(theirs.reshape(-1), ours.reshape(-1)),
        )
    ]


def _table(fmt: Ovp) -> np.ndarray:
    """Both values of every pair word, (words, 2); 0 for illegal ones."""
    words = np.arange(1 << 2 * fmt.width).astype(np.uint8 if fmt.width == 4 else np.uint16)
    return ovp_compiled.decode_pairs(fmt, words, strict=False).reshape(-1, 2).astype(np.int64)


def _operands(fmt: Ovp, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Packed pairs of two random tensors, a few of them with outliers."""
    deviation = np.float32(fmt.normal.largest / 2.5)
    a, b = (fmt.encode(normal(shape, seed) * deviation).pairs() for seed in (1, 2))
    return a, b


def dot_products() -> list[Row]:
    """Operations of a dot product unit from pairs, against an integer sum of products per operation."""
    return [row for kind, n in (("int4", 16), ("int8", 8)) for row in _dot_products(kind, n)]


def _dot_products(kind: str, n: int) -> list[Row]:
    fmt, table = TYPES[kind][0], _table(TYPES[kind][0])
    a, b = _operands(fmt, (1 << 14, n))
    c, bias = np.arange(1 << 14, dtype=np.int32), BIAS[kind]
    x, y = (np.take(table, words, axis=0).reshape(-1, n) for words in (a, b))

    def decoded() -> np.ndarray:
        return (np.matmul(x[:, None], y[..., None])[:, 0, 0] + c).astype(np.int32)

    def from_pairs() -> np.ndarray:
        left, right = (np.take(table, words, axis=0).reshape(-1, n) for words in (a, b))
        return (np.matmul(left[:, None], right[..., None])[:, 0, 0] + c).astype(np.int32)

    return [
        pairs(
            "OLIVE-EDP",
            f"{n}EDP, {kind}: 2^14 operations from pairs",
            rival,
            call,
            lambda: olive_edp_compiled.run(a, b, bias, bias, c, a=kind, b=kind),
            lambda theirs, ours: np.array_equal(theirs, ours.d),
        )
        for rival, call in (("NumPy int64 matmul, decoded before", decoded), ("NumPy take, int64 matmul", from_pairs))
    ]


def tiles() -> list[Row]:
    """Tiles of the instruction from pairs, against NumPy's batched integer matmul."""
    return [row for kind, k in (("int4", 32), ("int8", 16)) for row in _tiles(kind, k)]


def _tiles(kind: str, k: int) -> list[Row]:
    fmt, name = TYPES[kind]
    table, bias = _table(fmt), BIAS[kind]
    a, b = (words.reshape(1 << 10, -1) for words in _operands(fmt, (1 << 10, 8, k)))
    c = np.zeros((1 << 10, 64), np.int32)
    x, y = (np.take(table, words, axis=0).reshape(-1, 8, k) for words in (a, b))

    def decoded() -> np.ndarray:
        return (x @ y.transpose(0, 2, 1)).astype(np.int32)

    def from_pairs() -> np.ndarray:
        left, right = (np.take(table, words, axis=0).reshape(-1, 8, k) for words in (a, b))
        return (left @ right.transpose(0, 2, 1)).astype(np.int32)

    return [
        pairs(
            "OLIVE-MMA",
            f"mmaovp m8n8k{k}, {kind}: 2^10 tiles from pairs",
            rival,
            call,
            lambda: mmaovp_compiled.run(a, b, bias, bias, c, a_type=name, b_type=name),
            lambda theirs, ours: np.array_equal(theirs.reshape(-1, 64), ours.d),
        )
        for rival, call in (("NumPy int64 matmul, decoded before", decoded), ("NumPy take, int64 matmul", from_pairs))
    ]


def groups() -> list[Row]:
    """256 PEs with 64 groups each: sums, fp16, weight factor, float32 accumulator, flags, slots and counters."""
    rng, shape = np.random.default_rng(5), (256, 64)
    sign, code = (rng.integers(0, top, (*shape, 32)).astype(np.uint8) for top in (2, 16))
    size, shared = rng.integers(0, 256, (*shape, 32)).astype(np.uint8), rng.integers(10, 20, shape).astype(np.uint8)
    factor = rng.integers(0x2000, 0x3000, shape).astype(np.uint16)
    x, y = np.where(sign == 1, -size.astype(np.int64), size), (code.astype(np.int64) ^ 8) - 8
    power, scale = (
        np.array([exponent(0, code, 0) for code in range(32)], np.int32)[shared],
        factor.view(np.float16).astype(np.float32),
    )

    def sums() -> np.ndarray:
        return np.matmul(x[..., None, :], y[..., None])[..., 0, 0]

    def whole() -> np.ndarray:
        half = np.ldexp(sums().astype(np.float64), power).astype(np.float16).astype(np.float32)
        return np.add.accumulate(half * scale, axis=-1)

    def ours() -> Any:
        return bfp_pe_compiled.run(0, sign, size, shared, code, w_scale=factor)

    what = "bfp_pe, M8W4: 2^14 groups of 32"
    return [
        pairs(
            "BFP-PE",
            what,
            "NumPy int64 matmul, sums only",
            sums,
            ours,
            lambda theirs, found: np.array_equal(theirs, found.psum),
        ),
        pairs(
            "BFP-PE",
            what,
            "NumPy matmul, ldexp, float16, running sum",
            whole,
            ours,
            lambda theirs, found: np.array_equal(theirs.view(np.uint32), found.acc),
        ),
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {
    "OLIVE-ENC16": encode,
    "OLIVE-DEC16": decode,
    "OLIVE-EDP": dot_products,
    "OLIVE-MMA": tiles,
    "BFP-PE": groups,
}
