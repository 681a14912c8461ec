"""The free list as a ring, the page table, and both in the page manager. [leankv §5.2, §5.3, Fig. 5]"""

from typing import Any

from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import listed
from refemu.units.ports import Ports

ACROSS = 16  #: cells of the ring in a row
MOST_CELLS, MOST_ENTRIES = 128, 24  #: that are drawn


def free_list(ports: Ports, state: Any) -> str:
    """Draw the ring of free pages with its start and end.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of free_page_list or page_manager.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [leankv §5.2, Fig. 5]
    """
    drawing = Drawing(f"free list after {state.event}", _free(state))
    drawing.heading(f"{state.event}: {state.free} of {len(state.ring)} pages free")
    _ring(drawing, state)
    taken = [page for page in state.taken if page >= 0]
    if taken:
        drawing.note(f"left: {listed(taken)}")
    drawing.legend({"free": "free", "hot": "leaves next", "gone": "in use"})
    return drawing.svg()


def page_table(ports: Ports, state: Any) -> str:
    """Draw the page table: high pages from the left of an entry, low pages from the right.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of page_table or page_manager.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [leankv §5.2, Fig. 5]
    """
    drawing = Drawing(f"page table after {state.event}", _entries(state))
    drawing.heading(f"{state.event} of entry {state.entry}")
    _table(drawing, state, state.entry)
    drawing.legend({"high": "high page", "low": "low page", "empty": "no page", "hot": "this entry"})
    return drawing.svg()


def page_manager(ports: Ports, state: Any) -> str:
    """The free list above the page table."""
    drawing = Drawing(f"free list and page table after {state.event}", f"{_free(state)}. {_entries(state)}")
    drawing.heading(f"{state.event}: {state.free} of {len(state.ring)} pages free")
    _ring(drawing, state)
    drawing.heading("page table")
    _table(drawing, state, -1)
    drawing.legend(
        {"high": "high page", "low": "low page", "free": "free page", "hot": "leaves next", "gone": "in use"}
    )
    return drawing.svg()


def _ring(drawing: Drawing, state: Any) -> None:
    """Cells of the ring in rows; those between head and tail are free."""
    ring = state.ring
    free = {place % len(ring) for place in range(state.head, state.tail)}
    width = (WIDTH - 2 * MARGIN) / ACROSS
    y = drawing.height + 5
    for place, page in enumerate(ring[:MOST_CELLS]):
        kind = "gone" if place not in free else "hot" if place == state.head % len(ring) else "free"
        about = f"place {place}: page {page}, {'free' if place in free else 'in use'}"
        x, top = MARGIN + place % ACROSS * width, y + place // ACROSS * 24
        drawing.cell(x, top, width - 2, 21, str(page) if place in free else "·", kind, about)
    if len(ring) > MOST_CELLS:
        drawing.note(f"the first {MOST_CELLS} of {len(ring)} places", "small faint")
    drawing.note(f"start {state.list_start}, end {state.list_end}", "small faint")


def _table(drawing: Drawing, state: Any, chosen: int) -> None:
    cells, used, tokens = state.cells, state.used, state.tokens
    entries = len(used) // 2
    length = len(cells) // entries
    left, right = 52, 118
    shown = min(length, ACROSS)
    width = (WIDTH - left - right) / shown
    for entry in range(min(entries, MOST_ENTRIES)):
        y = drawing.height + 4
        if entry == chosen:
            drawing.box(MARGIN - 3, y, left - MARGIN - 2, 22, "hot")
        drawing.text(MARGIN, y + 15, f"e {entry}", "small")
        high, low = used[2 * entry], used[2 * entry + 1]
        for place in range(shown):
            cell = place if place < shown // 2 or length == shown else length - shown + place
            kind = "high" if cell < high else "low" if cell >= length - low else "empty"
            page = cells[entry * length + cell]
            about = f"entry {entry}, cell {cell}: {f'page {page}' if kind != 'empty' else 'no page'}"
            drawing.cell(left + place * width, y, width - 2, 22, str(page) if kind != "empty" else "·", kind, about)
        drawing.text(WIDTH - right + 4, y + 15, f"{tokens[2 * entry]} + {tokens[2 * entry + 1]} tokens", "small")
    if length > shown:
        drawing.note(f"the first and last {shown // 2} of {length} cells", "small faint")
    if entries > MOST_ENTRIES:
        drawing.note(f"the first {MOST_ENTRIES} of {entries} entries", "small faint")


def _free(state: Any) -> str:
    ring = state.ring
    free = [ring[place % len(ring)] for place in range(state.head, state.tail)]
    return f"{len(free)} free pages, the next first: {listed(free) or 'none'}"


def _entries(state: Any) -> str:
    cells, used = state.cells, state.used
    length = len(cells) * 2 // len(used)
    texts = []
    for entry in range(len(used) // 2):
        high, low = used[2 * entry], used[2 * entry + 1]
        row = cells[entry * length : (entry + 1) * length]
        if high or low:
            texts.append(
                f"entry {entry}: high {listed(row[:high]) or 'none'}, low {listed(row[length - low :]) or 'none'}"
            )
    return "; ".join(texts) or "no page in the table"
