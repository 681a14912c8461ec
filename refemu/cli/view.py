"""`refemu view SET --html FILE`: a page with the rows of a set, next to the answers of a device."""

import argparse
import re
from pathlib import Path

from refemu.arith.checks import Refused
from refemu.cli.output import print_json

_ROWS = re.compile(r"([0-9]{0,18}):([0-9]{0,18})")


def run(arguments: argparse.Namespace) -> int:
    """Write the page; return 0, or 1 if answers differ."""
    from refemu.golden.files import store
    from refemu.golden.view import set_page

    first, last = (0, None) if arguments.rows is None else _rows(arguments.rows)
    written = set_page.written(arguments.set, arguments.answers, first, last)
    store.write_files({Path(arguments.html): written.data})
    end = written.first + written.rows
    if arguments.json:
        document = {"file": str(arguments.html), "bytes": len(written.data), "first": first, "rows": written.rows}
        document |= {"total": written.total, "rows_differ": written.differ, "not_compared": written.not_compared}
        print_json("view", document)
        return int(bool(written.differ))
    print(f"{arguments.html}: rows {first} to {end - 1} of {written.total}, {len(written.data):,} bytes")
    if end < (written.total if last is None else last):
        print(f"the page is full; the next rows: --rows {end}:{written.total if last is None else last}")
    if written.not_compared:
        print(f"not compared (missing from answers): {', '.join(written.not_compared)}")
    if written.differ is not None:
        print(f"{written.differ} of {written.total} rows differ")
    return int(bool(written.differ))


def _rows(text: str) -> tuple[int, int | None]:
    """First row and the one after the last, of A:B, A: or :B."""
    match = _ROWS.fullmatch(text)
    if not match or not (match[1] or match[2]):
        raise Refused(f"view: --rows must be A:B, got {text[:60]!r}")
    return int(match[1] or 0), int(match[2]) if match[2] else None
