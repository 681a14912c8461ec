"""The generation compressor: compared values of stored tokens, candidates, the victim. [leankv §4, Algorithm 1]"""

from collections.abc import Iterator
from typing import Any

from refemu.arith.scalar32 import value32
from refemu.draw.leankv.bars import Bar, rows
from refemu.draw.svg import Drawing
from refemu.draw.values import listed, single
from refemu.units.ports import Ports

#: names of the choices, by code: of Algorithm 1, the published code, a static budget
CHOICES = ("W", "A1", "A2", "A3", "B1", "B2", "C", "", "append", "prune", "swap", "downgrade", "append", "drop")
LEGEND = {
    "high": "high section",
    "low": "low section",
    "pos": "high, in the window",
    "plain": "no mean yet",
    "score": "least of a section",
    "hot": "mean of this event, or victim",
}


def generation_compressor(ports: Ports, state: Any) -> str:
    """Draw the generation compressor: a bar for every stored slot by section, candidates and the victim.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of generation_compressor.

    Returns
    -------
    str
        SVG; of more than 96 slots the rows that the event is about, then the first ones.

    References
    ----------
    [leankv §4, Algorithm 1]
    """
    name, words = _stage(state)
    drawing = Drawing(f"generation compressor after {state.event}", _described(state, name, words))
    drawing.heading(f"{state.event}: token {state.n} comes, {state.n_high} high + {state.n_low} low stored")
    bars = list(_bars(state, name, words))
    rows(drawing, bars, max((bar.value for bar in bars), default=0.0), "slots")
    drawing.note(f"a bar is the {name} of a slot, below it the slot", "small faint")
    for line in _decision(state).split("; "):
        drawing.note(line)
    _registers(drawing, state)
    drawing.legend(LEGEND)
    return drawing.svg()


def _stage(state: Any) -> tuple[str, tuple[int, ...]]:
    """Values of the bars: means until argmin, then the values compared with thresholds."""
    return ("mean", state.means) if state.event in ("reset", "mean") else ("share", state.shares)


def _bars(state: Any, name: str, words: tuple[int, ...]) -> Iterator[Bar]:
    positions, marks = state.position, _marks(state)
    for slot in range(state.n_high + state.n_low):
        there = name != "mean" or slot < state.done
        section = "high" if slot < state.n_high else "low"
        inside = slot < state.n_high and state.n - positions[slot] < state.window
        kind = "plain" if not there else "pos" if inside else section
        value = f"{name} {single(words[slot])}" if there else "no mean yet"
        about = f"slot {slot}: {section}, token {positions[slot]}, {value}"
        yield Bar(value32(words[slot]) if there else 0.0, kind, str(slot), marks.get(slot, ""), about)


def _marks(state: Any) -> dict[int, str]:
    """Slots that the event is about."""
    if state.event == "mean":
        return {state.done - 1: "hot"} if state.done else {}
    marks = {slot: "score" for slot in state.slots if slot >= 0}
    if state.event == "case" and not state.delta_high:
        marks[state.victim] = "hot"
        if 0 <= state.low_slot < state.n_low:
            marks[state.n_high + state.low_slot] = "hot"
    return marks


def _decision(state: Any) -> str:
    """Two lines in every event, so that the drawings of an operation differ in few lines."""
    if state.event != "case":
        return "no decision yet; "
    choice = f"{CHOICES[state.choice]}: token {state.n}"
    if state.delta_high:
        return f"{choice} goes after the high section, to slot {state.victim}; "
    where = "is dropped"
    if state.low_slot >= 0:
        grows = state.low_slot == state.n_low
        where = f"goes to low slot {state.low_slot}{', after the others' if grows else ', whose token is dropped'}"
    moved = state.position[state.victim]
    return f"{choice} takes high slot {state.victim}; token {moved}, there so far, {where}"


def _registers(drawing: Drawing, state: Any) -> None:
    low, high = (single(word) for word in state.thresholds)
    best = ["none" if slot < 0 else f"slot {slot}" for slot in state.slots]
    hot = "hot" if state.event == "mean" else "plain"
    least = "score" if state.event != "mean" else "plain"
    drawing.named(
        [
            ("sum of means", single(state.total), hot),
            ("least high", best[0], least),
            ("least low", best[1], least),
            ("lower limit", low, "plain"),
            ("upper limit", high, "plain"),
        ]
    )


def _described(state: Any, name: str, words: tuple[int, ...]) -> str:
    stored = min(state.n_high + state.n_low, state.done if name == "mean" else len(words))
    values = listed([f"slot {slot} {single(words[slot])}" for slot in range(stored)], 32) or "none"
    low, high = (single(word) for word in state.thresholds)
    return f"{name}s: {values}. {_decision(state).rstrip('; ')}. Thresholds {low} and {high}"
