"""What a descriptor derives: alternatives from `variants` next to the unit, none where there is no such module."""

import dataclasses
import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused, RefusedType


def test_alternatives_come_from_module_that_descriptor_names() -> None:
    unit = units.find("olive_mac")

    assert unit.others == "refemu.units.olive.olive_mac.variants"
    assert [each.decision for each in unit.variants] == ["D-olive-33", "D-olive-33"]
    elsewhere = dataclasses.replace(unit, others="refemu.units.olive.ovp_encoder.variants")
    assert {each.decision for each in elsewhere.variants} > {"D-olive-1", "D-olive-3"}
    assert not dataclasses.replace(unit, others="refemu.nothing.there").variants


def test_an_error_inside_that_module_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_others.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        _ = dataclasses.replace(units.find("olive_mac"), others="broken_others").variants


def test_cases_are_of_kind_that_is_asked_for() -> None:
    """A set would count and generate them again under the wrong kind."""
    unit = units.find("concat")
    mixed = dataclasses.replace(unit, cases=lambda config, kind, seed: unit.cases(config, "edge", seed))

    assert list(mixed.stimuli(unit.configs["a4"], "edge"))
    with pytest.raises(Refused, match=r"^concat: cases of kind paper must be of it, got edge in block 0$"):
        list(mixed.stimuli(unit.configs["a4"], "paper"))


def test_flag_marks_rows_of_its_output() -> None:
    unit = units.find("olive_systolic")
    blocks = list(unit.cases(unit.configs["int4"], "edge", 0))
    results = [unit.evaluate(unit.configs["int4"], block.inputs) for block in blocks]
    assert unit.mark is not None
    for block, result in zip(blocks, results, strict=True):
        rows = unit.mark(unit.configs["int4"], block.inputs, result)
        assert np.array_equal(rows["OVERFLOW"], result.overflow.any(axis=-1))
        assert np.array_equal(rows["ILLEGAL"], result.illegal)
    assert any(result.overflow.any() for result in results) and any(result.illegal.any() for result in results)


def test_flag_without_its_output_marks_no_row() -> None:
    unit = units.find("index_norm")
    block = next(iter(unit.cases(unit.configs["layer_exact"], "edge", 0)))
    result = unit.evaluate(unit.configs["layer_exact"], block.inputs)
    assert unit.mark is not None and result.overflow is None
    assert not unit.mark(unit.configs["layer_exact"], block.inputs, result)["OVERFLOW"].any()


@pytest.mark.parametrize(("block", "got"), [("why", "str: 'why'"), (("why",), "tuple: ")])
def test_cases_without_inputs_are_rejected(block: object, got: str) -> None:
    module = ModuleType("mine.cases")
    vars(module)["edge"] = lambda config: iter([block])
    cases = importlib.import_module("refemu.units.unit")._by_kind(module)
    with pytest.raises(RefusedType, match=rf"mine\.cases: edge must yield \(why, inputs\) or .*, got {got}"):
        list(cases(units.Config(), "edge", 0))
