"""Roundings of the merge and the exact finish against fractions."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units.kllm.index_matmul.arithmetic import finish_exact, joint_scale, merge
from tests.oracles import fp16


@given(n=st.integers(-(2**90), 2**90), shift=st.integers(60, 104), bias=st.none() | st.integers(0, 0x7BFF))
def test_exact_finish_rounds_once(n: int, shift: int, bias: int | None) -> None:
    v, b = Fraction(n, 1 << shift), None if bias is None else fp16.to_float(bias)
    wanted = fp16.to_float(fp16.from_fraction(v + Fraction(b or 0)))

    assert finish_exact(v, b) == wanted


def test_scales_are_multiplied_after_the_sum() -> None:
    """D-kllm-33: r16(acc * r16(sA * sB)), or with the exact product."""
    a, b = np.array(1 + 2**-10), np.array(1 + 2**-10)
    values = [
        float(merge(np.array(1024.0), joint_scale(a, b, arith), np.array(0.0), arith))
        for arith in (KllmArith(), KllmArith(scale_y="exact"))
    ]

    assert float(joint_scale(a, b, KllmArith())) == 1 + 2**-9 and values == [1026.0, 1026.0]
    assert float(merge(np.array(1025.0), joint_scale(a, b, KllmArith()), np.array(-1027.0), KllmArith())) == 0
