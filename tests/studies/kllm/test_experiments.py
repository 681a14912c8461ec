"""Experiments of `refemu study kllm`: scores, saved calibrations, centroids, comparisons of Orizuru."""

from pathlib import Path
from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.backend import Jit
from refemu.models.schemes.kllm import calibrate
from refemu.models.schemes.scheme import silent
from refemu.models.scores import perplexity
from refemu.studies import steps
from refemu.studies.evaluation import Setting, score
from refemu.studies.kllm import experiments
from refemu.studies.results import ResultStore
from refemu.studies.steps import Bench

NAMES = ("fp16", "kllm-a4:quantizer=rtn", "kllm-a4", "kllm-a4-s", "kllm-a3")


def setting(tokens: int = 24) -> Setting:
    return Setting(models.load("tiny"), tuple(i * 5 % 251 for i in range(tokens)), 12)


def bench(folder: Path) -> Bench:
    return Bench(models.load("tiny"), Jit(), ResultStore("kllm", folder))


def test_scores_are_perplexities_with_one_calibration_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    learn = calibrate.calibrate

    def counted(model: Any, configs: Any, *rest: Any) -> Any:
        runs.append(len(configs))
        return learn(model, configs, *rest)

    monkeypatch.setattr(calibrate, "calibrate", counted)
    results = steps.run(experiments.steps(setting(), (), NAMES, 32), bench(tmp_path)).results
    monkeypatch.undo()

    assert runs == [2]  # kllm-a4 and its static form share one
    for name in ("fp16", *(f"{name}{',' if ':' in name else ':'}calibration_tokens=32" for name in NAMES[1:])):
        alone = perplexity.perplexity(models.prepare("tiny", name), setting().ids, 12)
        assert score(setting(), results, name).losses == alone.windows


def test_encoders_are_rejected() -> None:
    with pytest.raises(Refused, match="study kllm: tiny-encoder is an encoder"):
        experiments.steps(Setting(models.load("tiny-encoder"), (), 12), experiments.PARTS)


def test_a_calibration_is_found_again_and_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = experiments.with_tokens("kllm-a3", 32)
    source = experiments.Calibrations([config, experiments.with_tokens("kllm-a4", 32)])
    first = source.of(bench(tmp_path), config, silent)
    assert first is not None and len(list(tmp_path.glob("*.npz"))) == 2
    monkeypatch.setattr(calibrate, "calibrate", lambda *words: pytest.fail("calibrated again"))
    again = source.of(bench(tmp_path), config, silent)

    assert again is not None and again.to_bytes() == first.to_bytes()
    assert source.of(bench(tmp_path), schemes.parse("fp16"), silent) is None


def test_damaged_calibration_is_computed_again(tmp_path: Path) -> None:
    config: Any = experiments.with_tokens("kllm-a3", 32)
    source = experiments.Calibrations([config])
    first = source.of(bench(tmp_path), config, silent)
    (file,) = tmp_path.glob("*.npz")
    file.write_bytes(file.read_bytes()[:100])
    again = source.of(bench(tmp_path), config, silent)

    assert first is not None and again is not None and again.to_bytes() == first.to_bytes() == file.read_bytes()


def test_centroids_without_outliers_and_distances(tmp_path: Path) -> None:
    place = Setting(models.load("tiny"), tuple(i * 7 % 251 for i in range(256)), 64)
    pairs = steps.run(experiments.steps(place, ("centroids",)), bench(tmp_path)).results["centroids"]

    assert len(pairs) == 2  # of 128 tokens
    for online, offline in pairs:
        assert {name: len(values) for name, values in online.items()} == {"all": 16, "inliers": 16, "thresholds": 128}
        assert max(online["inliers"]) < max(online["all"]) and online != offline
    assert experiments.distance([0.0, 3.0], [4.0, 3.0]) == pytest.approx(8**0.5)
    assert experiments.steps(setting(), ("centroids",)) == []  # too short


def test_orizuru_counts_are_the_formula_less_two(tmp_path: Path) -> None:
    """[kllm §IV-C]"""
    rows = steps.run(experiments.steps(setting(), ("orizuru",)), bench(tmp_path)).results["orizuru"]

    assert [row["inputs"] for row in rows] == [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
    for row in rows:
        levels = row["inputs"].bit_length() - 1
        assert row["comparisons"] == 3 * row["inputs"] // 2 - 2 + 2 * row["k"] * levels


def test_parts_name_the_tables_of_the_paper() -> None:
    listed = experiments.steps(setting(), ("ladder", "shares", "breakdown"))
    found = dict.fromkeys(str(step.depends["scheme"]) for step in listed)

    assert len(found) == 12 and len(listed) == 24  # shares and breakdown have two schemes of the ladder
