"""Mutants of readable units: detected by sets, stopped if endless, removed afterwards."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from refemu import golden, units
from refemu.arith.checks import Refused
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import device, grading, model, reimport, slices
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.grading import Grading
from refemu.golden.grade.pool import Pool

VECTORS = Path(__file__).resolve().parents[3] / "vectors"


def of_set(name: str) -> Answers:
    return answers_of.of_set(golden.load(VECTORS / name))


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Require that no mutant remains in the process."""
    modules, unit = dict(sys.modules), units.find("olive_mac")
    yield
    assert {name: module for name, module in sys.modules.items() if name in modules} == modules
    assert units.find("olive_mac") is unit


@pytest.mark.long
def test_mutants_are_detected_or_untested() -> None:
    answers = of_set("bfp_accumulator-paper")
    faults = list(model.faults(answers, sample=40))
    outcomes: dict[str, str] = {}
    for fault in faults:
        try:
            outcomes[fault.id] = "detected" if fault.wrong(answers).any() else "survived"
        except Refused as error:
            outcomes[fault.id] = f"raised {error}"
    counts = Counter(outcome.split()[0] for outcome in outcomes.values())

    assert len(faults) == len(outcomes) == 40 and counts["detected"] > 10 and counts["raised"] > 3
    assert all(re.match(r"bfp_accumulator\.py:[0-9]+: .* is .*", fault.says) for fault in faults)


def test_wrong_rows_of_a_mutant_differ() -> None:
    """`shift` is one too large, computed by hand."""
    answers = of_set("concat-a4")
    fault = next(each for each in model.faults(answers) if "shift" in each.id)
    wrong = fault.wrong(answers)

    assert 0 < np.count_nonzero(wrong) < answers.rows


def test_right_unit_differs_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = of_set("olive_mac-wrap")
    (path,) = reimport.sources(answers.unit)
    with reimport.mutated(answers.unit, path, compile(path.read_text(), str(path), "exec")) as unit:
        for _, block in slices.parts(answers):
            assert not device.readable(unit, answers, block).any()


def test_a_sample_is_seeded_and_in_order() -> None:
    numbers = model._drawn("orizuru", 1000, 300)

    assert numbers == sorted(set(numbers)) == model._drawn("orizuru", 1000, 300) and len(numbers) == 300
    assert numbers != model._drawn("olive_mac", 1000, 300)
    assert model._drawn("orizuru", 5, 300) == [0, 1, 2, 3, 4]


def test_descriptors_flags_and_masks_are_not_changed() -> None:
    unit = units.find("olive_mac")
    (path,) = reimport.sources(unit)
    text = path.read_text()
    places = model._places(unit, text)
    lines = text.splitlines()

    assert places and not any(lines[each.line - 1].startswith("UNIT") for each in places)
    end = next(number for number, line in enumerate(lines, 1) if line.startswith("UNIT"))
    assert all(each.line < end for each in places)


def test_mutated_table_of_a_configuration_is_detected() -> None:
    """The ready configuration names the table, so a mutant must have the configuration of the mutated module."""
    answers = of_set("flint_decoder-flint4")
    text = Path(reimport.sources(answers.unit)[0]).read_text().splitlines()
    line = next(number for number, each in enumerate(text, 1) if each.startswith("FLINT4_PAIRS"))
    table = [each for each in model.faults(answers) if each.id.startswith(f"flint_decoder/{line}/constant/")]

    possible = [fault for fault in table if not fault.id.endswith("/(-1)")]  # no exponent is negative

    assert len(possible) > 10 and all(fault.wrong(answers).any() for fault in possible)


def test_state_value_outside_its_port_is_detected() -> None:
    """The flag of a sum that wraps is 2 in place of 1: a port of one bit cannot hold it, and bool() hides it."""
    answers = of_set("olive_mac-wrap")
    text = Path(reimport.sources(answers.unit)[0]).read_text().splitlines()
    line = next(number for number, each in enumerate(text, 1) if each.endswith("+ low, 1"))
    ones = [each for each in model.faults(answers, sys.maxsize) if each.id.startswith(f"olive_mac/{line}/constant/")]
    flag = [each for each in ones if each.id.endswith("/2")][-1]

    assert flag.says == f"olive_mac.py:{line}: 1 is 2"
    assert flag.wrong(answers).any()


@pytest.mark.long
def test_poor_stimulus_misses_more_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    library = {**grading.LIBRARY, "model": partial(model.faults, sample=40)}
    monkeypatch.setattr(grading, "LIBRARY", library)
    whole = of_set("bfp_accumulator-paper")
    poor = Answers(whole.unit, whole.config, [whole.blocks[0].pick(np.arange(1))])
    pool = Pool(whole.unit, "paper", 0, 100)
    good, bad = (Grading("x", each, pool, ["model"]).grade.classes["model"] for each in (whole, poor))

    assert good.missed == 0 and bad.missed > 3 and good.faults == bad.faults


def test_caches_hide_no_line() -> None:
    """`fdgf.passes` caches its answers, so a second run of the same cases would not reach its lines."""
    unit = units.find("fdgf")
    config = unit.configs["small"]
    blocks = list(unit.cases(config, "paper", 0))
    source = reimport.sources(unit)[0]
    text = source.read_text().splitlines()
    inside = next(number for number, line in enumerate(text, 1) if "tall, broad =" in line)
    for _ in range(2):
        lines = model._executed(answers_of.of_cases(unit, config, blocks)).lines
        assert (str(source), inside) in lines
