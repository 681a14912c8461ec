"""`refemu schema`: JSON schemas of the output of commands and of the JSON files that refemu writes.

A document names its schema: `"schema": "refemu.list/1"` is the schema that `refemu schema list` prints. Removing or
redefining a field increments the number; adding one does not.
"""

import argparse
import json
from functools import cache
from importlib import resources
from typing import Any

from refemu.arith.checks import lookup
from refemu.cli.output import print_table

#: package with schema/NAME-1.json, by NAME, for schemas of files; schemas of commands are in this package
FILES = {
    "report": "refemu.golden.report",
    "study": "refemu.studies",
    "suite": "refemu.golden.suite",
    "vectors": "refemu.golden.files",
}


def run(arguments: argparse.Namespace) -> int:
    """Print one schema as JSON, or a table of all; return 0."""
    if arguments.form is None:
        print_table("schemas", ("name", "of"), [(name, schema(name)["title"]) for name in names()])
    else:
        lookup("schema", arguments.form, dict.fromkeys(names()))
        print(json.dumps(schema(arguments.form), indent=1, ensure_ascii=True))
    return 0


def names() -> list[str]:
    """Names of all schemas, sorted."""
    commands = [
        entry.name.removesuffix("-1.json") for entry in resources.files("refemu.cli").joinpath("schema").iterdir()
    ]
    return sorted([*commands, *FILES])


@cache
def schema(name: str) -> dict[str, Any]:
    """Load a schema. name: one of `names`."""
    package = resources.files(FILES.get(name, "refemu.cli"))
    contents: dict[str, Any] = json.loads(package.joinpath(f"schema/{name}-1.json").read_text("ascii"))
    return contents
