"""The tables: every row, growth of costs, and a summary; as text and as Markdown."""

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.model_costs import COLUMNS
from benchmarks.pairs import Absent, AnyRow, Broken, Row

BEGIN, END = "<!-- table: make bench -->", "<!-- end of table -->"  #: markers in a Markdown file
WIDTHS = {
    "row": -16,
    "operation": -56,
    "instead": -40,
    "ratio": 7,
    "p10": 7,
    "p90": 7,
    "goal": 5,
    "": -6,
    "ours": 9,
    "first": 9,
    "cold": 9,
    "compile": 9,
    "MB": 7,
}  #: columns of the text; negative: left-aligned


def text(rows: Sequence[AnyRow], about: dict[str, Any]) -> str:
    """Everything that a run prints."""
    lines = [_line(dict(zip(WIDTHS, WIDTHS, strict=True)))]
    lines += [_line(cells(row)) if isinstance(row, Row) else f"{row.id:16} {_reason(row)}" for row in rows]
    return "\n".join([*lines, "", *grown(rows), "", machine(about), *outcome(rows)])


def _reason(row: Absent | Broken) -> str:
    """Why there are no numbers."""
    reason = row.reason if isinstance(row, Absent) else f"ERROR {row.error}"
    return f"{row.what}: {reason}" if row.what else reason


def _line(cell: dict[str, str]) -> str:
    return " ".join(
        cell[name].ljust(-width) if width < 0 else cell[name].rjust(width) for name, width in WIDTHS.items()
    ).rstrip()


def cells(row: Row) -> dict[str, str]:
    """The text of each column."""
    warm = row.first_s if row.cold_s or not row.compile_s else 0.0  # a first call that compiled was a cold one
    return {
        "row": row.id,
        "operation": row.what + (f", {row.threads} threads" if row.threads > 1 else ""),
        "instead": row.rival,
        "ratio": number(row.ratio),
        "p10": number(row.low),
        "p90": number(row.high),
        "goal": number(row.goal) if row.goal else "",
        "": row.outcome,
        "ours": seconds(row.ours_s),
        "first": seconds(warm),
        "cold": seconds(row.cold_s or (0.0 if warm else row.first_s)),
        "compile": seconds(row.compile_s),
        "MB": f"{row.peak_mb:.1f}" if row.peak_mb else "",
    }


def number(value: float) -> str:
    """Two decimals below ten, one below a hundred, none above."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def seconds(value: float) -> str:
    """Three digits or so with a unit; nothing for 0."""
    if value == 0:
        return ""
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} us"


def grown(rows: Iterable[AnyRow]) -> list[str]:
    """A line per series: the sizes, and the exponent of a power fitted to the seconds of both sides."""
    series = [row for row in rows if isinstance(row, Row) and row.series]
    lines = []
    for (id, name), group in itertools.groupby(series, lambda row: (row.id, row.series)):
        points = list(group)
        sizes = [row.size for row in points]
        ours, theirs = (
            exponent(sizes, times) for times in ([row.ours_s for row in points], [row.rival_s for row in points])
        )
        lines.append(
            f"{id:16} {name}: exponent {ours:.2f} from {sizes[0]:.0f} to {sizes[-1]:.0f}; "
            f"{points[0].rival}: {theirs:.2f}"
        )
    return ["how cost grows", *lines] if lines else []


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """e of the least squares fit times = c * sizes^e, on logarithms."""
    if len(sizes) < 2:
        return math.nan
    return statistics.linear_regression([math.log(size) for size in sizes], [math.log(time) for time in times]).slope


def outcome(rows: Sequence[AnyRow]) -> list[str]:
    """Numbers of met and missed goals; name and ratio of missed, wrong, absent or failed rows."""
    measured = [row for row in rows if isinstance(row, Row)]
    of = {name: [row for row in measured if row.outcome == name] for name in ("met", "missed", "", "WRONG")}
    absent, broken = ([row for row in rows if isinstance(row, kind)] for kind in (Absent, Broken))
    lines = [
        f"{len(of['met'])} goals met, {len(of['missed'])} missed, {len(of['WRONG'])} wrong; "
        f"{len(of[''])} rows without a goal, {len(absent)} not measured, {len(broken)} broken"
    ]
    lines += [f"missed   {row.id:16} {row.what}: {number(row.ratio)} of {number(row.goal)}" for row in of["missed"]]
    lines += [f"absent   {row.id:16} {_reason(row)}" for row in absent]
    return lines + faults(rows)[:-1]


def faults(rows: Sequence[AnyRow]) -> list[str]:
    """Names of wrong or failed rows, then the number of rows."""
    wrong = [row for row in rows if isinstance(row, Row) and not row.checked]
    broken = [row for row in rows if isinstance(row, Broken)]
    return [
        *(f"WRONG    {row.id:16} {row.what}" for row in wrong),
        *(f"broken   {row.id:16} {_reason(row)}" for row in broken),
        f"{len(rows)} rows, {len(wrong)} wrong, {len(broken)} broken",
    ]


def code(rows: Sequence[AnyRow]) -> int:
    """1 if a result was wrong or a row failed; a missed goal is not an error."""
    return int(len(faults(rows)) > 1)


def machine(about: dict[str, Any]) -> str:
    """One line about the run."""
    blas = " ".join(filter(None, (about["blas"][part] for part in ("name", "version", "core"))))
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    return (
        f"{about['commit']} on {about['cpu']} ({' '.join(about['flags'])}), load {about['load']:.1f}, copy "
        f"{about['copy_gb_s']} GB/s; Python {about['python']}, NumPy {about['numpy']} with {blas}, "
        f"{packages}; fp16 rounding: {about['rounding']}"
    )


def markdown(rows: Sequence[AnyRow], about: dict[str, Any]) -> str:
    """Rows with a goal as Markdown, without those of a series and of `model_costs`, and a summary."""
    names, elsewhere = ["row", "operation", "instead", "ratio", "goal"], dict(COLUMNS)
    lines = [
        machine(about),
        "",
        "| " + " | ".join(names) + " |",
        "|" + "|".join("---" if WIDTHS[name] < 0 else "---:" for name in names) + "|",
    ]
    lines += [
        "| " + " | ".join(cells(row)[name] for name in names) + " |"
        for row in rows
        if isinstance(row, Row) and row.goal and not row.series and row.id not in elsewhere
    ]
    return "\n".join([*lines, "", outcome(rows)[0], ""])


def write_markdown(file: Path, rows: Sequence[AnyRow], about: dict[str, Any]) -> None:
    """Into `file`: between its markers if it has them, else as the whole of it."""
    old, made = file.read_text(encoding="utf-8") if file.exists() else "", markdown(rows, about)
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    whole = f"{before}{begin}\n\n{made}\n{end}{after}" if begin and end else made
    file.write_text(whole, encoding="utf-8")
