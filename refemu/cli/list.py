"""`refemu list`: formats, units, schemes and models; decisions only on request."""

import argparse
import dataclasses
import sys
from collections.abc import Callable
from typing import Any

from refemu import plugins
from refemu.cli import unit_rows
from refemu.cli.output import print_json, print_table


def run(arguments: argparse.Namespace) -> int:
    """Print one kind, or all except decisions; return 0."""
    kinds = [arguments.what] if arguments.what else ["formats", "units", "schemes", "models"]
    lists = {kind: _LISTS[kind]() for kind in kinds}
    broken = [each for kind in kinds if kind in _BROKEN for each in _BROKEN[kind]()]
    if arguments.json:
        print_json("list", lists | ({"broken": [dataclasses.asdict(each) for each in broken]} if broken else {}))
        return 0
    for row in lists.get("units", ()):
        row["timing"] = _SHORT[row["timing"]]
    for kind, (columns, right) in ((kind, _COLUMNS[kind]) for kind in kinds):
        rows = [[row[column] for column in columns] for row in lists[kind]]
        print_table(kind, columns, rows, right)
        if kind == "schemes":
            print(_MIXES)
    for each in broken:
        print(f"refemu: {each.error}", file=sys.stderr)
    return 0


def formats() -> list[dict[str, Any]]:
    """Every constant: name, bits of an element or of each field of a block, and its definition."""
    from refemu import formats as layer
    from refemu.formats import presets

    tables = [
        {"name": name, "bits": str(fmt.width), "definition": repr(fmt)} for name, fmt in layer.constants().items()
    ]
    blocks = [
        {"name": name, "bits": " ".join(str(part.bits) for part in layer.structure(fmt)), "definition": repr(fmt)}
        for name, fmt in layer.blocks().items()
    ]
    others = [
        {"name": name, "bits": str(fmt.width), "definition": repr(fmt)}
        for name, fmt in presets.REGISTRY.working()[0].items()
    ]
    return tables + blocks + others


def units() -> list[dict[str, Any]]:
    """Every unit in every configuration, with its ports."""
    if not plugins.anything("unit"):
        return unit_rows.remembered(_own_units)
    from refemu import units as layer

    others = [row for shown, unit in layer.working().items() for row in _configurations(shown, unit)]
    return [*unit_rows.remembered(_own_units), *others]


def _own_units() -> list[dict[str, Any]]:
    """Rows of refemu's own units."""
    from refemu import units as layer

    return [row for name in layer.names() for row in _configurations(name, layer.find(name))]


def _configurations(shown: str, unit: Any) -> list[dict[str, Any]]:
    """A row for each configuration of a unit. shown: its name."""
    return [
        {
            "unit": shown,
            "config": name,
            "paper": unit.paper,
            "timing": unit.timing,
            "version": unit.version,
            "in": _ports(ports.inputs),
            "out": _ports(ports.outputs),
        }
        for name, ports in zip(unit.configs, unit.ready_ports, strict=True)
    ]


def schemes() -> list[dict[str, Any]]:
    """Every scheme with its paper, its parameters and their defaults."""
    from refemu.models import schemes as layer

    return layer.describe()


def models() -> list[dict[str, Any]]:
    """Every model, and whether its weights are on this machine."""
    from refemu.models.fetch import store

    others = [_plugged_model(plug) for plug in plugins.plugs("model")]
    return [*store.status(), *others]


def decisions() -> list[dict[str, Any]]:
    """Every decision of refemu and of plug-ins: id, title, distribution and test."""
    from refemu.golden.pages import decisions as pages

    entries = [*pages.every().values(), *pages.plugged()]
    return [{"id": each.id, "title": each.title, "of": each.origin, "test": each.test} for each in entries]


def _plugged_model(plug: plugins.Plug) -> dict[str, Any]:
    """The row of a model of a plug-in."""
    where = f"{plug.origin.distribution} {plug.origin.version}"
    facts = {"state": "plug-in", "kind": "", "source": where, "licence": "", "bytes": 0, "sha256": "", "path": ""}
    return {"name": plug.name, **facts, "meaning": f"model of {where}"}


def _ports(ports: Any) -> str:
    return " ".join(
        f"{port.name}:{'s' if port.signed else ''}{port.bits}" + (f"x{port.count}" if port.count > 1 else "")
        for port in ports
    )


_MIXES = (
    "a mix is linear parts, then the attention, as in olive-4+leankv-k8v4; @ gives some blocks to a part, as in "
    "olive-8@0-1;29+olive-4+harmonia-kv4"
)
_SHORT = {"combinational": "comb.", "event": "event"}
_LISTS = {"formats": formats, "units": units, "schemes": schemes, "models": models, "decisions": decisions}


def _broken_formats() -> tuple[plugins.Broken, ...]:
    from refemu.formats import presets

    return presets.REGISTRY.working()[1]


def _broken_units() -> tuple[plugins.Broken, ...]:
    if not plugins.anything("unit", "fault"):
        return ()
    from refemu import units as layer

    return layer.broken()


def _broken_schemes() -> tuple[plugins.Broken, ...]:
    from refemu.models.schemes import registry

    return registry.broken()


def _broken_models() -> tuple[plugins.Broken, ...]:
    from refemu.models import plugin_models

    return plugin_models.REGISTRY.working()[1]


_BROKEN: dict[str, Callable[[], tuple[plugins.Broken, ...]]] = {
    "formats": _broken_formats,
    "units": _broken_units,
    "schemes": _broken_schemes,
    "models": _broken_models,
}
_COLUMNS: dict[str, tuple[list[str], list[str]]] = {
    "formats": (["name", "bits", "definition"], ["bits"]),
    "units": (["unit", "config", "paper", "timing", "in", "out"], []),
    "schemes": (["name", "paper", "halves", "parameters"], []),
    "models": (["name", "state", "kind", "source", "licence"], []),
    "decisions": (["id", "title", "of"], []),
}
