"""The index counter: the index of every lane, and the count of each index. [kllm §IV-B]"""

from typing import Any

from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import listed
from refemu.units.ports import Ports

SMALL_COUNT = 16  #: most indices with one-hot rows; more are drawn as a table of counts
ACROSS = 8  #: counters side by side in a table


def counters(ports: Ports, state: Any) -> str:
    """Draw the index counter: one-hot rows of the lanes, column sums and registers.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of index_counter.

    Returns
    -------
    str
        SVG; of more than 16 indices the registers without the one-hot rows.

    References
    ----------
    [kllm §IV-B]
    """
    q, valid, count, sums = (getattr(state, name) for name in ("q", "valid", "count", "sums"))
    came = [index for index, there in zip(q, valid, strict=True) if there]
    drawing = Drawing(
        f"index counter after cycle {state.index}",
        f"indices {listed(came, 16) or 'none'}; registers {listed(count, 64)}",
    )
    drawing.heading(f"cycle {state.index}: {state.event}, {len(came)} of {len(q)} lanes valid")
    if len(count) > SMALL_COUNT:
        _table(drawing, count, sums, came)
    else:
        _matrix(drawing, q, valid, sums, count)
    drawing.legend({"hot": "index of a lane", "code": "register", "gone": "lane that is not valid", "empty": "0"})
    return drawing.svg()


def _matrix(
    drawing: Drawing, q: tuple[int, ...], valid: tuple[int, ...], sums: tuple[int, ...], count: tuple[int, ...]
) -> None:
    """A row for each lane, a column for each index; below them the counts of this cycle and the registers."""
    left, width = 76, min(48.0, (WIDTH - 76 - MARGIN) / len(count))
    y = drawing.height + 4
    for index in range(len(count)):
        drawing.text(left + (index + 0.5) * width, y + 12, str(index), "small faint", "middle")
    y += 18
    for lane, (word, there) in enumerate(zip(q, valid, strict=True)):
        drawing.text(MARGIN, y + 13, f"lane {lane}", "small")
        for index in range(len(count)):
            kind = "gone" if not there else "hot" if word == index else "empty"
            text = "1" if there and word == index else ""
            drawing.cell(left + index * width, y, width - 2, 16, text, kind)
        y += 18
    for name, values, kind in (("sum", sums, "plain"), ("count", count, "code")):
        drawing.text(MARGIN, y + 20, name, "bold")
        for index, value in enumerate(values):
            drawing.cell(left + index * width, y + 5, width - 2, 22, str(value), kind, f"{name} of index {index}")
        y += 26


def _table(drawing: Drawing, count: tuple[int, ...], sums: tuple[int, ...], came: list[int]) -> None:
    """Registers that are not 0, most first by index."""
    some = [index for index, value in enumerate(count) if value]
    width = (WIDTH - 2 * MARGIN) / ACROSS
    y = drawing.height + 6
    for place, index in enumerate(some[: 16 * ACROSS]):
        x, top = MARGIN + place % ACROSS * width, y + place // ACROSS * 42
        drawing.text(x + width / 2, top + 10, f"[{index}]", "small faint", "middle")
        about = f"index {index}: {sums[index]} in this cycle"
        drawing.cell(x + 2, top + 14, width - 4, 20, str(count[index]), "hot" if index in came else "code", about)
    rest = len(some) - 16 * ACROSS
    drawing.note(
        f"{len(count) - len(some)} of {len(count)} registers are 0" + (f", {rest} more are not" if rest > 0 else "")
    )
