"""A grade as JSON, for `refemu grade --json` and reports."""

import dataclasses
from typing import Any

from refemu.golden.grade.grade import Grade


def document(grade: Grade) -> dict[str, Any]:
    """The fields of a grade; a survivor's class is its `class`."""
    survivors = []
    for survivor in grade.survivors:
        fields = dataclasses.asdict(survivor)
        survivors.append({"class": fields.pop("klass"), **fields})
    return {**dataclasses.asdict(grade), "survivors": survivors}
