"""`study mix`: perplexities are those of sessions, bits those of the caches."""

from functools import cache

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.studies import perplexity, uncertainty
from refemu.studies.mix import windows
from refemu.studies.mix.windows import Row
from tests.models.schemes.mix.pairs import part, prepared

IDS = list(b"It is a truth universally acknowledged, that a single man in possession of a good fortune, must want a")
NAMES = ("fp16", "fp16+fp16", f"{part('olive-4')}+leankv-k8v4", f"fp16+{part('kllm-a4')}", "fp16+harmonia-kv8")


@cache
def rows() -> list[Row]:
    return list(windows.study(models.load("tiny"), IDS, 24, 16, NAMES))


def test_perplexity_is_that_of_sessions() -> None:
    for row in rows():
        found = perplexity.perplexity(prepared(row.scheme), IDS, win=24, prefill=16)
        assert (row.perplexity, row.losses) == (found.perplexity, found.windows)
        assert row.error == row.perplexity * (uncertainty.spread(found.windows).error or 0)
    assert [row.scheme for row in rows()] == list(NAMES)
    assert len(rows()[0].windows) == 4


def test_changes_are_against_the_first_row() -> None:
    first, same, mixed, *_ = rows()

    assert first.change is None
    assert same.change is not None and (same.change.percent, same.change.error) == (0, 0)
    assert mixed.change is not None and mixed.change.percent == pytest.approx(
        100 * (mixed.perplexity / first.perplexity - 1)
    )


def test_bits_of_a_value_are_those_of_the_formats() -> None:
    """A token of tiny has 2 KV heads of 16 values a side; 23 tokens are held at the end of a window."""
    fp16, same, paged, indexed, blocks = (row.kv_bits for row in rows())

    assert fp16 == same == 16
    assert paged == (16 * 8 + 16 * 4 + 2 * 2 * 16 + 32 + 32) / 32  # codes, scale and minimum of both, score, position
    assert 4 + 16 / 32 < indexed < 7  # an index, a scale for 32 values, outliers beside
    assert 9 < blocks < 10  # sign, eight bits, five bits of an exponent for a group of 16 keys or of up to 32 values


def test_refuses_encoders_and_no_prompt() -> None:
    with pytest.raises(Refused, match="study mix: tiny-encoder is an encoder"):
        list(windows.study(models.load("tiny-encoder"), IDS))
    with pytest.raises(Refused, match="study mix: prefill must be at least 1, got 0"):
        list(windows.study(models.load("tiny"), IDS, 24, 0))


def test_the_pairs_are_sixteen() -> None:
    assert len(set(windows.PAIRS)) == 16 and "olive-4+leankv-k8v4" in windows.PAIRS
