"""A regression as JSON, `refemu.report/1`; schema/report-1.json describes its fields."""

import dataclasses
import json
from functools import cache
from importlib import resources
from typing import Any

from refemu import __version__
from refemu.golden.compare import diff_text
from refemu.golden.report import grades
from refemu.golden.report.coverage import CLASSES, Coverage
from refemu.golden.report.regression import Answer, Regression, Reported

SCHEMA = "refemu.report/1"


def document(regression: Regression) -> dict[str, Any]:
    """The report for tools. Equal folders give equal documents."""
    return {
        "schema": SCHEMA,
        "refemu_version": __version__,
        "folder": regression.folder,
        "outcome": regression.outcome,
        "exit_code": regression.code,
        "counts": dict(regression.counts),
        "grading": regression.grading,
        "classes": list(CLASSES[regression.grading]),
        "campaigns": [{**dataclasses.asdict(each), "whole": each.whole} for each in regression.campaigns],
        "sets": [_set(each) for each in regression.sets],
        "logs": [_answer(each) for each in regression.logs],
    }


def text(regression: Regression) -> str:
    """The file: ASCII, with a newline at its end."""
    return json.dumps(document(regression), indent=1, sort_keys=True, default=str, allow_nan=False) + "\n"


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of a document."""
    text = resources.files("refemu.golden.report").joinpath("schema/report-1.json").read_text("ascii")
    contents: dict[str, Any] = json.loads(text)
    return contents


def _set(each: Reported) -> dict[str, Any]:
    plain = {item.name: getattr(each, item.name) for item in dataclasses.fields(each)}
    return {
        **plain,
        "answers": [_answer(answer) for answer in each.answers],
        "coverage": _coverage(each.coverage) if each.coverage else None,
        "commands": [dataclasses.asdict(command) for command in each.commands],
    }


def _answer(each: Answer) -> dict[str, Any]:
    plain = {item.name: getattr(each, item.name) for item in dataclasses.fields(each)}
    return {
        **plain,
        "difference": diff_text.document(each.difference) if each.difference else None,
        "lines": list(each.lines),
        "commands": [dataclasses.asdict(command) for command in each.commands],
    }


def _coverage(each: Coverage) -> dict[str, Any]:
    plain = {item.name: getattr(each, item.name) for item in dataclasses.fields(each)}
    seen, bits = each.share
    graded = grades.document(each.grade) if each.grade else None
    return {**plain, "seen": seen, "of": bits, "grade": graded}
