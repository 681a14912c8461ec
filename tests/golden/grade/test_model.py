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
            assert np.array_equal(device.readable(unit, answers, block).arrays["out.acc"], block.arrays["out.acc"])


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
