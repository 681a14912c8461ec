"""The port map of an existing core: `map.json`, checked against the ports of a unit.

Keys, all optional: `top`, `parameters`, `clock`, `reset`, `handshake`, `inputs`, `outputs`, `open`, `unused`,
`registers`; docs/port-map.md describes them. In `inputs` the keys are ports of the core and the values name those of
the unit; in `outputs` and `registers` it is the reverse.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused, lookup
from refemu.arith.reader_errors import contents, reading
from refemu.golden.rtl import expressions
from refemu.units.ports import Port, Ports

KEYS = (
    "top",
    "parameters",
    "clock",
    "reset",
    "handshake",
    "inputs",
    "outputs",
    "open",
    "unused",
    "registers",
    "about",
)
HANDSHAKE = ("in_valid", "in_ready", "out_valid", "out_ready")
SAME = 'omit "{key}" if your ports have the names of refemu'


@dataclass(frozen=True)
class Map:
    """Ports of a unit in a core. If a part is absent, the core has refemu's names."""

    top: str = ""  #: module
    parameters: Mapping[str, str] = field(default_factory=dict)  #: parameters of the module, in Verilog
    clock: str | None = None  #: port; "" if the core has none, None by default
    reset: str | None = None  #: the same
    low: bool = False  #: whether the reset is active low
    handshake: Mapping[str, str] | None = None  #: ours -> theirs, "" if the core has none
    inputs: Mapping[str, str] | None = None  #: theirs -> expression of ours
    outputs: Mapping[str, str] | None = None  #: ours -> expression of theirs
    flipped: frozenset[str] = frozenset()  #: outputs with reversed lanes in the core
    open: tuple[str, ...] = ()  #: their outputs that stay unconnected
    unused: frozenset[str] = frozenset()  #: our ports that the core lacks
    registers: Mapping[str, str] = field(default_factory=dict)  #: ours -> expression of names in the core


LONGEST = 1 << 20  #: bytes of a port map


def read(path: str | Path, unit: str, ports: Ports) -> Map:
    """The map in a file. Refused: a missing file, an invalid map, or one that does not fit the ports of `unit`."""
    place = Path(path)
    if not place.is_file():
        raise Refused(f"{place}: no such file; docs/port-map.md shows a port map")
    with reading(str(place), "a port map in JSON"):
        document = json.loads(contents(place, LONGEST, str(place)).decode("utf-8"), object_pairs_hook=_once)
    return parse(document, unit, ports, str(place))


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Refused(f"port map: each key must occur once, got {twice!r} twice")
    return dict(pairs)


def parse(document: Any, unit: str, ports: Ports, thing: str = "map.json") -> Map:
    """The map in a JSON document; `thing` starts the messages."""
    if not isinstance(document, dict):
        raise Refused(f"{thing}: must be a JSON object, got {type(document).__name__}")
    for key in document:
        lookup(f"key of {thing}", key, dict.fromkeys(KEYS))
    inputs = {port.name: port for port in ports.inputs}
    outputs = {port.name: port for port in ports.outputs}
    state = {port.name: port for port in ports.state}
    unused = frozenset(_names(document, "unused", thing))
    for name in unused:
        lookup(f"port of {unit}", name, inputs | outputs)
    reset, low = _reset(document, thing)
    flipped, theirs = _outputs(document, unit, outputs, unused, thing)
    map_ = Map(
        _word(document, "top", thing) or "",
        _parameters(document, thing),
        _word(document, "clock", thing),
        reset,
        low,
        _handshake(document, thing),
        _inputs(document, unit, inputs, unused, thing),
        theirs,
        flipped,
        tuple(_names(document, "open", thing)),
        unused,
        _registers(document, unit, state, thing),
    )
    _require_once(map_, thing)
    return map_


def _object(document: Mapping[str, Any], key: str, thing: str) -> Mapping[str, Any]:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise Refused(f"{thing}: {key} must be an object of names and expressions, got {value!r}")
    return value


def _parameters(document: Mapping[str, Any], thing: str) -> Mapping[str, str]:
    """Verilog of each parameter of the core."""
    values = {}
    for name, value in _object(document, "parameters", thing).items():
        place = f"{thing}: parameters.{name}"
        if not expressions.is_plain(name):
            raise Refused(f"{thing}: parameters: must be names of your core's parameters, got {name!r}")
        plain = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        number = plain or (isinstance(value, str) and value.isdecimal())
        values[name] = str(value) if number else expressions.require_expression(value, place)
    return values


def _names(document: Mapping[str, Any], key: str, thing: str) -> list[str]:
    value = document.get(key, [])
    if not isinstance(value, list) or not all(isinstance(name, str) and expressions.is_plain(name) for name in value):
        raise Refused(f"{thing}: {key} must be a list of names, got {value!r}")
    return value


def _word(document: Mapping[str, Any], key: str, thing: str) -> str | None:
    """A name; "" for null, None if the key is absent."""
    if key not in document:
        return None
    value = document[key]
    if value is not None and not (isinstance(value, str) and expressions.is_plain(value)):
        raise Refused(f"{thing}: {key} must be a name in your core, or null if it has none, got {value!r}")
    return value or ""


def _reset(document: Mapping[str, Any], thing: str) -> tuple[str | None, bool]:
    value = document.get("reset")
    if not isinstance(value, dict):
        return _word(document, "reset", thing), False
    if set(value) != {"port", "active"} or value["active"] not in ("low", "high"):
        raise Refused(f'{thing}: reset must be a name or {{"port": NAME, "active": "low"}}, got {value!r}')
    return _word({"reset.port": value["port"]}, "reset.port", thing), value["active"] == "low"


def _handshake(document: Mapping[str, Any], thing: str) -> Mapping[str, str] | None:
    if "handshake" not in document:
        return None
    value = _object(document, "handshake", thing)
    for name in value:
        lookup(f"signal of the handshake in {thing}", name, dict.fromkeys(HANDSHAKE))
    missing = [name for name in HANDSHAKE if name not in value]
    if missing:
        raise Refused(
            f"{thing}: handshake: {missing[0]} has no port in your core; "
            f'give "{missing[0]}": NAME, or null if the core has none'
        )
    return {name: _word(value, name, f"{thing}: handshake") or "" for name in HANDSHAKE}


def _inputs(
    document: Mapping[str, Any], unit: str, ports: Mapping[str, Port], unused: frozenset[str], thing: str
) -> Mapping[str, str] | None:
    if "inputs" not in document:
        return None
    bits = {name: port.bits * port.count for name, port in ports.items()}
    connections, seen = dict[str, str](), set[str]()
    for theirs, value in _object(document, "inputs", thing).items():
        place = f"{thing}: inputs.{theirs}"
        _require_name(theirs, place)
        lanes = _flipped(value, place)
        if lanes:
            port = lookup(f"input of {unit}", lanes, ports)
            parts = (f"{lanes}[{port.bits * lane} +: {port.bits}]" for lane in range(port.count))
            value = f"{{{', '.join(parts)}}}"
        text = expressions.require_expression(value, place)
        for name in expressions.names(text):
            if name not in ports:
                lookup(f"input of {unit} in inputs.{theirs} of {thing}:", name, ports)
            if name in unused:
                raise Refused(f"{place}: uses {name}, which {thing} also lists as unused; remove one of them")
            seen.add(name)
        expressions.require_slices(text, bits, place)
        connections[theirs] = text
    for name in ports:
        if name not in seen | unused:
            raise Refused(
                f"{thing}: input {name} of {unit} ({bits[name]} bits) has no port in your core; "
                f'give "inputs": {{"YOUR_PORT": "{name}"}}, or list it in "unused"; {SAME.format(key="inputs")}'
            )
    return connections


def _outputs(
    document: Mapping[str, Any], unit: str, ports: Mapping[str, Port], unused: frozenset[str], thing: str
) -> tuple[frozenset[str], Mapping[str, str] | None]:
    if "outputs" not in document:
        return frozenset(), None
    connections, flipped = dict[str, str](), set[str]()
    for ours, value in _object(document, "outputs", thing).items():
        place = f"{thing}: outputs.{ours}"
        lookup(f"output of {unit} in outputs of {thing}:", ours, ports)
        if ours in unused:
            raise Refused(f"{place}: {thing} also lists {ours} as unused; remove one of them")
        lanes = _flipped(value, place)
        if lanes:
            _require_name(lanes, place)
            flipped.add(ours)
        connections[ours] = lanes or expressions.require_expression(value, place)
    for name, port in ports.items():
        if name not in connections and name not in unused:
            raise Refused(
                f"{thing}: output {name} of {unit} ({port.bits * port.count} bits) has no port in your core; "
                f'give "outputs": {{"{name}": "YOUR_PORT"}}, or list it in "unused" to leave it out; '
                f"{SAME.format(key='outputs')}"
            )
    if ports and not connections:
        raise Refused(f"{thing}: no output of {unit} would be compared; map one of {', '.join(ports)}")
    return frozenset(flipped), connections


def _registers(document: Mapping[str, Any], unit: str, state: Mapping[str, Port], thing: str) -> Mapping[str, str]:
    value = _object(document, "registers", thing)
    for name in value:
        lookup(f"register of {unit} in registers of {thing}:", name, state)
    return {name: expressions.require_expression(text, f"{thing}: registers.{name}") for name, text in value.items()}


def _flipped(value: Any, place: str) -> str:
    """The port of `{"port": NAME, "lanes": "reversed"}`, or ""."""
    if not isinstance(value, dict):
        return ""
    if set(value) != {"port", "lanes"} or value["lanes"] != "reversed":
        raise Refused(f'{place}: must be an expression or {{"port": NAME, "lanes": "reversed"}}, got {value!r}')
    _require_name(value["port"], place)
    return str(value["port"])


def _require_name(name: Any, place: str) -> None:
    if not isinstance(name, str) or not expressions.is_plain(name):
        raise Refused(f"{place}: a port of your core must be one name, got {name!r}; put slices into the expression")


def _require_once(map_: Map, thing: str) -> None:
    """Reject a port of the core with two uses."""
    uses = [("clock", map_.clock), ("reset", map_.reset)]
    uses += [(f"handshake.{ours}", theirs) for ours, theirs in (map_.handshake or {}).items()]
    uses += [("inputs", theirs) for theirs in map_.inputs or {}]
    uses += [(f"outputs.{ours}", text) for ours, text in (map_.outputs or {}).items() if expressions.is_plain(text)]
    uses += [("open", theirs) for theirs in map_.open]
    seen: dict[str, str] = {}
    for use, theirs in uses:
        if theirs and theirs in seen:
            raise Refused(
                f"{thing}: a port of your core must have one use, got {theirs} in {seen[theirs]} and in "
                f"{use}; write slices of an output as {theirs}[3:0]"
            )
        if theirs:
            seen[theirs] = use
