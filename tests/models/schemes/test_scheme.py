"""The protocol that every scheme keeps."""

import dataclasses
import sys
from typing import Any, get_args

import pytest

from refemu import models
from refemu.models import schemes
from refemu.models.schemes.scheme import GROUPS, Half, Prepared, Scope, silent

PARTS = [name for name in vars(Prepared) if not name.startswith("_")]


@pytest.mark.parametrize("name", schemes.SCHEMES)
def test_configurations_are_frozen_and_name_their_source(name: str) -> None:
    config: Any = schemes.SCHEMES[name]
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.anything = 1

    assert config.paper
    assert hash(config) == hash(dataclasses.replace(config))
    assert eval(repr(config), vars(sys.modules[type(config).__module__])) == config


@pytest.mark.parametrize("name", schemes.SCHEMES)
def test_prepared_schemes_compute_every_part(name: str) -> None:
    config: Any = schemes.SCHEMES[name]
    if hasattr(config, "step"):
        config = dataclasses.replace(config, low=90, high=130, step=10)
    prepared = models.prepare("tiny", config, calibration=list(range(32)))

    assert len(PARTS) == 12
    assert all(callable(getattr(prepared, part)) for part in PARTS)
    assert (prepared.name, prepared.sha256) == ("tiny", models.load("tiny").sha256)
    assert (prepared.model, prepared.config) == (models.load("tiny").config, config)


@pytest.mark.parametrize("name", schemes.SCHEMES)
def test_halves_and_their_parameters_exist(name: str) -> None:
    config = schemes.SCHEMES[name]
    fields = set(schemes.parameters(config))

    assert config.halves and set(config.halves) <= set(get_args(Half))
    assert set(config.only) <= set(get_args(Scope))
    assert all(names <= fields for names in config.only.values())
    assert len(config.halves) == 2 or config.other_half


def test_groups_hold_every_linear_layer_of_a_block() -> None:
    shapes = models.load("tiny").config.shapes
    linears = {name.rpartition(".")[2] for name, shape in shapes.items() if name.startswith("blk") and len(shape) == 2}

    assert sorted(linears) == sorted(name for group in GROUPS for name in group)


def test_silent_progress_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    silent("weights", 1, 2)

    assert capsys.readouterr() == ("", "")
