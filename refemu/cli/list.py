"""`refemu list`: formats, units, schemes and models, with paper sections and port widths."""

import argparse
from typing import Any

from refemu.cli.output import print_json, print_table


def run(arguments: argparse.Namespace) -> int:
    """Print one kind or all four; returns 0."""
    kinds = [arguments.what] if arguments.what else ["formats", "units", "schemes", "models"]
    lists = {kind: _LISTS[kind]() for kind in kinds}
    if arguments.json:
        print_json(lists)
        return 0
    for row in lists.get("units", ()):
        row["timing"] = _SHORT[row["timing"]]
    for kind, (columns, right) in ((kind, _COLUMNS[kind]) for kind in kinds):
        rows = [[row[column] for column in columns] for row in lists[kind]]
        print_table(kind, columns, rows, right)
        if kind == "schemes":
            print(_MIXES)
    return 0


def formats() -> list[dict[str, Any]]:
    """Every ready constant: name, bits of one element (block formats: of its fields), the expression that makes it."""
    from refemu import formats as layer

    tables = [
        {"name": name, "bits": str(fmt.width), "definition": repr(fmt)} for name, fmt in layer.constants().items()
    ]
    blocks = [
        {"name": name, "bits": " ".join(str(part.bits) for part in layer.structure(fmt)), "definition": repr(fmt)}
        for name, fmt in layer.blocks().items()
    ]
    return tables + blocks


def units() -> list[dict[str, Any]]:
    """Every unit in every ready configuration with its ports."""
    from refemu import units as layer

    return [
        {
            "unit": unit.name,
            "config": name,
            "paper": unit.paper,
            "timing": unit.timing,
            "version": unit.version,
            "in": _ports(unit.ports(config).inputs),
            "out": _ports(unit.ports(config).outputs),
        }
        for unit in map(layer.find, layer.names())
        for name, config in unit.configs.items()
    ]


def schemes() -> list[dict[str, Any]]:
    """Every scheme with its paper and its parameters and their defaults."""
    from refemu.models import schemes as layer

    return layer.describe()


def models() -> list[dict[str, Any]]:
    """Every model, and whether its weights are here."""
    from refemu.models.fetch import store

    return store.status()


def _ports(ports: Any) -> str:
    return " ".join(
        f"{port.name}:{'s' if port.signed else ''}{port.bits}" + (f"x{port.lanes}" if port.lanes > 1 else "")
        for port in ports
    )


_MIXES = (
    "a mix is linear parts, then the attention, as in olive-4+leankv-k8v4; @ gives some blocks to a part, as in "
    "olive-8@0-1;29+olive-4+harmonia-kv4"
)
_SHORT = {"combinational": "comb.", "event": "event"}
_LISTS = {"formats": formats, "units": units, "schemes": schemes, "models": models}
_COLUMNS: dict[str, tuple[list[str], list[str]]] = {
    "formats": (["name", "bits", "definition"], ["bits"]),
    "units": (["unit", "config", "paper", "timing", "in", "out"], []),
    "schemes": (["name", "paper", "halves", "parameters"], []),
    "models": (["name", "state", "kind", "source", "licence"], []),
}
