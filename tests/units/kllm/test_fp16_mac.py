"""The fp16 MAC against fractions, in one and in two roundings."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu import golden
from refemu.arith import dot
from refemu.arith.checks import Refused, RefusedType
from refemu.units.kllm import fp16_mac
from refemu.units.kllm.fp16_mac import Fp16Mac
from tests.oracles import fp16, ieee

IMPLEMENTATIONS = [pytest.param(fp16_mac.run, id="unit"), pytest.param(fp16_mac.UNIT.run_compiled, id="compiled")]
LIMIT = 65520  #: from here on half to even gives 65536, which fp16 has not
WORD = st.integers(0, 0xFFFF)
CODES = {"half_even": 0, "truncate": 1, "floor": 2, "ceil": 3, "half_away": 4}  #: RISC-V's RNE, RTZ, RDN, RUP, RMM
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


@pytest.mark.parametrize("config", ["fma", "ieee"])
def test_addend_far_below_tie_decides_in_set(config: str) -> None:
    """A core whose adder drops the bits below its window rounds the tie alone, in both directions."""
    arrays = golden.load(Path("vectors") / f"fp16_mac-{config}").arrays
    nearest = arrays["in.rm"] == 0 if config == "ieee" else np.full(len(arrays["in.a"]), True)
    a, b, acc = (arrays[f"in.{port}"].view(np.float16).astype(np.float64) for port in ("a", "b", "acc"))
    with np.errstate(invalid="ignore", divide="ignore"):
        far = nearest & (acc != 0) & (np.abs(acc) * 2.0**32 < np.abs(a * b)) & (np.abs(a * b) < LIMIT)
    decided = far & (arrays["out.y"] != arrays["st.product"])
    for sign in (0, 0x8000):
        assert (decided & (arrays["in.acc"] & 0x8000 == sign)).any()


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


def test_fp16_mac_rejects_another_rounding_and_other_ports() -> None:
    with pytest.raises(Refused, match="fp16_mac: rounding must be one of 'fp16', 'fp16_fma', got 'fp32'"):
        Fp16Mac("fp32")
    with pytest.raises(RefusedType, match="integers are needed, got dtype float16"):
        fp16_mac.run(np.float16(1), 0, 0)


def test_fp16_mac_repr_evaluates_back() -> None:
    shown = "direction='half_even', ieee_flags=False, tininess='after', inf_zero_nan='invalid'"
    assert repr(Fp16Mac()) == f"Fp16Mac(rounding='fp16', {shown})"
    device = Fp16Mac("fp16_fma", "dynamic", True, "before", "quiet")
    assert repr(eval(repr(device))) == repr(device)


def oracle(a: int, b: int, acc: int, direction: str, config: dict[str, Any]) -> tuple[int, int, int]:
    """Product, result and flags."""
    tininess = config["tininess"]
    product, _ = ieee.mul(a, b, direction, tininess)
    if config["rounding"] == "fp16":
        return product, *ieee.separate(a, b, acc, direction, tininess)
    return product, *ieee.fma(a, b, acc, direction, tininess, config["inf_zero_nan"] == "quiet")


CONFIGS: list[dict[str, Any]] = [
    {"rounding": rounding, "tininess": tininess, "inf_zero_nan": choice}
    for rounding, choice in (("fp16", "invalid"), ("fp16_fma", "invalid"), ("fp16_fma", "quiet"))
    for tininess in ("after", "before")
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(config.values()))
@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=100)
@given(a=WORD, b=WORD, acc=WORD)
@example(a=0x37FE, b=0x0801, acc=0)
@example(a=0x8001, b=0x3000, acc=0x0400)
@example(a=0x7C00, b=0, acc=0xFE55)
def test_every_direction_and_flag_equals_the_oracle(run: Any, config: dict[str, Any], a: int, b: int, acc: int) -> None:
    """D-arith-2, D-arith-22: a fixed direction, the port `rm`, and without flags the same results."""
    for direction, code in CODES.items():
        want = oracle(a, b, acc, direction, config)
        dynamic = run(a, b, acc, code, direction="dynamic", ieee_flags=True, **config)
        assert (int(dynamic.product), int(dynamic.y), int(dynamic.fflags)) == want
        assert dynamic.overflow is None and dynamic.overflows == want[2] >> 2 & 1
        fixed = run(a, b, acc, direction=direction, ieee_flags=True, **config)
        assert fixed.equals(dynamic)
        bare = run(a, b, acc, direction=direction, rounding=config["rounding"])
        lost = want[1] & 0x7C00 == 0x7C00 and all(word & 0x7C00 != 0x7C00 for word in (a, b, acc))
        assert (int(bare.product), int(bare.y), bool(bare.overflow), bare.overflows) == (*want[:2], lost, lost)
        assert bare.fflags is None


@pytest.mark.slow
@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[3]], ids=["fp16-after", "fp16_fma-before"])
@pytest.mark.parametrize("direction", CODES)
def test_every_word_with_drawn_others(config: dict[str, Any], direction: str) -> None:
    """Readable form, compiled form and oracle on 2**16 steps, every word a factor; half of the terms near 2**-14."""
    rng = np.random.default_rng(CODES[direction])
    a = np.arange(1 << 16)
    b, acc = rng.integers(0, 1 << 16, (2, a.size))
    field = np.clip(17 - (a >> 10 & 31) + rng.integers(-3, 3, a.size), 0, 30)  # product of 2**-14 or so
    tiny = rng.integers(0, 2, a.size, bool)
    b, acc = np.where(tiny, b & 0x83FF | field << 10, b), np.where(tiny, acc & 0x87FF, acc)
    parameters = {"direction": direction, "ieee_flags": True, **config}
    result = fp16_mac.UNIT.run_compiled(a, b, acc, **parameters)
    want = [oracle(*words, direction, config) for words in zip(a.tolist(), b.tolist(), acc.tolist(), strict=True)]

    assert np.stack([result.product, result.y, result.fflags], axis=1).tolist() == list(map(list, want))
    assert fp16_mac.run(a, b, acc, **parameters).equals(result)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_to_nearest_even_flags_change_no_result(run: Any) -> None:
    rng = np.random.default_rng(7)
    words = rng.integers(0, 1 << 16, (3, 5000))
    for rounding in ("fp16", "fp16_fma"):
        plain, ieee754 = run(*words, rounding=rounding), run(*words, rounding=rounding, ieee_flags=True)
        assert np.array_equal(plain.y, ieee754.y) and np.array_equal(plain.product, ieee754.product)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_codes_of_direction_are_those_of_risc_v(run: Any) -> None:
    """D-arith-22: 1 + 2**-11 and its negative, in the order RNE, RTZ, RDN, RUP, RMM; other codes are rejected."""
    up = run(0x3C00, 0x3C00, 0x1000, range(5), direction="dynamic").y - 0x3C00
    down = run(0xBC00, 0x3C00, 0x9000, range(5), direction="dynamic").y - 0xBC00

    assert (up.tolist(), down.tolist()) == ([0, 0, 0, 1, 1], [0, 0, 1, 0, 1])
    with pytest.raises(Refused, match=r"fp16_mac: rm .*5"):
        run(0, 0, 0, 5, direction="dynamic")


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_flags_are_in_the_order_of_risc_v(run: Any) -> None:
    """D-arith-23: NV, DZ, OF, UF, NX from bit 4 down; UF needs a result that is tiny and not exact."""

    def flags(a: int, b: int, acc: int) -> int:
        return int(run(a, b, acc, rounding="fp16_fma", ieee_flags=True).fflags)

    assert flags(0x7C00, 0x3C00, 0xFC00) == 0b10000  # infinity - infinity
    assert flags(0x7BFF, 0x7BFF, 0x0000) == 0b00101
    assert flags(0x0001, 0x3800, 0x0000) == 0b00011  # 2**-25
    assert flags(0x0400, 0x3800, 0x0000) == 0b00000  # 2**-15 is exact
    assert flags(0x3C00, 0x3C00, 0x1000) == 0b00001
    assert flags(0x7D00, 0x3C00, 0x3C00) == 0b10000 and flags(0x7E01, 0x3C00, 0x3C00) == 0  # signalling, quiet


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_infinity_times_zero_plus_a_quiet_nan(run: Any) -> None:
    """D-arith-25: NV as in RISC-V, or as in x86 nothing; a signalling NaN raises it in both."""
    for choice, flags in (("invalid", [16, 16, 16]), ("quiet", [0, 16, 16])):
        result = run(0x7C00, 0, [0x7E01, 0x7D00, 0x3C00], rounding="fp16_fma", ieee_flags=True, inf_zero_nan=choice)
        assert result.fflags.tolist() == flags and result.y.tolist() == [0x7E00] * 3


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_two_roundings_raise_the_flags_of_both(run: Any) -> None:
    """D-arith-26: an overflowing product that meets an infinity; an inexact product in an exact sum; infinity * 0."""
    a, b, acc = [0x7BFF, 0x3C01, 0x7C00], [0x7BFF, 0x3C01, 0x0000], [0xFC00, 0x0000, 0x7E01]
    separate, fused = (run(a, b, acc, rounding=name, ieee_flags=True) for name in ("fp16", "fp16_fma"))

    assert separate.fflags.tolist() == [0b10101, 0b00001, 0b10000] and fused.fflags.tolist() == [0, 1, 16]
    assert separate.y.tolist() == [0x7E00, 0x3C02, 0x7E00] and fused.y.tolist() == [0xFC00, 0x3C02, 0x7E00]


def test_options_without_effect_are_rejected() -> None:
    for wrong in ({"tininess": "before"}, {"inf_zero_nan": "quiet", "rounding": "fp16_fma"}):
        with pytest.raises(Refused, match="tininess and inf_zero_nan need ieee_flags=True, got ieee_flags False"):
            Fp16Mac(**wrong)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="inf_zero_nan needs rounding='fp16_fma', got 'fp16'"):
        Fp16Mac(ieee_flags=True, inf_zero_nan="quiet")
    with pytest.raises(Refused, match=r"direction must be one of 'half_even', 'truncate', .* 'dynamic', got 'half_up'"):
        Fp16Mac(direction="half_up")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="multiply_add needs a fixed direction, got 'dynamic'"):
        Fp16Mac(direction="dynamic").multiply_add(0, 0, 0)


def test_steps_take_direction_where_it_is_port() -> None:
    mac = Fp16Mac(direction="dynamic", ieee_flags=True)
    assert mac.step(0x3C00, 0x3C00, 0x1000, 3).y == 0x3C01
    assert mac.step(0x3C00, 0x3C00, 0x1000, rm=2).fflags == 1 and mac.state.macs == 2
    with pytest.raises(RefusedType, match="inputs must be a, b, acc, rm"):
        mac.step(0, 0, 0)
    with pytest.raises(RefusedType, match="inputs must be a, b, acc"):
        Fp16Mac().step(0, 0, 0, 1)


def test_a_sum_in_one_direction() -> None:
    """Sums rounded up are at least those rounded down."""
    factors = [(0x3C01, 0x3C01 + i) for i in range(40)]
    low, nearest, high = (Fp16Mac(direction=name).accumulate(factors) for name in ("floor", "half_even", "ceil"))  # type: ignore[arg-type]
    assert low < nearest < high
