"""fp16 and float32 arithmetic against Berkeley TestFloat 3e, level 1, and SoftFloat's answers.

NaN is compared as "is NaN": which payload survives differs between processors. Exception flags are not modelled.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from refemu.arith import fp16, fp32, integers, rounding

FILE = "testfloat/testfloat_f16_level1"
ROWS = {"f16_add": 46464, "f16_mulAdd": 200000, "f16_mulAdd_hard": 2675, "f16_sqrt": 408, "f32_to_f16": 600}


def floats(words: np.ndarray, bits: int) -> np.ndarray:
    """Words, held in any unsigned dtype, as floats of that many bits."""
    word, value = {16: (np.uint16, np.float16), 32: (np.uint32, np.float32), 64: (np.uint64, np.float64)}[bits]
    return words.astype(word).view(value)


def disagreements(want: np.ndarray, got: np.ndarray) -> list[int]:
    """Rows in which the words differ, or one side alone is NaN. `got` is float32 for fp16, if it holds fp16 values."""
    assert want.shape == got.shape
    if want.dtype == np.float16 and got.dtype == np.float32:
        assert fp16.is_fp16(got).all()
    wide = want.astype(got.dtype)  # exact
    word = f"u{got.itemsize}"
    both_nan = np.isnan(wide) & np.isnan(got)
    return np.flatnonzero((wide.view(word) != got.view(word)) & ~both_nan).tolist()


def test_the_tables_are_whole(reference: Any) -> None:
    """Zero cases compared would be a failure that nobody sees."""
    table = reference(FILE)
    assert {name: len(table[name]) for name in ROWS} == ROWS


OPERATIONS: Mapping[str, Callable[..., np.ndarray]] = {
    "f16_add": fp16.add16,
    "f16_sub": fp16.sub16,
    "f16_mul": fp16.mul16,
    "f16_div": fp16.div16,
    "f16_sqrt": fp16.sqrt16,
    "f16_mulAdd": fp16.fma16,
    "f16_mulAdd_hard": fp16.fma16,
}


@pytest.mark.parametrize("function", OPERATIONS)
def test_fp16_operations(reference: Any, function: str) -> None:
    """Every row of the table; the hard rows are all those in which a float32 fused multiply-add is wrong."""
    *operands, want, _ = (floats(column, 16) for column in reference(FILE)[function].T)
    assert disagreements(want, OPERATIONS[function](*operands)) == []


def test_a_float32_expression_would_fail_every_hard_row(reference: Any) -> None:
    """D-arith-3: the rows distinguish a fused multiply-add from one rounded through float32."""
    a, b, c, want, _ = (floats(column, 16).astype(np.float32) for column in reference(FILE)["f16_mulAdd_hard"].T)
    with np.errstate(over="ignore"):
        wrong = fp16.round16(a * b + c)

    assert disagreements(want.astype(np.float16), wrong) == list(range(ROWS["f16_mulAdd_hard"]))


@pytest.mark.parametrize(("function", "source"), [("f32_to_f16", 32), ("f64_to_f16", 64)])
def test_conversions_to_fp16(reference: Any, function: str, source: int) -> None:
    """One rounding, whatever the width: f64 never goes by way of f32."""
    given, want, _ = reference(FILE)[function].T
    x, answer = floats(given, source), floats(want, 16)
    rounded = fp16.round16(x) if source == 32 else fp16.round16_of_f64(x)

    assert disagreements(answer, rounded) == []
    assert disagreements(answer, fp16.to_f16(x)) == []


def test_a_conversion_by_way_of_float32_would_fail(reference: Any) -> None:
    given, want, _ = reference(FILE)["f64_to_f16"].T
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrowed = floats(given, 64).astype(np.float32)

    assert len(disagreements(floats(want, 16), fp16.round16(narrowed))) == 2


@pytest.mark.parametrize(("function", "dtype"), [("i32_to_f16", np.int32), ("ui32_to_f16", np.uint32)])
def test_integers_to_fp16(reference: Any, function: str, dtype: type) -> None:
    given, want, _ = reference(FILE)[function].T
    integers, answer = given.astype(np.uint32).view(dtype), floats(want, 16)

    assert disagreements(answer, fp16.to_f16(integers)) == []
    assert disagreements(answer, fp16.from_scaled(integers)) == []


def test_fp16_to_float32_is_exact(reference: Any) -> None:
    given, want, _ = reference(FILE)["f16_to_f32"].T
    assert disagreements(floats(want, 32), fp16.to_f32(floats(given, 16))) == []


def test_rounding_to_an_integer(reference: Any) -> None:
    """The only mode of the table, half to even, on the float64 form of the fp16 values."""
    given, want, _ = reference(FILE)["f16_roundToInt"].T
    x = floats(given, 16).astype(np.float64)
    finite = np.isfinite(x)
    rounded = rounding.round_float(x[finite], "half_even")

    assert disagreements(floats(want, 16)[finite], rounded) == []


def test_fp16_to_integers(reference: Any) -> None:
    """Only values that fit: for others the C conversion saturates, and refemu raises."""
    given, want, flags = reference(FILE)["f16_to_i32"].T
    x = floats(given, 16).astype(np.float64)
    valid = flags & 16 == 0
    got = integers.from_float(rounding.round_float(x[valid], "half_even"))

    assert np.isfinite(x[valid]).all()
    assert got.tolist() == want[valid].astype(np.uint32).view(np.int32).tolist()


@pytest.mark.parametrize("function", ["f16_eq", "f16_lt", "f16_le"])
def test_comparisons_by_integer_key(reference: Any, function: str) -> None:
    """D-arith-11: IEEE order, in which -0 equals +0; rows with a NaN have no order and no key."""
    a, b, want, _ = reference(FILE)[function].T
    ordered = ~np.isnan(floats(a, 16)) & ~np.isnan(floats(b, 16))
    x, y = fp16.order_key(a[ordered]), fp16.order_key(b[ordered])
    got = {"f16_eq": x == y, "f16_lt": x < y, "f16_le": x <= y}[function]

    assert (~ordered).sum() > 0
    assert np.array_equal(want[ordered] == 1, got)


@pytest.mark.parametrize("function", ["f32_add", "f32_mul", "f32_div"])
def test_float32_operations_of_this_platform(reference: Any, function: str) -> None:
    """refemu uses them as they are; this shows that the machine has them."""
    a, b, want, _ = (floats(column, 32) for column in reference(FILE)[function].T)
    with np.errstate(all="ignore"):
        got = {"f32_add": np.add, "f32_mul": np.multiply, "f32_div": np.divide}[function](a, b)

    assert disagreements(want, got) == []


def test_float64_to_float32_of_this_platform(reference: Any) -> None:
    given, want, _ = reference(FILE)["f64_to_f32"].T
    with np.errstate(all="ignore"):
        got = floats(given, 64).astype(np.float32)

    assert disagreements(floats(want, 32), got) == []


@pytest.mark.parametrize("function", ["f32_add", "f32_mul"])
def test_float32_fma_holds_sum_and_product(reference: Any, function: str) -> None:
    """fma32(a, 1, b) = a + b, and fma32(a, b, -0) = a * b with the sign of its zero."""
    a, b, want, _ = (floats(column, 32) for column in reference(FILE)[function].T)
    one, zero = np.ones_like(a), np.full_like(a, -0.0)
    got = fp32.fma32(a, one, b) if function == "f32_add" else fp32.fma32(a, b, zero)

    assert disagreements(want, got) == []
