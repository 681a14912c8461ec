"""Write vectors/GRADES.md: which wrong devices each committed set convicts, by class of fault.

    python tools/grades.py            # grades every set, and writes the page
    python tools/grades.py --check    # exit code 1 if the page differs from what would be written

Every row ends with a digest of what it follows from: the set, the sources of its unit, the fault library. A test
compares the digests only; `--check` grades again.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from refemu import golden, units
from refemu.golden.grade.fault import QUICK
from refemu.golden.grade.grade import Counts, Grade

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "vectors"
PAGE = VECTORS / "GRADES.md"
HEAD = """# Grades of the committed sets

Written by `make grades`; do not edit. Classes and verdicts: docs/vectors.md, "Grading a stimulus". A cell: faults
convicted of those known to be wrong (convicted and holes); `?` undecided ones, which none of 10,000 and more other
legal rows tells; `!` devices that take no case of the set. `refemu grade vectors/SET` names every one. The digest
covers the set, the sources of its unit and the fault library.

"""


def names() -> list[str]:
    """Names of the committed sets."""
    return sorted(path.parent.name for path in VECTORS.glob("*/manifest.json"))


def digest(name: str) -> str:
    """Digest of what the grade of a set follows from: 12 hex digits."""
    manifest = golden.load(VECTORS / name).manifest
    parts = [str(manifest["self_sha256"])]
    parts += [hashlib.sha256(path.read_bytes()).hexdigest() for path in sources(manifest["unit"])]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


def sources(unit: str) -> list[Path]:
    """Modules of a unit, its cases and its twin, and those of the fault library."""
    paper = ROOT / "refemu" / "units" / units.find(unit).paper.split()[0]
    own = [path for path in paper.rglob("*.py") if unit in (path.stem, *path.relative_to(paper).parts[:-1])]
    return sorted(own) + sorted((ROOT / "refemu" / "golden" / "grade").glob("*.py"))


def cell(counts: Counts) -> str:
    """Counts of a class in a few characters."""
    if not counts.faults:
        return "-"
    known = counts.convicted + counts.holes
    parts = [f"{counts.convicted}/{known}"] * bool(known)
    return " ".join([*parts, *(f"{sign}{number}" for sign, number in _others(counts) if number)])


def _others(counts: Counts) -> Iterator[tuple[str, int]]:
    yield "?", counts.undecided
    yield "!", counts.raised


def row(name: str, rows: int, classes: Mapping[str, Counts], end: str) -> str:
    """A line of the table."""
    cells = [name, f"{rows:,}", *(cell(classes[each]) for each in QUICK), end]
    return f"| {' | '.join(cells)} |"


def total(grades: Sequence[Grade]) -> dict[str, Counts]:
    """Counts of all sets."""
    fields = ("faults", "convicted", "holes", "undecided", "raised")
    return {
        each: Counts(*(sum(getattr(grade.classes[each], name) for grade in grades) for name in fields))
        for each in QUICK
    }


def page() -> str:
    """The whole page, every set graded."""
    grades = []
    for name in names():
        grades.append(golden.grade_set(VECTORS / name))
        print(row(name, grades[-1].rows, grades[-1].classes, ""), file=sys.stderr, flush=True)
    lines = [f"| set | rows | {' | '.join(QUICK)} | digest |", "|---" * (len(QUICK) + 3) + "|"]
    lines += [row(name, grade.rows, grade.classes, digest(name)) for name, grade in zip(names(), grades, strict=True)]
    lines.append(row("all", sum(grade.rows for grade in grades), total(grades), ""))
    return HEAD + "\n".join(lines) + "\n"


def listed(text: str) -> dict[str, str]:
    """Digest of each set on a page."""
    rows = [
        [part.strip() for part in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    return {cells[0]: cells[-1] for cells in rows if cells[0] not in ("set", "all")}


def main(words: Sequence[str]) -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" not in words:
        PAGE.write_text(text)
        return 0
    if not PAGE.is_file() or PAGE.read_text() != text:
        print("vectors/GRADES.md is not what `make grades` writes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
