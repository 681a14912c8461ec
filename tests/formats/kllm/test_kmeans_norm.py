"""Sums over weights and delayed divisions against fractions."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats.kllm.kmeans import Codebook, KMeans, TopK
from refemu.formats.kllm.kmeans_norm import folded_bias, quotient16, quotient32, rounder, row_sums
from tests.oracles import fp16
from tests.oracles.kllm import formats, functions

CODEBOOK = Codebook(3, np.array([-1, -0.7, -0.3, -0.1, 0.15, 0.4, 0.75, 1], np.float16))


@settings(deadline=None, max_examples=200)
@given(a=st.integers(0, 0x7BFF), b=st.floats(1e-30, 1e30))
def test_quotients_are_rounded_once(a: int, b: float) -> None:
    """Also for divisors of 53 bits, where float64 and then float32 would be two roundings."""
    value = fp16.to_float(a)
    expected = fp16.f32_from_fraction(Fraction(value) / Fraction(b))

    assert quotient32(np.array([value]), np.array(b)).tolist() == [expected]
    assert quotient32(np.array([value]), np.array(float(np.float32(b)))).tolist() == [
        fp16.f32_from_fraction(Fraction(value) / Fraction(float(np.float32(b))))
    ]


def test_quotients_next_to_midpoints_of_float32() -> None:
    """Where float64 lands on a midpoint and would round to even, the exact quotient is on one side."""
    middles = [1 + (2 * k + 1) * 2.0**-24 for k in range(200)]
    divisors = np.array([1 / middle for middle in middles])
    expected = [fp16.f32_from_fraction(1 / Fraction(b)) for b in divisors.tolist()]

    assert quotient32(np.ones(1), divisors).tolist() == expected
    assert (1 / divisors).astype(np.float32).tolist() != expected  # two roundings would miss some


WIDE = st.floats(min_value=1e-300, max_value=1e300)


@settings(deadline=None, max_examples=300)
@given(a=WIDE, b=WIDE)
@example(a=1.0, b=1 / (1 + 2**-24))
@example(a=1e-300, b=3e-300)
@example(a=3e-40, b=1.7)
def test_quotients_of_any_two_numbers_are_rounded_once(a: float, b: float) -> None:
    """Numerator and divisor of 53 bits, of any size; the quotient may be subnormal, or leave float32."""
    expected = fp16.f32_from_fraction(Fraction(a) / Fraction(b))

    assert quotient32(np.array([a, -a]), np.array(b)).tolist() == [expected, -expected]


@settings(deadline=None)
@given(a=st.integers(1, 0x7BFF).map(fp16.to_float), b=st.floats(2**-20, 2**15))
@example(a=1.0, b=1 / (1 + 2**-24))  # a quotient that float64 rounds onto a midpoint of float32
@example(a=1.0, b=1 / (1 + 3 * 2**-24))
def test_delayed_division_rounds_twice_from_the_exact_quotient(a: float, b: float) -> None:
    """r16(r32(a / b)): also where the divisor is a float64."""
    wanted = fp16.to_float(fp16.from_float(fp16.f32_from_fraction(Fraction(a) / Fraction(b))))

    assert float(quotient16(a, b)) == wanted
    assert quotient16(np.array([[a]]), np.array([b, b])).tolist() == [[wanted, wanted]]


def test_nan_quotient_has_canonical_pattern() -> None:
    """Infinite mean over infinite deviation, as sums in fp16 may leave them."""
    assert int(quotient16(np.inf, np.inf).view(np.uint16)) == 0x7E00
    assert quotient16(np.array([1, np.inf]), np.array([np.inf, 2.5])).tolist() == [0, np.inf]


@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_row_sums_are_the_oracles(preset: str) -> None:
    """[kllm §III-C2], D-kllm-39: R_n sums the quantized weights exactly, rounded once."""
    w = ((np.arange(90) * 53 % 97 - 48) / np.float32(64)).astype(np.float16).reshape(30, 3)
    tensor = KMeans(CODEBOOK).encode(w, axis=0)
    columns = [
        formats.Vector(CODEBOOK.values.tolist(), tensor.index[:, n].tolist(), int(tensor.scale[n]), [0] * 30, [])
        for n in range(3)
    ]

    assert row_sums(tensor, preset).tolist() == [
        functions.row_sum(c, "exact" if preset == "exact" else "fp32") for c in columns
    ]
    assert row_sums(tensor, preset).dtype == (np.float64 if preset == "exact" else np.float16)


@pytest.mark.parametrize("biased", [False, True])
def test_folded_bias_is_the_oracles(biased: bool) -> None:
    """D-kllm-39: b_n from beta and the weights before quantization, one rounding."""
    beta = np.linspace(-3, 3, 20).astype(np.float16)
    w = ((np.arange(80) * 53 % 97 - 48) / np.float32(64)).astype(np.float16).reshape(20, 4)
    bias = np.array([0.1, -5, 0, 1000], np.float16) if biased else None
    words: Any = [int(b) for b in (bias if bias is not None else np.zeros(4, np.float16)).view(np.uint16)]
    expected = [
        functions.folded_bias(beta.view(np.uint16).tolist(), w[:, n].view(np.uint16).tolist(), words[n])
        for n in range(4)
    ]

    assert folded_bias(beta, w, bias).view(np.uint16).tolist() == expected


def test_roundings() -> None:
    """D-kllm-20: fp32, fp16, or none."""
    assert [rounder(stat)(1 + 2**-30) for stat in ("fp32", "fp16", "exact")] == [1, 1, 1 + 2**-30]
    assert rounder("fp16")(np.array([70000.0])).tolist() == [np.inf]


def test_kmeans_norm_rejects_invalid_inputs() -> None:
    with pytest.raises(Refused, match="weights of a norm must have no outliers, got 2"):
        row_sums(KMeans(CODEBOOK, TopK(k=1)).encode(np.linspace(-1, 1, 9).astype(np.float16)))
    with pytest.raises(RefusedType, match=r"beta \(K,\) and weights \(K, N\) are needed"):
        folded_bias(np.zeros(3, np.float16), np.zeros((4, 2), np.float16))
    with pytest.raises(RefusedType, match="a must be a KMeansTensor"):
        row_sums(np.zeros(3))  # type: ignore[arg-type]
