"""`refemu report RUN_DIR`: results of a regression as JSON, JUnit XML and an HTML page."""

import argparse
from pathlib import Path
from typing import Any

from refemu.cli.output import print_lines, print_table
from refemu.cli.progress import progress

NAMES = {"junit": "report.xml", "json": "report.json", "html": "report.html"}


def run(arguments: argparse.Namespace) -> int:
    """Write the reports and print a table; return 0 if every set passes, 1 if a device differs, else 2."""
    from refemu.golden.files import store
    from refemu.golden.report import document, junit, page, regression

    places = _places(arguments)
    with progress() as bar:
        outcome = regression.regression(arguments.folder, arguments.grade, bar)
    writers = {"junit": junit.text, "json": document.text, "html": page.text}
    texts = {form: writers[form](outcome) for form in places}
    shown = texts.pop("json") if places.get("json") == "-" else None
    files = {Path(places[form]): text.encode("utf-8", "backslashreplace") for form, text in texts.items()}
    store.write_files(files)
    if shown is None:
        _print(outcome)
    else:
        print_lines([shown])
    return int(outcome.code)


def _places(arguments: argparse.Namespace) -> dict[str, str]:
    """The file of each form: those of the options, or all three in the folder."""
    named = {form: getattr(arguments, form) for form in NAMES if getattr(arguments, form) is not None}
    return named or {form: str(Path(arguments.folder) / name) for form, name in NAMES.items()}


def _print(outcome: Any) -> None:
    rows = [
        (
            each.path,
            each.outcome,
            each.rows,
            max((answer.rows_differ for answer in each.answers if answer.rows_differ is not None), default=""),
            "{} of {}".format(*each.coverage.detected) if each.coverage and each.coverage.grade else "",
            next((answer.reason for answer in each.answers if answer.reason), each.reason),
        )
        for each in outcome.sets
    ]
    columns = ("set", "result", "rows", "differ", "detected", "note")
    print_table(f"regression of {outcome.folder}", columns, rows, ("rows", "differ", "detected"))
    for log in outcome.logs:
        print(f"{log.path}: {log.outcome}: {log.reason}")
    for each in outcome.campaigns:
        if not each.whole:
            print(f"campaign {each.path}: {each.reason}")
    for each in outcome.sets:
        for answer in each.answers:
            if answer.commands:
                print(f"{each.path}: {answer.commands[0].run}")
    print(", ".join(f"{count} {outcome}" for outcome, count in outcome.counts.items() if count))
