"""Tensors have the codes and values of exact fractions, block by block, whatever their shape."""

from fractions import Fraction

import numpy as np
import oracle
import pytest
from refemu_mx.elements import ELEMENTS
from refemu_mx.tensors import MxFormat, Nvfp4Format

from refemu.arith import Refused, RefusedType

RNG = np.random.default_rng(7)  # of values; what they are matters to no answer
X = (RNG.standard_normal((3, 80)) * np.exp2(RNG.integers(-6, 6, (3, 1)))).astype(np.float32)


def padded(row: np.ndarray, length: int) -> list[list[int]]:
    """float32 patterns of a row in blocks, the last one filled up with zeros."""
    words = [*row.view(np.uint32).tolist(), *[0] * (-row.size % length)]
    return [words[start : start + length] for start in range(0, len(words), length)]


@pytest.mark.parametrize("element", ELEMENTS)
def test_mx_values_are_those_of_fractions(element: str) -> None:
    tensor = MxFormat(element, "even").encode(X)  # type: ignore[arg-type]
    for number, row in enumerate(X):
        want: list[Fraction] = []
        for block in padded(row, 32):
            scale, codes, _ = oracle.encode(element, "even", [oracle.of_float32(word) for word in block])
            want += [Fraction(oracle.value(element, code)) * Fraction(2) ** (scale - 127) for code in codes]
        assert [Fraction(float(each)) for each in tensor.decode()[number]] == want[:80]


@pytest.mark.parametrize("share", ["tensor", "row"])
def test_nvfp4_values_are_those_of_fractions(share: str) -> None:
    tensor = Nvfp4Format(share).encode(X)  # type: ignore[arg-type]
    tops = np.abs(X).max(axis=-1) if share == "row" else np.full(3, np.abs(X).max())
    for number, row in enumerate(X):
        factor = oracle.to_float32(Fraction(2688) / Fraction(float(tops[number])))
        want = []
        for block in padded(row, 16):
            scale, codes, _ = oracle.nvfp4("reciprocal", factor, block)
            for code in codes:
                exact = Fraction(oracle.value("e2m1", code)) * Fraction(oracle.value("e4m3", scale))
                size = oracle.to_float32(abs(exact) / Fraction(oracle.of_float32(factor)[0]))
                want.append(size | (code >> 3) << 31)
        assert tensor.decode()[number].view(np.uint32).tolist() == want[:80]


def test_a_row_has_the_bits_that_it_has_alone_where_it_has_a_factor_of_its_own() -> None:
    whole = Nvfp4Format("row").encode(X).decode()

    assert all(np.array_equal(Nvfp4Format("row").encode(X[n : n + 1]).decode()[0], whole[n]) for n in range(3))
    assert not np.array_equal(
        Nvfp4Format("tensor").encode(X[1:2]).decode()[0], Nvfp4Format("tensor").encode(X).decode()[1]
    )


def test_zeros_and_values_that_are_not_finite() -> None:
    x = np.zeros((2, 16), np.float32)
    x[1, 3] = np.inf

    assert not Nvfp4Format("row").encode(x).decode()[0].any()
    assert np.isnan(Nvfp4Format("row").encode(x).decode()[1]).all()
    assert np.isnan(MxFormat("e4m3").encode(x).decode()[1]).all()
    tiny = np.full((1, 16), 1e-44, np.float32)
    assert np.isfinite(Nvfp4Format("row").encode(tiny).decode()).all()


def test_tensors_reject_invalid_inputs() -> None:
    with pytest.raises(RefusedType, match="a float32 array of at least one axis is needed, got float64 of 1 axes"):
        MxFormat("e2m1").encode(np.zeros(32))
    with pytest.raises(Refused, match=r"must not be empty, got shape \(2, 0\)"):
        Nvfp4Format().encode(np.zeros((2, 0), np.float32))
    with pytest.raises(Refused, match="element must be one of"):
        MxFormat("e9m9").encode(X)  # type: ignore[arg-type]
