"""The KV quantizer: features of a group, their range, the step, codes as they are packed. [leankv §2.2 Eq. (2)]"""

from typing import Any

from refemu.arith.scalar32 import value16
from refemu.draw.entry_tables import LETTERS, entries
from refemu.draw.svg import Drawing
from refemu.draw.values import brief, half, listed, single
from refemu.units.ports import Ports

WORD = 16  #: bits of a word of codes
STATUS = ("scale underflow", "scale overflow", "zero overflow", "constant group")  #: from bit 0 up
LEGEND = {
    "plain": "not yet compared",
    "key": "feature",
    "val": "code",
    "hot": "this event",
    "empty": "still to come",
    "bad": "see the status",
}


def quantizer(ports: Ports, state: Any) -> str:
    """Draw the KV quantizer: every feature above its code, then range, step and zero point.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of kv_quantizer.

    Returns
    -------
    str
        SVG; of more than 32 features those around the event's.

    References
    ----------
    [leankv §2.2 Eq. (2), §6.2]
    """
    features, codes = state.x, _codes(state)
    drawing = Drawing(f"KV quantizer after {state.event}", _described(state, codes))
    drawing.heading(f"{state.event}: {state.element} features compared, {len(codes)} codes of {state.bits} bit packed")
    hot = _hot(state)
    compared = [
        (
            brief(value16(word), LETTERS),
            "hot" if place in hot and state.event == "minmax" else "key" if place < state.element else "plain",
            f"feature {place}: {half(word)}",
        )
        for place, word in enumerate(features)
    ]
    packed = [
        (str(codes[place]), "hot" if place in hot and state.event == "word" else "val", f"code {place}: {codes[place]}")
        if place < len(codes)
        else ("", "empty", f"code {place}: still to come")
        for place in range(len(features))
    ]
    entries(drawing, {"feature": compared, "code": packed}, hot.start)
    kind = "hot" if state.event == "minmax" else "plain"
    scaled = "bad" if state.status else "hot" if state.event == "scale" else "plain"
    drawing.named(
        [
            ("smallest", single(state.mn), kind),
            ("largest", single(state.mx), kind),
            ("step", single(state.s32), scaled),
            ("stored step", half(state.scale), scaled),
            ("stored zero", half(state.zero), scaled),
        ]
    )
    drawing.note(f"status: {_status(state)}", "small")
    drawing.legend(LEGEND)
    return drawing.svg()


def _hot(state: Any) -> range:
    """Features that the event is about."""
    if state.event == "minmax":
        return range(state.element - 1, state.element)
    packed = WORD // state.bits
    return range(packed * (state.written - 1), packed * state.written) if state.event == "word" else range(0)


def _codes(state: Any) -> list[int]:
    """Codes of the words packed so far, the first in the lowest bits."""
    return [
        word >> place & (1 << state.bits) - 1
        for word in state.words[: state.written]
        for place in range(0, WORD, state.bits)
    ]


def _status(state: Any) -> str:
    return ", ".join(name for place, name in enumerate(STATUS) if state.status >> place & 1) or "none"


def _described(state: Any, codes: list[int]) -> str:
    return (
        f"features {listed(map(half, state.x), 32)}; smallest {single(state.mn)}, largest {single(state.mx)}, "
        f"step {single(state.s32)}, stored as {half(state.scale)}, zero {half(state.zero)}, status {_status(state)}; "
        f"codes {listed(codes, 32) or 'none'}"
    )
