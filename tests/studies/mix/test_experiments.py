"""Experiments of `refemu study mix`: scores and bits of the caches, window by window, saved for all papers of a mix."""

from pathlib import Path

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.backend import Jit
from refemu.models.scores import perplexity
from refemu.studies import steps
from refemu.studies.evaluation import Setting
from refemu.studies.mix import experiments
from refemu.studies.results import ResultStore
from refemu.studies.steps import Bench
from tests.models.schemes.mix.pairs import part, prepared

NAMES = ("fp16+fp16", f"{part('olive-4')}+leankv-k8v4", f"fp16+{part('kllm-a4')}", "fp16+harmonia-kv8")


def setting(tokens: int = 32, prefill: int = 12, model: str = "tiny") -> Setting:
    return Setting(models.load(model), tuple(i * 5 % 251 for i in range(tokens)), 16, prefill)


def bench(folder: Path) -> Bench:
    return Bench(models.load("tiny"), Jit(), ResultStore("mix", folder))


def test_scores_are_those_of_sessions(tmp_path: Path) -> None:
    """Bits of a value are those of the formats: a token of tiny has 2 KV heads of 16 values a side."""
    results = steps.run(experiments.steps(setting(), (), NAMES), bench(tmp_path)).results
    rows = [experiments.mixed(setting(), results, name) for name in NAMES]

    for row in rows:
        alone = perplexity.perplexity(prepared(row.score.scheme), setting().ids, 16, 12)
        assert row.score.losses == alone.windows
    fp16, paged, indexed, blocks = (row.kv_bits for row in rows)
    assert fp16 == 16
    assert paged == (16 * 8 + 16 * 4 + 2 * 2 * 16 + 32 + 32) / 32  # codes, scale and minimum of both, score, position
    assert 4 + 16 / 32 < indexed < 7  # an index, a scale for 32 values, and outliers
    assert 9 < blocks < 10  # sign, eight bits, five bits of an exponent for a group of 16 keys or of up to 32 values


def test_more_windows_measure_only_the_new_ones(tmp_path: Path) -> None:
    steps.run(experiments.steps(setting(), (), NAMES[:1]), bench(tmp_path))
    more = steps.run(experiments.steps(setting(48), (), NAMES[:1]), bench(tmp_path))
    other = steps.missing(experiments.steps(setting(48, prefill=8), (), NAMES[:1]), bench(tmp_path))

    assert (more.measured, more.found, len(other)) == (1, 2, 3)


def test_the_pairs_are_sixteen_with_every_window() -> None:
    listed = experiments.steps(setting(), experiments.PARTS)

    assert len({step.name for step in listed}) == 16 * 2 and "olive-4+leankv-k8v4" in experiments.PAIRS
    assert {step.scheme for step in listed} == set(experiments.PAIRS)
    assert experiments.steps(setting(), ()) == []


def test_encoders_and_missing_prompts_are_rejected() -> None:
    with pytest.raises(Refused, match="study mix: tiny-encoder is an encoder"):
        experiments.steps(setting(model="tiny-encoder"), experiments.PARTS)
    with pytest.raises(Refused, match="study mix: prefill must be at least 1, got 0"):
        experiments.steps(setting(prefill=0), experiments.PARTS)
