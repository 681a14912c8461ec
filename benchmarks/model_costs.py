"""The table of docs/performance.md: cost of a token under each scheme, from measured rows.

python -m benchmarks PERF-M1 PERF-M3 --json rows.jsonl
python -m benchmarks.model_costs rows.jsonl docs/performance.md
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.history import read, row_of
from benchmarks.pairs import Row

BEGIN, END = "<!-- costs: begin -->", "<!-- costs: end -->"
COLUMNS = (
    ("PERF-M1", "prefill, 256 tokens"),
    ("PERF-M2", "decode after it"),
    ("PERF-M3", "prefill, 2,048 tokens"),
    ("MEM-2048", "memory at 2,048"),
)


def table(rows: Sequence[Row]) -> str:
    """Markdown: a line per scheme in the order of the rows; speeds as multiples of the rival's."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row.what.split()[1], {})[row.id] = cell(row)
    lines = ["| scheme | " + " | ".join(f"{title} (`{id}`)" for id, title in COLUMNS) + " |", "|---" * 5 + "|"]
    for scheme, cells in found.items():
        lines.append(f"| `{scheme}` | " + " | ".join(cells.get(id, "") for id, _ in COLUMNS) + " |")
    return "\n".join(lines)


def cell(row: Row) -> str:
    """The rival's speed times this, or gigabytes, with the result unless it is `met`."""
    if row.id == "MEM-2048":
        return f"{row.peak_mb / 1000:.1f} GB"
    tokens = row.what.split()[3]
    note = f" ({tokens} tokens)" if row.id == "PERF-M1" and tokens != "256" else ""
    told = "" if row.outcome in ("met", "") else f", {row.outcome}"
    return f"{row.ratio:.2f} x{note}{told}"


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with a second file put it between that file's markers; returns 0."""
    last = {row.key: row for row in (row_of(record["row"]) for record in read(Path(arguments[0])))}
    made = table([row for row in last.values() if row.id in dict(COLUMNS)])
    if len(arguments) == 1:
        print(made)
        return 0
    page = Path(arguments[1])
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        print(f"{page}: no {BEGIN} and {END}", file=sys.stderr)
        return 2
    page.write_text(f"{before}{begin}\n{made}\n{end}{after}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
