"""The code of a scheme as one object: those of refemu, and what is rejected by the name of its field."""

import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.models import schemes
from refemu.models.schemes.kind import SchemeKind, kind_of
from refemu.models.schemes.registry import PAPERS
from tests.plugin_distribution import installed, write


@dataclasses.dataclass(frozen=True)
class Whole(models.Scheme):
    """A configuration without code."""


@dataclasses.dataclass(frozen=True)
class Other(models.Scheme):
    """Another one."""


@dataclasses.dataclass
class Changing(models.Scheme):
    """Not frozen, so that no cache can find its results."""


@pytest.mark.parametrize("name", schemes.SCHEMES)
def test_registered_configurations_have_code_in_their_paper(name: str) -> None:
    config = schemes.SCHEMES[name]
    home = importlib.import_module(f"refemu.models.schemes.{PAPERS[name]}.scheme")

    assert kind_of(config) in vars(home).values() and kind_of(config).config is type(config)


def test_a_mix_has_its_own_code() -> None:
    mix = schemes.parse("olive-4+fp16")

    assert kind_of(mix).config is type(mix)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prepare": print}, "missing 1 required keyword-only argument: 'config'"),
        ({"config": Whole}, "missing 1 required keyword-only argument: 'prepare'"),
        ({"config": "Whole", "prepare": print}, "SchemeKind: config must be a frozen dataclass .* got 'Whole'"),
        ({"config": int, "prepare": print}, "SchemeKind: config must be a frozen dataclass .* got <class 'int'>"),
        ({"config": models.Scheme, "prepare": print}, "config must be a frozen dataclass that derives from refemu"),
        ({"config": Changing, "prepare": print}, "SchemeKind: config must be a frozen dataclass .*Changing'>"),
        ({"config": Whole(), "prepare": print}, r"SchemeKind: config must be a frozen dataclass .* got Whole\(\)"),
        (
            {"config": Whole, "prepare": "acme:prepare"},
            "of Whole: prepare must be a function, got 'acme:prepare'; docs",
        ),
        ({"config": Whole, "prepare": print, "taps": ()}, r"of Whole: taps must be a function or None, got \(\)"),
        ({"config": Whole, "prepare": print, "accelerator": 3}, "accelerator must be a function or None, got 3"),
        ({"config": Whole, "prepare": print, "cost": "why"}, "cost must be a function or None, got 'why'"),
        ({"config": Whole, "prepare": print, "part_cost": None}, "part_cost must be a function or a reason, got None"),
        ({"config": Whole, "prepare": print, "ready": Whole()}, "ready must be a mapping of names to configurations"),
        ({"config": Whole, "prepare": print, "ready": {"a": Other()}}, "to configurations Whole, got {'a': Other"),
        (
            {"config": type(schemes.SCHEMES["fp16"]), "prepare": print},
            "config Fp16Config has one already; derive",
        ),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], message: str) -> None:
    kind_of(schemes.SCHEMES["fp16"])
    with pytest.raises(TypeError, match=message):
        SchemeKind(**fields)


def test_a_configuration_without_code_is_rejected() -> None:
    with pytest.raises(RefusedType, match=r"scheme: Whole has no code; make a SchemeKind\(config=Whole, prepare=...\)"):
        models.prepare("tiny", Whole())


SOURCE = """
import dataclasses

from refemu import models


@dataclasses.dataclass(frozen=True)
class Acme(models.Scheme):
    times: int = 1


"""
MADE = "SCHEME = models.SchemeKind(config=Acme, prepare=print, ready={'acme': Acme()}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("SCHEME = Acme()", r"must be a SchemeKind, got Acme\(times=1\); name SCHEME = SchemeKind\(config=..., prep"),
        ("SCHEME = models.SchemeKind(config=Acme)", "does not load: TypeError: .* argument: 'prepare'"),
        (
            f"{MADE}, cost='x')",
            "SchemeKind of Acme: cost must be a function or None, got 'x'; docs/plugin-reference.md gives",
        ),
        (f"{MADE.replace('acme', 'other')})", "ready must have a configuration of that name, got other; add it"),
        (f"{MADE}, costs=print)", "unexpected keyword argument 'costs'"),
    ],
)
def test_a_broken_object_is_named_with_its_distribution(line: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, "acme-schemes", {"schemes acme": "acme_schemes:SCHEME"}, {"acme_schemes.py": SOURCE + line})
    with installed(tmp_path), pytest.raises(Refused, match=f"plug-in acme-schemes 1.2: scheme acme .*{message}"):
        schemes.parse("acme")


def test_names_and_parameters_need_no_code() -> None:
    code = """
import sys
from refemu.models import schemes
assert schemes.text(schemes.parse("olive-8@0+kllm-a4+leankv")) and schemes.describe()
print(sorted(name for name in sys.modules if name.startswith("refemu.models.schemes.") and name.endswith(".scheme")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "['refemu.models.schemes.scheme']\n"
