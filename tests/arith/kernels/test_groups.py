"""Sums of groups of block floating point, and the accumulator of a PE, as plain loops have them."""

import numpy as np
import pytest

from refemu.arith import dot, dot_compiled, fp16
from refemu.arith.group_panels import group_panels
from refemu.arith.kernels import groups
from refemu.arith.operands import Precision
from refemu.arith.orders import Sequential


def test_running_sums() -> None:
    """From +0 at the start and where it is cleared; there is one NaN."""
    x = np.array([[1, 2, 4, 8], [np.inf, -np.inf, 1, 2]], np.float32)
    clear, out = np.array([[0, 0, 1, 0], [0, 0, 0, 1]], np.uint8), np.empty((2, 4), np.float32)
    with np.errstate(all="ignore"):
        groups.running_sums(x, clear, out)

    assert out[0].tolist() == [1, 3, 4, 12]
    assert out[1].view(np.uint32).tolist() == [0x7F800000, 0x7FC00000, 0x7FC00000, 0x40000000]


@pytest.mark.parametrize("partial16", [True, False])
@pytest.mark.parametrize("product16", [True, False])
def test_the_accumulator_of_a_pe(partial16: bool, product16: bool) -> None:
    """Group after group, with the flags of what left fp16, was lost below it, and is NaN."""
    p = np.array([[1000, 3, 70_000, 5, -70_000, 1]], np.int32)
    power = np.array([[1.0, 2.0**-26, 1.0, 0.5, 1.0, 1.0]])
    factor = np.array([[1.0, 1.0, 0.37, 0.37, 1.0, 1.0]], np.float32)
    scaled, clear = np.array([[0, 0, 1, 1, 0, 0]], bool), np.array([[0, 0, 0, 0, 0, 1]], np.uint8)
    value, acc, flags = (np.empty((1, 6), dtype) for dtype in (np.float32, np.float32, np.uint8))
    with np.errstate(all="ignore"):
        groups.accumulate_groups(p, power, factor, scaled, clear, partial16, product16, value, acc, flags)
        total, sticky, expected = np.float32(0), 0, []
        for t in range(6):
            exact = p[0, t] * power[0, t]
            part = fp16.round16_of_f64(np.float64(exact)) if partial16 else np.float32(exact)
            lost = partial16 and abs(float(part)) < 2.0**-14 and float(part) != exact
            if scaled[0, t]:
                product = np.float64(part) * np.float64(factor[0, t])
                part = fp16.round16_of_f64(product) if product16 else np.float32(product)
            if clear[0, t]:
                total, sticky = np.float32(0), 0
            total = np.float32(total + np.float32(part))
            beyond = partial16 and abs(exact) >= 65520
            sticky |= beyond | lost << 1 | int(np.isnan(total)) << 2
            expected.append((float(part), float(total), sticky))

    got = list(zip(value[0].tolist(), acc[0].tolist(), flags[0].tolist(), strict=True))
    assert np.array_equal(np.array(got), np.array(expected), equal_nan=True)
    assert flags[0].tolist() == ([0, 2, 3, 3, 7, 0] if partial16 else [0] * 6)


@pytest.mark.parametrize("depth", [0, 8])
@pytest.mark.parametrize("partial", ["fp16", "fp32"])
@pytest.mark.parametrize("rows", [1, 69])
@pytest.mark.parametrize("form", ["nibbles", "narrow"])
def test_tiles_of_groups(depth: int, partial: Precision, rows: int, form: str) -> None:
    """By sums of 16 bits and without; every unit writes its own part."""
    draw = np.random.default_rng(rows)
    a, b = draw.integers(-15, 16, (rows, 32)), draw.integers(-8, 8 + (form == "narrow"), (32, 21))
    a_exp, b_exp = draw.integers(-6, 3, (rows, 2)), draw.integers(-3, 3, (2, 21))
    scale = draw.normal(size=(2, 21)).astype(np.float16)
    right, out = group_panels(b, group=16, b_exp=b_exp, b_scale=scale), np.full((rows, 21), np.nan, np.float32)
    arrays = right.nibbles, right.narrow, right.wide, right.powers, right.scales
    powers = np.ldexp(np.float32(1), a_exp)
    units = right.scales.shape[0] * -(-rows // groups.GROUP_ROWS)
    for unit in range(units):
        groups.grouped_tiles(a.astype(np.float32), powers, *arrays, partial == "fp16", True, depth, out, unit, unit + 1)
    expected = dot.grouped_matmul(
        a,
        b,
        group=16,
        a_exp=a_exp,
        b_exp=b_exp,
        b_scale=scale,
        partial=partial,
        product="fp16",
        order=Sequential(),
        acc="fp32",
    )

    assert getattr(right, form).size and out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("exponent", [-30, -24, -1, 0, 1])
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("form", ["nibbles", "narrow"])
def test_groups_of_two_halves(exponent: int, rows: int, form: str) -> None:
    """Partial sums are rounded once: below the smallest subnormal, and up to 65,280 and twice that, beyond fp16."""
    draw = np.random.default_rng(rows)
    a, b = draw.integers(-255, 256, (rows, 192)), draw.integers(-8, 8 + (form == "narrow"), (192, 21))
    a[:, 160:], b[160:, 0] = -255, -8
    a_exp, scale = np.full((rows, 6), exponent), draw.normal(size=(6, 21)).astype(np.float16)
    with np.errstate(over="ignore"):
        options = {"b_scale": scale, "partial": "fp16", "product": "fp32", "order": Sequential(), "acc": "fp32"}
        expected = dot.grouped_matmul(a, b, group=32, a_exp=a_exp, **options)
    right = group_panels(b, group=32, b_scale=scale)
    got = dot_compiled.group_sums(a.astype(np.float32), np.ldexp(np.float32(1), a_exp), 255, right, "fp16", "fp32")

    assert getattr(right, form).size and got.tobytes() == expected.tobytes()
    assert np.isinf(expected[:, 0]).all() == (exponent == 1)
