"""Faulty devices as terms: their values are those of the device that runs."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.golden.faults import order, use, width, words
from refemu.golden.faults.fault import Fault
from refemu.golden.grade import decisions, model
from refemu.golden.grade.answers import Answers, values
from refemu.golden.grade.term_devices import of_fault
from refemu.prove import selfcheck, terms
from refemu.prove.lift import Lift, lift
from tests.golden.grade import plain


def faults(answers: Answers) -> Iterator[Fault]:
    for klass in (words.faults, use.faults, width.faults, decisions.faults):
        yield from klass(answers)
    yield from model.faults(answers, sys.maxsize)


def differing(lifted: Lift, answers: Answers, fault: Fault) -> np.ndarray:
    """Rows of the first block in which the terms of a device without registers differ, or it has no answer."""
    device, block = of_fault(lifted, answers, fault), answers.blocks[0]
    result = answers.unit.evaluate(answers.config, values(answers.unit, answers.config, block))
    rows = selfcheck.variables(lifted, values(answers.unit, answers.config, block), result)
    pairs = [pair for name in device.outputs for pair in zip(lifted.terms[name], device.outputs[name], strict=True)]
    wrong = terms.any_of(terms.not_(terms.eq(a, b)) for a, b in pairs)
    return terms.evaluate([wrong], rows, block.shape[0])[0] == 1


@pytest.mark.parametrize("name", ["outlier_decoder-e4m3", "ovp_decoder-int4", "olive_edp-int4_int4"])
@pytest.mark.long
def test_terms_differ_where_the_device_does(name: str) -> None:
    whole = plain.committed(name)
    answers = Answers(whole.unit, whole.config, whole.blocks[:1])
    lifted, tried = lift(answers.unit, answers.config), 0
    for fault in list(faults(answers))[::5]:
        try:
            wanted, got = fault.wrong(answers), differing(lifted, answers, fault)
        except (Refused, KeyError):
            continue
        first = np.flatnonzero(wanted)[:1]  # a device that runs stops at the first part that differs
        assert got[first].all() and got.any() == wanted.any(), fault.id
        tried += 1

    assert tried > 10


def test_devices_without_terms_are_rejected() -> None:
    answers = plain.committed("olive_mac-wrap")
    lifted = lift(answers.unit, answers.config)
    late = next(each for each in use.faults(answers) if each.remembers)
    with pytest.raises(Refused, match="it has none"):
        of_fault(lifted, answers, late)


def test_orders_are_constants() -> None:
    """A row late: zeros; a row early: the words of the first row."""
    answers = plain.committed("olive_mac-wrap")
    lifted = lift(answers.unit, answers.config)
    by_id = {fault.id: fault for fault in order.faults(answers)}
    for id, word in (("late/out.acc", 0), ("early/out.acc", int(answers.outputs["out.acc"][0, 0]))):
        device = of_fault(lifted, answers, by_id[id])
        assert device.outputs["acc"] == [terms.const(word, 32)] and not device.runs
        assert device.outputs["shift"] == lifted.terms["shift"]
