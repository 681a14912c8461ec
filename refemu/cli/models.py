"""`refemu models`: list, download, remove and verify models, and the cache of prepared models."""

import argparse
from typing import Any

from refemu.arith.checks import Refused, lookup
from refemu.cli.output import print_json, print_table, size
from refemu.cli.progress import progress
from refemu.models.fetch import catalog, store


def run(arguments: argparse.Namespace) -> int:
    """List, fetch, remove, check or prune; return 0, or 1 if `check` finds a damaged file."""
    if arguments.damaged and arguments.action != "prune":
        raise Refused(f"models {arguments.action}: --damaged needs prune")
    if arguments.source and arguments.action != "fetch":
        raise Refused(f"models {arguments.action}: --from needs fetch")
    if arguments.action in ("list", "prepared") and arguments.name:
        raise Refused(f"models {arguments.action}: takes no name, got {arguments.name}")
    actions = {"list": _list, "fetch": _fetch, "remove": _remove, "prepared": _prepared, "check": _check}
    return {**actions, "prune": _prune}[arguments.action](arguments)


def _list(arguments: argparse.Namespace) -> int:
    from refemu.cli import list as listing

    return listing.run(argparse.Namespace(what="models", json=arguments.json))


def _fetch(arguments: argparse.Namespace) -> int:
    with progress() as bar:
        path = store.fetch(_name(arguments), source=arguments.source, progress=bar)
    _say(arguments, arguments.name, "ready", str(path))
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    removed = store.remove(_name(arguments))
    _say(arguments, arguments.name, "removed" if removed else "is not downloaded", None)
    return 0


def _prepared(arguments: argparse.Namespace) -> int:
    from refemu.models.prepared import store as kept

    rows = [prepared.row() for prepared in kept.listing()]
    if arguments.json:
        print_json("models", {"prepared": rows})
        return 0
    columns = ["name", "model", "recipe", "state", "items", "size"]
    cells = [[*(row[column] for column in columns[:-1]), size(row["bytes"])] for row in rows]
    print_table("prepared models", columns, cells, ["items", "size"])
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from refemu.models.prepared import store as kept

    chosen = kept.find(arguments.name) if arguments.name else kept.listing()
    results = list(kept.check(chosen))
    wrong = [message for _, message in results if message]
    if arguments.json:
        print_json("models", {"checked": len(results), "damaged": wrong})
    else:
        print("\n".join([*wrong, f"{len(results)} items checked, {len(wrong)} damaged"]))
    return int(bool(wrong))


def _prune(arguments: argparse.Namespace) -> int:
    from refemu.models.prepared import store as kept

    chosen = kept.find(arguments.name) if arguments.name else None
    deleted = [str(path) for path in kept.prune(chosen, arguments.damaged)]
    if arguments.json:
        print_json("models", {"deleted": deleted})
    else:
        print("\n".join(f"deleted {path}" for path in deleted) or "nothing to delete")
    return 0


def _name(arguments: argparse.Namespace) -> str:
    if not arguments.name:
        raise Refused(f"models {arguments.action}: NAME is missing; `refemu models list` lists the models")
    if arguments.name not in catalog.MODELS:
        lookup("model or text", arguments.name, {each.name: each for each in catalog.MODELS.values() if each.package})
    return str(arguments.name)


def _say(arguments: argparse.Namespace, name: str, state: str, path: str | None) -> None:
    row: dict[str, Any] = {"model": name, "state": state, "path": path}
    if arguments.json:
        print_json("models", row)
    else:
        print(f"{name} {state}" + (f": {path}" if path else ""))
