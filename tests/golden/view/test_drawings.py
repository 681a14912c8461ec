"""Drawings of many events, read back and compared with the states."""

from typing import Any

import pytest

from refemu.golden.view import drawings, encode
from refemu.units import orizuru
from tests.golden.view import reader

UNIT = orizuru.UNIT
CONFIG = UNIT.config("n8")


def states(rows: int) -> list[Any]:
    x = [[(lane * 7 + row) % 8 * 1024 for lane in range(8)] for row in range(rows)]
    return list(UNIT.trace(CONFIG, {"x": x}))


def read(drawn: drawings.Drawn | None) -> list[str]:
    assert drawn is not None
    return reader.pictures({"pictures": encode.text(drawn.stream)})


def test_every_event_is_drawn() -> None:
    every = states(5)

    drawn = drawings.drawn(UNIT, UNIT.ports(CONFIG), every, 1 << 20)
    assert drawn is not None and drawn.every == 1
    assert read(drawn) == [UNIT.draw(CONFIG, state) for state in every]


def test_too_many_events_are_drawn_evenly() -> None:
    every = states(5)
    whole = drawings.drawn(UNIT, UNIT.ports(CONFIG), every, 1 << 20)
    assert whole is not None
    drawn = drawings.drawn(UNIT, UNIT.ports(CONFIG), every, len(whole.stream) - 1)

    assert drawn is not None and drawn.every == 2
    assert read(drawn) == [UNIT.draw(CONFIG, state) for state in every[::2]]
    assert drawings.drawn(UNIT, UNIT.ports(CONFIG), every, 10) is None


def test_many_events_are_drawn_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawings, "MOST", 10)
    drawn = drawings.drawn(UNIT, UNIT.ports(CONFIG), states(2), 1 << 20)

    assert drawn is not None and drawn.every == 5 and len(read(drawn)) == 10
