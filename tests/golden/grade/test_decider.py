"""Faults that a solver decides: equivalent ones, inputs that show others, and no equivalence of a detected fault."""

import inspect
import itertools
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from refemu import units
from refemu.golden.faults import bits, order, reset, rounding, use, width, words
from refemu.golden.faults.fault import Fault
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import decider, decisions, model
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.decider import Decider
from refemu.units.olive.flint_decoder import flint_decoder
from refemu.units.unit import Cases
from tests.golden.grade import plain

pytest.importorskip("bitwuzla")


def of(name: str) -> tuple[Answers, Decider]:
    answers = plain.committed(name)
    return answers, Decider(answers.unit, answers.config)


def every(answers: Answers) -> Iterator[Fault]:
    structure = (bits.faults, words.faults, use.faults, width.faults)
    for klass in (*structure, rounding.faults, decisions.faults, model.faults):
        yield from klass(answers)


def is_detected(fault: Fault, answers: Answers) -> bool:
    try:
        return bool(fault.wrong(answers).any())
    except Exception:
        return False


@pytest.mark.parametrize("name", ["olive_mac-wrap", "outlier_decoder-e4m3", "fp2half-paper"])
@pytest.mark.long
def test_no_detected_fault_is_equivalent(name: str) -> None:
    """The control: each of these faults differs in a row of the set, so a proof of the opposite is an error."""
    answers, decide = of(name)
    detected = [fault for fault in every(answers) if is_detected(fault, answers)]
    some = detected[:: max(1, len(detected) // 60)]

    assert len(some) >= 60
    assert not [fault.id for fault in some if decide.decide(fault, answers).equivalent]


def test_equal_operands_are_equivalent() -> None:
    answers, decide = of("olive_mac-wrap")
    fault = next(each for each in use.faults(answers) if each.id == "exchanged/in.a_exp/in.b_exp")
    decision = decide.decide(fault, answers)

    assert decision.equivalent and decision.reason.startswith("equal for all legal inputs by ")


@pytest.mark.long
def test_rounding_that_an_option_fixes_is_equivalent() -> None:
    """Where results saturate, a device that saturates is the unit; one that flushes is not, nor where none do."""
    answers, decide = of("fp2half-saturate")
    faults = {each.id: each for each in rounding.faults(answers)}
    assert decide.decide(faults["fp16/saturate"], answers).equivalent
    assert decide.decide(faults["fp16/flush"], answers).rows is not None
    paper, decide = of("fp2half-paper")
    fault = next(each for each in rounding.faults(paper) if each.id == "fp16/saturate")
    assert decide.decide(fault, paper).rows is not None


def test_lanes_that_do_not_count_are_not_compared() -> None:
    """An illegal lane has any sign and mantissa, so a device may show 1 there; its flag counts."""
    answers, decide = of("bfp_aligner-paper")
    lines = inspect.getsource(sys.modules[answers.unit.unit_class.__module__]).splitlines()
    place = f"/{1 + lines.index(' ' * 12 + 'return Element(0, 0, 1)')}/constant/"
    shown = [each for each in model.faults(answers) if place in each.id and each.id.endswith("/1")]
    assert len(shown) == 2 and all(decide.decide(each, answers).equivalent for each in shown)
    flag = next(each for each in bits.faults(answers) if each.id.startswith("stuck_at_0/out.illegal"))
    assert not decide.decide(flag, answers).equivalent


def test_states_of_units_without_registers_are_not_compared() -> None:
    """A last level that adds nothing changes the register `level` alone."""
    answers, decide = of("prefix_sum-paper")
    fault = next(each for each in model.faults(answers) if "self.state.level <= depth(self.elements)" in each.says)
    assert decide.decide(fault, answers).equivalent


def test_an_input_that_shows_a_fault_is_found() -> None:
    """Two rows of the set detect little; the solver finds rows of its own, from reset, and the device differs there."""
    whole, decide = of("olive_mac-wrap")
    answers = Answers(whole.unit, whole.config, [whole.blocks[0].pick(np.arange(1))])
    fault = next(each for each in bits.faults(answers) if each.id == "stuck_at_0/out.overflow/0/0")
    decision = decide.decide(fault, answers)

    assert not fault.wrong(answers).any() and decision.rows is not None
    assert fault.wrong(decision.rows).any() and decision.rows.blocks[0].shape[0] == 1
    assert decision.reason.endswith("found detects it")


def test_late_faults_need_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = units.find("olive_mac")
    config = unit.configs["wrap"]
    zeros = {port.name: np.zeros((1, 2), np.int64) for port in unit.ports(config).inputs}
    answers = answers_of.of_cases(unit, config, [Cases("edge", "no products", zeros)])
    fault = words.clipped("out.acc", unit.ports(config).outputs[2], -(1 << 31), (1 << 31) - 1)
    assert Decider(unit, config).decide(fault, answers).equivalent
    narrow = next(each for each in decisions.faults(answers) if each.id.startswith("D-olive-33"))
    assert Decider(unit, config).decide(narrow, answers).rows is not None
    monkeypatch.setattr(decider, "STEPS", 0)
    decision = Decider(unit, config).decide(narrow, answers)

    assert not decision.equivalent and decision.rows is None
    assert decision.reason == "it needs more than 0 steps from reset, or is equivalent"


def line_of(text: str) -> int:
    """Number of the line of flint_decoder with a text."""
    lines = inspect.getsource(flint_decoder).splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_mutants_and_their_tables_have_terms() -> None:
    answers, decide = of("flint_decoder-flint4")
    mutants = {fault.id: fault for fault in model.faults(answers)}
    table, counts = (f"flint_decoder/{line_of(text)}/constant" for text in ("FLINT4_PAIRS: Pairs", '"decodes": 1'))
    counter = next(fault for id, fault in mutants.items() if id.startswith(counts) and id.endswith("/(0)"))
    tables = [fault for id, fault in mutants.items() if id.startswith(table) and id.endswith("/1")]

    assert decide.decide(counter, answers).equivalent
    assert tables and not any(decide.decide(fault, answers).equivalent for fault in tables)


def test_faults_without_terms_say_so() -> None:
    answers, decide = of("olive_mac-wrap")
    late = next(each for each in use.faults(answers) if each.id == "late/in.load")

    assert decide.decide(late, answers).reason == "no terms of the device: it has none"


def test_constant_output_is_never_late() -> None:
    """`flags` of the exact accumulator is always 0: late, early, not reset, stuck, all the same."""
    answers, decide = of("bfp_accumulator-exact")
    faults = itertools.chain(*(each(answers) for each in (bits.faults, order.faults, reset.faults)))
    flags = [fault for fault in faults if "flags" in fault.id and not is_detected(fault, answers)]

    assert {"late/out.flags", "early/out.flags", "kept/flags"} <= {fault.id for fault in flags}
    assert all(decide.decide(fault, answers).equivalent for fault in flags)
