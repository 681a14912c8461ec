"""Steps: measured once, saved at once, found again; an interrupted run resumes where it was stopped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refemu import models
from refemu.models.backend import Jit
from refemu.models.schemes import parse
from refemu.models.schemes.scheme import silent
from refemu.studies import steps
from refemu.studies.results import ResultStore
from refemu.studies.steps import Bench, Step


def bench(folder: Path) -> Bench:
    return Bench(models.load("tiny"), Jit(), ResultStore("olive", folder))


def listed(log: list[str], fails: str = "") -> list[Step]:
    def compute(name: str) -> Callable[[Bench, Any], Any]:
        def measure(bench: Bench, progress: Any) -> str:
            if name == fails:
                raise KeyboardInterrupt
            log.append(name)
            return name.upper()

        return measure

    return [Step(name, {"what": name}, 1e6, compute(name), "fp16") for name in "abc"]


def test_interrupted_run_resumes_where_it_stopped(tmp_path: Path) -> None:
    log: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        steps.run(listed(log, fails="c"), bench(tmp_path))
    run = steps.run(listed(log), bench(tmp_path))

    assert log == ["a", "b", "c"]
    assert run.results == {"a": "A", "b": "B", "c": "C"}
    assert (run.measured, run.found) == (1, 2)
    assert steps.missing(listed(log), bench(tmp_path)) == {}


def test_another_model_is_measured_again(tmp_path: Path) -> None:
    log: list[str] = []
    steps.run(listed(log), bench(tmp_path))
    other = Bench(models.load("tiny-gpt2"), Jit(), ResultStore("olive", tmp_path))

    assert len(steps.missing(listed(log), other)) == 3


def test_progress_of_the_whole_grows_to_its_end(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    steps.run(listed([]), bench(tmp_path), lambda *call: seen.append(call), "study x")

    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[0] == ("study x", 0, 1000) and seen[-1] == ("study x", 1000, 1000)
    assert 0 < seen[1][1] < 1000


def test_scheme_is_prepared_once_while_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    count: list[str] = []
    prepare = models.prepare
    monkeypatch.setattr(models, "prepare", lambda *words: count.append("") or prepare(*words))
    place = bench(tmp_path)
    for scheme in ("fp16", "fp16", "fp16:acc=fp16", "fp16"):
        place.prepared(parse(scheme), silent)

    assert len(count) == 3


def test_the_estimate_counts_a_preparation_once() -> None:
    model = models.load("tiny")
    one, two = (steps.estimate(listed([])[:count], model) for count in (1, 2))

    assert one == 1e6 + steps.weights(model) * steps.FACTORS["fp16"][1]
    assert two - one == pytest.approx(1e6)
    assert steps.factors("olive-8:outliers=false") == steps.FACTORS["olive-8"]
    assert steps.factors("olive-8+kllm-a4") == steps.FACTORS["kllm"]
    assert steps.factors("olive-8+fp16") == steps.FACTORS["olive-8"]
    assert steps.factors("leankv:align=4+4") == steps.FACTORS["leankv"]
    assert steps.factors("other") == steps.OTHER
    assert 0 < steps.seconds(1e9, model, Jit()) < 3600
