"""Entries of `refemu explain` for schemes, formats, parameters, ports, fields and terms."""

import dataclasses
import shlex
import textwrap
from collections.abc import Mapping
from typing import Any

from refemu.cli.output import print_json, print_table


def show(topic: Any, as_json: bool) -> int:
    """Print the entry of a topic other than a decision or a unit; return 0. topic: a `topics.Topic`."""
    document = _DOCUMENTS[topic.kind](topic)
    if as_json:
        print_json("explain", {"kind": topic.kind, **document})
    else:
        _PRINTERS[topic.kind](document)
    return 0


def parameters(kind: str, name: str) -> list[dict[str, Any]]:
    """Parameters of a unit, a scheme or a format, as JSON."""
    from refemu.golden.pages import parameters as pages

    tables = {"unit": pages.of_unit, "scheme": pages.of_scheme, "format": pages.of_format}
    return [_parameter(each) for each in tables[kind](name).values()]


def parameters_of_decision(id: str) -> list[str]:
    """Parameters whose meaning names a decision, one for each class, such as "harmonia-kv8.prefill_window"."""
    from refemu import formats, units
    from refemu.golden.pages import parameters as pages
    from refemu.models.schemes import SCHEMES

    ready = {**formats.constants(), **formats.blocks()}
    of_class: dict[type, Any] = {type(SCHEMES[name]): pages.of_scheme(name) for name in reversed(list(SCHEMES))}
    of_class |= {type(ready[name]): pages.of_format(name) for name in reversed(list(ready))}
    tables = [*of_class.values(), *(pages.of_unit(name) for name in [*units.names(), *units.working()])]
    named = [each for table in tables for each in table.values() if id in each.decisions]
    return sorted(f"{each.of}.{each.name}" for each in named)


def ports(unit: Any, config: str) -> list[dict[str, Any]]:
    """Ports and registers of a unit in one configuration, as JSON."""
    sides = unit.ports(unit.config(config))
    named = (("input", sides.inputs), ("output", sides.outputs), ("register", sides.state))
    return [_port(direction, port) for direction, side in named for port in side]


def print_ports(rows: list[dict[str, Any]]) -> None:
    """Print a table of ports."""
    columns = ["port", "direction", "bits", "lanes", "kind", "values", "meaning"]
    cells = [[row["name"], *(row[name] for name in columns[1:])] for row in rows]
    print_table("ports", columns, cells, ["bits", "lanes"])


def print_parameters(rows: list[dict[str, Any]], default: str) -> None:
    """Print a table of parameters, if there are any. default: heading of their values."""
    if rows:
        cells = [[row["name"], row["default"] or "required", row["values"], row["meaning"]] for row in rows]
        print_table("parameters", ["parameter", default, "values", "meaning"], cells)


def state(unit: Any, config: str) -> list[dict[str, Any]]:
    """Fields of a State other than ports in one configuration, as JSON."""
    from refemu.golden.pages import state as pages

    return [dataclasses.asdict(each) for each in pages.of_config(unit, unit.config(config))]


def print_state(rows: list[dict[str, Any]]) -> None:
    """Print a table of the fields of a State, with a column for totals if one is a maximum instead of a sum."""
    largest = any(row["total"] == "largest" for row in rows)
    columns = ["field", "kind", *(["over several devices"] if largest else []), "meaning"]
    cells = [[row["name"], row["kind"], *([row["total"]] if largest else []), row["meaning"]] for row in rows]
    print_table("other fields of the state", columns, cells)


def _scheme(topic: Any) -> dict[str, Any]:
    from refemu.golden.pages import parameters as pages

    scheme = pages.scheme(topic.of)
    heads = {"name": topic.of, "paper": scheme.paper, "halves": list(scheme.halves)}
    return {**heads, "parameters": parameters("scheme", topic.of)}


def _format(topic: Any) -> dict[str, Any]:
    from refemu import formats

    fmt = formats.find(topic.of)
    fields = [part._asdict() for part in formats.structure(fmt)] if topic.of in formats.blocks() else []
    heads = {"name": topic.of, "definition": repr(fmt), "bits": getattr(fmt, "width", None), "fields": fields}
    meaning = next(iter((type(fmt).__doc__ or "").strip().splitlines()), "")
    if meaning.startswith(f"{type(fmt).__name__}("):  # the signature that a dataclass has instead of a docstring
        meaning = ""
    return {**heads, "meaning": meaning, "parameters": parameters("format", topic.of)}


def _member(topic: Any) -> dict[str, Any]:
    from refemu.golden.pages import decisions, topics

    document: dict[str, Any] = {"name": f"{topic.of}.{topic.member}"}
    if topic.kind == "parameter":
        document["parameter"] = _parameter(topics.parameter(topic))
        ids = document["parameter"]["decisions"]
        known = {id: decisions.of_unit(topics.owner_key(topic), id) for id in ids}
        document["decisions"] = [{"id": id, "title": each.title if each else ""} for id, each in known.items()]
    of = topics.port(topic)
    if of is not None:
        document["port"] = {"config": of.config, **_port(of.direction, of.port)}
    return document


def _field(topic: Any) -> dict[str, Any]:
    from refemu.golden.pages import state as pages

    return {"name": f"{topic.of}.{topic.member}", "field": dataclasses.asdict(pages.of_unit(topic.of)[topic.member])}


def _term(topic: Any) -> dict[str, Any]:
    from refemu.golden.pages import glossary

    return dataclasses.asdict(glossary.every()[topic.of])


def _parameter(each: Any) -> dict[str, Any]:
    return {**dataclasses.asdict(each), "values": each.values}


def _port(direction: str, port: Any) -> dict[str, Any]:
    low, high = port.limits
    heads = {"name": port.name, "direction": direction, "bits": port.bits, "lanes": port.count, "signed": port.signed}
    return {**heads, "kind": port.kind, "values": f"{low} to {high}", "meaning": port.meaning}


def _print_scheme(document: Mapping[str, Any]) -> None:
    halves = " and ".join(document["halves"]) or "none"
    print(f"{document['name']}  scheme of [{document['paper']}]\n\nhalves that a mix may take: {halves}\n")
    print_parameters(document["parameters"], "value")
    name = document["name"]
    if not document["parameters"]:
        return
    first = document["parameters"][0]["name"]
    print(f"refemu explain {name}.{first} explains one; refemu ppl --scheme {name}:NAME=VALUE sets it")


def _print_format(document: Mapping[str, Any]) -> None:
    print(f"{document['name']}  {document['definition']}\n\n{document['meaning']}\n")
    if document["fields"]:
        rows = [list(part.values()) for part in document["fields"]]
        print_table("stored fields", ["field", "bits", "per", "meaning"], rows, ["bits"])
    print_parameters(document["parameters"], "value")
    if not document["fields"]:
        print(f"codes: refemu show {document['name']}")


def _print_member(document: Mapping[str, Any]) -> None:
    if "parameter" in document:
        _print_parameter(document["name"], document["parameter"])
        for decision in document["decisions"]:
            print(f"why: refemu explain {decision['id']}  {decision['title']}")
    if "port" in document:
        port = document["port"]
        lanes = f", {port['lanes']} lanes" if port["lanes"] > 1 else ""
        print(f"{document['name']}  {port['direction']}: {port['meaning'] or port['kind']}\n")
        print(f"{port['kind']}, {port['bits']} bits{lanes}, values {port['values']}, in configuration {port['config']}")


def _print_field(document: Mapping[str, Any]) -> None:
    row = document["field"]
    meaning = row["meaning"].replace('; "', ';\n  "') if row["kind"] == "event" else row["meaning"]
    print(f"{document['name']}  {_KINDS[row['kind']]}: {meaning}")
    if row["total"]:
        print(f"\nover several devices, a Result has the {row['total']}")


def _print_parameter(name: str, row: Mapping[str, Any]) -> None:
    print(f"{name}  parameter: {row['meaning']}\n")
    print(f"values   {row['values']}\ndefault  {row['default'] or 'none, a value is required'}")
    for config, value in row["ready"].items():
        print(f"in {row['of']}:{config}  {value}")


def _print_term(document: Mapping[str, Any]) -> None:
    also = f" ({', '.join(document['also'])})" if document["also"] else ""
    print(f"{document['name']}{also}\n\n{textwrap.fill(document['text'], 100, break_on_hyphens=False)}")
    if document["see"]:
        print(f"\nsee: {', '.join(f'refemu explain {shlex.quote(word)}' for word in document['see'])}")


_KINDS = {"event": "event", "counter": "counter", "inner": "inner field"}
_DOCUMENTS = {
    "scheme": _scheme,
    "format": _format,
    "parameter": _member,
    "port": _member,
    "field": _field,
    "term": _term,
}
_PRINTERS = {
    "scheme": _print_scheme,
    "format": _print_format,
    "parameter": _print_member,
    "port": _print_member,
    "field": _print_field,
    "term": _print_term,
}
