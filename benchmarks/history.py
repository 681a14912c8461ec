"""Records of runs, one JSON line per row, and how ratios moved: a table with a line of bars per row, or a drawing."""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from benchmarks.pairs import Row

BARS = "▁▂▃▄▅▆▇█"
_NAMES = {
    field.name: {str: "string", float: "number", int: "integer", bool: "boolean"}[field.type]  # type: ignore[index]
    for field in fields(Row)
}

#: schema of a line, JSON Schema draft 7
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["context", "row"],
    "properties": {
        "context": {
            "type": "object",
            "required": ["time", "commit", "cpu", "flags", "affinity", "load", "numpy", "packages", "blas", "rounding"],
            "properties": {"time": {"type": "string"}, "commit": {"type": "string"}, "load": {"type": "number"}},
        },
        "row": {
            "type": "object",
            "required": [*_NAMES, "outcome"],
            "properties": {
                **{name: {"type": kind} for name, kind in _NAMES.items()},
                "outcome": {"enum": ["met", "missed", "wrong", "no goal"]},
            },
        },
    },
}


class Unusable(Exception):
    """A history that cannot be read, or a drawing that cannot be made; the text says why."""


def append(file: Path, about: dict[str, Any], rows: Iterable[dict[str, Any]]) -> None:
    """One line per row at the end of `file`, whose folder is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps({"context": about, "row": row}) + "\n" for row in rows)


def read(file: Path) -> list[dict[str, Any]]:
    """Every record, in order; raises Unusable for a line that is none, by its number."""
    import fastjsonschema

    valid, records = fastjsonschema.compile(SCHEMA), []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Unusable(f"{file}: {error.strerror}; `make bench` appends to it") from None
    for number, line in enumerate(lines, 1):
        try:
            records.append(valid(json.loads(line)))
        except (ValueError, fastjsonschema.JsonSchemaException) as error:
            raise Unusable(f"{file}: line {number} is not a record of a row: {error}") from None
    return records


def row_of(record: dict[str, Any]) -> Row:
    """The row of the part `row` of a record."""
    return Row(**{name: record[name] for name in _NAMES})


def by_row(records: Iterable[dict[str, Any]], ids: Sequence[str] = ()) -> dict[str, list[tuple[dict[str, Any], Row]]]:
    """Row key -> contexts and rows in order; of `ids`, or of all rows that have a goal."""
    found: dict[str, list[tuple[dict[str, Any], Row]]] = {}
    for record in records:
        row = row_of(record["row"])
        if row.id in ids if ids else row.goal:
            found.setdefault(row.key, []).append((record["context"], row))
    return found


def table(series: dict[str, list[tuple[dict[str, Any], Row]]]) -> str:
    """A line per row: runs, the last ratio, the best, the goal, and bars from 0 to the largest."""
    lines = [f"{'row':16} {'operation':56} {'runs':>4} {'last':>7} {'best':>7} {'goal':>6}"]
    for points in series.values():
        ratios, row = [row.ratio for _, row in points], points[-1][1]
        lines.append(
            f"{row.id:16} {row.what[:56]:56} {len(ratios):4} {ratios[-1]:7.2f} {max(ratios):7.2f} "
            f"{row.goal or '':>6} {bars(ratios)}"
        )
    return "\n".join(lines)


def bars(values: Sequence[float]) -> str:
    """One character a value, as high as its share of the largest."""
    top = max(values) or 1.0
    return "".join(BARS[round(value / top * (len(BARS) - 1))] for value in values)


def plot(series: dict[str, list[tuple[dict[str, Any], Row]]], file: Path) -> None:
    """A small drawing per row: ratio over runs, and its goal as a broken line."""
    try:
        import matplotlib
    except ImportError:
        raise Unusable("matplotlib is not installed: pip install -e '.[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    across = min(4, len(series))
    down = -(-len(series) // across)
    figure, axes = pyplot.subplots(down, across, figsize=(4 * across, 2.2 * down), squeeze=False, layout="constrained")
    for axis in axes.flat[len(series) :]:
        axis.axis("off")
    for axis, points in zip(axes.flat, series.values(), strict=False):
        _draw(axis, [row for _, row in points])
    try:
        figure.savefig(file)
    except (ValueError, OSError) as error:
        raise Unusable(f"{file}: {error}") from None
    finally:
        pyplot.close(figure)


def _draw(axis: Any, rows: Sequence[Row]) -> None:
    runs = range(1, len(rows) + 1)
    axis.fill_between(runs, [row.low for row in rows], [row.high for row in rows], alpha=0.25, linewidth=0)
    axis.plot(runs, [row.ratio for row in rows], marker="o", markersize=3)
    if rows[-1].goal:
        axis.axhline(rows[-1].goal, linestyle="--", color="0.4", linewidth=1)
    axis.set_title(f"{rows[-1].id}  {rows[-1].what[:44]}\nagainst {rows[-1].rival[:44]}", fontsize=6)
    axis.set_ylim(bottom=0)
    axis.tick_params(labelsize=6)
    axis.xaxis.get_major_locator().set_params(integer=True)


def main(arguments: argparse.Namespace) -> int:
    """Print the table, and draw where a file is named."""
    series = by_row(read(Path(arguments.file)), arguments.ids)
    if not series:
        raise Unusable(f"{arguments.file} has no rows {' '.join(arguments.ids) or 'with a goal'}")
    print(table(series))
    if arguments.plot:
        plot(series, Path(arguments.plot))
        print(f"{arguments.plot}: {len(series)} rows")
    return 0
