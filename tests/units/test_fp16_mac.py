"""The fp16 MAC against fractions, in one and in two roundings."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith import dot
from refemu.arith.checks import Refused, RefusedType
from refemu.units import fp16_mac
from refemu.units.fp16_mac import Fp16Mac
from tests.oracles import fp16 as oracle

IMPLEMENTATIONS = [pytest.param(fp16_mac.run, id="unit"), pytest.param(fp16_mac.UNIT.run_jit, id="twin")]
FINITE = st.integers(0, 0x7BFF).flatmap(lambda u: st.sampled_from([u, u | 0x8000]))


def expected(a: int, b: int, acc: int, rounding: str) -> int:
    x, y, s = (oracle.to_float(u) for u in (a, b, acc))
    if rounding == "fp16_fma":
        return oracle.from_float(oracle.to_float(oracle.fma(a, b, acc)))
    return oracle.from_float(s + oracle.to_float(oracle.from_float(x * y)))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("rounding", ["fp16", "fp16_fma"])
@settings(deadline=None, max_examples=100)
@given(a=FINITE, b=FINITE, acc=FINITE)
@example(a=0x39C0, b=0xC3FE, acc=0x07FE)  # float32 alone would round the fused form wrongly
def test_steps_equal_the_oracle(run: Any, rounding: str, a: int, b: int, acc: int) -> None:
    """D-kllm-3."""
    result = run(a, b, acc, rounding=rounding)
    assert int(result.y) == expected(a, b, acc, rounding)
    assert bool(result.overflow) == (int(result.y) & 0x7C00 == 0x7C00) and result.macs == 1


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_one_and_two_roundings_differ(run: Any) -> None:
    """D-kllm-3: (1 + 2^-10)^2 - (1 + 2^-9) is 2^-20; the rounded product leaves nothing."""
    twice, once = (int(run(0x3C01, 0x3C01, 0xBC02, rounding=name).y) for name in ("fp16", "fp16_fma"))

    assert (twice, once) == (0x0000, 0x0010)


@pytest.mark.parametrize("rounding", ["fp16", "fp16_fma"])
def test_a_sequence_of_steps_is_the_sequential_sum(rounding: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 3, (2, 50)).astype(np.float16)
    mac, y = Fp16Mac(rounding), 0
    for x, w in zip(a.view(np.uint16).tolist(), b.view(np.uint16).tolist(), strict=True):
        y = mac.step(x, w, y).y

    assert np.uint16(y).view(np.float16) == dot.dot(a, b, order=dot.Sequential(), acc=rounding)
    assert mac.state.macs == 50


def test_refuses_another_rounding_and_other_ports() -> None:
    with pytest.raises(Refused, match="fp16_mac: rounding must be one of 'fp16', 'fp16_fma', got 'fp32'"):
        Fp16Mac("fp32")
    with pytest.raises(RefusedType, match="integers are needed, got dtype float16"):
        fp16_mac.run(np.float16(1), 0, 0)


def test_repr_evaluates_back() -> None:
    assert repr(Fp16Mac()) == "Fp16Mac(rounding='fp16')"
