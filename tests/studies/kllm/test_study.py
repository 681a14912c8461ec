"""The ladder of perplexities: its rungs, one calibration for several, what is refused."""

from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.schemes.kllm import calibrate as kllm_calibrate
from refemu.studies import perplexity
from refemu.studies.kllm import study

IDS = list(b"Sir Walter Elliot, of Kellynch Hall, in Somersetshire")


def test_rungs_are_those_of_the_tables() -> None:
    """[kllm Tables II, IV]; a share that is the default is the scheme itself."""
    assert study.rungs() == [
        "fp16",
        "kllm-a4:quantizer=rtn",
        "kllm-a4-s",
        "kllm-a4",
        "kllm-a3-s",
        "kllm-a3",
        "kllm-a4:outlier_percent=0.5",
        "kllm-a4:outlier_percent=2",
        "kllm-a4:outlier_percent=5",
        "kllm-a4:outlier_percent=10",
    ]


def test_a_rung_is_the_perplexity_of_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["fp16", "kllm-a4:quantizer=rtn", "kllm-a4", "kllm-a4-s", "kllm-a3"]
    runs: list[Any] = []
    calibrate = kllm_calibrate.calibrate

    def counted(model: Any, configs: Any, *rest: Any) -> Any:
        runs.append(len(configs))
        return calibrate(model, configs, *rest)

    monkeypatch.setattr(kllm_calibrate, "calibrate", counted)
    found = list(study.study(models.load("tiny"), IDS, 32, names, calibration_tokens=64))
    monkeypatch.undo()

    assert runs == [2]  # kllm-a4 and its static twin share one calibration
    assert [(rung.scheme, rung.quantizer, rung.bits, rung.outliers) for rung in found] == [
        ("fp16", "fp16", "W16A16", ""),
        ("kllm-a4:quantizer=rtn", "integers", "W4A4", ""),
        ("kllm-a4", "K-Means", "W4A4", "1 dynamic"),
        ("kllm-a4-s", "K-Means", "W4A4", "1 static"),
        ("kllm-a3", "K-Means", "W4A3", "1 dynamic"),
    ]
    alone = models.prepare("tiny", schemes.parse("kllm-a3:calibration_tokens=64"))
    assert found[-1].perplexity == perplexity.perplexity(alone, IDS, win=32).perplexity


def test_encoders_are_refused() -> None:
    with pytest.raises(Refused, match="study kllm: tiny-encoder is an encoder"):
        list(study.study(models.load("tiny-encoder"), IDS))
