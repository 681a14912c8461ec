"""Statistics of pairs and the value experiments: equal to loops over Python floats, worked examples, errors."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refemu import formats
from refemu.arith.checks import Refused, RefusedType
from refemu.formats.olive import abfloat, ovp_study
from tests.oracles.olive import ovp_study as oracle

WORDS = st.integers(0, (1 << 64) - 1)
MILD = st.integers(-8, 8).map(lambda n: n / 4)
FAR = st.floats(-1000, 1000, width=32)


@st.composite
def tensors(draw: st.DrawFn, rows: int = 4) -> np.ndarray:
    """(rows, columns) float32 with many small values and few large ones, so that there are outliers and ties."""
    columns = draw(st.integers(2, 9))
    values = draw(st.lists(st.one_of(*[MILD] * 7, FAR), min_size=rows * columns, max_size=rows * columns))
    return np.array(values, np.float32).reshape(rows, columns)


def spiky(rows: int = 3, columns: int = 40) -> np.ndarray:
    """Ones with an outlier-outlier pair, one outlier on either side, and one in the odd column."""
    x = np.ones((rows, columns + 1), np.float32)
    x[0, 2:4], x[0, 6], x[1, 1], x[2, columns] = [40, -40], 50, -60, 40
    return x


@given(x=tensors())
@example(x=spiky())
@example(x=np.full((4, 2), 3, np.float32))
def test_statistics_equal_a_loop(x: np.ndarray) -> None:
    """[olive Fig. 2, Tbl. 2], D-olive-43: sigma of the whole tensor, count - 1, magnitudes from 0."""
    rows = x.tolist()
    found, pairs = ovp_study.tensor_statistics(x), ovp_study.pair_statistics(x)
    sigma = oracle.sigma(rows)

    assert (found.count, found.sigma) == (x.size, sigma)
    assert [found.beyond_three, found.beyond_six] == oracle.shares(rows)
    assert found.max_sigma == (float(np.abs(x).max()) / sigma if sigma else 0)
    assert [pairs.normal_normal, pairs.outlier_normal, pairs.outlier_outlier] == oracle.pairs(rows)
    assert pairs.pairs == x.shape[0] * (x.shape[1] // 2)


@given(x=tensors(), factor=st.sampled_from([0.5, 1, 2]))
def test_pairs_beyond_another_multiple_and_along_another_axis(x: np.ndarray, factor: float) -> None:
    pairs = ovp_study.pair_statistics(x, factor, axis=0)

    if not oracle.sigma(x.tolist()):
        assert pairs.normal_normal == pairs.pairs
    elif oracle.sigma(x.tolist()) == oracle.sigma(x.T.tolist()):  # another order of summing is another sigma
        assert [pairs.normal_normal, pairs.outlier_normal, pairs.outlier_outlier] == oracle.pairs(x.T.tolist(), factor)


def test_a_worked_example() -> None:
    """[olive Tbl. 2]: of 60 pairs one has two outliers and two have one; the last odd column is left out."""
    pairs = ovp_study.pair_statistics(spiky())

    assert (pairs.normal_normal, pairs.outlier_normal, pairs.outlier_outlier) == (57, 2, 1)
    assert pairs.shares == (57 / 60, 2 / 60, 1 / 60)
    assert pairs.independent == (4 / 120) * (4 / 120)


def test_exactly_three_sigma_is_normal() -> None:
    """[olive §2.3]: outliers are > 3 sigma; here with 2 sigma, because that is exactly 4."""
    x = np.array([4, 0, 0, 0, -4, 0, 0, 0, 0], np.float32)  # mean 0, sum of squares 32, sigma 2

    assert ovp_study.tensor_statistics(x).sigma == 2
    assert ovp_study.pair_statistics(x, 2).outlier_normal == 0
    assert ovp_study.pair_statistics(x, 1.9).outlier_normal == 2


def test_centred_magnitudes_are_taken_from_the_mean() -> None:
    """D-olive-43: the paper's Eq. 1 has a mean, its text has not."""
    x = np.array([9, 9, 9, 9, 11, 11, 11, 11, 10, 10], np.float32)

    assert ovp_study.tensor_statistics(x).beyond_six == 1
    assert ovp_study.tensor_statistics(x, center=True).beyond_three == 0
    assert ovp_study.pair_statistics(x).outlier_outlier == 5
    assert ovp_study.pair_statistics(x, center=True).normal_normal == 5


@given(x=tensors(), limit=st.none() | st.floats(0.25, 100))
@example(x=spiky(), limit=None)
@example(x=np.array([[2.0, -2.0]] * 4, np.float32), limit=1.0)
def test_clip_and_victims_equal_a_loop(x: np.ndarray, limit: float | None) -> None:
    """[olive Fig. 3]; of equal magnitudes the right one stays, as in [olive Alg. 1]."""
    rows = x.tolist()
    bound = oracle.bound(rows) if limit is None else limit
    clipped, pruned = ovp_study.clip_outliers(x, limit), ovp_study.prune_victims(x, limit)

    assert clipped.dtype == pruned.dtype == np.float32
    assert clipped.tolist() == oracle.clip(rows, bound)
    assert pruned.tolist() == oracle.victims(rows, bound)
    assert ovp_study.prune_victims(x.T, bound, axis=0).T.tolist() == pruned.tolist()


@given(x=tensors(), limit=st.none() | st.floats(0.25, 100), seed=WORDS, start=st.integers(0, 1 << 40))
@example(x=spiky(), limit=None, seed=0, start=0)
def test_pruned_normals_have_the_smallest_words(x: np.ndarray, limit: float | None, seed: int, start: int) -> None:
    """D-olive-44: as many normals as outliers, of the whole tensor or of every row."""
    bound = oracle.bound(x.tolist()) if limit is None else limit
    whole = ovp_study.prune_normals(x, seed, limit, start)
    rows = ovp_study.prune_normals(x, seed, limit, start, per="row")

    assert whole.reshape(-1).tolist() == oracle.normals(x.reshape(-1).tolist(), bound, seed, start)
    assert rows.tolist() == [
        oracle.normals(row, bound, seed, start + at * x.shape[1]) for at, row in enumerate(x.tolist())
    ]


def test_many_normals_are_pruned_as_few_are() -> None:
    """D-olive-44: the candidates below a first guess are enough, and where they are not all are looked at."""
    x = np.ones(5000, np.float32)
    x[::9] = 100

    assert ovp_study.prune_normals(x, 7, 50).tolist() == oracle.normals(x.tolist(), 50, 7)


def test_the_experiments_leave_their_argument_alone() -> None:
    x = spiky()
    for found in (ovp_study.clip_outliers(x), ovp_study.prune_victims(x), ovp_study.prune_normals(x, 0)):
        assert not np.shares_memory(found, x)
        assert (found != x).any()

    assert np.array_equal(x, spiky())


def test_without_spread_there_are_not_outliers() -> None:
    """D-olive-30: sigma is 0 for a constant tensor and for one element."""
    for x in (np.zeros((2, 4), np.float32), np.full(6, -7.5, np.float16), np.array([3])):
        found = ovp_study.tensor_statistics(x)

        assert (found.sigma, found.max_sigma, found.beyond_three) == (0, 0, 0)
        assert ovp_study.threshold(x) == math.inf
        assert ovp_study.clip_outliers(x).tolist() == ovp_study.prune_victims(x).tolist() == x.tolist()


SUITORS = {
    7: ("E0M3_BIAS0", "E1M2_BIAS1", "E2M1_BIAS2", "E3M0_BIAS2"),
    16: ("E0M3_BIAS1", "E1M2_BIAS2", "E2M1_BIAS3", "E3M0_BIAS4"),
}


@pytest.mark.parametrize(("largest", "name"), [(n, name) for n, names in SUITORS.items() for name in names])
def test_biases_of_the_compared_formats(largest: int, name: str) -> None:
    """D-olive-45: the smallest bias that skips the interval of the normal values [olive §3.3]."""
    fmt = formats.find(name)

    assert isinstance(fmt, formats.AbFloat)
    assert abfloat.bias_above(fmt.man_bits, largest) == fmt.bias == oracle.bias(fmt.man_bits, largest)
    assert fmt.smallest > largest


def test_the_bias_rule_gives_the_papers_three_choices() -> None:
    """D-olive-45; [olive §3.3] states 2 and 3, and E4M3's 4 follows (D-olive-13)."""
    assert [abfloat.bias_above(*case) for case in ((1, 7), (1, 16), (3, 127), (5, 127))] == [2, 3, 4, 2]


@given(
    maxima=st.lists(st.floats(3, 400, width=32), min_size=1, max_size=8),
    largest=st.sampled_from([7, 16]),
    place=st.integers(0, 3),
)
def test_rounding_error_is_near_the_exact_one(maxima: list[float], largest: int, place: int) -> None:
    """[olive Fig. 5]: float64 steps, each within 2**-52 of the values of up to 1067 grid units that it handles."""
    name = SUITORS[largest][place]
    found = ovp_study.outlier_rounding_error(np.array(maxima), formats.find(name), largest)
    exact = float(oracle.rounding_error(maxima, name, largest))

    assert abs(found - exact) <= 1e-11  # no bits to equal: the oracle's fractions are not rounded at all


def test_rounding_errors_that_are_exact() -> None:
    """3 sigma at 7: 36 sigma are 84 grid units, and the nearest value of E2M1 is 96."""
    assert ovp_study.outlier_rounding_error([36], formats.E2M1_BIAS2, 7) == 12 * 3 / 7
    assert ovp_study.outlier_rounding_error([24, 96], formats.E3M0_BIAS4, 16) == 0


def errors(maxima: Any, largest: int) -> list[float]:
    """By format: E0M3, E1M2, E2M1, E3M0."""
    return [ovp_study.outlier_rounding_error(maxima, formats.find(name), largest) for name in SUITORS[largest]]


@pytest.mark.parametrize(("largest", "most"), [(7, 20), (7, 40), (7, 60), (16, 15), (16, 40), (16, 53)])
def test_e2m1_is_best_at_tens_of_sigma(largest: int, most: int) -> None:
    """[olive Fig. 5], D-olive-45: maxima spread evenly over 4 sigma to `most`."""
    found = errors(np.arange(4, most, 0.25), largest)

    assert found.index(min(found)) == 2


@pytest.mark.parametrize("largest", SUITORS)
def test_e3m0_is_best_beyond(largest: int) -> None:
    """[olive Fig. 5] "E2M1 gives the least error in all tests", on other data."""
    found = errors(np.arange(4, 100, 0.25), largest)

    assert found.index(min(found)) == 3


BAD_CALLS = [
    pytest.param(lambda x: ovp_study.tensor_statistics(x[:0]), Refused, "tensor_statistics: at least one", id="empty"),
    pytest.param(lambda x: ovp_study.tensor_statistics(x * np.nan), Refused, r"values\[0, 0\] is nan", id="nan"),
    pytest.param(lambda x: ovp_study.threshold(x / np.float32(0)), Refused, r"values\[0, 0\] is inf", id="infinity"),
    pytest.param(lambda x: ovp_study.threshold(x * 1e300), Refused, r"values\[0, 0\] is inf", id="beyond float32"),
    pytest.param(lambda x: ovp_study.threshold(x > 0), RefusedType, "got dtype bool", id="bool"),
    pytest.param(lambda x: ovp_study.threshold(x, 0), Refused, "threshold: sigma must be above 0, got 0", id="sigma"),
    pytest.param(lambda x: ovp_study.pair_statistics(x, math.nan), Refused, "sigma must be above 0, got nan", id="nan"),
    pytest.param(
        lambda x: ovp_study.pair_statistics(x[:, :1]), Refused, "at least two elements along axis -1", id="one element"
    ),
    pytest.param(lambda x: ovp_study.pair_statistics(x, axis=2), Refused, "axis 2 is not one of shape", id="axis"),
    pytest.param(lambda x: ovp_study.prune_victims(x[0, 0]), Refused, r"axis -1 is not one of shape \(\)", id="scalar"),
    pytest.param(lambda x: ovp_study.clip_outliers(x, 0), Refused, "limit must be above 0, got 0", id="limit"),
    pytest.param(lambda x: ovp_study.prune_normals(x, 1 << 64), Refused, "words: seed must be in", id="seed"),
    pytest.param(
        lambda x: ovp_study.prune_normals(x, 0, per="pair"), Refused, "per must be one of 'tensor', 'row'", id="per"
    ),
    pytest.param(
        lambda x: ovp_study.outlier_rounding_error([], formats.E2M1_BIAS2, 7),
        Refused,
        "at least one maximum",
        id="no maxima",
    ),
    pytest.param(
        lambda x: ovp_study.outlier_rounding_error(x, formats.E2M1_BIAS2, 0), Refused, "normal=0", id="normal"
    ),
    pytest.param(lambda x: abfloat.bias_above(1, 1 << 20), Refused, r"no bias in \[0, 15\]", id="bias"),
    pytest.param(lambda x: abfloat.bias_above(-1, 7), Refused, "must be at least 0, got -1, 7", id="man_bits"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD_CALLS)
def test_ovp_study_rejects_invalid_inputs(call: Any, error: type, message: str) -> None:
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        call(spiky().astype(np.float64))


def test_ovp_study_repr() -> None:
    assert repr(ovp_study.pair_statistics(spiky())) == (
        "PairStatistics(normal_normal=57, outlier_normal=2, outlier_outlier=1)"
    )
