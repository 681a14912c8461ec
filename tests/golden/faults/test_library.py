"""One library: differences suggest its faults, and every fault that coverage injects is named by a diagnosis."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refemu.golden.compare import answer_files
from refemu.golden.explain import unit_runs
from refemu.golden.explain.diagnosis import diagnosis
from refemu.golden.explain.guess import Story
from refemu.golden.explain.search import Search
from refemu.golden.faults import library
from refemu.golden.faults.fault import Fault, FaultClass
from refemu.golden.files.sets import Golden
from refemu.golden.grade import answers as answers_of
from tests.golden import committed
from tests.golden.explain import made

Change = Callable[[np.ndarray], np.ndarray]
U16 = np.uint16


def repeating(rows: Golden, arrays: made.Arrays) -> list[Fault]:
    """Faults that differences suggest and that give the device's answers in all but the first rows."""
    table = made.table(rows, arrays)
    suspected = list(library.suspected(table, dict(table.want)))
    return [fault for fault in suspected if np.count_nonzero(table.wrong(fault.applied(table, dict(table.want)))) <= 2]


def crossed(y: np.ndarray) -> np.ndarray:
    return np.asarray(y & ~U16(3) | (y & 1) << U16(1) | y >> U16(1) & 1)


@pytest.mark.parametrize(
    ("id", "parameters", "change"),
    [
        ("bit_stuck", {"bit": 4, "value": 0}, lambda y: y & ~U16(16)),
        ("bit_stuck", {"bit": 4, "value": 1}, lambda y: y | U16(16)),
        ("bit_inverted", {"bit": 9}, lambda y: y ^ U16(512)),
        (
            "bit_swap",
            {"permutation": [1, 0, *range(2, 16)]},
            lambda y: y & ~U16(3) | (y & 1) << U16(1) | y >> U16(1) & 1,
        ),
        ("byte_swap", {}, lambda y: y.byteswap()),
        ("nibble_swap", {}, lambda y: (y & U16(0x0F0F)) << U16(4) | y >> U16(4) & U16(0x0F0F)),
        ("width", {"bits": 9}, lambda y: y & U16(511)),
        ("constant", {"added": -5}, lambda y: y - U16(5)),
        ("sign", {}, lambda y: y & U16(0x7FFF)),
        ("saturate", {}, lambda y: np.where(y & 0x7FFF == 0x7C00, y - U16(1), y)),
        ("flush", {}, lambda y: np.where(y & U16(0x7FFF) < 0x400, y & U16(0x8000), y)),
        ("nan", {}, lambda y: np.where(y & U16(0x7FFF) > 0x7C00, U16(0x7FFF), y)),
    ],
)
def test_constant_is_found_and_repeats_the_device(id: str, parameters: dict[str, Any], change: Change) -> None:
    rows = made.golden("fp16_mac", "paper")
    arrays = made.outputs(rows)
    arrays["out.y"] = change(arrays["out.y"]).astype(np.uint16)
    named = [fault.parameters for fault in repeating(rows, arrays) if fault.name == id]
    assert any({**each, **parameters, "port": "y"} == each for each in named), named


def test_nothing_is_read_off_right_answers() -> None:
    rows = made.golden("fp16_mac", "paper")
    suspected = library.suspected(table := made.table(rows, made.outputs(rows)), dict(table.want))
    assert {fault.name for fault in suspected} == {"row_shift", "row_swap"}


def permuted(order: list[int]) -> Callable[[made.Arrays], made.Arrays]:
    return lambda arrays: {name: array[:, order] if array.ndim > 1 else array for name, array in arrays.items()}


def test_diagnoses_late_and_early_rows() -> None:
    rows = made.golden("ovp_decoder", "int4")
    for late in (2, -1):
        shifted = {name: np.roll(array, late, axis=0) for name, array in made.outputs(rows).items()}
        (fault,) = (each for each in repeating(rows, shifted) if each.name == "row_shift")
        assert fault.parameters == {"rows": late}


def test_rows_late_inside_cases() -> None:
    rows = made.golden("olive_mac", "wrap")
    arrays = made.outputs(rows)
    for name, array in made.outputs(rows).items():
        for row in range(1, rows.rows):
            if rows.case(row) == rows.case(row - 1):
                arrays[name][row] = array[row - 1]
    assert {"rows": 1} in [fault.parameters for fault in repeating(rows, arrays) if fault.name == "row_shift"]


@pytest.mark.parametrize("order", [[7, 6, 5, 4, 3, 2, 1, 0], [1, 0, 3, 2, 5, 4, 7, 6], [0, 1, 2, 4, 3, 5, 6, 7]])
def test_lanes_in_another_order(order: list[int]) -> None:
    rows = made.golden("bfp_aligner", "paper")
    named = repeating(rows, permuted(order)(made.outputs(rows)))
    assert order in [fault.parameters["permutation"] for fault in named if fault.name == "lane_permutation"]


def test_dead_lane_and_copied_lane() -> None:
    rows = made.golden("bfp_aligner", "paper")
    arrays = {name: array for name, array in made.outputs(rows).items() if name == "out.mantissa"}
    dead = {"out.mantissa": arrays["out.mantissa"].copy()}
    dead["out.mantissa"][:, 3] = 0
    assert [fault.lanes for fault in repeating(rows, dead) if fault.name == "lane"] == [(3,)]
    copied = {"out.mantissa": arrays["out.mantissa"].copy()}
    copied["out.mantissa"][:, 3] = copied["out.mantissa"][:, 5]
    assert (3,) in [fault.lanes for fault in repeating(rows, copied) if fault.name == "lane"]


def test_ports_that_are_exchanged() -> None:
    rows = made.golden("orizuru", "n8")
    arrays = made.outputs(rows)
    arrays["out.root_max"], arrays["out.root_min"] = arrays["out.root_min"], arrays["out.root_max"]
    named = [fault.parameters for fault in repeating(rows, arrays) if fault.name == "port_swap"]
    assert named == [{"ports": ["root_max", "root_min"]}]


#: a decoder, a sequential unit, one with wide vectors, one with a handshake
SETS = ("ovp_decoder-int4", "olive_mac-wrap", "bfp_aligner-paper", "orizuru_clocked-n8")
EACH = 40  #: faults of a class that are injected, at most, spread over it


def some(klass: FaultClass, rows: answers_of.Answers) -> list[Fault]:
    faults = list(library.STRUCTURE[klass](rows))
    return faults[:: -(-len(faults) // EACH) or 1]


def injected(fault: Fault, rows: Golden, monkeypatch: pytest.MonkeyPatch) -> made.Arrays:
    """Answers of a device with a fault to all rows of a set."""
    with monkeypatch.context() as patch:
        patch.setattr(unit_runs, "UNRESET", np.inf)
        table = made.table(rows, made.outputs(rows))
        words = Search(table).predicted(Story().with_(fault)).words
    arrays = made.outputs(rows)
    for name, array in arrays.items():
        array[table.rows] = words[name].reshape(-1, *array.shape[1:])
    return arrays


def unnamed(klass: FaultClass, name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Injected faults of which a diagnosis names neither the fault nor one with the same answers."""
    rows = committed.read(name)
    missed = []
    for fault in some(klass, answers_of.of_set(rows)):
        arrays = injected(fault, rows, monkeypatch)
        wrong = made.wrong(rows, arrays)
        if wrong.any():
            stories = diagnosis(rows, answer_files.Answer(arrays, {}), wrong).stories[:1]
            ids = {id for story in stories for part in story for id in (part.id, *part.equivalent)}
            same = any(story[0].rows_explained == np.count_nonzero(wrong) for story in stories)
            missed += [] if fault.name in ids or same else [fault.id]
    return missed


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("klass", library.STRUCTURE)
def test_every_injected_fault_is_named(klass: FaultClass, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unnamed(klass, name, monkeypatch) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("klass", "name"),
    [
        *((klass, "ovp_decoder-int4") for klass in ("bits", "order", "lanes", "words", "use")),
        *((klass, "olive_mac-wrap") for klass in ("reset", "width")),
        ("rounding", "fp2half-paper"),
        ("width", "orizuru_clocked-n8"),  # its registers show a fault edges later
    ],
)
def test_some_injected_faults_are_named(klass: FaultClass, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "EACH", 4)
    assert some(klass, answers_of.of_set(committed.read(name))) and unnamed(klass, name, monkeypatch) == []


@pytest.mark.parametrize("name", ["ovp_decoder-int4", "bfp_aligner-paper"])
def test_every_suspected_fault_can_be_injected(name: str) -> None:
    """What a diagnosis tries of random answers changes the rows that coverage injects, and coverage has its kind."""
    rows = committed.read(name)
    arrays, answers = made.outputs(rows), answers_of.of_set(rows)
    random = np.random.default_rng(1)
    for array in arrays.values():
        array[...] = random.permuted(array, axis=0)
    table = made.table(rows, arrays)
    suspected = [*library.suspected(table, dict(table.want)), *library.seen(table), *library.computed(table)]
    kinds = {fault.name for faults in library.STRUCTURE.values() for fault in faults(answers)}

    assert {fault.name for fault in suspected} <= kinds
    for fault in suspected[::3]:
        prediction = Search(table).predicted(Story().with_(fault))
        changed = np.zeros(len(table.rows), np.bool_)
        for array, words in prediction.words.items():
            changed |= (table.changed(array, words) != 0).any(axis=1)
        wrong = fault.wrong(answers)[table.rows]
        if fault.runs:  # coverage stops at the first part of the stimulus that shows the fault
            assert wrong.any() == changed.any() and not (wrong & ~changed).any(), fault.id
        else:
            assert wrong.tolist() == changed.tolist(), fault.id
