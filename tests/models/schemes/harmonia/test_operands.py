"""Operands of the PE: fed with them, it gives the products of the formats, in all three modes."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import fp16
from refemu.formats.groupint import GroupInt
from refemu.formats.harmonia.bfp import Bfp, BfpTensor
from refemu.formats.harmonia.bfp_dot import bfp_dot, bfp_dot_int
from refemu.models.schemes.harmonia.operands import along, codes, left, operand, signed, stacked, weight
from refemu.units.harmonia import bfp_pe

LENGTH = 70  #: three groups, the last one of six values


def encoded(seed: int, mantissa_bits: int = 8, rows: int = 3) -> BfpTensor:
    x = np.random.default_rng(seed).standard_normal((rows, LENGTH)) * 8
    return Bfp(mantissa_bits, 32).encode(fp16.to_f16(x))


def product(a: BfpTensor, row: int, mode: np.ndarray, ports: dict[str, np.ndarray]) -> float:
    """The accumulator of a PE after the last group."""
    clear = np.eye(1, len(mode), dtype=np.uint8)[0]
    words = bfp_pe.run(mode, **left(along(a, row)), **ports, clear=clear).acc
    return float(np.asarray(words, np.uint32).view(np.float32)[-1])


def test_row_of_codes_times_output_of_weights() -> None:
    """Mode M8W4, negative weights included; a last group is filled up with zeros."""
    a = encoded(1)
    weights = GroupInt(4, 128).encode(np.random.default_rng(2).standard_normal((4, LENGTH)).astype(np.float32))
    wanted = bfp_dot_int(a, weights)

    assert (weights.code < 0).any()
    assert [[product(a, row, *weight(weights, output)) for output in range(4)] for row in range(3)] == wanted.tolist()


@pytest.mark.parametrize("high", [8, 4])
def test_row_of_codes_times_keys_of_either_width(high: int) -> None:
    """Modes M8M8 and M8M4 group by group: 4-bit mantissas stored in 8 bits are shifted down."""
    a, keys = encoded(1), encoded(3, high, 2)
    bits = np.array([high, 4, high])
    kept = np.where(np.repeat(bits, 32)[:LENGTH] == high, keys.mantissa, keys.mantissa >> (high - 4) << (high - 4))
    lower = BfpTensor(keys.format, keys.sign, kept.astype(np.uint16), keys.exponent, 1)
    mode, ports = codes(along(lower, 1), bits, high)

    assert mode.tolist() == ([2, 1, 2] if high == 8 else [1, 1, 1])
    assert product(a, 2, mode, ports) == bfp_dot(a, lower)[2, 1]


def test_operands_are_filled_up_with_zeros() -> None:
    a = encoded(4)
    one = along(a, 1)

    assert one.sign.shape == one.mantissa.shape == (3, 32) and one.exponent.tolist() == a.exponent[1].tolist()
    assert one.mantissa.ravel().tolist() == [*a.mantissa[1].tolist(), *[0] * 26]
    again = operand(a.sign[1], a.mantissa[1], a.exponent[1])
    assert all(np.array_equal(one_part, part) for one_part, part in zip(one, again, strict=True))


def test_stacked_groups_fill_the_array_in_order() -> None:
    parts: list[Any] = [left(along(encoded(5), row)) for row in range(3)]
    ports = stacked(parts, slice(1, 3), 4)

    assert {name: port.shape for name, port in ports.items()} == {
        "a_sign": (4, 2, 32),
        "a_mag": (4, 2, 32),
        "a_exp": (4, 2),
    }
    for name, port in ports.items():
        assert all(np.array_equal(port[row], parts[row][name][1:3]) for row in range(3)) and not port[3].any()


def test_signed_mantissas() -> None:
    assert signed(np.array([0, 1, 1]), np.array([5, 7, 0])).tolist() == [5, -7, 0]
