"""`refemu models`: weights, their places on this machine, and how to get them."""

import argparse

from refemu.arith.checks import Refused
from refemu.cli.output import print_json
from refemu.cli.progress import progress
from refemu.models.fetch import store


def run(arguments: argparse.Namespace) -> int:
    """List, fetch or remove; returns 0."""
    if arguments.action == "list":
        from refemu.cli import list as listing

        return listing.run(argparse.Namespace(what="models", json=arguments.json))
    if not arguments.name:
        raise Refused(f"models {arguments.action}: name a model of `refemu models list`")
    if arguments.action == "remove":
        removed = store.remove(arguments.name)
        _say(arguments, arguments.name, "removed" if removed else "was not here", None)
        return 0
    with progress() as bar:
        path = store.fetch(arguments.name, source=arguments.source, progress=bar)
    _say(arguments, arguments.name, "ready", str(path))
    return 0


def _say(arguments: argparse.Namespace, name: str, state: str, path: str | None) -> None:
    if arguments.json:
        print_json({"model": name, "state": state, "path": path})
    else:
        print(f"{name} {state}" + (f": {path}" if path else ""))
