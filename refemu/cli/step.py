"""`refemu step UNIT`: step through a unit, one event at a time."""

import argparse
import dataclasses
import re
import shutil
import textwrap
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.checks import Refused, lookup
from refemu.arith.reader_errors import integer
from refemu.cli import condition, step_table
from refemu.cli.output import counted, print_json, print_title
from refemu.golden.view.members import registers_of

PIPE = 100  #: columns without a terminal
_EVENTS = re.compile(r"([0-9]{0,18}):([0-9]{0,18})")
_CASE = re.compile(r"[0-9]{1,18}|[a-z]+/[a-z0-9-]+/[0-9]{1,18}")


def run(arguments: argparse.Namespace) -> int:
    """Print a row for each event, up to the first one that meets the condition; return 0."""
    from refemu import units

    if arguments.html is not None:
        return _page(arguments)
    if arguments.events is not None:
        raise Refused("step: --events needs --html")

    unit, chosen = units.choose(arguments.unit, arguments.config)
    stop = None if arguments.stop is None else condition.parse(arguments.stop)
    name, inputs, _ = _inputs(arguments, unit, chosen)
    config = unit.config(name)
    ports = unit.ports(config)
    states, stopped = [], False
    for state in unit.trace(config, inputs):
        states.append(state)
        if stop is not None and stop.holds(state):
            stopped = True
            break
    if arguments.vcd:
        _wave(arguments.vcd, unit, ports, states)
    if arguments.json:
        events = [dataclasses.asdict(state) for state in states]
        print_json("step", {"unit": unit.key, "config": name, "stopped": stopped, "states": events})
    else:
        width = _columns()
        _table(unit, name, ports, states, width, arguments.full, registers_of(unit.unit_class(**config)))
        _drawings(unit.unit_class(**config), states, width)
        if arguments.stop:
            print(
                f"stopped at event {len(states) - 1}: {arguments.stop}" if stopped else f"never true: {arguments.stop}"
            )
    return 0


def _page(arguments: argparse.Namespace) -> int:
    """Write an HTML page with the events; return 0."""
    from pathlib import Path

    from refemu import units
    from refemu.golden.files import store
    from refemu.golden.view import step_page, trace

    if arguments.full or arguments.vcd:
        raise Refused("step: --html writes a page; leave out --full and --vcd")
    unit, chosen = units.choose(arguments.unit, arguments.config)
    name, inputs, about = _inputs(arguments, unit, chosen)
    stop = None if arguments.stop is None else condition.parse(arguments.stop)
    first, last = (0, None) if arguments.events is None else _events(arguments.events)
    states, operations, total, stopped = trace.cut(
        trace.trace(unit, unit.config(name), inputs),
        first,
        last,
        step_page.MOST,
        (lambda state: False) if stop is None else stop.holds,
    )
    shown = step_page.Shown(unit, name, inputs, about.text, about.decision, states, operations, first, total)
    written = step_page.written(shown)
    store.write_files({Path(arguments.html): written.data})
    end = written.first + written.events
    if arguments.json:
        document = {"unit": unit.name, "config": name, "file": str(arguments.html), "bytes": len(written.data)}
        document |= {"first": first, "events": written.events, "total": total, "drawings": written.drawings}
        print_json("step", document | {"stopped": stopped})
        return 0
    print(f"{arguments.html}: events {first} to {end - 1} of {total}, {written.drawings}, {len(written.data):,} bytes")
    if end < (total if last is None else last):
        print(f"the page is full; the next events: --events {end}:{total if last is None else last}")
    if arguments.stop:
        print(f"stopped at event {total - 1}: {arguments.stop}" if stopped else f"never true: {arguments.stop}")
    return 0


def _events(text: str) -> tuple[int, int | None]:
    """First event and the one after the last, of A:B, A: or :B."""
    match = _EVENTS.fullmatch(text)
    if not match or not (match[1] or match[2]) or (match[2] and int(match[2]) <= int(match[1] or 0)):
        raise Refused(f"step: --events must be A:B with A below B, got {text[:60]!r}")
    return int(match[1] or 0), int(match[2]) if match[2] else None


def _columns() -> int:
    return shutil.get_terminal_size((PIPE, 24)).columns


def _drawings(device: Any, states: list[Any], width: int) -> None:
    """Print a drawing of the state after every event, if the unit has one and it fits into `width`."""
    drawings = [device.draw(state) for state in states] if hasattr(device, "draw") else []
    widest = max((len(line) for drawing in drawings for line in drawing.splitlines()), default=0)
    if widest > width:
        print(f"\nthe drawings need {widest} columns, this terminal has {width}")
        return
    for number, (state, drawing) in enumerate(zip(states, drawings, strict=False)):
        print(f"\n#{number} {state.event}\n{drawing}")


def _wave(path: str, unit: Any, ports: Any, states: list[Any]) -> None:
    """Write the waveform, and a table of the names of event numbers."""
    from pathlib import Path

    from refemu.golden.files import store, vcd

    dump, names = vcd.dump(unit.name, ports, states, clocked=unit.timing == "event")
    store.write_files({Path(path): dump, Path(f"{path}.events"): names})


def _table(unit: Any, name: str, ports: Any, states: list[Any], width: int, full: bool, registers: Any) -> None:
    count = f"{len(states)} events, blank = unchanged" if len(states) > 1 else "1 event"
    print_title(f"{unit.name} [{name}] {unit.paper}: {count}", width)
    for line in step_table.lines(ports, states, width, full, registers):
        print(line)


class _About(NamedTuple):
    """The source of the inputs."""

    text: str
    decision: str = ""


def _inputs(arguments: argparse.Namespace, unit: Any, name: str) -> tuple[str, dict[str, np.ndarray], _About]:
    """Configuration, an array for each input port, and their source. name: configuration unless --case sets it."""
    if arguments.case:
        from refemu import golden
        from refemu.golden.files import case_ids

        folder, _, id = arguments.case.rpartition(":")
        if arguments.config or arguments.input or ":" in arguments.unit:
            raise Refused("step: --case sets configuration and inputs; leave out --config and --input")
        if not folder or not _CASE.fullmatch(id):
            raise Refused(
                "step: --case must be DIR:ID, where ID is the id of a case, such as edge/ties/3, or the number of its "
                f"first row, got {arguments.case[:200]!r}; DIR/cases.txt lists the ids"
            )
        loaded = golden.load(folder)
        row = case_ids.row_of(loaded.manifest, id)
        entry = loaded.entry(row)
        about = _About(f"Case {loaded.case_id(row)} of {loaded.name}: {entry['why']}.", entry.get("decision", ""))
        return *golden.case_inputs(loaded, row, unit), about
    config = unit.config(name)
    if not arguments.input:
        return name, *_example(unit, name, arguments.json or arguments.html is not None)
    ports = {port.name: port for port in unit.ports(config).inputs}
    arrays: dict[str, np.ndarray] = {}
    for port, array in (_assignment(word, ports) for word in arguments.input):
        if port in arrays:
            raise Refused(f"step: --input {port} is given twice; separate the values of several events with commas")
        arrays[port] = array
    missing = [port for port in ports if port not in arrays]
    if missing:
        raise Refused(f"step: {unit.name} also needs --input {' '.join(f'{port}=...' for port in missing)}")
    length = max(array.shape[0] for array in arrays.values())
    about = _About("Inputs of the command line.")
    return name, {port: _stretched(port, array, length) for port, array in arrays.items()}, about


def _example(unit: Any, name: str, silent: bool) -> tuple[dict[str, np.ndarray], _About]:
    """The first example of the paper, for a command line without inputs; print its reason unless `silent`."""
    config = unit.config(name)
    cases = next(iter(unit.stimuli(config, "paper", 0)), None)
    if cases is None:
        ports = ", ".join(port.name for port in unit.ports(config).inputs)
        raise Refused(
            f"step: {unit.name} [{name}] has no example in its paper; give --case DIR:ID, or --input for {ports}"
        )
    if not silent:
        text = f"no --case or --input, so this is an example of the paper: {cases.why}"
        print("\n".join(textwrap.wrap(text, _columns(), break_on_hyphens=False)) + "\n")
    about = _About(f"A case of the paper: {cases.why}.", cases.decision)
    return {port: array[0] if unit.timing == "event" else array[:1] for port, array in cases.inputs.items()}, about


def _assignment(word: str, ports: dict[str, Any]) -> tuple[str, np.ndarray]:
    name, equals, text = word.partition("=")
    port = lookup("input port", name, ports)
    items = text.split(",")
    try:
        values = [integer(item) for item in items]
    except ValueError:
        raise Refused(f"step: --input {name} takes integers like 5, 0x2f or 0b0101, got {text[:60]!r}") from None
    if not equals or len(values) % port.count:
        raise Refused(f"step: --input {name} takes {counted(port.count, 'value')} per event, got {text!r}")
    low, high = port.limits
    for item, value in zip(items, values, strict=True):
        if not low <= value <= high:
            raise Refused(f"step: --input {name} takes values from {low} to {high}, got {item[:60]}")
    array = np.array(values, port.dtype)
    return name, array.reshape(-1, *port.shape)


def _stretched(port: str, array: np.ndarray, length: int) -> np.ndarray:
    if array.shape[0] not in (1, length):
        raise Refused(f"step: --input {port} has {array.shape[0]} events, another port has {length}")
    return np.broadcast_to(array, (length, *array.shape[1:]))
