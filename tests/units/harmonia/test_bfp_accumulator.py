"""The shared accumulator against exact fractions: conversions, weight factors, sums, flags, both presets."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.harmonia import bfp_accumulator
from refemu.units.harmonia.bfp_accumulator import M8M4, M8M8, M8W4, MODES, Accumulator
from tests.oracles import fp16
from tests.oracles.harmonia import units

IMPLEMENTATIONS = [
    pytest.param(bfp_accumulator.run, id="unit"),
    pytest.param(bfp_accumulator.UNIT.run_compiled, id="compiled"),
]
PRESETS = [pytest.param("paper", "fp16", id="paper"), pytest.param("exact", "fp32", id="exact")]
Group = tuple[int, int, int, int, int, int, int]  # mode, clear, psum, low, a_exp, b_exp, w_scale


def exact(mode: int, psum: int, low: int, a_exp: int, b_exp: int) -> Fraction:
    """The value of one group, from the significance of its mantissas' bits."""
    a, b = Fraction(2) ** (max(a_exp, 1) - 22), Fraction(2) ** (max(b_exp, 1) - 14)
    return psum * a if mode == M8W4 else psum * a * b / 16 if mode == M8M4 else (16 * psum + low) * a * b / 256


def expected(groups: list[Group], preset: str, product: str) -> list[tuple[int, int]]:
    """Accumulator word and flags after every group."""
    found, terms = [], list[tuple[Fraction, float | None]]()
    for mode, clear, psum, low, a_exp, b_exp, w_scale in groups:
        terms = [] if clear else terms
        terms.append((exact(mode, psum, low, a_exp, b_exp), fp16.to_float(w_scale) if mode == M8W4 else None))
        acc, flags = units.accumulate(terms, preset, product)
        word = 0x7FC00000 if acc != acc else int(np.float32(acc).view(np.uint32))
        found.append((word, flags.fp16_overflow + 2 * flags.fp16_underflow + 4 * flags.invalid))
    return found


def columns(groups: list[Group]) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*groups, strict=True)]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_worked_example(run: Any) -> None:
    """[harmonia §IV-B] D-harmonia-11: the integers meet first, -51888; -25.3359375 is a tie, to even -25.34375."""
    result = run(
        *columns([(M8M8, 1, -3246, 48, 17, 16, 0), (M8M4, 1, -3246, 0, 17, 16, 0), (M8W4, 1, 1825, 0, 17, 0, 0x224C)])
    )

    assert result.p.tolist() == [-51888, -3246, 1825]
    assert result.acc.view(np.float32).tolist()[:2] == [-25.34375, -25.359375]
    assert int(result.acc[2]) == 0x3F338F30
    assert (result.fusions, result.fp_converts, result.scale_mults, result.fp32_adds) == (1, 3, 1, 3)
    assert (result.p.dtype, result.acc.dtype, result.flags.dtype) == (np.int32, np.uint32, np.uint8)


def test_fusing_after_two_conversions_would_be_another_number() -> None:
    """D-harmonia-11: the same nibbles, each converted by itself, differ in the last bit."""
    one, other = (fp16.to_float(fp16.from_fraction(Fraction(p, 2048))) for p in (-3246 << 4, 48))

    assert one + other == -25.3359375 != bfp_accumulator.run(M8M8, [1], -3246, 48, 17, 16, 0).acc.view(np.float32)[0]


@st.composite
def groups(draw: st.DrawFn) -> list[Group]:
    found = []
    sums = st.one_of(st.sampled_from([0, 1, -1, 122_400, -122_400, 2049, 4097]), st.integers(-122_400, 122_400))
    for _ in range(draw(st.integers(1, 5))):
        mode = draw(st.integers(0, 2))
        a_exp, b_exp = draw(st.integers(0, 31)), 0 if mode == M8W4 else draw(st.integers(0, 31))
        low = draw(sums) if mode == M8M8 else 0
        w_scale = draw(st.integers(0, 0xFFFF).filter(lambda u: u & 0x7C00 != 0x7C00)) if mode == M8W4 else 0
        found.append((mode, draw(st.sampled_from([0, 0, 0, 1])), draw(sums), low, a_exp, b_exp, w_scale))
    return found


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("preset", "partial"), PRESETS)
@pytest.mark.parametrize("product", ["fp32", "fp16"])
@settings(deadline=None, max_examples=120)
@given(given=groups())
@example(given=[(M8W4, 0, 65_280, 0, 30, 0, 0x3C00), (M8W4, 0, -65_280, 0, 30, 0, 0x3C00)])  # infinity - infinity
@example(given=[(M8W4, 0, 65_280, 0, 30, 0, 0)])  # infinity times a factor of 0
def test_equals_the_oracle(run: Any, preset: str, partial: str, product: str, given: list[Group]) -> None:
    """D-harmonia-7, D-harmonia-8, D-harmonia-10: every operation rounded once, groups in order, none fused."""
    result = run(*columns(given), partial=partial, product=product)

    assert list(zip(result.acc.tolist(), result.flags.tolist(), strict=True)) == expected(given, preset, product)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("mode", [M8W4, M8M4, M8M8], ids=MODES)
def test_ends_of_every_conversion(run: Any, mode: int) -> None:
    """D-harmonia-7: all pairs of exponents at sums of 1 and of the largest size."""
    b_exp, a_exp = np.meshgrid(np.arange(32 if mode else 1), np.arange(32))
    for psum in (1, -3, 255, 256, 122_400):
        given = [
            (mode, 1, psum, psum * (mode == M8M8), a, b, 0x3C00 * (mode == M8W4))
            for a, b in zip(a_exp.ravel().tolist(), b_exp.ravel().tolist(), strict=True)
        ]
        result = run(*columns(given))
        assert list(zip(result.acc.tolist(), result.flags.tolist(), strict=True)) == expected(given, "paper", "fp32")


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_int4_sums_overflow_from_256_without_underflow(run: Any) -> None:
    """[harmonia §IV-B] The grid of M8W4 is 2^-21 or coarser."""
    result = run(M8W4, [1, 1, 1], [255, 256, 1], 0, [30, 30, 1], 0, 0x3C00)

    assert result.flags.tolist() == [0, 1, 0]
    assert result.value.view(np.float32).tolist() == [65_280.0, float("inf"), 2.0**-21]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_presets_agree_where_only_sum_is_fp16_number(run: Any) -> None:
    given = columns([(M8M8, 1, psum, 0, 20, 20, 0) for psum in range(-2047, 2048, 7)])

    assert run(*given).acc.tolist() == run(*given, partial="fp32").acc.tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_order_of_groups_shows(run: Any) -> None:
    """D-harmonia-10: small terms survive only before the large one: 30000, and 30000 + 2^-9."""
    small, large = (M8M4, 0, 3, 0, 18, 10, 0), (M8M4, 0, 30_000, 0, 20, 20, 0)
    first, last = (run(*columns(order)).acc[-1] for order in ([large, small, small], [small, small, large]))

    assert (int(first), int(last)) == (0x46EA6000, 0x46EA6001)
    assert int(first) == expected([large, small, small], "paper", "fp32")[-1][0]
    assert int(last) == expected([small, small, large], "paper", "fp32")[-1][0]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"mode": 3}, r"bfp_accumulator: mode 3 at index \(0,\) is outside \[0, 3\)", id="mode"),
        pytest.param({"psum": 122_401}, "psum 122401", id="psum"),
        pytest.param({"low": 1}, r"low must be 0 in mode M8W4, got 1 at index \(0,\)", id="low"),
        pytest.param({"b_exp": 1}, r"b_exp must be 0 in mode M8W4, got 1 at index \(0,\)", id="b_exp"),
        pytest.param({"w_scale": 0x7C00}, "w_scale must be finite in mode M8W4, got 31744 .*", id="infinity"),
        pytest.param({"w_scale": 0xFE00}, "w_scale must be finite.*, got 65024 .*", id="nan"),
        pytest.param({"mode": 1}, "w_scale must be 0 in mode M8M4, got 15360 .*", id="w_scale"),
        pytest.param({"partial": "fp64"}, "partial must be one of 'fp16', 'fp32', got 'fp64'", id="partial"),
        pytest.param({"product": "exact"}, "product must be one of", id="product"),
    ],
)
def test_bfp_accumulator_rejects_invalid_inputs(run: Any, change: dict[str, Any], message: str) -> None:
    good = {"mode": 0, "clear": 0, "psum": [1], "low": 0, "a_exp": 1, "b_exp": 0, "w_scale": 0x3C00}
    with pytest.raises(Refused, match=message):
        run(**{name: [value] if isinstance(value, int) else value for name, value in (good | change).items()})


def test_rejected_step_leaves_state() -> None:
    device = Accumulator()
    before = device.step(M8M4, 1, 5, 0, 3, 4, 0)
    with pytest.raises(Refused, match="low must be 0 in mode M8M4, got 5"):
        device.step(M8M4, 0, 5, 5, 3, 4, 0)

    assert device.snapshot() == before


def test_bfp_accumulator_repr_evaluates_back() -> None:
    assert repr(Accumulator("fp32")) == "Accumulator(partial='fp32', product='fp32')"
