"""Unconnected and late inputs, compared with runs of the unit."""

import numpy as np

from refemu.golden.faults import use
from refemu.golden.grade.answers import Answers
from tests.golden import fakes
from tests.golden.grade import plain


def test_a_meter_with_one_wire_off(meter: Answers) -> None:
    faults = plain.by_id(use.faults, meter)
    for id, fault in faults.items():
        kind, port = id.split("/in.")
        if kind not in ("unconnected", "late"):
            continue
        wrong = []
        for block in meter.blocks:
            for add, clear in zip(block.cases.inputs["add"], block.cases.inputs["clear"], strict=True):
                seen = {"add": add, "clear": clear}
                seen[port] = np.zeros_like(add) if kind == "unconnected" else np.array([0, *seen[port][:-1]])
                got, want = fakes.read(**seen, bits=4), fakes.read(add, clear, bits=4)
                wrong += (got.wide != want.wide).any(axis=-1).tolist()
        first = meter.blocks[0].shape[0] * meter.blocks[0].shape[1]
        assert fault.wrong(meter)[:first].tolist() == wrong[:first], id
        assert any(wrong[:first])


def test_late_combinational_input_is_of_previous_row(blender: Answers) -> None:
    fault = plain.by_id(use.faults, blender)["late/in.first"]
    block = blender.blocks[0]
    first, second = block.cases.inputs["first"], block.cases.inputs["second"]
    got = fakes.blend(np.array([0, *first[:-1]]), second, overflow="wrap")
    want = fakes.blend(first, second, overflow="wrap")

    wrong = [(got.both != want.both).any(axis=-1), got.odd != want.odd]
    assert fault.wrong(blender)[: len(first)].tolist() == (wrong[0] | wrong[1]).tolist()


def test_what_a_device_sees_of_an_input() -> None:
    rows = plain.committed("ovp_decoder-int4")
    pair, before = np.array([0x12, 0x81, 0xF0]), np.array([-1, 0, 1])
    seen = {
        id: fault.stimulus({"pair": pair}, before)["pair"].tolist()
        for id, fault in plain.by_id(use.faults, rows).items()
        if fault.stimulus and fault.parameters.get("port") == "pair"
    }
    assert seen["nibbles/in.pair"] == [0x21, 0x18, 0x0F]
    assert seen["late/in.pair"] == [0, 0x12, 0x81]
    assert seen["unconnected/in.pair"] == [0, 0, 0]
    assert seen["narrowed/in.pair/6"] == [0x12, 0x01, 0x30]
    assert seen["stuck_at_1/in.pair/7"] == [0x92, 0x81, 0xF0]
    assert seen["inverted/in.pair/0"] == [0x13, 0x80, 0xF1]
    assert seen["mirrored/in.pair"] == [0x48, 0x81, 0x0F]
