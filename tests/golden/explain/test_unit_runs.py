"""Runs of a unit as another device."""

from typing import Any

import numpy as np
import pytest

from refemu.golden.explain import reruns, unit_runs
from refemu.golden.faults import library
from refemu.golden.faults.fault import Fault
from tests.golden import committed
from tests.golden.explain import made


def chosen(unit: str, config: str, says: str) -> tuple[made.Table, Fault]:
    rows = made.golden(unit, config)
    table = made.table(rows, made.outputs(rows))
    (guess,) = (each for each in reruns.decisions(table) if each.says.endswith(says))
    return table, guess


def test_unit_gives_the_answers_of_the_set() -> None:
    rows = made.golden("olive_mac", "wrap")
    table = made.table(rows, made.outputs(rows))
    device = unit_runs.device(table, [])
    assert device is not None
    words, known = unit_runs.words(table, [], device)
    assert known.all() and all((words[name] == table.want[name]).all() for name in table.ports)


def test_variant_changes_answers_and_is_compiled() -> None:
    table, guess = chosen("olive_mac", "wrap", "overflow is 'saturate'")
    device = unit_runs.device(table, [guess])
    assert device is not None and not unit_runs.is_slow([guess], device)
    words, _ = unit_runs.words(table, [guess], device)
    assert table.changed("out.acc", words["out.acc"]).any()


def test_device_overriding_a_method_is_slow() -> None:
    table, guess = chosen("ovp_decoder", "int4", "an illegal pair is not flagged")
    device = unit_runs.device(table, [guess])
    assert device is not None and unit_runs.is_slow([guess], device)
    words, _ = unit_runs.words(table, [guess], device)
    assert not words["out.illegal"].any() and table.want["out.illegal"].any()


def test_invalid_rows_have_answers_of_the_set() -> None:
    rows = made.golden("ovp_decoder", "int4")
    table = made.table(rows, made.outputs(rows))

    def refused(inputs: Any, before: np.ndarray) -> Any:
        return {**inputs, "bias": np.where(np.asarray(inputs["bias"]) == 3, np.int64(999), inputs["bias"])}

    guess = Fault("", "", "width", stimulus=refused)
    device = unit_runs.device(table, [guess])
    assert device is not None
    words, known = unit_runs.words(table, [guess], device)
    bias = np.asarray(table.groups[0].inputs["bias"])
    assert (bias == 3).any() and not known[bias == 3].any() and known.any()
    assert all(not table.changed(name, words[name])[~known].any() for name in table.ports)


@pytest.mark.parametrize("unit", ["fp16_mac", "fp2half"])
def test_arithmetic_is_restored(unit: str) -> None:
    rows = made.golden(unit, "paper")
    table = made.table(rows, made.outputs(rows))
    (truncated,) = (each for each in library.computed(table) if each.id == "fp16/truncate")
    device = unit_runs.device(table, [truncated])
    assert device is not None
    words, _ = unit_runs.words(table, [truncated], device)
    assert table.changed("out.y", words["out.y"]).any()
    again, _ = unit_runs.words(table, [], device)
    assert (again["out.y"] == table.want["out.y"]).all()


def test_pace_is_that_of_the_readable_unit() -> None:
    rows = made.golden("fp16_mac", "paper")
    assert 0 <= unit_runs.pace(made.table(rows, made.outputs(rows))) < 1


def test_faulty_register_is_compared_with_answers() -> None:
    rows = made.golden("orizuru", "n8", ("edge",))
    arrays = made.outputs(rows) | {name: rows.arrays[name].copy() for name in rows.arrays if name.startswith("st.")}
    arrays["out.max_index"][5:] ^= 1
    table = made.table(rows, arrays)
    faults = [fault for fault in library.computed(table) if fault.registers]
    assert {name[:3] for name in table.ports} == {"out", "st."} and faults
    for fault in faults:
        device = unit_runs.device(table, [fault])
        assert device is not None
        words, known = unit_runs.words(table, [fault], device)
        assert set(words) == set(table.ports) and known.any()


@pytest.mark.timeout(60)
def test_a_device_that_misses_resets_ends() -> None:
    rows = committed.read("orizuru_clocked-n8")
    table = made.table(rows, made.outputs(rows))
    faults = [fault for fault in library.computed(table) if fault.id == "missed"]
    assert [unit_runs.reach(table, fault) is not None for fault in faults] == [True]
