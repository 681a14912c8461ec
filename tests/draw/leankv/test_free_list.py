"""Free list and page table: the drawing shows the contents of the registers."""

import pytest

from refemu import units
from refemu.units import free_page_list, page_table
from tests.draw.shapes import about, boxes, texts, tree
from tests.draw.test_registry import states


def test_free_pages_are_those_between_head_and_tail() -> None:
    device = free_page_list.FreePageList(4)
    device.allocate(3)
    device.recycle([1])
    svg = free_page_list.UNIT.draw({"pages": 4}, device.state)

    assert [(box.text, box.kind) for box in about(svg, "place")] == [
        ("1", "free"),
        ("·", "gone"),
        ("·", "gone"),
        ("3", "hot"),
    ]
    assert tree(svg)[1].text == "2 free pages, the next first: 3, 1"


@pytest.mark.parametrize("name", ["page_table", "page_manager"])
def test_cells_are_those_of_the_table(name: str) -> None:
    unit = units.find(name)
    config = next(iter(unit.configs))
    seen = set()
    for state in states(name, config):
        shown = about(unit.draw(unit.config(config), state), "entry")
        length = len(state.cells) * 2 // len(state.used)
        for place, box in enumerate(shown):
            entry, cell = divmod(place, length)
            high, low = state.used[2 * entry : 2 * entry + 2]
            there = cell < high or cell >= length - low
            assert box.text == (str(state.cells[place]) if there else "·")
            assert box.kind == ("high" if cell < high else "low" if there else "empty")
            seen.add(box.kind)

    assert seen == {"high", "low", "empty"}


def test_long_entries_show_both_ends() -> None:
    config = page_table.UNIT.config("slots=1,layers=1,heads=2,cells=40")
    device = page_table.PageTable(**config)
    svg = page_table.UNIT.draw(config, device.state)

    assert "the first and last 8 of 40 cells" in texts(svg) and len(boxes(svg)) < 60
