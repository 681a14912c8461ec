"""Results: detected, missed, equivalent and untested, each for a fault planted for it."""

import dataclasses
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.faults.fault import QUICK, Fault, Inputs
from refemu.golden.grade import device, grading
from refemu.golden.grade.answers import Answers, of_cases
from refemu.golden.grade.grading import Grading
from refemu.golden.grade.pool import Pool
from refemu.units import variant
from refemu.units.ports import Port
from tests.golden import fakes


def planted(stimulus: Answers) -> Iterator[Fault]:
    """A fault with each result, which depends on whether it runs on the stimulus or the pool."""

    def of(first: bool, other: bool) -> Fault:
        def wrong(answers: Answers) -> np.ndarray:
            rows = np.zeros(answers.rows, np.bool_)
            rows[-1] = first if answers is stimulus else other
            return rows

        return Fault(f"{first}/{other}", "planted", program=wrong)

    def refuses(answers: Answers) -> np.ndarray:
        raise Refused("takes nothing")

    def refuses_others(answers: Answers) -> np.ndarray:
        return np.zeros(answers.rows, np.bool_) if answers is stimulus else refuses(answers)

    yield from (of(True, True), of(True, False), of(False, True), of(False, False))
    yield from (Fault("raised", "planted", program=refuses), Fault("elsewhere", "planted", program=refuses_others))


def test_every_result_occurs(meter: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading, "LIBRARY", {**grading.LIBRARY, "order": planted})
    pool = Pool(fakes.METER, "w4", 0, 12)
    result = Grading("meter", meter, pool, ["order"])
    counts = result.grade.classes["order"]

    assert dataclasses.astuple(counts) == (6, 2, 1, 0, 2, 1)
    missed_fault, undecided, raised, elsewhere = result.grade.survivors
    assert missed_fault.outcome == "missed" and missed_fault.row == pool.answers.stimulus(pool.rows - 1)
    assert missed_fault.reason == f"at least 1 of {pool.rows} other rows detects it" and len(result.missed) == 1
    steps = f"none of {pool.rows} other rows, at most 3 steps from reset, detects it"
    assert undecided.outcome == "undecided" and undecided.reason == steps
    assert raised.outcome == "raised" and raised.reason == "takes nothing"
    assert elsewhere.outcome == "undecided" and elsewhere.reason.startswith(f"all {pool.rows} other rows are invalid")
    assert not result.grade.passes


@pytest.mark.parametrize("runs", [True, False])
def test_reason_of_a_missed_fault_counts_no_row_too_many(
    runs: bool, blender: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that runs stops at the first part of the rows that shows the fault: its number is a lower bound."""

    def all_but_of_the_set(stimulus: Answers) -> Iterator[Fault]:
        def zero(inputs: Inputs, before: np.ndarray) -> Inputs:
            return {name: values * (len(values) < 256) for name, values in inputs.items()}

        def inverted(codes: np.ndarray, port: Port) -> np.ndarray:
            return codes if len(codes) < 256 else ~codes

        here = {"stimulus": zero} if runs else {"array": next(iter(stimulus.ports)), "word": inverted}
        yield Fault("planted", "planted", **here)  # type: ignore[arg-type]

    monkeypatch.setattr(grading, "LIBRARY", {**grading.LIBRARY, "order": all_but_of_the_set})
    pool = Pool(fakes.BLENDER, "wrap", 0)
    result = Grading("blender", blender, pool, ["order"])
    (survivor,), (missed,) = result.grade.survivors, result.missed
    right = device.wrong(pool.answers, variant.right(fakes.BLENDER, pool.answers.config), missed.fault.stimulus)

    counted = int(np.count_nonzero(missed.rows))
    assert survivor.reason == f"{'at least ' * runs}{counted} of all 256 inputs detect it"
    assert counted < np.count_nonzero(right) if runs else counted == 256


def test_undetected_faults_of_all_inputs_are_equivalent(blender: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the lanes are compared in part only, no order of rows proves that they are constant."""

    def silent(stimulus: Answers) -> Iterator[Fault]:
        for remembers in (False, True):
            yield Fault(f"{remembers}", "", program=lambda rows: np.zeros(rows.rows, np.bool_), remembers=remembers)

    monkeypatch.setattr(grading, "LIBRARY", {**grading.LIBRARY, "order": silent})
    whole = Grading("blender", blender, Pool(fakes.BLENDER, "wrap", 0), ["order"]).grade
    once, remembers = whole.survivors

    assert whole.inputs == whole.pool == 256
    assert (once.outcome, once.reason) == ("equivalent", "none of all 256 inputs detects it")
    assert (remembers.outcome, remembers.reason) == ("undecided", "none of all 256 inputs detects it")


def test_devices_that_reject_some_of_all_inputs_are_untested(blender: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    def partly(stimulus: Answers) -> Iterator[Fault]:
        def program(rows: Answers) -> np.ndarray:
            if rows is not stimulus:
                raise Refused("takes no 255")
            return np.zeros(rows.rows, np.bool_)

        yield Fault("partly", "", program=program)

    monkeypatch.setattr(grading, "LIBRARY", {**grading.LIBRARY, "order": partly})
    (fault,) = Grading("blender", blender, Pool(fakes.BLENDER, "wrap", 0), ["order"]).grade.survivors
    assert (fault.outcome, fault.reason) == ("raised", "all 256 inputs are invalid for the device: takes no 255")


def test_quick_classes_are_the_default(meter: Answers) -> None:
    pool = Pool(fakes.METER, "w4", 0, 12)

    assert list(Grading("meter", meter, pool).grade.classes) == list(QUICK)
    assert list(Grading("meter", meter, pool, ["words", "bits"]).grade.classes) == ["bits", "words"]


def test_unknown_class_is_rejected_with_the_nearest(meter: Answers) -> None:
    with pytest.raises(Refused, match="unknown fault class 'bit'; did you mean 'bits'"):
        Grading("meter", meter, Pool(fakes.METER, "w4", 0, 12), ["bit"])


def test_toggles_are_counted_within_a_case(meter: Answers) -> None:
    words = {"0": [0] * 3, "1": [0] * 3, "rising": [0] * 3, "falling": [0] * 3}
    for lane in range(3):
        codes = [int(word) for word in meter.outputs["out.wide"][:, lane]]
        for row, code in enumerate(codes):
            words["1"][lane] |= code
            words["0"][lane] |= ~code & (1 << 40) - 1
            if meter.before[row] >= 0:
                words["rising"][lane] |= code & ~codes[row - 1]
                words["falling"][lane] |= codes[row - 1] & ~code
    wanted = {name: sum(word.bit_count() for word in lanes) for name, lanes in words.items()}

    assert grading.toggles(meter)["out.wide"] == {"bits": 120, **wanted}


def test_registers_toggle_like_outputs() -> None:
    unit = units.find("orizuru")
    config = unit.configs["n8"]
    answers = of_cases(unit, config, unit.cases(config, "paper", 0))
    table = grading.toggles(answers)

    assert set(answers.registers) <= set(table) and "st.p_mask" in table
    held = answers.held["st.p"]
    assert table["st.p"]["1"] == sum(int(word).bit_count() for word in np.bitwise_or.reduce(held, axis=0))


def test_rows_of_decisions_and_flags_are_counted() -> None:
    unit = units.find("olive_pe8")
    config = unit.configs["wrap"]
    answers = of_cases(unit, config, [case for kind in ("paper", "edge") for case in unit.cases(config, kind, 0)])
    grade = Grading("rows", answers, Pool(unit, "wrap", 0, 12), ["decisions"]).grade
    flags = np.concatenate([block.flags.reshape(-1) for block in answers.blocks])

    assert grade.decisions.keys() == {each.decision for each in unit.variants} - {"D-olive-7"}
    assert all(0 < rows <= answers.rows for rows in grade.decisions.values())
    assert grade.flags == {"OVERFLOW": int(np.count_nonzero(flags & 1 << unit.flags["OVERFLOW"].bit))}


def test_pairs_of_flags_are_counted() -> None:
    unit = units.find("ovp_encoder")
    config = unit.configs["int4"]
    answers = of_cases(unit, config, unit.cases(config, "edge", 0))
    flags = grading.flags(answers)
    words = np.concatenate([block.flags.reshape(-1) for block in answers.blocks])
    a, b = list(unit.flags)[:2]
    both = 1 << unit.flags[a].bit | 1 << unit.flags[b].bit

    assert flags[f"{a}+{b}"] == np.count_nonzero(words & both == both)
    assert len(flags) == len(unit.flags) * (len(unit.flags) + 1) // 2


def test_every_selects_all_mutants(meter: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def faults(stimulus: Answers, sample: int = 300) -> Iterator[Fault]:
        asked.append(sample)
        return iter(())

    monkeypatch.setattr(grading.model, "faults", faults)
    monkeypatch.setattr(grading, "LIBRARY", {**grading.LIBRARY, "model": faults})
    for every in (False, True):
        Grading("meter", meter, Pool(fakes.METER, "w4", 0, 12), ["model"], every)

    assert asked == [300, sys.maxsize]
