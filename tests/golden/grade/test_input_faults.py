"""Unconnected and late inputs, compared with runs of the unit."""

import numpy as np

from refemu.golden.grade import input_faults
from refemu.golden.grade.answers import Answers
from tests.golden import fakes
from tests.golden.grade import plain


def test_unconnected_input_of_meter(meter: Answers) -> None:
    faults = plain.by_id(input_faults.faults, meter)
    assert set(faults) == {f"{kind}/in.{port}" for kind in ("unconnected", "late") for port in ("add", "clear")}

    for id, fault in faults.items():
        kind, port = id.split("/in.")
        wrong = []
        for block in meter.blocks:
            for add, clear in zip(block.cases.inputs["add"], block.cases.inputs["clear"], strict=True):
                seen = {"add": add, "clear": clear}
                seen[port] = np.zeros_like(add) if kind == "unconnected" else np.array([0, *seen[port][:-1]])
                got, want = fakes.read(**seen, bits=4), fakes.read(add, clear, bits=4)
                wrong += (got.wide != want.wide).any(axis=-1).tolist()
        assert fault.wrong(meter).tolist() == wrong, id
        assert any(wrong)


def test_late_input_is_that_of_earlier_row(blender: Answers) -> None:
    fault = plain.by_id(input_faults.faults, blender)["late/in.first"]
    block = blender.blocks[0]
    first, second = block.cases.inputs["first"], block.cases.inputs["second"]
    got = fakes.blend(np.array([0, *first[:-1]]), second, overflow="wrap")
    want = fakes.blend(first, second, overflow="wrap")

    wrong = [(got.both != want.both).any(axis=-1), got.odd != want.odd]
    assert fault.wrong(blender)[: len(first)].tolist() == (wrong[0] | wrong[1]).tolist()
