"""Means, standard errors and paired changes, compared with numbers calculated by hand."""

import math

import pytest

from refemu.arith.checks import Refused
from refemu.models.scores.uncertainty import change, spread


def test_standard_error_by_hand() -> None:
    """1, 2, 4, 5: mean 3, squares 4 + 1 + 1 + 4 = 10, variance 10 / 3, error sqrt(10 / 12)."""
    found = spread([1.0, 5.0, 2.0, 4.0])

    assert (found.mean, found.least, found.most, found.count) == (3, 1, 5, 4)
    assert found.error == pytest.approx(math.sqrt(10 / 12), rel=1e-15)


def test_two_values_have_error_of_half_their_distance() -> None:
    assert spread([0.25, 0.75]).error == 0.25


def test_one_value_has_no_error() -> None:
    """A spread of 0 would claim a certainty that nothing shows."""
    assert spread([7.0]).error is None
    assert change("fp16", [1.0], [0.5]).error is None
    assert change("fp16", [1.0], [0.5]).significant is None


def test_changes_are_paired_by_window() -> None:
    """Equal differences ln 2 have no error, however different the windows are."""
    others = [1.0, 3.0, 2.0, 8.0]
    found = change("fp16", [other + math.log(2) for other in others], others)

    assert found.scheme == "fp16"
    assert (found.percent, found.least, found.most) == pytest.approx((100, 100, 100), rel=1e-12)
    assert found.error == pytest.approx(0, abs=1e-9)


def test_a_change_by_hand() -> None:
    """Differences 0.5, 0, 0, 0.5: mean 0.25, squares 4 / 16, variance 1 / 12, error sqrt(1 / 48) of the logarithm."""
    found = change("fp16", [2.5, 3.0, 1.0, 4.5], [2.0, 3.0, 1.0, 4.0])

    assert found.percent == pytest.approx(100 * (math.exp(0.25) - 1), rel=1e-12)
    assert found.error == pytest.approx(100 * math.exp(0.25) * math.sqrt(1 / 48), rel=1e-12)
    assert (found.least, found.most) == pytest.approx((0, 100 * (math.exp(0.5) - 1)), rel=1e-12)


@pytest.mark.parametrize(("step", "significant"), [(0.183, False), (0.185, True), (-0.185, True), (-0.183, False)])
def test_significant_change_exceeds_students_t(step: float, significant: bool) -> None:
    """Four differences: their error is 0.001 sqrt(4 * 0.01 / 3 / 4) = 0.0000577, times t = 3.182 is 0.0001837."""
    losses = [(step + off) / 1000 for off in (-0.1, 0.1, -0.1, 0.1)]

    assert change("fp16", losses, [0.0] * 4).significant is significant


def test_empty_and_different_windows_are_rejected() -> None:
    with pytest.raises(Refused, match="must have at least one value, got none"):
        spread([])
    with pytest.raises(Refused, match="both schemes must have the same windows, got 1 and 2"):
        change("fp16", [1.0], [1.0, 2.0])
