"""The code of docs/several-events.md works as described."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refemu.testing import unit_rules
from refemu.units import variant

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "several-events.md").read_text()


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The names that the page's blocks define, as a module of a package."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "counting").mkdir()
    (folder / "counting" / "__init__.py").touch()
    code = "\n\n".join(re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL))
    (folder / "counting" / "ones_counter.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield vars(importlib.import_module("counting.ones_counter"))


def test_unit_counts_as_on_the_page(names: dict[str, Any]) -> None:
    assert "`UNIT.run([0b1011], [0]).ones` is `[3]`" in PAGE
    assert names["run"]([0b1011], [0]).ones.tolist() == [3]
    device = names["OnesCounter"](bits=8)
    assert [state.event for state in device.steps([5], [1])] == ["load"] + ["cycle"] * 8
    assert device.state.ones == 3


@pytest.mark.long
def test_the_unit_follows_the_protocol(names: dict[str, Any]) -> None:
    for rule in unit_rules(names["UNIT"]):
        rule()


def test_fault_affects_short_words(names: dict[str, Any]) -> None:
    unit, fault = names["UNIT"], names["FAULT"]
    short = variant.device(unit, unit.config("b8"), [fault])
    assert short is not None and short.evaluate({"word": [255], "base": [0]}).ones.tolist() == [7]
    assert variant.device(unit, unit.config("b16"), [fault]) is None
