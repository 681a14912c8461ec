"""Each unit holds refemu's protocol, gives what exact fractions give, and has sets that grade as refemu's own do."""

import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest

from refemu import golden, units
from refemu.testing import UnitRule, unit_rules

UNITS = ("mx_encoder", "mx_converter", "mx_dot", "nvfp4_encoder")
RULES = [pytest.param(rule, id=f"{name}-{rule}") for name in UNITS for rule in unit_rules(units.find(name))]
CONFIGS = [pytest.param(name, config, id=f"{name}-{config}") for name in UNITS for config in units.find(name).configs]
PACKAGE = Path(str(resources.files("refemu_mx")))
DECISIONS = (PACKAGE / "decisions.md").read_text("utf-8")


@pytest.mark.parametrize("rule", RULES)
def test_protocol(rule: UnitRule) -> None:
    rule()


def expected(unit: str, config: Any, row: dict[str, Any]) -> tuple[Any, ...]:
    """Outputs of one row, by the oracle."""
    if unit == "mx_encoder":
        return oracle.encode(config["element"], config["rule"], [oracle.of_float32(word) for word in row["x"]])
    if unit == "mx_converter":
        block = oracle.of_block(config["source"], row["scale_in"], row["codes_in"])
        return oracle.encode(config["target"], config["rule"], block)
    if unit == "mx_dot":
        a, b = ((config[n], row[f"{n}_scale"], row[f"{n}_codes"]) for n in "ab")
        return (oracle.dot(*a, *b, config["accumulate"] == "fp32"),)
    return oracle.nvfp4(config["order"], row["factor"], row["x"])


@pytest.mark.parametrize(("name", "config"), CONFIGS)
def test_every_case_is_the_oracles(name: str, config: str) -> None:
    unit = units.find(name)
    outputs = [port.name for port in unit.ports(unit.configs[config]).outputs]
    for kind in ("edge", "random"):
        for block in unit.cases(unit.configs[config], kind, 0):
            result = unit.evaluate(unit.configs[config], block.inputs)
            answers = zip(*(getattr(result, port).tolist() for port in outputs), strict=True)
            for row, got in enumerate(answers):
                inputs = {port: array[row].tolist() for port, array in block.inputs.items()}
                assert got == expected(name, unit.configs[config], inputs), (block.why, row)


@pytest.mark.parametrize(("name", "config"), CONFIGS)
def test_sets_reach_every_gate(name: str, config: str, tmp_path: Path) -> None:
    (written,) = golden.generate(tmp_path, units=[f"{name}:{config}"])
    grade = golden.grade_set(written.path)

    assert golden.check(tmp_path).equal and grade.passes
    assert not [survivor for survivor in grade.survivors if survivor.outcome == "hole"]


def test_converting_rounds_once() -> None:
    """At scales that float32 could not hold; a block that is converted to its own format stays as it is."""
    unit = units.find("mx_converter")
    codes = np.resize(np.arange(0x7F), (8, 32))
    for scale in (0, 127, 254):
        result = unit.run(np.full(8, scale), codes, source="e4m3", target="e5m2", rule="nvidia")
        again = unit.run(result.scale, result.codes, source="e5m2", target="e5m2", rule="nvidia")
        assert not result.clipped.any() and again.equals(result)


def test_every_decision_is_written_taken_and_answered_otherwise() -> None:
    """Decisions of tensors and schemes are not a unit's, and have parameters or no variant."""
    written = set(re.findall(r"^### (D-mx-\d+) ", DECISIONS, re.MULTILINE))
    modules = [path for path in PACKAGE.rglob("*.py") if path.stem not in ("cases", "compiled", "variants")]
    taken = {path.stem: set(re.findall(r"D-mx-\d+", path.read_text())) for path in modules}
    of_units = set().union(*(taken[name] for name in UNITS))
    answered = {each.decision for name in UNITS for each in units.find(name).variants}

    assert written == set().union(*taken.values())
    assert of_units == {id for id in answered if id.startswith("D-")}
    assert written - of_units == {"D-mx-12", "D-mx-13", "D-mx-14", "D-mx-15"}


@pytest.mark.parametrize("name", UNITS)
def test_every_variant_and_fault_is_detected(name: str, tmp_path: Path) -> None:
    told = set()
    for written in golden.generate(tmp_path, units=[name]):
        choices = golden.variants(name, written.config, written.path)
        told |= {(each.decision, each.says) for each in choices if each.rows}

    assert told == {(each.decision, each.says) for each in units.find(name).variants}


@pytest.mark.parametrize(
    ("rule", "scale"), [("floor", 127), ("ceil", 128), ("even", 128), ("nvidia", 128)], ids=lambda each: str(each)
)
def test_rules_of_the_scale_differ_where_the_largest_is_beyond_the_elements(rule: Any, scale: int) -> None:
    """7.5 under E2M1, whose largest is 6 (D-mx-1)."""
    x = np.zeros((1, 32), np.float32)
    x[0, 3] = 7.5
    result = units.find("mx_encoder").run(x.view(np.uint32), element="e2m1", rule=rule)

    assert (int(result.scale[0]), bool(result.clipped[0])) == (scale, rule == "floor")
