"""The nearest centroid in every arithmetic, against argmin over fractions and literal fp16 steps."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith import fp16
from refemu.formats import Codebook, KllmArith
from refemu.formats.kllm.kmeans_nearest import nearest, nearest_normalized, normalized
from refemu.units.kllm.clustering.cases import TRAINED
from tests.formats.kllm.kmeans_strategies import ariths, codebooks, described, halves, positives, words
from tests.oracles.kllm import formats

BOOK = Codebook(4, TRAINED)
UNIT_WORDS = np.concatenate([np.arange(0xBC00, 0x7FFF, -1), np.arange(0x3C01)])  # -1 to 1, both zeros


def index(x: Any, scale: int, book: Codebook, arith: Any) -> list[int]:
    one = halves([scale]).astype(np.float32)
    return nearest(halves(x).astype(np.float32), one, book, KllmArith.preset(arith)).tolist()


def test_seven_values_differ_between_the_presets() -> None:
    """D-kllm-8: of all fp16 values in [-1, 1]; 0x15C1 gives 8 in `exact` and 7 in `paper`."""
    exact, paper = (np.array(index(UNIT_WORDS, 0x3C00, BOOK, preset)) for preset in ("exact", "paper"))

    assert np.count_nonzero(exact[1:] != paper[1:]) == 7
    assert (index([0x15C1], 0x3C00, BOOK, "exact"), index([0x15C1], 0x3C00, BOOK, "paper")) == ([8], [7])


@pytest.mark.parametrize("arith", ["paper", "exact", KllmArith(distance="midpoint16")], ids=str)
def test_every_29th_value_is_clustered_as_oracle_says(arith: Any) -> None:
    """[kllm §IV-A], D-kllm-8, and around 0, where a codebook without 0 has its narrowest gap."""
    chosen = np.unique(np.concatenate([UNIT_WORDS[::29], np.arange(0x1500, 0x1640, 3)]))

    assert index(chosen, 0x3C00, BOOK, arith) == [
        formats.nearest(int(word), 0x3C00, list(TRAINED), **described(arith)) for word in chosen
    ]


@settings(deadline=None, max_examples=300)
@given(st.lists(words, min_size=1, max_size=8), positives, codebooks, ariths)
@example([0, 0x8000, 0x3800], 0x3C00, Codebook(2, [0xBC00, 0xBC00, 0x3C00, 0x3C00]), "paper")
@example([0x7BFF, 0x8001], 1, Codebook(1, [0xBC00, 0x3C00]), "paper")  # x^ overflows
@example([0x0001, 0x0000], 1, Codebook(1, [0, 0x3C00]), KllmArith(normalize="reciprocal"))  # so does 1 / s
def test_any_value_is_clustered_as_the_oracle_says(x: list[int], scale: int, book: Codebook, arith: Any) -> None:
    """D-kllm-7, D-kllm-8: the lower of two equally near; of equal centroids the first; also of an infinite x^."""
    assert index(x, scale, book, arith) == [
        formats.nearest(word, scale, book.values.tolist(), **described(arith)) for word in x
    ]


@settings(deadline=None, max_examples=150)
@given(st.lists(words, min_size=1, max_size=8), positives, words, codebooks, st.sampled_from(["low", "high"]))
@example([0x3C00], 0x3C00, 0x3C00, Codebook(1, [0xBC00, 0x3C00]), "low")
def test_a_zero_point_is_taken_off_the_centroids(x: list[int], scale: int, zero: int, book: Codebook, tie: str) -> None:
    """D-kllm-10: the least |x - s * (c - z)|, exactly."""
    one, shift = (halves([word]).astype(np.float32) for word in (scale, zero))
    arith = KllmArith(normalize="none", distance="real", tie=tie)

    assert nearest(halves(x).astype(np.float32), one, book, arith, shift).tolist() == [
        formats.nearest(word, scale, book.values.tolist(), **described(arith), zero=zero) for word in x
    ]


@pytest.mark.parametrize(("tie", "found"), [("low", [0, 0, 2]), ("high", [0, 2, 2])])
@pytest.mark.parametrize(
    "how", [{}, {"distance": "real"}, {"distance": "midpoint16"}, {"normalize": "none", "distance": "real"}], ids=str
)
def test_a_value_midway_goes_to_the_lower_centroid(how: dict[str, str], tie: str, found: list[int]) -> None:
    """D-kllm-7: to the first of the equal ones on that side, in every arithmetic."""
    book = Codebook(2, [-1.0, -1.0, 1.0, 1.0])

    assert index([0x9800, 0, 0x1800], 0x3C00, book, KllmArith(tie=tie, **how)) == found


@settings(deadline=None, max_examples=200)
@given(words, positives, words, st.sampled_from(["divide", "reciprocal"]))
def test_normalizing_rounds_the_exact_quotient_once(x: int, scale: int, offset: int, how: str) -> None:
    """D-kllm-8, D-kllm-10: also after the exact difference of a zero point."""
    arith = KllmArith(normalize=how)
    value, one, shift = (halves([word]).astype(np.float32) for word in (x, scale, offset))
    if how == "divide":
        plain = fp16.bits(fp16.to_f16(normalized(value, one, arith)))[0]
        assert plain == formats.normalized(x, scale)
    if how == "divide" or formats.fp16.div(0x3C00, scale) != 0x7C00:
        shifted = fp16.bits(fp16.to_f16(normalized(value, one, arith, shift)))[0]
        assert formats.positive_zero(int(shifted)) == formats.positive_zero(formats.normalized(x, scale, how, offset))


def test_indices_of_normalized_values_do_not_fall() -> None:
    """Along ascending x^ in the exact arithmetic; rounded distances may fall back, as they do for a far value."""
    x = halves(UNIT_WORDS).astype(np.float32)
    assert (np.diff(nearest_normalized(x, BOOK, KllmArith(distance="real")).astype(int)) >= 0).all()

    near = Codebook(1, [0x37FF, 0x3800])  # 1 - c rounds to 0.5 for both
    assert nearest_normalized(np.float32([0.5, 1]), near, KllmArith()).tolist() == [1, 0]
