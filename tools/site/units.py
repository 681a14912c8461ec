"""A page for each unit, generated from its descriptor, and a list for each paper."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from refemu import draw, units
from refemu.golden.pages import decisions, parameters, state
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Kind
from tools.site.text import GENERATED, code, link, linked, prose, slug, table

EVENTS = 8  #: of the worked example
WIDE = 8  #: lanes that a cell shows
MANY = 8  #: ports that are columns
TITLES = {"olive": "OliVe", "kllm": "KLLM", "harmonia": "Harmonia", "leankv": "LeanKV"}  #: of papers
FLOATS = {"f16": (np.uint16, np.float16), "f32": (np.uint32, np.float32)}  #: bit patterns, by a port's kind


def pages() -> dict[str, str]:
    """Pages and drawings by name; an index, and a list for each paper."""
    written: dict[str, str] = {}
    for name in units.names():
        written |= page(units.find(name))
    return {**_lists(), **written}


def page(unit: AnyUnit) -> dict[str, str]:
    """The page of a unit, and its drawing."""
    config = next(iter(unit.configs))
    why, inputs = example(unit, config)
    states = list(unit.trace(unit.config(config), inputs))
    picture = next((drawn for state in reversed(states[:EVENTS]) if (drawn := draw.state(unit, config, state))), "")
    files = {f"units/{unit.name}.svg": picture} if picture else {}
    return {**files, f"units/{unit.name}.md": "\n".join(_parts(unit, config, why, states, bool(picture)))}


def example(unit: AnyUnit, config: str) -> tuple[str, Mapping[str, np.ndarray]]:
    """The first case of the paper, or of any kind: its reason, and its inputs for `trace`."""
    kinds: tuple[Kind, ...] = ("paper", "edge", "random")
    cases = next(cases for kind in kinds for cases in unit.stimuli(unit.configs[config], kind, 0))
    chosen = 0 if unit.timing == "event" else slice(0, 1)
    return cases.why, {port: array[chosen] for port, array in cases.inputs.items()}


def _parts(unit: AnyUnit, config: str, why: str, states: list[Any], picture: bool) -> Iterator[str]:
    yield f"({slug(f'unit-{unit.name}')})=\n# {unit.name}\n"
    yield f"{prose(unit.meaning[:1].upper() + unit.meaning[1:])}. [{unit.paper}]\n"
    yield f"Timing: {prose(state.timing(unit))}.\n"
    if picture:
        yield f"![State of {unit.name} after an event of the example]({unit.name}.svg)\n"
    yield f"## Worked example\n\n{prose(why[:1].upper() + why[1:])}. Configuration `{config}`.\n"
    yield "An empty cell means no change. Of a wide port, the first lanes are shown.\n"
    yield _events(unit, config, states[:EVENTS])
    page = f"../_static/step/{unit.name}.html"
    yield f'<a href="{page}">Step through this example</a> with a slider or the arrow keys.\n'
    yield f"```\nrefemu step {unit.name}\nrefemu step {unit.name} --html {unit.name}.html\nrefemu explain {unit.name}"
    yield f"refemu generate -o vec --unit {unit.name}\nrefemu export rtl {unit.name} -o bench\n```\n"
    yield "## Ports\n"
    yield table(["port", "direction", "bits", "lanes", "values", "meaning"], list(_ports(unit)))
    yield from _parameters(unit)
    yield "## Other fields of the state\n"
    yield table(["field", "kind", "of several devices", "meaning"], list(_state(unit)))
    yield from _decisions(unit)
    module = units.module(unit.name)
    others = [name for name in module.__all__ if not _is_defined_in(module.__name__, getattr(module, name))]
    excluded = ", ".join(["UNIT", "State", *others])
    directive = f".. automodule:: {module.__name__}\n   :members:\n   :exclude-members: {excluded}"
    yield f"## Python\n\n```{{eval-rst}}\n{directive}\n```\n\n{GENERATED}\n"


def _is_defined_in(package: str, member: object) -> bool:
    """Whether a member belongs on the page of this package; a class of another unit is on the page of that unit."""
    return not isinstance(member, type) or f"{member.__module__}.".startswith(f"{package}.")


def _events(unit: AnyUnit, config: str, states: list[Any]) -> str:
    """A table of the events, with ports as rows if there are many; a cell is empty if the port does not change."""
    sides = unit.ports(unit.config(config))
    ports = sides.inputs + sides.outputs
    cells = [[_value(port, getattr(state, port.name)) for port in ports] for state in states]
    kept = [cells[0]]
    for before, after in pairwise(cells):
        kept.append(["" if new == old else new for old, new in zip(before, after, strict=True)])
    rows = [[number, state.event, *row] for number, (state, row) in enumerate(zip(states, kept, strict=True))]
    if len(ports) <= MANY:
        return table(["#", "event", *(code(port.name) for port in ports)], rows)
    turned = [[code(port.name), *(row[column + 2] for row in rows)] for column, port in enumerate(ports)]
    return table(["port", *(f"{number} {state.event}" for number, state in enumerate(states))], turned)


def _value(port: Port, value: Any) -> str:
    """Format the first lanes of a value, floats as numbers."""
    lanes = np.ravel(np.asarray(value, dtype=object))
    if port.kind in FLOATS:
        words, real = FLOATS[port.kind]
        lanes = lanes.astype(words).view(real)
    text = [f"{lane:g}" if port.kind in FLOATS else str(lane) for lane in lanes[:WIDE].tolist()]
    return " ".join([*text, f"… ({lanes.size})"] if lanes.size > WIDE else text)


def _ports(unit: AnyUnit) -> Iterator[list[object]]:
    for each in parameters.ports(unit.name).values():
        low, high = each.port.limits
        values = f"{low} to {high}" if each.port.bits < 16 else each.port.kind
        yield [code(each.port.name), each.direction, each.port.bits, each.port.count, values, prose(each.port.meaning)]


def _state(unit: AnyUnit) -> Iterator[list[object]]:
    listed = parameters.ports(unit.name)
    for each in state.of_unit(unit.name).values():
        if each.name not in listed:
            yield [code(each.name), each.kind, each.total, prose(each.meaning)]


def _parameters(unit: AnyUnit) -> Iterator[str]:
    known = parameters.of_unit(unit.name)
    if not known:
        return
    yield "## Parameters\n"
    for each in known.values():
        yield f"({slug(f'{unit.name}-{each.name}')})=\n"
    rows: list[list[object]] = [
        [code(each.name), code(each.default) or "needed", _listed(each), prose(each.meaning)] for each in known.values()
    ]
    yield table(["parameter", "default", "values", "meaning"], rows)
    ready: list[list[object]] = [
        [code(name), ", ".join(code(f"{key}={each.ready[name]}") for key, each in known.items() if name in each.ready)]
        for name in unit.configs
    ]
    yield table(["configuration", "sets"], ready)


def _listed(each: parameters.Parameter) -> str:
    return ", ".join([*(code(choice) for choice in each.choices), *each.open])


def _decisions(unit: AnyUnit) -> Iterator[str]:
    ids = list(dict.fromkeys([each.decision for each in unit.variants] + list(unit.unobservable)))
    entries = [decisions.every()[id] for id in ids if id in decisions.every()]
    if not entries:
        return
    yield "## Decisions\n"
    rows: list[list[object]] = []
    for entry in entries:
        others = [each for each in entry.variants if each.unit == unit.name]
        for each in others:
            rows.append([link(entry.id), entry.title, each.says.replace("|", "\\|"), code(each.set), each.rows])
        if not others:
            reason = entry.unobservable.get(unit.name, "")
            rows.append([link(entry.id), entry.title, linked(reason) or "set by a parameter", "", ""])
    yield table(["id", "decision", "variant", "set that detects it", "rows"], rows)


def _lists() -> dict[str, str]:
    """The index and the lists of the papers."""
    papers = {paper: [name for name, of in units.PAPERS.items() if of == paper] for paper in TITLES}
    written = {f"units/{paper}.md": _list(f"Units of {TITLES[paper]}", names) for paper, names in papers.items()}
    rows: list[list[object]] = [
        [f"[{TITLES[paper]}]({paper}.md)", ", ".join(map(link, names))] for paper, names in papers.items()
    ]
    head = "# Units\n\nHardware blocks of the four papers.\n"
    tree = "\n".join(papers)
    index = f"{head}\n{table(['paper', 'units'], rows)}```{{toctree}}\n:hidden:\n{tree}\n```\n"
    return {"units/index.md": index, **written}


def _list(title: str, names: list[str]) -> str:
    rows: list[list[object]] = [[link(name), prose(units.find(name).meaning)] for name in names]
    tree = "\n".join(names)
    return f"# {title}\n\n{table(['unit', 'function'], rows)}```{{toctree}}\n:hidden:\n{tree}\n```\n"
