"""Fake units in place of the real ones, and their sets."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import refemu.units
from refemu import golden
from refemu.golden.campaign import plan
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.answers import Answers
from refemu.golden.make import model_cases
from refemu.units.unit import Cases
from tests.golden import fakes
from tests.golden.campaign.campaigns import MODEL, UNITS


@pytest.fixture
def fake_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """`units.find` finds the fakes only; `units.names` omits `inverter`, which is for single tests."""
    monkeypatch.setattr(refemu.units, "find", lambda name: {**fakes.UNITS, "inverter": fakes.INVERTER}[name])
    monkeypatch.setattr(refemu.units, "names", lambda: tuple(fakes.UNITS))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sets that `made` copies."""
    folder = tmp_path_factory.mktemp("sets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refemu.units, "find", lambda name: fakes.UNITS[name])
        golden.generate(folder, units=list(fakes.UNITS), kinds=["paper", "edge", "random"], hex=True, bin=True)
    return folder


@pytest.fixture
def made(fake_units: None, made_once: Path, tmp_path: Path) -> Path:
    """A folder with the sets blender-wrap, blender-saturate and meter-w4, with all exports."""
    return Path(shutil.copytree(made_once, tmp_path / "sets"))


RUN = model_cases.Source("toy", "0" * 64, "scheme:a=1", {"a": 1}, "1" * 64, 0, 2, (7, 9))


def taps() -> dict[tuple[str, str], list[Cases]]:
    """Taps of a fictitious model run: two blocks for blender, one for meter that cannot lead a set."""
    first = Cases(
        "model", "block 0", {"first": np.array([0, 9]), "second": np.array([0, -2])}, source={"layer": 0}, config="wrap"
    )
    second = Cases(
        "model", "block 1", {"first": np.array([3]), "second": np.array([4])}, source={"layer": 1}, config="wrap"
    )
    third = Cases("model", "zeros", {"add": np.zeros((2, 4), int), "clear": np.zeros((2, 4), int)}, config="w4")
    fourth = Cases("model", "two", {"x": np.array([3, 9])}, config="c")
    return {("blender", "wrap"): [first, second], ("meter", "w4"): [third], ("inverter", "c"): [fourth]}


@pytest.fixture
def fake_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases of kind "model" without running a model."""
    monkeypatch.setattr(model_cases, "source", lambda *arguments, **options: RUN)
    monkeypatch.setattr(
        model_cases, "recorded", lambda entry: model_cases.Source(**{**entry, "token_ids": tuple(entry["token_ids"])})
    )
    monkeypatch.setattr(model_cases, "tapped", lambda source, progress=None, units_=None: taps())
    monkeypatch.setattr(model_cases, "tapped_units", lambda source, units_=None: frozenset())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> plan.RandomRequest:
    """A request with three or four shards for each of several configurations."""
    monkeypatch.setattr(plan, "ROWS", 1 << 12)
    return plan.request(3 << 12, units_=UNITS)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, plan.Outcome]:
    """The campaign of `small`, made by one process without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "ROWS", 1 << 12)
        return folder, plan.run(plan.request(3 << 12, units_=UNITS), folder)


@pytest.fixture(scope="session")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, plan.Outcome]:
    """A campaign of `tiny` on 40 tokens, 16 at a time, made by one process without interruption."""
    folder = tmp_path_factory.mktemp("read")
    return folder, plan.run(plan.model_request(40, **MODEL), folder)


@pytest.fixture
def blender(made: Path) -> Answers:
    """A combinational unit: two signed lanes, a float whose mask has gaps, a bit."""
    return answers_of.of_set(golden.load(made / "blender-wrap"))


@pytest.fixture
def meter(made: Path) -> Answers:
    """An event unit with cases of three rows, then of two."""
    return answers_of.of_set(golden.load(made / "meter-w4"))
