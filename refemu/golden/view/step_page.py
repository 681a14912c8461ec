"""The events of a unit as a page: a slider, registers with their changes, the drawing, active decisions."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from refemu import formats
from refemu.arith.checks import Refused
from refemu.golden.view import decision_rows, drawings, encode
from refemu.golden.view.members import members, registers_of
from refemu.golden.view.page import LIMIT, page
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit

MOST = 10_000  #: most events of a page
SPARE = 60_000  #: bytes of a page for styles, script and names
SHARE = 0.85  #: share of the other bytes for states; drawings get the rest


class Shown(NamedTuple):
    """Events for a page."""

    unit: AnyUnit
    config: str
    inputs: Mapping[str, np.ndarray]
    about: str  #: source of the inputs, one line
    decision: str  #: of the case, or ""
    states: Sequence[Any]  #: states from event `first` on, at most MOST
    operations: Sequence[int]  #: number of each state's operation
    first: int
    total: int  #: number of all events


class Written(NamedTuple):
    """A page and its contents."""

    data: bytes
    first: int
    events: int
    total: int
    drawings: str  #: in words


def written(shown: Shown) -> Written:
    """The page of as many events as fit. Refused: not even one event fits."""
    unit, config = shown.unit, shown.unit.config(shown.config)
    ports, device = unit.ports(config), unit.unit_class(**config)
    registers = registers_of(device)
    every = list(members(ports, shown.states, registers))
    names = list(dict.fromkeys(state.event for state in shown.states))
    decisions = decision_rows.entries(unit, config, shown.inputs, shown.decision)
    room = (LIMIT - SPARE - len(str(decisions))) * 3 // 4  # base64 takes 4 bytes for 3
    encoded = encode.encode(
        every, [names.index(state.event) for state in shown.states], shown.operations, int(room * SHARE)
    )
    if not encoded.events:
        raise Refused(f"step: one event of {unit.name} takes more than the {LIMIT:,} bytes of a page; leave out --html")
    pictures = drawings.drawn(unit, ports, shown.states[: encoded.events], room - len(encoded.stream))
    words = _words(unit, pictures)
    data = {
        "unit": unit.name,
        "config": shown.config,
        "paper": unit.paper,
        "meaning": unit.meaning,
        "about": shown.about,
        "clocked": unit.timing == "event",
        "first": shown.first,
        "events": encoded.events,
        "total": shown.total,
        "names": names,
        "fields": [_field(each) for each in encoded.layout],
        "texts": encoded.texts,
        "size": encoded.size,
        "stream": encode.text(encoded.stream),
        "pictures": encode.text(pictures.stream) if pictures else "",
        "every": pictures.every if pictures else 0,
        "drawings": words,
        "codes": codes(ports.all),
        "decisions": decisions,
        "tried": decision_rows.MOST,
    }
    title = f"{unit.name} [{shown.config}]: {unit.meaning}"
    return Written(page("step", title, data), shown.first, encoded.events, shown.total, words)


def codes(ports: Sequence[Port]) -> dict[str, list[list[str]]]:
    """Meaning of every code of formats of at most 8 bits at these ports: in full, and its values alone."""
    kinds = {port.kind: port.bits for port in ports if port.bits <= 8 and port.kind not in ("uint", "int")}
    known = {kind: formats.constants().get(kind.upper()) for kind in kinds}
    return {
        kind: [_described(fmt, code) for code in range(1 << kinds[kind])]
        for kind, fmt in known.items()
        if hasattr(fmt, "describe")
    }


def _described(fmt: Any, code: int) -> list[str]:
    try:
        text = re.sub("^0x[0-9a-f]+: ", "", str(fmt.describe(code)))
        values = fmt.decode(fmt.split(code) if hasattr(fmt, "legal_pairs") else np.array(code))
        return [text, ",".join(str(value) for value in np.atleast_1d(values).tolist())]
    except Refused as refusal:  # a code that the format lacks
        return [str(refusal), "illegal"]


def _field(each: encode.Layout) -> dict[str, Any]:
    return port_entry(each.port) | {
        "group": each.group,
        "lanes": each.lanes,
        "first": each.first,
        "text": each.text,
    }


def port_entry(port: Port) -> dict[str, Any]:
    """A port for a page."""
    return {
        "name": port.name,
        "bits": port.bits,
        "signed": port.signed,
        "kind": port.kind,
        "meaning": port.meaning,
    }


def _words(unit: AnyUnit, pictures: drawings.Drawn | None) -> str:
    if pictures is None:
        return "no drawing"
    return "every event is drawn" if pictures.every == 1 else f"every {pictures.every}th event is drawn"
