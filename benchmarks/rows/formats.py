"""OVP encode and decode against NumPy (PERF-17, PERF-18), and packed weights read by one token (PERF-BYTES)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.pairs import Row, pairs, size
from benchmarks.rows.arith import normal
from refemu.formats import BFP8, OVP_INT4
from refemu.formats.groupint import INT4_G128
from refemu.formats.harmonia.bfp_dot import bfp_dot_int
from refemu.formats.harmonia.compiled import bfp_dot as bfp_dot_compiled
from refemu.formats.olive.compiled import ovp as ovp_compiled
from refemu.formats.olive.kernels import products

MAGNITUDES = np.array([12, 16, 24, 32, 48, 64, 96], np.float32)


def numpy_encode(x: np.ndarray) -> np.ndarray:
    """A user's code: `where` and `searchsorted` over pairs; grid units to packed nibbles."""
    pair = x.reshape(-1, 2)
    size = np.abs(pair)
    out = size > 9.5
    left = out[:, 0] & (~out[:, 1] | (size[:, 0] > size[:, 1]))
    right = out[:, 1] & ~left
    normal_code = np.clip(np.rint(pair), -7, 7).astype(np.int8) & 15
    ranks = np.searchsorted((MAGNITUDES[1:] + MAGNITUDES[:-1]) / 2, size) + 1
    outlier = ranks.astype(np.int8) | np.where(pair < 0, 8, 0).astype(np.int8)
    low = np.where(left, outlier[:, 0], np.where(right, 8, normal_code[:, 0]))
    high = np.where(right, outlier[:, 1], np.where(left, 8, normal_code[:, 1]))
    return (low | (high << 4)).astype(np.uint8)


def encode() -> list[Row]:
    """float32 grid units to packed nibbles."""
    x = normal((1 << 12, 1 << 8), 3) * np.float32(3)
    return [
        pairs(
            "PERF-17",
            "OVP_INT4 encode 2^20 float32 to packed pairs",
            "NumPy where chain",
            lambda: numpy_encode(x),
            lambda: ovp_compiled.encode_pairs(OVP_INT4, x),
            lambda theirs, ours: np.array_equal(theirs, ours.reshape(-1)),
            30,
        )
    ]


def decode() -> list[Row]:
    """Packed pairs to grid values."""
    tensor = OVP_INT4.encode(normal((1 << 12, 1 << 8), 3) * np.float32(3))
    packed = tensor.pairs()
    table = ovp_compiled.decode_pairs(OVP_INT4, np.arange(256, dtype=np.uint8), strict=False).reshape(256, 2)
    return [
        pairs(
            "PERF-18",
            "OVP_INT4 decode 2^19 packed pairs to int8",
            "np.take on a 256-entry table",
            lambda: np.take(table, packed, axis=0),
            lambda: ovp_compiled.decode_pairs(OVP_INT4, packed),
            lambda theirs, ours: np.array_equal(theirs.reshape(-1), ours.reshape(-1)),
            5,
        )
    ]


def packed_weights() -> list[Row]:
    """A token times packed weights of one block of 7 B: a copy that moves as many bytes is the rival.

    The ratio is the share of the machine's copy bandwidth that the product reaches.
    """
    outputs, inputs = size((49_152, 4096), (96, 64))
    return [_pairs(outputs, inputs), _groups(outputs, inputs)]


def _pairs(outputs: int, inputs: int) -> Row:
    """OliVe: pairs of 4 bits."""
    rng, encoder = np.random.default_rng(0), ovp_compiled.VectorEncoder(OVP_INT4, np.float32(1))
    words = ovp_compiled.encode_pairs(OVP_INT4, rng.standard_normal((outputs, inputs), np.float32) * np.float32(2))
    right = words, *products.outlier_places(words, OVP_INT4), products.fixes(OVP_INT4), np.ones(outputs, np.float32)
    sums, out = np.empty(outputs, np.int32), np.empty(outputs, np.float32)
    x, values = normal((inputs,), 1) * np.float32(3), products.pair_values(OVP_INT4)

    def ours() -> np.ndarray:
        products.pair_products(encoder(x), values, *right, sums, out, 0, outputs)
        return sums

    def same(_: None, found: np.ndarray) -> bool:
        grid = [
            OVP_INT4.decode(OVP_INT4.split(part)).reshape(*part.shape[:-1], -1) for part in (words[:64], encoder(x))
        ]
        return np.array_equal(found[:64], grid[0] @ grid[1])

    return _copied(f"OVP pairs, {inputs} x {outputs}", words.nbytes, ours, same)


def _groups(outputs: int, inputs: int) -> Row:
    """Harmonia: INT4 groups and their factors."""
    w = INT4_G128.encode(normal((outputs, inputs), 2) * np.float32(0.02))
    a, ready = BFP8.encode(normal((1, inputs), 1).astype(np.float16)), bfp_dot_compiled.prepare(w)
    want = bfp_dot_int(a, INT4_G128.encode(normal((outputs, inputs), 2)[:64] * np.float32(0.02)))

    def ours() -> np.ndarray:
        return bfp_dot_compiled.bfp_dot_int(a, ready)

    what, moved = f"INT4 groups x BFP8, {inputs} x {outputs}", ready.panels.nbytes
    return _copied(what, moved, ours, lambda _, found: found[:, :64].tobytes() == want.tobytes())


def _copied(what: str, moved: int, ours: Callable[[], Any], right: Callable[[None, Any], bool]) -> Row:
    source, target = (np.ones(moved // 2, np.uint8) for _ in range(2))
    text = f"{what}, one token: {moved / 1e6:.3g} MB"
    return pairs("PERF-BYTES", text, "copying as many bytes", lambda: np.copyto(target, source), ours, right, 0.6)


ROWS: dict[str, Callable[[], list[Row]]] = {"PERF-17": encode, "PERF-18": decode, "PERF-BYTES": packed_weights}
