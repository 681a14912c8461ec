"""Scores to integers: every mode against the oracle, rows of zeros, ties, errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units.kllm import score_quantizer
from refemu.units.kllm.score_quantizer import ScoreQuantizer
from refemu.units.kllm.score_quantizer import compiled as score_quantizer_compiled
from tests.oracles.kllm import functions

IMPLEMENTATIONS = [
    pytest.param(score_quantizer.quantize, id="unit"),
    pytest.param(score_quantizer_compiled.quantize, id="compiled"),
]
ONE = 0x3C00
SCORES = st.lists(
    st.one_of(st.sampled_from([0, 1, 0x3FF, 0x400, ONE, 0x3800]), st.integers(0, ONE)), min_size=1, max_size=24
)
SCALE = st.one_of(st.sampled_from([1, 0x400, ONE, 0x7BFF]), st.integers(1, 0x7BFF))


def values(words: Any) -> np.ndarray:
    return np.array(words, np.uint16).view(np.float16)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_worked_example(run: Any) -> None:
    """D-kllm-15: scores 1/2, 1/4, 1/8, 0 in 4 bits: 15, 7.5 to even, 3.75, 0; the scale is r16(0.5 / 15)."""
    result = run(np.array([0.5, 0.25, 0.125, 0], np.float16), np.ones(4, np.float16))

    assert result.q.tolist() == [15, 8, 4, 0] and result.q.dtype == np.uint8
    assert result.scale == np.float16(np.float32(0.5) / np.float32(15)) and result.scale.dtype == np.float16
    assert result.divides == 5


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("preset", ["paper", "exact"])
@settings(deadline=None, max_examples=80)
@given(p=SCORES, data=st.data(), bits=st.integers(1, 8))
@example(p=[0x0001, 0x0002], data=None, bits=4)
def test_folded_scores_are_the_oracles(run: Any, preset: str, p: list[int], data: Any, bits: int) -> None:
    """D-kllm-14: V's scale of every token enters its score before the row's maximum is taken."""
    scales = [1] * len(p) if data is None else data.draw(st.lists(SCALE, min_size=len(p), max_size=len(p)))
    q, scale = functions.quantize_scores(p, scales, bits, "fold", preset)
    result = run(values(p), values(scales), bits=bits, preset=preset)

    assert result.q.tolist() == q
    assert float(result.scale) == scale
    assert result.scale.dtype == (np.float16 if preset == "paper" else np.float32)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("mode", ["max", "fixed"])
@pytest.mark.parametrize("preset", ["paper", "exact"])
@settings(deadline=None, max_examples=40)
@given(p=SCORES, bits=st.integers(1, 8))
def test_other_modes_are_the_oracles(run: Any, mode: str, preset: str, p: list[int], bits: int) -> None:
    """D-kllm-14: without the fold one scale of V joins the product later."""
    q, scale = functions.quantize_scores(p, (), bits, mode, preset)
    result = run(values(p), bits=bits, mode=mode, preset=preset)

    assert (result.q.tolist(), float(result.scale)) == (q, scale)


@settings(deadline=None, max_examples=60)
@given(p=SCORES, bits=st.integers(1, 8))
def test_the_largest_score_is_the_largest_integer(p: list[int], bits: int) -> None:
    """[kllm §III-A] integers fill their range: 0 to M, and M is used unless all scores are 0."""
    q = score_quantizer_compiled.quantize(values(p), np.ones(len(p), np.float16), bits=bits).q

    assert q.max() == ((1 << bits) - 1 if any(p) else 0)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_rows_of_zeros(run: Any, preset: str) -> None:
    """D-kllm-15: scale 1 and no division; a scale that r16 takes to 0 stays 0."""
    zeros = run(np.zeros((2, 3), np.float16), np.ones(3, np.float16), preset=preset)
    tiny = run(values([1, 0]), np.ones(2, np.float16), bits=8, preset=preset)

    assert not zeros.q.any() and zeros.scale.tolist() == [1, 1] and zeros.divides == 0
    assert tiny.q.tolist() == [255, 0] and (tiny.scale == 0) == (preset == "paper")


def test_batches_are_rows() -> None:
    """Leading axes are rows; V's scales broadcast over queries."""
    p = ((np.arange(60) * 17 % 31) / np.float32(32)).astype(np.float16).reshape(4, 3, 5)
    scales = np.linspace(0.5, 2, 5).astype(np.float16)
    batch, compiled_run = score_quantizer.quantize(p, scales), score_quantizer_compiled.quantize(p, scales)
    rows = [score_quantizer.quantize(row, scales) for row in p.reshape(12, 5)]

    assert batch.equals(compiled_run) and batch.scale.shape == (4, 3)
    assert np.array_equal(batch.q.reshape(12, 5), np.stack([row.q for row in rows]))
    assert batch.divides == sum(row.divides for row in rows)


def test_a_preset_may_be_given_field_by_field() -> None:
    p, scales = values([0x3800, 0x3555]), values([0x3C01, 0x3C03])
    wide = score_quantizer.quantize(p, scales, preset=KllmArith.preset("exact"))

    assert wide.equals(score_quantizer_compiled.quantize(p, scales, preset="exact")) and wide.scale.dtype == np.float32


def test_events_of_a_row() -> None:
    device = ScoreQuantizer(2)
    states = list(device.steps([0x3800, 0x3400], [ONE, ONE]))

    assert [state.event for state in states] == ["fold", "max", "quantize"]
    assert (states[0].folded, states[1].top, states[2].q) == ((0x3800, 0x3400), 0x3800, (15, 8))
    assert [state.event for state in ScoreQuantizer(2, mode="max").steps([0x3800, 0x3400])] == ["max", "quantize"]
    with pytest.raises(Refused, match="step needs the inputs of an operation, got none"):
        device.step()


HALF = np.full(2, 0.5, np.float16)
BAD_CALLS = [
    pytest.param(-HALF, HALF, {}, Refused, r"p must be finite and at least 0, got -0.5 at index \(0,\)", id="negative"),
    pytest.param(values([0, 0x7C00]), HALF, {}, Refused, r"at least 0, got inf at index \(1,\)", id="inf"),
    pytest.param(values([0, 0x7E00]), HALF, {}, Refused, r"at least 0, got nan at index \(1,\)", id="nan"),
    pytest.param(HALF, values([ONE, 0]), {}, Refused, r"v_scale must be finite and above 0, got 0.0 at", id="scale 0"),
    pytest.param(HALF, -HALF, {}, Refused, "v_scale must be finite and above 0, got -0.5", id="scale negative"),
    pytest.param(HALF, values([0x7C00] * 2), {}, Refused, "v_scale must be finite .*, got inf", id="scale inf"),
    pytest.param(HALF, HALF, {"bits": 0}, Refused, r"bits must be in \[1, 8\], got 0", id="bits 0"),
    pytest.param(HALF, HALF, {"bits": 9}, Refused, r"bits must be in \[1, 8\], got 9", id="bits 9"),
    pytest.param(HALF, HALF, {"mode": "max"}, Refused, r'mode "max" needs one scale .*, got \(2,\)', id="max"),
    pytest.param(HALF, HALF, {"mode": "fixed"}, Refused, 'mode "fixed" needs one scale', id="fixed"),
    pytest.param(HALF, HALF, {"mode": "none"}, Refused, "mode must be one of 'fold', 'max', 'fixed'", id="mode"),
    pytest.param(2 * HALF + HALF, None, {"mode": "fixed"}, Refused, r"p must be in \[0, 1\], got 1.5", id="above 1"),
    pytest.param(
        values([0x4000, ONE]),
        values([0x7BFF, ONE]),
        {},
        Refused,
        r"below 65520, got infinity at index",
        id="overflow",
    ),
    pytest.param(HALF[:0], HALF[:0], {}, Refused, "p must have at least one score a row", id="empty"),
    pytest.param(
        HALF,
        np.ones(3, np.float16),
        {},
        Refused,
        r"p and v_scale must broadcast, got p \(2,\) and v_scale \(3,\)",
        id="shapes",
    ),
    pytest.param(HALF.astype(np.float32), HALF, {}, RefusedType, "p must be float16 .*, got float32", id="dtype"),
    pytest.param(HALF, None, {}, RefusedType, "v_scale must be float16", id="no scale"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("p", "v_scale", "options", "error", "message"), BAD_CALLS)
def test_score_quantizer_rejects_invalid_inputs(
    run: Any, p: Any, v_scale: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(p, v_scale, **options)


@pytest.mark.parametrize("run", [score_quantizer.run, score_quantizer_compiled.run], ids=["unit", "compiled"])
def test_product_beyond_fp16_error_names_row_and_lane(run: Any) -> None:
    with pytest.raises(Refused, match=r"p \* v_scale must be below 65520, got infinity at index \(1, 0\)"):
        run([[ONE, ONE], [0x4000, ONE]], [0x7BFF, ONE], t=2)
    with pytest.raises(RefusedType, match="score_quantizer: inputs must be p, got p, v_scale"):
        run([ONE, ONE], [ONE, ONE], t=2, mode="max")


def test_minus_zero_is_a_score() -> None:
    p, scales = values([0x8000, ONE]), values([ONE, ONE])
    result = score_quantizer.quantize(p, scales)

    assert result.q.tolist() == [0, 15] and result.equals(score_quantizer_compiled.quantize(p, scales))


def test_score_quantizer_repr_evaluates_back() -> None:
    device = ScoreQuantizer(3, bits=8, mode="max", preset="exact")

    assert repr(device) == "ScoreQuantizer(t=3, bits=8, mode='max', preset='exact')"
    assert repr(eval(repr(device))) == repr(device)
