"""Experiments of `refemu study mix`: the rows of the study, window by window, kept by all papers of a mix."""

from pathlib import Path

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.backend import Jit
from refemu.studies import steps
from refemu.studies.evaluation import Setting
from refemu.studies.mix import experiments, windows
from refemu.studies.results import Kept
from refemu.studies.steps import Bench
from tests.models.schemes.mix.pairs import part

NAMES = ("fp16+fp16", f"{part('olive-4')}+leankv-k8v4", "fp16+harmonia-kv8")


def setting(tokens: int = 32, prefill: int = 12, model: str = "tiny") -> Setting:
    return Setting(models.load(model), tuple(i * 5 % 251 for i in range(tokens)), 16, prefill)


def bench(folder: Path) -> Bench:
    return Bench(models.load("tiny"), Jit(), Kept("mix", folder))


def test_rows_are_those_of_the_study(tmp_path: Path) -> None:
    results = steps.run(experiments.steps(setting(), (), NAMES), bench(tmp_path)).results

    for row in windows.study(setting().model, setting().ids, 16, 12, NAMES):
        measured = experiments.mixed(setting(), results, row.scheme)
        assert (measured.score.losses, measured.score.error) == (row.losses, pytest.approx(row.error))
        assert measured.kv_bits == row.kv_bits
        assert row.change is None or measured.score.over(
            experiments.mixed(setting(), results, NAMES[0]).score
        ).percent == pytest.approx(row.change.percent)


def test_more_windows_measure_only_the_new_ones(tmp_path: Path) -> None:
    steps.run(experiments.steps(setting(), (), NAMES[:1]), bench(tmp_path))
    more = steps.run(experiments.steps(setting(48), (), NAMES[:1]), bench(tmp_path))
    other = steps.missing(experiments.steps(setting(48, prefill=8), (), NAMES[:1]), bench(tmp_path))

    assert (more.measured, more.found, len(other)) == (1, 2, 3)


def test_the_pairs_are_sixteen_with_every_window() -> None:
    listed = experiments.steps(setting(), experiments.PARTS)

    assert len({step.name for step in listed}) == 16 * 2
    assert {step.scheme for step in listed} == set(windows.PAIRS)
    assert experiments.steps(setting(), ()) == []


def test_refuses_encoders_and_no_prompt() -> None:
    with pytest.raises(Refused, match="study mix: tiny-encoder is an encoder"):
        experiments.steps(setting(model="tiny-encoder"), experiments.PARTS)
    with pytest.raises(Refused, match="study mix: prefill must be at least 1, got 0"):
        experiments.steps(setting(prefill=0), experiments.PARTS)
