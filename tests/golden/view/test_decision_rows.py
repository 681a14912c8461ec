"""Active decisions: rows that detect variants, by the variants themselves."""

import numpy as np
import pytest

from refemu.golden.view import decision_rows
from refemu.units import olive_mac, ovp_decoder


def others(entries: list[dict[str, object]], id: str) -> list[dict[str, object]]:
    (entry,) = [entry for entry in entries if entry["id"] == id]
    found = entry["others"]
    assert isinstance(found, list)
    return found


def test_detecting_rows_differ_in_an_output() -> None:
    unit = ovp_decoder.UNIT
    config = unit.config("int4")
    pairs = np.arange(256)
    entries = decision_rows.entries(unit, config, {"pair": pairs, "bias": np.full(256, 2)})
    right = unit.evaluate(config, {"pair": pairs, "bias": np.full(256, 2)}, jit=False)
    (swapped,) = [each for each in others(entries, "D-olive-1") if each["rows"]]
    wrong = unit.evaluate(config, {"pair": (pairs >> 4 | pairs << 4) & 255, "bias": np.full(256, 2)}, jit=False)
    places = [
        place
        for place in range(256)
        if any((getattr(right, name)[place] != getattr(wrong, name)[place]).any() for name in ("exponent", "base_int"))
    ]

    assert swapped["rows"] == decision_rows.ranges(places)
    assert {entry["id"] for entry in entries} >= set(unit.unobservable)
    assert all(entry["title"] and entry["text"] for entry in entries)


def test_variants_are_tried_on_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = ovp_decoder.UNIT
    inputs = {"pair": np.full(30, 0x85), "bias": np.full(30, 2)}
    monkeypatch.setattr(decision_rows, "MOST", 20)
    entries = decision_rows.entries(unit, unit.config("int4"), inputs)

    assert [0, 19] in [each for other in others(entries, "D-olive-1") for each in other["rows"] or ()]  # type: ignore[attr-defined]


def test_the_decision_of_the_case_comes_first() -> None:
    unit = olive_mac.UNIT
    inputs = {port.name: np.zeros(2, np.int64) for port in unit.ports({}).inputs}
    id = unit.variants[-1].decision
    entries = decision_rows.entries(unit, unit.config(next(iter(unit.configs))), inputs, id)

    assert entries[0]["id"] == id and [entry["taken"] for entry in entries] == [True] + [False] * (len(entries) - 1)


def test_runs_of_numbers_become_ranges() -> None:
    assert decision_rows.ranges([0, 1, 2, 5, 7, 8]) == [[0, 2], [5, 5], [7, 8]] and decision_rows.ranges([]) == []
