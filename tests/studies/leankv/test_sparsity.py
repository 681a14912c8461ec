"""Tokens that carry 95 % of a query's attention: counted as an oracle counts them, of the tokens that a query sees."""

from statistics import fmean
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.schemes.leankv.steps import Units
from refemu.studies.leankv import sparsity
from tests.oracles.leankv import units

IDS = list(b"It is a truth universally acknowledged, that a single man in possession of a good fortune, must want")
PROBABILITIES = Units.probabilities


def test_counts_are_the_oracles_query_by_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """[leankv §3.2]: the last eight queries of two prompts of 20 tokens; the third window is too short."""
    seen: list[np.ndarray] = []

    def recorded(*arguments: Any) -> np.ndarray:
        seen.append(PROBABILITIES(*arguments))
        return seen[-1]

    monkeypatch.setattr(sparsity, "QUERIES", 8)
    monkeypatch.setattr(Units, "probabilities", recorded)
    found = sparsity.sparsity(models.load("tiny"), IDS[:98], 40, 20)
    blocks = models.load("tiny").config.blocks
    means = [
        fmean(
            units.critical_tokens(p[head, query, g].tolist(), 0.95) / (13 + query)
            for head in range(p.shape[0])
            for query in range(8)
            for g in range(p.shape[2])
        )
        for p in seen
    ]
    expected = [(layer, means[layer::blocks]) for layer in range(blocks)]

    assert len(seen) == 2 * blocks
    assert all((np.count_nonzero(p, axis=-1) == np.arange(13, 21)[:, None]).all() for p in seen)
    assert [(row.layer, row.least, row.most) for row in found] == [(at, min(two), max(two)) for at, two in expected]
    assert [row.mean for row in found] == [fmean(two) for _, two in expected]


@pytest.mark.parametrize(("even", "tokens"), [(True, 31), (False, 1)])
def test_critical_tokens_follow_evenness_of_attention(monkeypatch: pytest.MonkeyPatch, even: bool, tokens: int) -> None:
    def made(_: Any, q: np.ndarray, k: np.ndarray, scale: Any, first: int, end: int) -> np.ndarray:
        p = np.zeros((k.shape[1], end - first, q.shape[1] // k.shape[1], len(q)), np.float32)
        p[..., : 32 if even else 1] = 1 / 32 if even else 1
        return p

    monkeypatch.setattr(sparsity, "QUERIES", 1)
    monkeypatch.setattr(Units, "probabilities", made)
    found = sparsity.sparsity(models.load("tiny"), IDS, 40, 32)

    assert {(row.least, row.mean, row.most) for row in found} == {(tokens / 32,) * 3}


def test_encoders_and_texts_without_prompt_are_rejected() -> None:
    with pytest.raises(Refused, match="study leankv: tiny-encoder is an encoder"):
        sparsity.sparsity(models.load("tiny-encoder"), IDS)
    for prefill in (0, 97):
        with pytest.raises(Refused, match=f"a prompt must have 1 to 96 tokens, got {prefill}"):
            sparsity.sparsity(models.load("tiny"), IDS[:96], 96, prefill)
