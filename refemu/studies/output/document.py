"""A study as JSON, `refemu.study/1`: schema/study-1.json has its fields."""

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata, resources
from typing import Any

from refemu import __version__
from refemu.arith.checks import Refused
from refemu.studies import evaluation
from refemu.studies.evaluation import Setting
from refemu.studies.output.figure import Figure
from refemu.studies.output.table import Table

SCHEMA = "refemu.study/1"
LIBRARIES = ("numpy", "numba", "scipy", "gguf", "safetensors", "tokenizers", "matplotlib")


def document(
    study: str,
    setting: Setting,
    command: str,
    source: str,
    tables: Sequence[Table],
    figures: Sequence[Figure],
    counts: tuple[int, int],
    digests: Mapping[str, str | None],
) -> dict[str, Any]:
    """The study for tools. source: file of the text; "" for the shipped item. counts: steps measured and found.

    digests: sha256 of what was read, None for nothing: of the text, of the calibration text or its token ids.
    """
    windows = len(setting.texts) if setting.is_encoder else len(setting.windows) if setting.ids else 0
    whole = {
        "schema": SCHEMA,
        "refemu_version": __version__,
        "study": study,
        "command": command,
        "versions": dict(versions()),
        "model": {
            "name": setting.model.name,
            "sha256": setting.model.sha256,
            "seeded": evaluation.seeded(setting.model),
        },
        "text": {
            "tokens": len(setting.ids),
            "windows": windows,
            "win": setting.win if windows else 0,
            "prefill": setting.prefill,
            "ids_sha256": evaluation.digest(setting.ids),
            "source": source,
            "sha256": digests["text"],
            "calibration_sha256": digests["calibration"],
        },
        "measured": counts[0],
        "cached": counts[1],
        "tables": [table.document() for table in tables],
        "figures": [
            {"name": figure.name, "place": figure.place, "title": figure.title, "caption": figure.caption}
            for figure in figures
        ],
    }
    check(whole)
    return whole


def versions() -> Mapping[str, str]:
    """Versions of Python and of the installed libraries."""
    scored = {"python": platform.python_version(), "platform": f"{sys.platform} {platform.machine()}"}
    for name in LIBRARIES:
        try:
            scored[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return scored


def check(whole: Any) -> None:
    """Raise Refused, with the place, for a document that does not follow the schema."""
    import fastjsonschema

    try:
        _validator()(whole)
    except fastjsonschema.JsonSchemaValueException as error:
        raise Refused(f"study: not of schema {SCHEMA}: {error.message}") from error
    for table in whole["tables"]:
        _check_types(table)


def _check_types(table: Mapping[str, Any]) -> None:
    """Require a value of the right type for every column in every row."""
    kinds: dict[str, tuple[type, ...]] = {"text": (str,), "integer": (int,), "number": (int, float)}
    for index, row in enumerate(table["rows"]):
        names = [column["name"] for column in table["columns"]]
        if list(row) != names and sorted(row) != sorted(names):
            raise Refused(f"study: table {table['name']}: the columns must be those of the table in row {index}")
        for column in table["columns"]:
            value = row[column["name"]]
            if value is not None and not isinstance(value, kinds[column["type"]]):
                raise Refused(
                    f"study: table {table['name']}: {column['name']} must be of type {column['type']}, "
                    f"got {value!r:.60} in row {index}"
                )


@cache
def _validator() -> Any:
    import fastjsonschema

    return fastjsonschema.compile(schema())


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of a document."""
    text = resources.files("refemu.studies").joinpath("schema/study-1.json").read_text("ascii")
    contents: dict[str, Any] = json.loads(text)
    return contents
