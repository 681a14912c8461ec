"""`refemu report RUN_DIR`: sets, answers and logs of a regression, judged, as JSON, JUnit XML and an HTML page."""

import argparse
from pathlib import Path
from typing import Any

from refemu.cli.output import print_lines, print_table
from refemu.cli.progress import progress

NAMES = {"junit": "report.xml", "json": "report.json", "html": "report.html"}


def run(arguments: argparse.Namespace) -> int:
    """Write the reports and print a table; returns 0 if every set passes, 1 if a device differs, else 2."""
    from refemu.golden.files import store
    from refemu.golden.report import document, junit, page, regression

    places = _places(arguments)
    with progress() as bar:
        judged = regression.regression(arguments.folder, arguments.grade, bar)
    writers = {"junit": junit.text, "json": document.text, "html": page.text}
    texts = {form: writers[form](judged) for form in places}
    shown = texts.pop("json") if places.get("json") == "-" else None
    files = {Path(places[form]): text.encode("utf-8", "backslashreplace") for form, text in texts.items()}
    store.write_files(files)
    if shown is None:
        _print(judged)
    else:
        print_lines([shown])
    return int(judged.code)


def _places(arguments: argparse.Namespace) -> dict[str, str]:
    """Where each form goes: where the options say, without any all three into the folder."""
    named = {form: getattr(arguments, form) for form in NAMES if getattr(arguments, form) is not None}
    return named or {form: str(Path(arguments.folder) / name) for form, name in NAMES.items()}


def _print(judged: Any) -> None:
    rows = [
        (
            each.path,
            each.verdict,
            each.rows,
            max((answer.rows_differ for answer in each.answers if answer.rows_differ is not None), default=""),
            next((answer.reason for answer in each.answers if answer.reason), each.reason),
        )
        for each in judged.sets
    ]
    columns = ("set", "verdict", "rows", "differ", "note")
    print_table(f"regression of {judged.folder}", columns, rows, ("rows", "differ"))
    for log in judged.logs:
        print(f"{log.path}: {log.verdict}: {log.reason}")
    for each in judged.campaigns:
        if not each.whole:
            print(f"campaign {each.path}: {each.reason}")
    for each in judged.sets:
        for answer in each.answers:
            if answer.commands:
                print(f"{each.path}: {answer.commands[0].run}")
    print(", ".join(f"{count} {verdict}" for verdict, count in judged.counts.items() if count))
