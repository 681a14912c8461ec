"""Tables of numbered entries: eight side by side; if there are many, those around the event's."""

from refemu.draw.entry_tables import entries
from refemu.draw.svg import Drawing
from tests.draw.shapes import about, boxes, texts


def test_rows_are_below_each_other() -> None:
    drawing = Drawing("t", "d")
    first = [(str(at), "code", f"first {at}") for at in range(10)]
    entries(drawing, {"first": first, "second": [("x", "hot", "second")] * 9})

    assert [box.text for box in about(drawing.svg(), "first")] == [str(at) for at in range(10)]
    assert len(about(drawing.svg(), "second")) == 9 and texts(drawing.svg())[:8] == [str(at) for at in range(8)]


def test_many_entries_show_those_around_event() -> None:
    for at, begin in ((0, 0), (100, 88), (255, 224)):
        drawing = Drawing("t", "d")
        entries(drawing, {"name": [(str(entry), "code", "entry") for entry in range(256)]}, at)
        assert [box.text for box in boxes(drawing.svg())] == [str(entry) for entry in range(begin, begin + 32)]
        assert f"entries {begin} to {begin + 31} of 256" in texts(drawing.svg())


def test_entries_of_a_partial_row_are_drawn() -> None:
    drawing = Drawing("t", "d")
    entries(drawing, {"name": [(str(entry), "code", "entry") for entry in range(36)]}, 35)

    assert "entries 8 to 35 of 36" in texts(drawing.svg())
