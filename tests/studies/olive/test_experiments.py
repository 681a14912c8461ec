"""Experiments of `refemu study olive`: what the steps measure, and what they depend on."""

from pathlib import Path
from typing import Any

import pytest

from refemu import models
from refemu.models.backend import Jit
from refemu.models.scores import perplexity
from refemu.studies import steps
from refemu.studies.evaluation import Setting, score
from refemu.studies.olive import experiments, outliers
from refemu.studies.results import ResultStore
from refemu.studies.steps import Bench

WORDS = tuple(range(60, 84))


def run(setting: Setting, parts: tuple[str, ...], folder: Path) -> dict[str, Any]:
    bench = Bench(setting.model, Jit(), ResultStore("olive", folder))
    return steps.run(experiments.steps(setting, parts), bench).results


def test_results_are_those_of_the_study(tmp_path: Path) -> None:
    setting = Setting(models.load("tiny"), WORDS, 12)
    results = run(setting, ("weights", "inputs", "losses"), tmp_path)

    assert experiments.measured(results["weights"]) == outliers.weights(setting.model)
    assert experiments.measured(results["inputs"]) == outliers.inputs(setting.model, [WORDS])
    for name in experiments.LOST:
        alone = perplexity.perplexity(models.prepare("tiny", name), WORDS, 12)
        assert score(setting, results, name).losses == alone.windows


def test_an_encoder_is_measured_text_by_text(tmp_path: Path) -> None:
    texts = (tuple(range(4, 20)), tuple(range(8, 30)))
    model = models.load("tiny-encoder")
    setting = Setting(model, texts[0] + texts[1], 24, texts=texts)
    results = run(setting, experiments.ENCODER_PARTS, tmp_path)

    plain = [models.embedding(model, ids, "fp16").astype(float) for ids in texts]
    for name in experiments.LOST:
        vectors = [models.embedding(model, ids, name).astype(float) for ids in texts]
        distances = [1 - float(x @ y) for x, y in zip(vectors, plain, strict=True)]
        assert results[f"{name}, embeddings"] == pytest.approx(distances, abs=1e-6)
    assert results["fp16, embeddings"] == [0, 0] and min(results[f"{experiments.LOST[1]}, embeddings"]) > 0
    assert experiments.steps(setting, ("ladder",)) == []


def test_ladder_names_every_row_of_table_once() -> None:
    setting = Setting(models.load("tiny"), WORDS, 12)
    names = [step.name for step in experiments.steps(setting, ("ladder", "losses"))]

    assert len({name.partition(", window")[0] for name in names}) == len({*experiments.LADDER, *experiments.LOST})
    assert all(step.depends["scheme"] in step.name for step in experiments.steps(setting, ("ladder",)))
