"""Rows of a set as a testbench compares them."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.files.sets import Golden
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.answers import Answers
from tests.golden import fakes


def test_rows_are_those_of_the_set(made: Path, blender: Answers) -> None:
    loaded = golden.load(made / "blender-wrap")

    assert blender.rows == loaded.rows
    assert blender.outputs["out.both"].tolist() == loaded.arrays["out.both"].tolist()
    assert blender.outputs["out.ratio"][:, 0].tolist() == loaded.arrays["out.ratio"].tolist()
    assert blender.care["out.ratio"][:, 0].tolist() == loaded.arrays["out.ratio.care"].tolist()
    assert set(blender.care["out.odd"].reshape(-1).tolist()) == {1}


def test_cases_and_earlier_rows_are_numbered(meter: Answers) -> None:
    assert meter.cases.tolist()[:6] == [0, 0, 0, 1, 1, 1] and meter.cases.tolist()[6:] == [2, 2, 3, 3, 4, 4]
    assert meter.before.tolist() == [-1, 0, 1, -1, 3, 4, -1, 6, -1, 8, -1, 10]


def test_a_combinational_unit_sees_one_stream(blender: Answers) -> None:
    assert blender.before.tolist() == list(range(-1, blender.rows - 1))


def test_computed_answers_equal_the_set(meter: Answers) -> None:
    cases = [block.cases for block in meter.blocks]
    computed = answers_of.of_cases(fakes.METER, meter.config, cases)

    assert all(np.array_equal(computed.outputs[name], meter.outputs[name]) for name in meter.ports)


def test_stimulus_of_a_row_begins_with_its_case(made: Path, meter: Answers) -> None:
    adds = golden.load(made / "meter-w4").arrays["in.add"]

    assert meter.stimulus(5)["in.add"] == [hex(int(word)) for word in adds[3:6]]
    assert meter.stimulus(8)["in.add"] == [hex(int(adds[8]))]
    with pytest.raises(IndexError):
        meter.stimulus(12)


def test_stimulus_lists_words_of_all_lanes() -> None:
    assert answers_of._hex(np.array([[1, 255], [2, 0]], np.uint8)) == ["0x1 0xff", "0x2 0x0"]


def test_set_with_outdated_ports_is_rejected(made: Path) -> None:
    loaded = golden.load(made / "meter-w4")
    older = Golden(loaded.manifest, {name: array for name, array in loaded.arrays.items() if name != "in.clear"})
    with pytest.raises(Refused, match=r"meter-w4: the set is older than the ports of meter, missing in\.clear"):
        answers_of.of_set(older)
