"""Write vectors/GRADES.md: which injected faults each committed set detects, by class of fault.

    python -m tools.grades            # grades sets and units whose digest is not on the page, and writes the page
    python -m tools.grades --sets     # the same without the mutants, which take a minute per unit
    python -m tools.grades --check    # grades all sets again in the classes of FULL; exit code 1 if cells differ

Every row ends with a digest of what it depends on: the set, the code of its unit, the fault library (tools/code.py). A
test compares the digests, so no row is stale in any class.
"""

import dataclasses
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from refemu import golden, units
from refemu.arith import integers
from refemu.golden.grade.grade import Counts
from tools import code, grades_mutants

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "vectors"
PAGE = VECTORS / "GRADES.md"
POOL = 2_000  #: random rows in addition to a set; `refemu grade` has 10,000
FULL = ("bits", "lanes", "order", "words", "reset")  #: classes that CI grades for every set
GRADED = (*FULL, "use", "width", "rounding", "decisions")  #: graded for every set
LIBRARY = ("faults", "grade")  #: folders of refemu.golden
#: modules of them that grade no set in those classes
ASIDE = (*grades_mutants.ALONE, "additions", "minimize", "reimport")
HEAD = """# Grades of the committed sets

Written by `make grades`; do not edit. Classes and results: docs/fault-coverage.md. A cell: detected faults
of all detected and missed faults; `=` equivalent ones, which no legal input detects; `?` undecided ones, which none of
2,000 and more other legal rows detects; `!` faults that raise an error for every case of the set. `refemu grade
vectors/SET` names every fault. The digest covers the set, the code of its unit and the fault library. Rows that
tests/tools/test_grades.py and test_grades_mutants.py list as due were counted before a later change of that code.

"""


def names() -> list[str]:
    """Names of the committed sets."""
    return sorted(path.parent.name for path in VECTORS.glob("*/manifest.json"))


def digest(name: str) -> str:
    """Digest of what the grade of a set depends on: 12 hex digits."""
    manifest = golden.load(VECTORS / name).manifest
    parts = [code.of_set(manifest)]
    parts += [code.digest(path) for path in sources(manifest["unit"]) if path.stem not in ASIDE]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


def sources(unit: str) -> list[Path]:
    """Modules of a unit, of its cases and its compiled form, and those of the fault library."""
    paper = ROOT / "refemu" / "units" / units.find(unit).paper.split()[0]
    own = [path for path in paper.rglob("*.py") if unit in (path.stem, *path.relative_to(paper).parts[:-1])]
    library = [path for folder in LIBRARY for path in (ROOT / "refemu" / "golden" / folder).glob("*.py")]
    return sorted(own) + sorted(library)


def cell(counts: Counts) -> str:
    """Counts of a class as short text."""
    if not counts.faults:
        return "-"
    known = counts.detected + counts.missed
    parts = [f"{counts.detected}/{known}"] * bool(known)
    return " ".join([*parts, *(f"{sign}{number}" for sign, number in _others(counts) if number)])


def _others(counts: Counts) -> Iterator[tuple[str, int]]:
    yield "=", counts.equivalent
    yield "?", counts.undecided
    yield "!", counts.raised


def row(name: str, rows: int, classes: Mapping[str, Counts], end: str) -> str:
    """A line of the table."""
    cells = [name, f"{rows:,}", *(cell(classes[each]) for each in GRADED), end]
    return f"| {' | '.join(cells)} |"


def counted(text: str) -> Counts:
    """Counts from a cell."""
    detected = missed = 0
    others = dict.fromkeys("=?!", 0)
    for part in text.split():
        if part[0] in others:
            others[part[0]] = int(part[1:])
        elif part != "-":
            detected, known = map(int, part.split("/"))
            missed = known - detected
    results = (detected, missed, *others.values())
    return Counts(integers.total(results), *results)


def total(rows: Sequence[Mapping[str, Counts]]) -> dict[str, Counts]:
    """Counts of all sets."""
    fields = [field.name for field in dataclasses.fields(Counts)]
    return {
        each: Counts(*(sum(getattr(classes[each], name) for classes in rows) for name in fields)) for each in GRADED
    }


def sections(text: str) -> tuple[str, str]:
    """The table of the sets, and that of the mutants, of a page."""
    start = text.find(grades_mutants.TITLE)
    return (text, "") if start < 0 else (text[:start], text[start:])


def table(text: str) -> dict[str, dict[str, str]]:
    """Rows of a page by set: column -> cell."""
    rows = [
        [part.strip() for part in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    columns = rows[0] if rows else []
    return {cells[0]: dict(zip(columns, cells, strict=True)) for cells in rows[1:] if cells[0] != "all"}


def listed(text: str) -> dict[str, str]:
    """Digest of each set on a page."""
    return {name: cells["digest"] for name, cells in table(text).items()}


def graded(name: str, classes: Sequence[str] = GRADED) -> tuple[str, int, dict[str, str]]:
    """Name and rows of a set, and its cells."""
    grade = golden.grade_set(VECTORS / name, classes, POOL)
    return name, grade.rows, {each: cell(counts) for each, counts in grade.classes.items()}


def in_processes(wanted: Sequence[str], classes: Sequence[str]) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Grades of some sets, one core each, printed as they finish."""
    with ProcessPoolExecutor() as pool:
        for name, rows, cells in pool.map(partial(graded, classes=classes), wanted):
            print(name, rows, *cells.values(), sep=" | ", file=sys.stderr, flush=True)
            yield name, rows, cells


def page(old: str) -> str:
    """The whole page; sets whose digest is on the old page keep their rows."""
    known, columns = table(old), ["set", "rows", *GRADED, "digest"]
    digests = {name: digest(name) for name in names()}
    stale = [name for name in digests if list(known.get(name, ())) != columns or known[name]["digest"] != digests[name]]
    fresh = {name: (f"{rows:,}", cells) for name, rows, cells in in_processes(stale, GRADED)}
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    rows = []
    for name, end in digests.items():
        count, cells = fresh.get(name) or (known[name]["rows"], known[name])
        rows.append((int(count.replace(",", "")), {each: counted(cells[each]) for each in GRADED}))
        lines.append(row(name, *rows[-1], end))
    lines.append(row("all", sum(count for count, _ in rows), total([classes for _, classes in rows]), ""))
    return HEAD + "\n".join(lines) + "\n"


def differing(old: str) -> list[str]:
    """Sets whose cells in the classes of FULL differ from the page."""
    known = table(old)
    return [
        name
        for name, _, cells in in_processes(names(), FULL)
        if name not in known or any(known[name].get(each) != text for each, text in cells.items())
    ]


def main(words: Sequence[str]) -> int:
    """Write the page, or compare it."""
    old, mutants = sections(PAGE.read_text() if PAGE.is_file() else "")
    if "--check" not in words:
        table_of_sets = page(old)
        PAGE.write_text(f"{table_of_sets}\n{mutants}")  # mutants take long: save the grades so far
        if "--sets" not in words:
            PAGE.write_text(f"{table_of_sets}\n{grades_mutants.section(mutants, sources, cell)}")
        return 0
    wrong = differing(old)
    if wrong:
        print(f"vectors/GRADES.md differs from `make grades` for {', '.join(wrong)}; run it", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
