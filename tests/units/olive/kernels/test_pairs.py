"""Tables of pairs against the decoder, and the dot product units on both sides of the bound that asks for tables."""

from typing import Any

import numpy as np
import pytest

from refemu.units.olive import mmaovp, olive_edp, ovp_decoder
from refemu.units.olive.kernels import pairs as olive_pairs_compiled
from refemu.units.olive.mmaovp import compiled as mmaovp_compiled
from refemu.units.olive.olive_edp import compiled as olive_edp_compiled

BIASES = np.arange(16)


@pytest.mark.parametrize("kind", ["int4", "flint4"])
def test_an_entry_holds_both_values_of_a_pair(kind: str) -> None:
    words = np.arange(256)
    want = ovp_decoder.UNIT.run_compiled(words, BIASES[:, None], normal=kind, outlier=(2, 1))
    entries = olive_pairs_compiled.table(kind)
    values = np.stack([(entries << 33) >> 33, entries >> 32], axis=-1)

    assert np.array_equal(values, want.base_int.astype(np.int64) << want.exponent.astype(np.int64))
    assert np.array_equal(entries >> 31 & 1, want.illegal)
    assert np.array_equal(olive_pairs_compiled.largest(kind), np.abs(values).max(axis=(1, 2)))


@pytest.mark.parametrize("bias", [0, 4, 11, 15])
def test_element_of_8_bits_depends_on_identifier(bias: int) -> None:
    words = np.arange(1 << 16).astype(np.uint16)
    want = ovp_decoder.UNIT.run_compiled(words, bias, normal="int8", outlier=(4, 3))
    row = olive_pairs_compiled.table("int8")[bias]
    left, right = words & 255, words >> 8
    found = np.stack([row[left + 256 * (right == 128)], row[right + 256 * (left == 128)]], axis=-1)

    assert np.array_equal(found >> 1, want.base_int.astype(np.int64) << want.exponent.astype(np.int64))
    assert np.array_equal((found & 1).any(axis=-1), want.illegal)
    assert olive_pairs_compiled.largest("int8")[bias] == np.abs(found >> 1).max()


def operands(kind: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random words, a third of them with an identifier."""
    rng, width = np.random.default_rng(seed), 8 if kind == "int8" else 4
    codes = rng.integers(0, 1 << width, (*shape, 2))
    codes[rng.random(codes.shape) < 1 / 6] = 1 << (width - 1)
    return (codes[..., 0] | codes[..., 1] << width).astype(np.uint16 if width == 8 else np.uint8)


@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
@pytest.mark.parametrize(
    ("kind", "biases", "by_table"),
    [
        ("int4", (0, 16), True),
        ("flint4", (0, 16), True),
        ("int8", (0, 11), True),
        ("int8", (10, 11), True),
        ("int8", (11, 12), False),
        ("int8", (0, 16), False),
    ],
)
def test_units_on_both_sides_of_the_bound(kind: str, biases: Any, by_table: bool, overflow: str) -> None:
    """[olive §4.1]: operations with biases of their own, the largest of the range among them."""
    rng, n = np.random.default_rng(7), 8 if kind == "int8" else 16
    bias = [rng.integers(biases[0], biases[1], 40) for _ in range(2)]
    bias[0][3] = bias[1][5] = biases[1] - 1
    a, b = (operands(kind, (40, n // 2), seed) for seed in (1, 2))
    c = rng.integers(-(1 << 31), 1 << 31, 40)

    assert olive_pairs_compiled.fits(kind, bias[0], kind, bias[1], n) == by_table
    assert olive_edp_compiled.run(a, b, bias[0], bias[1], c, a=kind, b=kind, overflow=overflow).equals(
        olive_edp.run(a, b, bias[0], bias[1], c, a=kind, b=kind, overflow=overflow)
    )

    name = {"int4": "ovpi4", "flint4": "ovpf4", "int8": "ovpi8"}[kind]
    a, b = (operands(kind, (2, 8 * n), seed) for seed in (3, 4))
    b[1] = np.where(b[1] == 0, 1, 0)  # few illegal pairs
    tile = rng.integers(-(1 << 31), 1 << 31, (2, 64))
    two = bias[0][3:5], bias[1][4:6]
    assert mmaovp_compiled.run(a, b, two[0], two[1], tile, a_type=name, b_type=name, overflow=overflow).equals(
        mmaovp.run(a, b, two[0], two[1], tile, a_type=name, b_type=name, overflow=overflow)
    )


def test_no_operation_and_one() -> None:
    for count in (0, 1):
        a, b = (operands("int4", (count, 8), seed) for seed in (5, 6))
        assert olive_edp_compiled.run(a, b, 2, 2, 0).operations == count
        a, b = (operands("int4", (count, 128), seed) for seed in (5, 6))
        assert mmaovp_compiled.run(a, b, 2, 2, np.zeros((count, 64), np.int64)).operations == 128 * count
