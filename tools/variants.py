"""Write docs/alternatives.md: every decision with the variants that `refemu diff --explain` tries.

    python -m tools.variants

Each variant has the committed set in which most rows detect it. A test compares the page with the units; the counts
are those of the committed sets when the page was written.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from refemu import golden, units
from tools.grades import ROOT, VECTORS, names

PAGE = ROOT / "docs" / "alternatives.md"
PAPERS = {"kllm": "KLLM", "olive": "OliVe", "harmonia": "Harmonia", "leankv": "LeanKV"}
HEAD = """# Decisions and their variants

Written by `make alternatives`; do not edit. Where a paper leaves something open, docs/decisions.md says what refemu
does and why. This page lists variants: other ways in which a design may decide. It names the committed set in which
most rows detect a variant, and counts these rows. `refemu diff --explain` tries all variants, alone and together;
`refemu explain UNIT --set SET` counts the rows of any set.

Decisions without a variant follow the table of their unit, with the reason.
"""
Row = tuple[str, str, str, int]  #: decision, variant, set, rows


def main(page: Path = PAGE) -> None:
    """Write the page."""
    with ProcessPoolExecutor() as pool:
        rows = dict(zip(units.names(), pool.map(telling, units.names()), strict=True))
    page.write_text("\n".join([HEAD, *(line for paper in PAPERS for line in _section(paper, rows))]), "utf-8")


def telling(unit: str) -> list[Row]:
    """Each variant of a unit, and the committed set that detects it best."""
    best: dict[tuple[str, str], tuple[str, int]] = {}
    for name in sets_of(unit):
        config = golden.load(VECTORS / name).config
        for choice in golden.variants(unit, config, VECTORS / name):
            key, rows = (choice.decision, choice.says), choice.rows or 0
            if rows > best.get(key, ("", -1))[1]:
                best[key] = name, rows
    return [(*key, *place) for key, place in best.items()]


def sets_of(unit: str) -> list[str]:
    """Names of the committed sets of a unit."""
    return [name for name in names() if name.rpartition("-")[0] == unit or name.startswith(f"{unit}-")]


def _section(paper: str, rows: dict[str, list[Row]]) -> Iterator[str]:
    yield f"## {PAPERS[paper]}\n"
    for unit in units.names():
        if units.find(unit).paper.split()[0] == paper:
            yield f"### {unit}\n"
            yield from _table(rows[unit])
            yield from (f"{id}: {reason.rstrip('.')}.\n" for id, reason in units.find(unit).unobservable.items())


def _table(rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        yield "No decision of its own.\n"
        return
    yield "| decision | variant | set | rows |\n|---|---|---|--:|"
    for decision, says, name, count in rows:
        yield f"| {decision} | {_cell(says)} | {name} | {count} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def lines(path: Path = PAGE) -> list[str]:
    """Rows of the tables on the page."""
    return [line for line in path.read_text("utf-8").splitlines() if line.startswith("| D-")]


if __name__ == "__main__":
    main()
