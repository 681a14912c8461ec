"""`refemu explain`: the entry of a unit, format, scheme, decision, parameter, port, field or term."""

import argparse
import dataclasses
import sys
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli import explain_names
from refemu.cli.output import print_json, print_table

NO_DOCSTRINGS = (
    "refemu: explain: Python removed the docstrings (-OO, PYTHONOPTIMIZE=2), so the meanings of formats and parameters "
    "are missing; run Python without it"
)


def run(arguments: argparse.Namespace) -> int:
    """Print the entry of a word; return 0."""
    from refemu import units
    from refemu.golden.pages import topics

    if sys.flags.optimize > 1:
        print(NO_DOCSTRINGS, file=sys.stderr)
    name, _ = units.parameters.split(arguments.word)
    if name in units.names() or name in units.plugged():
        return unit(arguments)
    topic = topics.find(arguments.word) if "/" not in name or topics.is_known(arguments.word) else None
    if topic is None or topic.kind == "unit":
        return unit(arguments)
    if arguments.config:
        raise Refused(f"explain: --config needs a unit, got {arguments.word!r}; a set names its own configuration")
    if topic.kind == "decision":
        return decision(topic.of, arguments.set, arguments.json)
    if arguments.set:
        raise Refused(f"explain: --set needs a unit or a decision, got the {topic.kind} {arguments.word!r}")
    return explain_names.show(topic, arguments.json)


def unit(arguments: argparse.Namespace) -> int:
    """Print ports, parameters, State, and decisions with their variants; return 0."""
    from refemu import golden, units
    from refemu.golden.pages import state as pages

    chosen, config = units.choose(arguments.word, arguments.config)
    listed = golden.variants(chosen.key, config, arguments.set)
    ports = explain_names.ports(chosen, config)
    parameters = explain_names.parameters("unit", chosen.key)
    state = explain_names.state(chosen, config)
    if arguments.json:
        heads = {"unit": chosen.key, "config": config, "meaning": chosen.meaning, "paper": chosen.paper}
        tables = {"timing": chosen.timing, "ports": ports, "parameters": parameters, "state": state}
        variants = [dataclasses.asdict(each) for each in listed]
        more = {"set": arguments.set, "variants": variants, "unobservable": dict(chosen.unobservable)}
        print_json("explain", {"kind": "unit", **heads, **tables, **more})
        return 0
    print(f"{chosen.name}  {chosen.meaning}\n\n[{chosen.paper}], configuration {config}\n{pages.timing(chosen)}\n")
    explain_names.print_ports(ports)
    explain_names.print_parameters(parameters, "default")
    explain_names.print_state(state)
    columns = ["decision", "variant", "parameters", *(["rows"] if arguments.set else [])]
    rows = [_row(each, arguments.set) for each in listed]
    print_table(f"decisions of {chosen.name}-{config}", columns, rows, ["rows"])
    for id, reason in chosen.unobservable.items():
        print(f"{id}: no variant can be observed: {reason}")
    if listed or chosen.unobservable:
        first = listed[0].decision if listed else next(iter(chosen.unobservable))
        print(f"reasons: refemu explain {first}, and the others likewise")
    return 0


def decision(id: str, path: str | None, as_json: bool) -> int:
    """Print one decision: text, test, the code that takes it, and variants with the rows that detect them; return 0.

    path: of a set, or None.
    """
    from refemu import golden, plugins
    from refemu.golden.pages import decisions, places

    entry = decisions.find(id)
    choices: tuple[Any, ...] = ()
    if path is not None:
        loaded = golden.load(path)
        listed = golden.variants(loaded.manifest["unit"], loaded.config, path)
        choices = tuple(each for each in listed if each.decision == entry.id)
    taken = places.of_decision(entry.id, plugins.packages()[entry.origin] if entry.origin else ())
    entry = dataclasses.replace(entry, **_of_units(entry)) if entry.origin else entry
    set_by = explain_names.parameters_of_decision(entry.id)
    if as_json:
        more = {"set": path, "choices": [dataclasses.asdict(each) for each in choices]}
        where = {"taken": [dataclasses.asdict(place) for place in taken], "parameters": set_by}
        print_json("explain", {"kind": "decision", **dataclasses.asdict(entry), **where, **more})
        return 0
    pinned = f"\n\nPinned by {entry.test}" if entry.test else ""
    print(f"{entry.id}  {entry.title}\n\n{entry.text}{pinned}")
    print("\n".join(["Implemented in", *(f"  {place.file}:{place.line}  {place.name}".rstrip() for place in taken)]))
    if set_by:
        print(f"Set by {', '.join(set_by)}")
    print()
    if entry.variants:
        sets = [] if entry.origin else ["committed set that detects it", "rows"]  # sets of plug-ins are not committed
        cells = [[each.unit, each.says, each.set, each.rows][: 2 + len(sets)] for each in entry.variants]
        print_table("variants", ["unit", "variant", *sets], cells, ["rows"])
    for name, reason in entry.unobservable.items():
        print(f"{name}: no variant can be observed: {reason}")
    if path is not None:
        telling = [_telling(each) for each in choices]
        print_table(f"rows of {path} that detect each variant", ("variant", "rows"), telling, ["rows"])
    return 0


def _of_units(entry: Any) -> dict[str, Any]:
    """Variants of a plug-in's decision, from the units of its distribution that load."""
    from refemu import units
    from refemu.golden.pages.decisions import Other

    working = [unit for unit in units.working().values() if unit.origin.distribution == entry.origin]
    others = [(unit, each) for unit in working for each in unit.variants if each.decision == entry.id]
    reasons = {unit.name: unit.unobservable[entry.id] for unit in working if entry.id in unit.unobservable}
    return {"variants": tuple(Other(unit.name, each.says, "", 0) for unit, each in others), "unobservable": reasons}


def _telling(each: Any) -> tuple[str, Any]:
    return each.says, "-" if each.rows is None else each.rows


def _row(each: Any, counted: bool) -> list[Any]:
    parameters = ", ".join(f"{name}={value}" for name, value in each.parameters.items() if name != "device")
    counts = [("-" if each.rows is None else each.rows)] if counted else []
    return [each.decision, each.says, parameters, *counts]
