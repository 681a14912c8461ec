"""Outliers are the ranks that the oracle names, and static thresholds are the ranks of calibration data."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.formats import ThresholdCalibration, Thresholds, TopK
from tests.formats.kllm.kmeans_strategies import halves, words
from tests.oracles.kllm import formats

COUNTS = {
    "0.5": [1, 1, 2, 4, 11, 13, 17, 28, 35, 36],
    "1": [1, 1, 3, 8, 21, 26, 34, 56, 70, 72],
    "2": [1, 2, 6, 16, 41, 52, 67, 111, 139, 144],
    "5": [2, 5, 15, 39, 103, 128, 167, 276, 346, 359],
    "10": [4, 10, 29, 77, 205, 256, 333, 551, 692, 717],
}
LENGTHS = [64, 192, 576, 1536, 4096, 5120, 6656, 11008, 13824, 14336]


@pytest.mark.parametrize("percent", COUNTS)
def test_counts_per_side(percent: str) -> None:
    """[kllm §V-A, Table IV]: half of the percentage on either side; D-kllm-24: rounded up, so 21 of 4096."""
    assert [TopK(percent).count(n) for n in LENGTHS] == COUNTS[percent]
    assert [TopK(float(percent)).count(n) for n in LENGTHS] == COUNTS[percent]
    assert [formats.outlier_count(n, percent) for n in LENGTHS] == COUNTS[percent]


def test_a_percentage_is_read_as_it_prints() -> None:
    """D-kllm-24: 0.1 is a tenth, not the float below it; 200 values at 0.1 % have exactly 0.1 per side."""
    assert TopK(0.1) == TopK("0.1") == TopK(Fraction(1, 10)) == TopK("1/10")
    assert TopK(0.1).count(2000) == 1 and TopK(0.1).count(2001) == 2
    assert TopK(0).count(4096) == 0 and TopK(k=7).count(15) == 7


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_mask_is_the_oracles(data: st.DataObject) -> None:
    """D-kllm-21, D-kllm-26: equal values are taken in the order of the trees, and one element may be both."""
    n = data.draw(st.integers(1, 13))
    lane = data.draw(st.sampled_from([words, st.sampled_from([0, 0x8000, 0x3C00, 0xBC00])]))
    x = data.draw(st.lists(lane, min_size=n, max_size=n))
    k = data.draw(st.integers(0, (n - 1) // 2))

    assert TopK(k=k).mask(halves(x).astype(np.float32)).tolist() == [bool(bit) for bit in formats.top_mask(x, k)]


def test_equal_values_give_first_and_right_outliers() -> None:
    """D-kllm-21: max pops 0, 1, 2; min pops 1, 0, 3; so elements 0 to 3 of eight equal ones."""
    assert TopK(k=3).mask(np.zeros(8)).tolist() == [True] * 4 + [False] * 4
    assert TopK(k=1).mask(np.zeros(8)).tolist() == [True] * 2 + [False] * 6
    assert TopK(k=1).mask(np.zeros((2, 3))).tolist() == [[True, True, False]] * 2


def test_value_at_threshold_is_not_outlier() -> None:
    """[kllm §V-A], D-kllm-30: strict on both sides; the scale is the larger magnitude, D-kllm-11: 1 for 0."""
    fmt = Thresholds(0.5, -2)

    assert fmt.mask(np.array([0.5, 0.5005, -2, -2.002, 0])).tolist() == [False, True, False, True, False]
    assert (fmt.scale, Thresholds(3, -2).scale, Thresholds(0, 0).scale, Thresholds(-1, -2).scale) == (2, 3, 1, 2)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(words, min_size=8, max_size=8), min_size=1, max_size=6),
    st.sampled_from(["1", "30", 60]),
    st.sampled_from(["mean", "pooled"]),
)
def test_thresholds_are_the_oracles_whatever_the_parts(tokens: list[list[int]], percent: Any, statistic: str) -> None:
    """D-kllm-30: an exact mean over tokens, one rounding; or a rank of all values."""
    hi, lo = formats.thresholds(tokens, percent, statistic)
    whole, parts = (ThresholdCalibration(TopK(percent), statistic) for _ in range(2))
    whole.add(halves(tokens))
    for token in reversed(tokens):
        parts.add(halves(token))

    assert whole.thresholds() == parts.thresholds() == Thresholds(*halves([hi, lo]).astype(np.float64))
    assert whole.tokens == len(tokens)


@pytest.mark.parametrize("value", [TopK("0.5"), TopK(1), TopK(k=3), Thresholds(1, -0.5)], ids=repr)
def test_kmeans_outliers_repr_evaluates_back(value: Any) -> None:
    assert eval(repr(value)) == value
    assert hash(eval(repr(value))) == hash(value)


BAD = [
    pytest.param(lambda: TopK(), ValueError, "either percent or k", id="neither"),
    pytest.param(lambda: TopK(1, 2), ValueError, "either percent or k", id="both"),
    pytest.param(lambda: TopK(100), ValueError, r"percent must be in \[0, 100\), got 100", id="100 percent"),
    pytest.param(lambda: TopK(-0.5), ValueError, r"percent must be in \[0, 100\), got -0.5", id="negative"),
    pytest.param(lambda: TopK(float("nan")), ValueError, "percent must be a number, got nan", id="nan"),
    pytest.param(lambda: TopK("one"), ValueError, "percent must be a number, got 'one'", id="text"),
    pytest.param(lambda: TopK([1]), TypeError, "percent must be a number or its text", id="list"),
    pytest.param(lambda: TopK(k=-1), ValueError, "k must be in", id="k"),
    pytest.param(
        lambda: TopK(k=2).mask(np.zeros(4)),
        ValueError,
        "2k must be below the 4 values of a vector, got k=2; use outliers=None",
        id="short vector",
    ),
    pytest.param(lambda: Thresholds(1, 2), ValueError, "hi must be at least lo, got 1.0, 2.0", id="hi < lo"),
    pytest.param(lambda: Thresholds(0.1, 0), ValueError, "hi must be a finite fp16 value, got 0.1", id="not fp16"),
    pytest.param(lambda: Thresholds(1, float("-inf")), ValueError, "lo must be a finite fp16 value", id="infinite"),
    pytest.param(lambda: Thresholds("1", 0), TypeError, "hi must be a number, got '1'", id="no number"),  # type: ignore
    pytest.param(lambda: ThresholdCalibration(TopK(k=1), "pooled"), ValueError, "pooled needs TopK", id="pooled k"),
    pytest.param(lambda: ThresholdCalibration(TopK(1), "median"), ValueError, "statistic must be one of", id="median"),
    pytest.param(lambda: ThresholdCalibration(TopK(1)).thresholds(), ValueError, "no tokens", id="no tokens"),
    pytest.param(
        lambda: ThresholdCalibration(TopK(1)).add(np.float16([1, np.inf])),
        ValueError,
        "must be finite",
        id="infinite token",
    ),
    pytest.param(
        lambda: ThresholdCalibration(TopK(k=1)).add(np.float16([1, 2])),
        ValueError,
        "2k must be below the 2",
        id="short token",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_kmeans_outliers_rejects_invalid_inputs(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
