"""The prompt compressor: tokens by their shares, the pair that the network compares, classes. [leankv §4]"""

from collections.abc import Iterator
from typing import Any

from refemu.arith.scalar32 import value32
from refemu.draw.leankv.bars import Bar, rows
from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import listed, single
from refemu.units.ports import Ports

CLASSES = ("pruned", "low", "high", "window")  #: by code
KINDS = ("gone", "low", "high", "pos")  #: of svg.FILLS
STAGES = 28  #: most stages that are drawn, those of 128 places
LEGEND = {
    "gone": "pruned",
    "low": "low precision",
    "high": "high precision",
    "pos": "window",
    "plain": "not yet classified",
    "hot": "this event",
}


def prompt_compressor(ports: Ports, state: Any) -> str:
    """Draw the prompt compressor: a bar for the share of every token in the order so far, coloured by class.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of prompt_compressor.

    Returns
    -------
    str
        SVG; of more than 96 places the rows that the event is about, then the first ones.

    References
    ----------
    [leankv §4]
    """
    drawing = Drawing(f"prompt compressor after {state.event}", _described(state))
    drawing.heading(_heading(state))
    if state.event == "reset":
        drawing.note("no prompt yet")
        return drawing.svg()
    bars = list(_bars(state))
    rows(drawing, bars, max((bar.value for bar in bars if bar.kind not in ("pos", "empty")), default=0.0), "places")
    drawing.note("a bar is a token's share, below it the token; in the order of the sort", "small faint")
    if any(port.name == "size" for port in ports.state):
        _network(drawing, state)
    _sums(drawing, state)
    drawing.legend(LEGEND)
    return drawing.svg()


def compared(state: Any) -> tuple[int, int, int]:
    """Find the pair of a compare-exchange: the State after it holds the next one.

    Parameters
    ----------
    state : State
        State of prompt_compressor after a compare_exchange.

    Returns
    -------
    size, distance, lower : int
        Size of the merged blocks, distance of the compared elements, and the lower of their places.
    """
    places = len(state.keys)
    size, distance, following = state.size, state.distance, state.lower
    if not size:
        size, distance, following = places, 1, places  # the network is done
    elif not following:  # a stage begins: the last pair of the one before
        size, distance = (size, 2 * distance) if 2 * distance < size else (size // 2, 1)
        following = places
    return size, distance, next(place for place in reversed(range(following)) if not place & distance)


def _heading(state: Any) -> str:
    if state.event == "compare_exchange":
        _, distance, lower = compared(state)
        return f"compare_exchange: places {lower} and {lower + distance}"
    if state.event == "classify":
        token = state.order[state.rank - 1]
        return f"classify: token {token}, {state.rank} of {len(state.share)}"
    return str(state.event)


def _bars(state: Any) -> Iterator[Bar]:
    """A bar for each place; the pads of the network are not tokens."""
    keys, cls, rank = state.keys, state.cls, 0
    tokens, marked = len(cls), _marked(state)
    border = max(tokens - state.window, 0)
    for place, token in enumerate(state.sorted):
        mark = "hot" if place in marked else ""
        if token >= tokens:
            yield Bar(0.0, "empty", "·", mark, f"place {place}: pad of the network")
            continue
        kind, name = "plain", "not yet classified"
        if token >= border or rank < state.rank:
            code = 3 if token >= border else cls[token]
            kind, name = KINDS[code], CLASSES[code]
        share = "in the window" if token >= border else f"share {single(keys[token])}"
        yield Bar(value32(keys[token]), kind, str(token), mark, f"place {place}: token {token}, {share}, {name}")
        rank += 1


def _marked(state: Any) -> tuple[int, ...]:
    """Places that the event is about."""
    if state.event == "compare_exchange":
        _, distance, lower = compared(state)
        return (lower, lower + distance)
    if state.event == "classify":
        return (state.sorted.index(state.order[state.rank - 1]),)
    return ()


def _network(drawing: Drawing, state: Any) -> None:
    """Stages of the network: finished, current and future ones."""
    places = len(state.keys)
    levels = range(1, places.bit_length())
    stages = [(1 << level, 1 << step) for level in levels for step in reversed(range(level))]
    at = stages.index(compared(state)[:2]) if state.event == "compare_exchange" else len(stages) * (state.rank > 0)
    _pair(drawing, state)
    if not stages or len(stages) > STAGES:
        return
    wide, y = (WIDTH - 2 * MARGIN) / len(stages), drawing.height + 4
    for number, (size, distance) in enumerate(stages):
        x = MARGIN + number * wide
        if 2 * distance == size:
            drawing.text(x, y + 11, str(size), "small faint")
        kind = "plain" if number < at else "hot" if number == at else "empty"
        drawing.cell(x, y + 15, wide - 2, 18, str(distance), kind, f"stage: blocks of {size}, distance {distance}")
    drawing.note("stages of the network: size of the merged blocks, below it distances", "small faint")


def _pair(drawing: Drawing, state: Any) -> None:
    """The tokens that were compared, in their present order."""
    if state.event != "compare_exchange":
        drawing.note("the network is not at work")
        return
    size, distance, lower = compared(state)
    ranked = state.sorted
    left, right = (_named(state, ranked[place]) for place in (lower, lower + distance))
    drawing.note(f"{left} and {right}: {'ascending' if not lower & size else 'descending'}")


def _named(state: Any, place: int) -> str:
    return f"token {place} ({single(state.keys[place])})" if place < len(state.cls) else "a pad"


def _sums(drawing: Drawing, state: Any) -> None:
    """The number of tokens by class, the running sum, and the thresholds."""
    low, high = (single(word) for word in state.thresholds)
    hot = "hot" if state.event == "classify" else "plain"
    drawing.named(
        [
            ("pruned", str(state.n_pruned), "gone"),
            ("low", str(state.n_low), "low"),
            ("high", str(state.n_high), "high"),
            ("running sum", single(state.running), hot),
            ("lower limit", low, "plain"),
            ("upper limit", high, "plain"),
        ]
    )


def _described(state: Any) -> str:
    keys, tokens = state.keys, len(state.cls)
    ranked = [token for token in state.sorted if token < tokens]
    order = listed([f"token {token} {single(keys[token])}" for token in ranked], 32)
    counts = f"{state.n_pruned} pruned, {state.n_low} low, {state.n_high} high"
    low, high = (single(word) for word in state.thresholds)
    sums = f"running sum {single(state.running)}, thresholds {low} and {high}"
    pair = f"{_heading(state)}. " if state.event == "compare_exchange" else ""
    return f"{pair}Order: {order}. {state.rank} classified: {counts}; {sums}"
