"""Models and schemes of plug-ins: run by name, written back as text, rejected if they are not."""

from pathlib import Path

import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.cli import main
from refemu.models import plugin_models, schemes
from refemu.models.schemes.kind import kind_of
from tests.plugin_distribution import installed, write

SOURCE = """
import dataclasses
from refemu import models


def small():
    return dataclasses.replace(models.load("tiny"), name="small")


@dataclasses.dataclass(frozen=True)
class Halved(models.Scheme):
    paper = "acme 2"
    times: int = 1


def prepare(config, model, backend, calibration, progress):
    return models.prepare(model, "fp16")


SCHEME = models.SchemeKind(config=Halved, prepare=prepare, ready={"halved": Halved()})
"""


def test_models_and_schemes_of_a_distribution_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = {"models small": "acme_models:small", "schemes halved": "acme_models:SCHEME"}
    write(tmp_path, "acme-models", points, {"acme_models.py": SOURCE})
    with installed(tmp_path):
        assert models.load("small").name == "small" == models.load("acme-models/small").name
        assert schemes.text(schemes.parse("halved:times=3")) == "halved:times=3"
        run = models.run("small", [1, 2, 3], scheme="halved")
        assert run.logits.tobytes() == models.run("tiny", [1, 2, 3], scheme="fp16").logits.tobytes()
        assert main(["list", "models"]) == 0 and "acme-models 1.2" in capsys.readouterr().out
        assert main(["list", "schemes"]) == 0 and "halved" in capsys.readouterr().out
        assert main(["ppl", "--model", "small", "--scheme", "halved", "--tokens", "8"]) == 0
    with pytest.raises(Refused, match="unknown scheme 'halved'"):
        schemes.parse("halved")


def test_by_call() -> None:
    try:
        models.register("mine", lambda: models.load("tiny"))
        assert models.load("mine").name == "tiny"
        models.register("mine", lambda: 3)  # type: ignore[arg-type, return-value]
        with pytest.raises(RefusedType, match="model mine: its function must make a Model, got int"):
            models.load("mine")
    finally:
        plugin_models.REGISTRY.forget("mine")
    with pytest.raises(Refused, match="model tiny: refemu has a model of this name"):
        models.register("tiny", lambda: models.load("tiny"))
    with pytest.raises(RefusedType, match="a function that makes a Model is needed, got str"):
        models.register("mine", "tiny")  # type: ignore[arg-type]
    with pytest.raises(RefusedType, match="or a SchemeKind with ready configurations, got 'fp16'"):
        schemes.register("fp16")  # type: ignore[arg-type]
    with pytest.raises(RefusedType, match="or a SchemeKind with ready configurations, got SchemeKind"):
        schemes.register(kind_of(schemes.parse("fp16+fp16")))
