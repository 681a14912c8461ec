"""The fp16 MAC against fractions, in one and in two roundings."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith import dot
from refemu.arith.checks import Refused, RefusedType
from refemu.units.kllm import fp16_mac
from refemu.units.kllm.fp16_mac import Fp16Mac
from tests.oracles import fp16

IMPLEMENTATIONS = [pytest.param(fp16_mac.run, id="unit"), pytest.param(fp16_mac.UNIT.run_jit, id="twin")]
LIMIT = 65520  #: from here on half to even gives 65536, which fp16 has not
FINITE = st.integers(0, 0x7BFF).flatmap(lambda u: st.sampled_from([u, u | 0x8000]))


def expected(a: int, b: int, acc: int, rounding: str) -> int:
    x, y, s = (fp16.to_float(u) for u in (a, b, acc))
    if rounding == "fp16_fma":
        return fp16.from_float(fp16.to_float(fp16.fma(a, b, acc)))
    return fp16.from_float(s + fp16.to_float(fp16.from_float(x * y)))


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


def ieee_overflow(a: int, b: int, acc: int, rounding: str) -> bool:
    """The flag OF of IEEE 754: some rounding of the step, of finite numbers, goes beyond 65504."""
    x, y, s = np.array([a, b, acc], np.uint16).view(np.float16).tolist()
    if not (math.isfinite(x) and math.isfinite(y)):
        return False
    product = Fraction(x) * Fraction(y)
    if rounding == "fp16_fma":
        return math.isfinite(s) and abs(product + Fraction(s)) >= LIMIT
    if abs(product) >= LIMIT:
        return True
    rounded = float(np.float16(float(product)))  # 22 bits: a float64 holds the product
    return math.isfinite(s) and abs(Fraction(rounded) + Fraction(s)) >= LIMIT


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("config", "apart"), [("paper", 24), ("fma", 0)])
def test_overflow_and_the_flag_of_ieee_754(run: Any, config: str, apart: int) -> None:
    """D-arith-18: they differ where a product overflows and is added to an infinity or a NaN, and nowhere else."""
    parameters = fp16_mac.UNIT.configs[config]
    blocks = [case.inputs for kind in ("paper", "edge", "random") for case in fp16_mac.UNIT.cases(parameters, kind, 0)]
    a, b, acc = (np.concatenate([block[port] for block in blocks]).astype(np.uint16) for port in ("a", "b", "acc"))
    overflow = run(a, b, acc, **parameters).overflow
    ieee = [
        ieee_overflow(*words, parameters["rounding"])
        for words in zip(a.tolist(), b.tolist(), acc.tolist(), strict=True)
    ]
    with np.errstate(all="ignore"):
        product = np.abs(a.view(np.float16).astype(np.float64) * b.view(np.float16))
    alone = np.isfinite(product) & (product >= LIMIT) & ~np.isfinite(acc.view(np.float16))

    assert np.array_equal(overflow != ieee, alone & (config == "paper"))
    assert np.count_nonzero(overflow != ieee) == apart and not overflow[alone].any()
    assert np.count_nonzero(overflow) > 150


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
