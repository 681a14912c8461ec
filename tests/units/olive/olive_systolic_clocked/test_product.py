"""Whole products: clock by clock equal to the kernel, and to the operation form in values and counters."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import prng
from refemu.arith.checks import Refused
from refemu.units import find
from refemu.units.olive.olive_systolic_clocked import multiply

COUNTERS = ("cycles", "compute_cycles", "drain_cycles", "decodes", "macs", "idle", "overflows")


def pairs(label: str, lines: int, half: int, bits: int) -> np.ndarray:
    """Uniform pairs, every fourth with a victim."""
    words = prng.words(prng.stream("test_product/" + label, 0), 0, lines * half).reshape(lines, half)
    drawn = (words >> np.uint64(64 - 2 * bits)).astype(np.int64)
    return np.where(words % np.uint64(4) == 0, drawn >> bits << bits | 1 << (bits - 1), drawn)


@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
@pytest.mark.parametrize("eight", [None, "int8", "int8_repo"])
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 6, 1), (5, 9, 7), (8, 8, 2), (3, 17, 4)])
def test_clock_kernel_and_operation_agree(size: tuple[int, int, int], eight: Any, overflow: Any) -> None:
    (m, n, half), bits = size, 8 if eight else 4
    a, b = pairs("a", m, half, bits), pairs("b", n, half, bits)
    options: dict[str, Any] = {"wide": bool(eight), "rows": 4, "cols": 8, "b": "flint4", "overflow": overflow}
    options |= {"eight": eight} if eight else {}

    clocked, compiled = (multiply(a, b, (9, 11), **options, jit=jit) for jit in (False, True))

    kinds = {"a": eight, "b": eight} if eight else {"a": "int4", "b": "flint4"}
    whole = find("olive_systolic").evaluate(
        {"rows": 4, "cols": 8, "m": m, "n": n, "k": 2 * half, **kinds, "overflow": overflow},
        {
            "a_pairs": a.reshape(1, -1),
            "b_pairs": b.reshape(1, -1),
            "bias_a": np.array([9]),
            "bias_b": np.array([11]),
        },
    )
    assert clocked.equals(compiled)
    assert clocked.d.reshape(-1).tolist() == np.ravel(whole.d).tolist()
    assert clocked.overflow.reshape(-1).tolist() == np.ravel(whole.overflow).tolist()
    assert clocked.illegal == bool(np.ravel(whole.illegal)[0])
    assert {name: getattr(clocked, name) for name in COUNTERS} == {name: getattr(whole, name) for name in COUNTERS}


def test_the_papers_array_at_a_models_size() -> None:
    """[olive §4.3, Tbl. 11] 64 x 64, K of thousands: cycles of the formula, every product made once."""
    a, b = pairs("large a", 64, 1024, 4), pairs("large b", 128, 1024, 4)

    product = multiply(a, b, (2, 2))

    assert product.cycles == 2 * (2048 + 64 + 64 - 2 + 64)
    assert product.macs == 64 * 128 * 2048
    assert product.decodes == 1024 * (2 * 64 + 128)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.zeros((2, 3), np.int64), np.zeros((2, 2), np.int64), "A is"),
        (np.zeros((0, 3), np.int64), np.zeros((2, 3), np.int64), "A is"),
        (np.full((2, 3), 256), np.zeros((2, 3), np.int64), "outside"),
    ],
)
def test_olive_systolic_clocked_rejects_invalid_inputs(a: np.ndarray, b: np.ndarray, message: str) -> None:
    with pytest.raises(Refused, match=message):
        multiply(a, b, (2, 2))
