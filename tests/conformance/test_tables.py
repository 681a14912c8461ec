"""fp16 function tables against MPFR with 160 bits: all 65,536 inputs of all eleven functions."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import fp16, tables

FILE = "testfloat/fp16_correctly_rounded_tables"
NAMES = ["exp", "exp2", "log", "tanh", "sigmoid", "silu", "gelu_erf", "gelu_tanh", "rsqrt", "recip", "sqrt"]


def test_the_reference_holds_these_functions(reference: Any) -> None:
    assert sorted(NAMES) == sorted(reference(FILE))


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_is_correctly_rounded(reference: Any, name: str) -> None:
    """The reference has rsqrt(-0) = +inf; IEEE 754's rSqrt, and refemu, have -inf (D-arith-9)."""
    want = reference(FILE)[name].copy()
    if name == "rsqrt":
        assert want[0x8000] == 0x7C00
        want[0x8000] = 0xFC00
    got = tables.table16(name)

    assert (got.dtype, got.shape) == (np.uint16, (1 << 16,))
    assert np.flatnonzero(want != got).tolist() == []


@pytest.mark.parametrize("name", ["sqrt", "recip"])
def test_a_table_and_the_operation_agree(reference: Any, name: str) -> None:
    """sqrt and 1/x exist twice: as a table and as an operation."""
    x = fp16.values(np.arange(1 << 16, dtype=np.uint16))
    got = fp16.sqrt16(x) if name == "sqrt" else fp16.div16(np.ones_like(x), x)

    assert np.array_equal(reference(FILE)[name], fp16.bits(fp16.to_f16(got)))
