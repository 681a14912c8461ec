"""The second table of vectors/GRADES.md: mutants of every readable unit, checked against one set of it.

`tools/grades.py` writes it. A row depends on the set, the code of the unit and the modules that make and run mutants;
its digest covers them.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from refemu import golden, units
from refemu.golden.grade.grade import Counts
from tools import code

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "vectors"
TITLE = "## Mutants of the readable units"
HEAD = f"""{TITLE}

Class model: up to 300 random mutants of each unit, in lines that legal cases reach, against the set of its first
configuration. The share is that of detected mutants among detected and missed ones; at least 97 % is required.

"""
COLUMNS = ("unit", "rows", "mutants", "detected", "share", "digest")
#: modules of refemu.golden.grade that make and run mutants
MODULES = ("model", "mutations", "pool", "reached_lines", "slices", "time_limit")
ALONE = ("model", "mutations", "reached_lines", "time_limit")  #: those of them that no other class uses

Sources = Callable[[str], list[Path]]


def names() -> dict[str, str]:
    """Set of every unit's first configuration, by unit."""
    ready = {unit: f"{unit}-{next(iter(units.find(unit).configs))}" for unit in units.names()}
    return {unit: name for unit, name in ready.items() if (VECTORS / name / "manifest.json").is_file()}


def digest(unit: str, name: str, sources: Sources) -> str:
    """Digest of what a row depends on: 12 hex digits. sources: files of a unit and of the library."""
    library = ROOT / "refemu" / "golden"
    files = [path for path in sources(unit) if path.parent.parent != library or path.stem in MODULES]
    parts = [code.of_set(golden.load(VECTORS / name).manifest)]
    parts += [code.digest(path) for path in files]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


def section(old: str, sources: Sources, cell: Callable[[Counts], str]) -> str:
    """The whole section; units whose digest is in the old section keep their rows."""
    known, sets = table(old), names()
    digests = {unit: digest(unit, name, sources) for unit, name in sets.items()}
    stale = [unit for unit in sets if known.get(unit, {}).get("digest") != digests[unit]]
    fresh = dict(_graded(stale, [sets[unit] for unit in stale]))
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for unit, end in digests.items():
        cells = [known[unit][column] for column in COLUMNS[1:-1]] if unit in known else []
        if unit in fresh:
            rows, counts = fresh[unit]
            cells = [f"{rows:,}", str(counts.faults), cell(counts), share(counts)]
        lines.append(f"| {' | '.join([unit, *cells, end])} |")
    return HEAD + "\n".join(lines) + "\n"


def share(counts: Counts) -> str:
    """The grade of a class in percent."""
    return "-" if counts.grade is None else f"{100 * counts.grade:.1f} %"


def table(text: str) -> dict[str, dict[str, str]]:
    """Rows of a section by unit: column -> cell."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    return {cells[0]: dict(zip(COLUMNS, cells, strict=True)) for cells in rows if cells[0] != "unit"}


def _graded(wanted: Sequence[str], sets: Sequence[str]) -> Iterator[tuple[str, tuple[int, Counts]]]:
    """Rows and counts of some units, one core each, printed as they finish."""
    with ProcessPoolExecutor() as pool:
        for unit, (rows, counts) in zip(wanted, pool.map(graded, sets), strict=True):
            print(unit, rows, counts, share(counts), sep=" | ", file=sys.stderr, flush=True)
            yield unit, (rows, counts)


def graded(name: str) -> tuple[int, Counts]:
    """Rows of a set, and its counts in class model."""
    grade = golden.grade_set(VECTORS / name, ["model"])
    counts: Mapping[str, Counts] = {str(klass): counts for klass, counts in grade.classes.items()}
    return grade.rows, counts["model"]
