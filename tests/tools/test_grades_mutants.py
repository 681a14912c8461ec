"""The table of mutants: every unit, fresh digests, the gate of 97 %."""

import pytest

from refemu import units
from refemu.golden.grade.grade import Counts
from tools import grades, grades_mutants

#: Units of a few lines around another unit with no detected or missed mutant: all raise, or no row detects them
THIN = {"mmaovp_clocked", "olive_edp_clocked", "orizuru_clocked"}
#: rows to be counted again: the texts of units and of what makes mutants changed, and no answer of any
DUE = {*grades_mutants.table(grades.sections(grades.PAGE.read_text())[1])}


def test_rows_are_fresh_and_units_reach_threshold() -> None:
    """For the units in the table: `make grades` adds the others, a minute each."""
    _, mutants = grades.sections(grades.PAGE.read_text())
    rows, sets = grades_mutants.table(mutants), grades_mutants.names()
    digests = {unit: grades_mutants.digest(unit, sets[unit], grades.sources) for unit in rows}

    assert set(sets) == set(units.names())
    assert {unit for unit, cells in rows.items() if cells["digest"] != digests[unit]} == DUE
    shares = {unit: cells["share"].rstrip(" %") for unit, cells in rows.items()}
    assert {unit for unit, share in shares.items() if share == "-"} == THIN
    assert {unit: share for unit, share in shares.items() if unit not in THIN and float(share) < 97} == {}


def test_fresh_rows_are_reused_and_stale_ones_graded(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {"concat": "concat-a4", "flint_decoder": "flint_decoder-flint4"}
    monkeypatch.setattr(grades_mutants, "names", lambda: sets)
    asked: list[str] = []

    def graded(name: str) -> tuple[int, Counts]:
        asked.append(name)
        return 1234, Counts(10, 6, 1, 0, 2, 1)

    def in_processes(wanted: list[str], names: list[str]) -> list[tuple[str, tuple[int, Counts]]]:
        return [(unit, graded(name)) for unit, name in zip(wanted, names, strict=True)]

    monkeypatch.setattr(grades_mutants, "_graded", in_processes)
    fresh = grades_mutants.digest("concat", "concat-a4", grades.sources)
    old = f"{grades_mutants.HEAD}| concat | 7 | 8 | 8/8 | 100.0 % | {fresh} |\n"
    text = grades_mutants.section(old, grades.sources, grades.cell)

    assert asked == ["flint_decoder-flint4"]
    rows = grades_mutants.table(text)
    assert rows["concat"]["detected"] == "8/8"
    assert list(rows["flint_decoder"].values())[:-1] == ["flint_decoder", "1,234", "10", "6/7 ?2 !1", "85.7 %"]
    assert grades.sections(f"sets\n{text}") == ("sets\n", text)


def test_digest_depends_on_mutant_code_only() -> None:
    modules = [grades_mutants.ROOT / "refemu" / "golden" / name for name in ("grade/model.py", "faults/lanes.py")]
    assert all(module.is_file() for module in modules)
    digests = [
        grades_mutants.digest("concat", "concat-a4", lambda unit, some=some: some)
        for some in ([], modules[:1], modules[1:])
    ]
    assert digests[0] == digests[2] != digests[1]


def test_the_share() -> None:
    assert grades_mutants.share(Counts(9, 0, 0, 0, 9, 0)) == "-"
    assert grades_mutants.share(Counts(9, 5, 1, 0, 2, 1)) == "83.3 %"
