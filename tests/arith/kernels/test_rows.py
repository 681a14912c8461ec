"""Norms, rotations, softmax and terms of groups, row by row, as the readable forms have them."""

import numpy as np
import pytest

from refemu.arith import dot, fp32
from refemu.arith.kernels import rows
from refemu.arith.orders import Sequential


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_norms() -> None:
    x, gain, out = values(5, 37), values(37), np.empty((5, 37), np.float32)
    rows.rmsnorm_rows(x, gain, np.float32(1e-5), False, out)

    assert out.tobytes() == fp32.rmsnorm(x, gain, 1e-5, Sequential()).tobytes()


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotations(interleaved: bool) -> None:
    x, c, s = values(3, 2, 8), values(3, 4), values(3, 4) * 2
    out = np.empty_like(x)
    rows.rotate_pairs(x, c, s, *((2, 1) if interleaved else (1, 4)), False, out)

    assert out.tobytes() == fp32.rotate(x, c, s, interleaved).tobytes()


def test_softmax() -> None:
    """Hidden keys are 0; a row with NaN or +inf is NaN all over."""
    x = values(6, 40) * 8
    x[1, 5:] = -np.inf
    x[2, 3], x[3, 7] = np.nan, np.inf
    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        rows.softmax_rows(x, out)
    expected = fp32.softmax32(x, Sequential())

    assert np.array_equal(out, expected, equal_nan=True)
    assert (out[1, 5:] == 0).all() and np.isnan(out[2:4]).all()


def test_exponentials_below_the_largest() -> None:
    x, out = values(40) * 30, np.empty(40, np.float32)
    with np.errstate(all="ignore"):
        rows.shifted_exp(x, out)

    assert out.tobytes() == fp32.exp32(x - x.max()).tobytes() and out.max() == 1


@pytest.mark.parametrize("partial", ["fp16", "fp32"])
@pytest.mark.parametrize("product", ["fp16", "fp32"])
def test_terms_of_groups(partial: str, product: str) -> None:
    """Summed in sequence they are `dot.grouped_matmul`."""
    draw = np.random.default_rng(3)
    a, b = draw.integers(-200, 200, (3, 8)), draw.integers(-8, 8, (8, 5))
    a_exp, b_exp = draw.integers(-12, 3, (3, 2)), draw.integers(-3, 3, (2, 5))
    scale = draw.normal(size=(2, 5)).astype(np.float16)
    terms = np.empty((2, 3, 5), np.float32)
    powers = [np.ldexp(1.0, exponents) for exponents in (a_exp, b_exp)]
    wide = (array.astype(np.float32) for array in (a, b))
    rows.group_terms(*wide, *powers, scale.astype(np.float32), partial == "fp16", product == "fp16", terms)
    options: dict[str, object] = {"partial": partial, "product": product, "order": Sequential(), "acc": "fp32"}
    expected = dot.grouped_matmul(a, b, group=4, a_exp=a_exp, b_exp=b_exp, b_scale=scale, **options)  # type: ignore

    assert (np.float32(0) + terms[0] + terms[1]).tobytes() == expected.tobytes()
