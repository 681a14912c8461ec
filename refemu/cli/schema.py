"""`refemu schema`: the JSON schemas of what commands print with --json, and of JSON files that refemu writes.

A document names its schema: `"schema": "refemu.list/1"` is what `refemu schema list` prints. The number grows when a
field goes or changes its meaning; a new field comes under the same number, into the schema too.
"""

import argparse
import json
from functools import cache
from importlib import resources
from typing import Any

from refemu.arith.checks import lookup
from refemu.cli.output import print_table

#: package that holds schema/NAME-1.json, by NAME: schemas of files; those of commands stand in this package
FILES = {
    "report": "refemu.golden.report",
    "study": "refemu.studies",
    "vectors": "refemu.golden.files",
}


def run(arguments: argparse.Namespace) -> int:
    """Print the schema of one form as JSON, or a table of all; returns 0."""
    if arguments.form is None:
        print_table("schemas", ("name", "of"), [(name, schema(name)["title"]) for name in names()])
    else:
        lookup("schema", arguments.form, dict.fromkeys(names()))
        print(json.dumps(schema(arguments.form), indent=1, ensure_ascii=True))
    return 0


def names() -> list[str]:
    """Every form that has a schema, sorted."""
    commands = [
        entry.name.removesuffix("-1.json") for entry in resources.files("refemu.cli").joinpath("schema").iterdir()
    ]
    return sorted([*commands, *FILES])


@cache
def schema(name: str) -> dict[str, Any]:
    """The JSON schema of a form, of `names`."""
    package = resources.files(FILES.get(name, "refemu.cli"))
    contents: dict[str, Any] = json.loads(package.joinpath(f"schema/{name}-1.json").read_text("ascii"))
    return contents
