"""The registry of schemes: text to configuration and back, and rejected texts."""

import dataclasses
import importlib
from typing import Any

import pytest

from refemu import models, units
from refemu.arith.checks import Refused, RefusedType
from refemu.models import schemes
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.olive.config import OliveConfig, OliveStudyConfig
from refemu.models.schemes.registry import PAPERS
from refemu.models.schemes.scheme import silent

TEXTS = {
    "fp16": Fp16Config(),
    "fp16:acc=fp16_fma,residual=fp32": Fp16Config(acc="fp16_fma", residual="fp32"),
    "olive-4": OliveConfig(),
    "olive-8": OliveConfig(weight_bits=8, act_bits=8),
    "olive-4:act_bits=none": OliveConfig(act_bits=None),
    "olive-4:types=int,outliers=false": OliveConfig(types=("int",), outliers=False),
    "olive-4:low=80,eight_bit=down+blk.0.q": OliveConfig(low=80, eight_bit=("down", "blk.0.q")),
    "olive-4:skip=": OliveConfig(skip=()),
    "olive-8:preset=repo": OliveConfig(weight_bits=8, act_bits=8, preset="repo"),
    "olive-study:experiment=prune_victims,sigma=2.5": OliveStudyConfig(experiment="prune_victims", sigma=2.5),
}


@pytest.mark.parametrize(("text", "config"), TEXTS.items(), ids=list(TEXTS))
def test_text_and_configuration_stand_for_each_other(text: str, config: object) -> None:
    assert schemes.parse(text) == config
    assert schemes.parse(schemes.text(config)) == config


def test_none_is_a_tuple_without_members() -> None:
    assert schemes.parse("olive-4:skip=none,eight_bit=none") == OliveConfig(skip=())
    assert schemes.text(OliveConfig(skip=())) == "olive-4:skip=none"


@pytest.mark.parametrize("name", schemes.SCHEMES)
def test_registered_names_are_their_own_text(name: str) -> None:
    assert name == schemes.text(schemes.SCHEMES[name]) == schemes.name(schemes.SCHEMES[name])
    assert schemes.find(schemes.SCHEMES[name]) is schemes.SCHEMES[name]


@pytest.mark.parametrize("name", schemes.SCHEMES)
def test_description_holds_every_parameter(name: str) -> None:
    row = next(row for row in schemes.describe() if row["name"] == name)
    config = schemes.parse(f"{name}:{row['parameters'].replace(' ', ',')}")

    assert config == schemes.SCHEMES[name]
    assert row["paper"]
    assert set(schemes.parameters(config)) == {field.name for field in dataclasses.fields(config)}


def test_parameters_are_json_values() -> None:
    assert schemes.parameters(Fp16Config()) == {"acc": "fp32", "residual": "fp16"}
    assert schemes.parameters(OliveConfig())["types"] == ["int", "flint"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("olive", "unknown scheme 'olive'; did you mean 'olive-", id="scheme"),
        pytest.param("", "unknown scheme ''. `refemu list schemes` lists all ", id="empty"),
        pytest.param("fp16:ac=fp32", "unknown parameter 'ac' of scheme fp16; did you mean 'acc'", id="parameter"),
        pytest.param("fp16:acc", "scheme fp16: parameters are name=value, got 'acc'", id="no value"),
        pytest.param("fp16:acc=int", "fp16: acc must be one of 'fp32', .* got 'int'", id="value"),
        pytest.param("olive-4:low=250", "olive: low must be below high, got 250, 250", id="range"),
        pytest.param("olive-4:low=0", "olive: low must be an integer of at least 1, got 0", id="low"),
        pytest.param("olive-4:step=1.5", "olive: step must be an integer of at least 1, got 1.5", id="float"),
        pytest.param("olive-4:types=", "olive: types must name int, flint or both, got none", id="no type"),
        pytest.param("olive-4:types=flintt", "olive: types must be one of 'int', 'flint', got 'flintt'", id="type"),
        pytest.param("olive-4:types=none", "olive: types must name int, flint or both, got none", id="types none"),
        pytest.param("olive-4:skip=3", "olive: skip must be names of linear layers, got 3", id="layer"),
        pytest.param(
            "olive-4:act_bits=none,n_eight_bit=3",
            "olive: n_eight_bit has no effect with act_bits=none, got 3",
            id="errors of no inputs",
        ),
        pytest.param(
            "olive-4:act_bits=none,calibration=float",
            "olive: calibration has no effect with act_bits=none, got 'float'",
            id="calibration of no inputs",
        ),
        pytest.param(
            "olive-4:act_bits=none,calibration_tokens=8",
            "olive: calibration_tokens has no effect with act_bits=none, got 8",
            id="tokens of no inputs",
        ),
        pytest.param(
            "olive-8:act_bits=none,overflow=saturate",
            "olive: overflow has no effect with act_bits=none, got 'saturate'",
            id="sums of no integers",
        ),
        pytest.param(
            "olive-8:eight_bit=down",
            r"olive: eight_bit has no effect with weight_bits=8, got \('down',\)",
            id="all are wide",
        ),
        pytest.param(
            "olive-8:n_eight_bit=2", "olive: n_eight_bit has no effect with weight_bits=8, got 2", id="no more"
        ),
        pytest.param(
            "olive-8:types=flint", "olive: types must include int at weight_bits=8, got flint", id="flint at 8 bits"
        ),
        pytest.param("olive-4:weight_bits=8", "olive: act_bits must be one of 8, None, got 4", id="mixed widths"),
    ],
)
def test_invalid_texts_are_rejected(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        schemes.parse(text)


@dataclasses.dataclass(frozen=True)
class Foreign(models.Scheme):
    """A configuration of another package."""

    units: tuple[str, ...] = ("fp2half",)


def prepare_foreign(*arguments: Any) -> Any:
    """What `models.prepare` was given, in the place of a prepared model."""
    return arguments


models.SchemeKind(config=Foreign, prepare=prepare_foreign, taps=lambda config, half: config.units)


def test_configuration_from_outside_is_prepared_by_its_kind() -> None:
    arguments: Any = models.prepare("tiny", Foreign(), "numpy", [1, 2] * 8, silent)

    assert arguments[1].name == "tiny" and repr(arguments[2]) == "Numpy()"
    assert (arguments[0], *arguments[3:]) == (Foreign(), [1, 2] * 8, silent)
    assert schemes.taps(Foreign(("orizuru",))) == ("orizuru",)


def test_table_of_papers_holds_what_their_modules_make() -> None:
    ready = {paper: importlib.import_module(f"refemu.models.schemes.{paper}.config").READY for paper in PAPERS.values()}

    assert {name: paper for paper, configs in ready.items() for name in configs} == PAPERS


@pytest.mark.parametrize("name", schemes.SCHEMES)
def test_registered_configurations_name_units_that_exist(name: str) -> None:
    names = schemes.taps(schemes.SCHEMES[name])

    assert list(names) == sorted({units.find(unit).name for unit in names})
    assert bool(names) == (name not in ("fp16", "olive-study"))


class Bare:
    pass


@dataclasses.dataclass
class Unnamed:
    """A dataclass that is not a scheme."""


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (4, "scheme: must be a name or a configuration, got int"),
        (None, "scheme: must be a name or a configuration, got NoneType"),
        (Bare(), "scheme: must be a name or a configuration, got Bare"),
        (Unnamed(), "scheme: must be a name or a configuration, got Unnamed"),
        (OliveConfig, "scheme: must be a name or a configuration, got the class OliveConfig"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_unprepared_configurations_are_rejected(thing: Any, message: str) -> None:
    with pytest.raises(RefusedType, match=message):
        schemes.find(thing)
