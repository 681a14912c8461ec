"""Phases of paged attention one by one: which pages come when, the maximum, the accumulators, the combination."""

import numpy as np
import pytest

from refemu.formats.leankv.hetero_kv import K4V2, K8V4
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv.paged_attention import phases
from refemu.units.leankv.paged_attention.arithmetic import EPSILON, PAPER, Arithmetic, Pages
from refemu.units.leankv.paged_attention.phases import Page

PAGES = Pages(UnifiedPage(64, K8V4, 384), UnifiedPage(64, K4V2, 384))  # two and four tokens
CUT = Arithmetic(partition_tokens=1)  # eight tokens


def test_pages_come_high_first_and_low_from_right() -> None:
    assert phases.chunks(PAGES, PAPER, 6, 3, 5) == [
        [Page(0, 0, 0, 2, 0), Page(0, 1, 1, 1, 2), Page(1, 0, 5, 4, 3), Page(1, 1, 4, 1, 7)]
    ]
    assert phases.chunks(PAGES, PAPER, 6, 0, 1) == [[Page(1, 0, 5, 1, 0)]]


def test_partitions_count_pages_from_their_start() -> None:
    """D-leankv-46: eight tokens are four high or two low pages; a chunk never mixes sections."""
    made = phases.chunks(PAGES, CUT, 12, 9, 12)

    assert [[page.number for page in chunk] for chunk in made] == [[0, 1, 2, 3], [0], [0, 1], [0]]
    assert [chunk[0].start for chunk in made] == [0, 8, 9, 17]
    assert [[page.cell for page in chunk] for chunk in made] == [[0, 1, 2, 3], [4], [11, 10], [9]]
    assert len(phases.chunks(PAGES, CUT, 12, 4, 4)) == 1


def test_maximum_is_of_the_tokens_that_are_seen() -> None:
    """D-leankv-43."""
    values = np.array([[1, -3, 2], [-1, -2, -5]], np.float32)

    assert phases.maximum(values, np.ones(3, np.bool_)).tolist() == [2, -1]
    assert phases.maximum(values, np.array([False, True, False])).tolist() == [-3, -2]
    assert np.isnan(phases.maximum(np.array([[np.nan, np.inf]], np.float32), np.ones(2, np.bool_)))[0]


def test_softmax_of_equal_logits() -> None:
    """D-leankv-45: division and reciprocal differ in the last place; with epsilon the sum is a little less than one."""
    values, seen = np.zeros((1, 7), np.float32), np.ones(7, np.bool_)
    by_division = phases.softmax(PAGES, PAPER, values, seen)[0]
    by_reciprocal = phases.softmax(PAGES, Arithmetic(softmax_div="recip_mul", softmax_eps=2.0**-10), values, seen)[0]

    assert by_division[0, 0] == np.float32(1) / np.float32(7)
    assert by_reciprocal[0, 0] == np.float32(1) / np.float32(7 + 2.0**-10)


def test_values_go_to_their_accumulators() -> None:
    """D-leankv-42: the -2^-26 of a product is lost where the product is rounded first."""
    page, acc = Page(0, 9, 0, 2, 0), np.zeros((1, 32, 1), np.float32)
    acc[0, 4] = -1
    values = np.array([[1 + 2.0**-13], [0]], np.float32)
    p = np.array([[1 - 2.0**-13, 1]], np.float32)
    fused, apart = (
        phases.add_values(PAGES, Arithmetic(fma=fma), page, p, values, acc)[0, :, 0] for fma in (True, False)
    )

    assert np.flatnonzero(fused).tolist() == [4] and fused[4] == np.float32(-(2.0**-26))
    assert apart[4] == 0 and acc[0, 4, 0] == -1  # the argument is not written


def test_tree_adds_halves() -> None:
    acc = np.zeros((1, 4, 1), np.float32)
    acc[0, :, 0] = [2.0**24, 1, -(2.0**24), 1]  # (0 + 2) + (1 + 3): nothing is lost; in turn the first 1 would be

    assert phases.tree(acc).tolist() == [[2]]


@pytest.mark.parametrize("fma", [True, False])
def test_combination_of_equal_chunks(fma: bool) -> None:
    """Two chunks with one maximum and one sum each: half of each output, half of each probability."""
    parts = np.array([[[1.0, 3.0]], [[3.0, 5.0]]], np.float32)
    out, weights = phases.combine(
        Arithmetic(fma=fma), parts, np.zeros((2, 1), np.float32), np.full((2, 1), 1024, np.float32)
    )

    assert out.tolist() == [[2, 4]] and weights.tolist() == [[0.5], [0.5]]


@pytest.mark.parametrize(("eps", "wide"), [(0.0, 0.0), (EPSILON, 1e-6), (2.0**-10, 2.0**-10)])
@pytest.mark.parametrize("fma", [True, False])
def test_combination_adds_the_epsilon_of_the_softmax(fma: bool, eps: float, wide: float) -> None:
    """D-leankv-45, D-leankv-46: in float32 to the total, in float64 to the sums; nothing where it is 0."""
    totals = np.array([[1], [2]], np.float32)
    _, weights = phases.combine(
        Arithmetic(fma=fma, softmax_eps=eps), np.zeros((2, 1, 4), np.float32), np.zeros((2, 1), np.float32), totals
    )
    inverse = np.float32(1) / np.float32(3 + eps)

    assert weights.tolist() == [[np.float32(total + wide) * inverse] for total in (1.0, 2.0)]


def test_weights_of_chunks() -> None:
    p, weights = np.ones((1, 21), np.float32), np.array([[1], [2], [3], [4]], np.float32)
    starts = [0, 8, 9, 17]
    own = phases.weigh(PAGES, CUT, p, starts, weights)[0].tolist()
    quirk = phases.weigh(PAGES, Arithmetic(partition_tokens=1, partition_score=True), p, starts, weights)[0].tolist()

    assert own == [1] * 8 + [2] + [3] * 8 + [4] * 4
    assert quirk == [1] * 8 + [2] * 8 + [3] * 5


def test_score_of_the_newest_token() -> None:
    """D-leankv-17."""
    score, position, p = np.ones(2, np.float32), np.array([4, 5]), np.array([[0.25, 0.5], [0.75, 0.25]], np.float32)

    assert phases.add_score(score, position, p, 5, PAPER).tolist() == [1.75, 1]
    assert phases.add_score(score, position, p, 5, Arithmetic(include_self=True)).tolist() == [1.75, 1.5]
    assert phases.add_score(score, position, p, 5, Arithmetic(gqa="mean")).tolist() == [1.5, 1]  # D-leankv-19
