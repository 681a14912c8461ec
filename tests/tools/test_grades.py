"""The page of grades: no stale row, and cells that say what the counts are."""

import shutil
from pathlib import Path

import pytest

from refemu.golden.grade.grade import Counts
from tools import grades

NONE = Counts(0, 0, 0, 0, 0, 0)


#: units whose sets are to be counted again: their texts and the fault library changed, and no answer of any
DUE_UNITS = (
    "bfp_accumulator bfp_converter bfp_pe bfp_pe_array bfp_pe_array_clocked clustering fp16_mac functional "
    "generation_compressor harmonia_core harmonia_core_clocked index_matmul k_offset kv_compressor kv_quantizer "
    "layer_step mmaovp_clocked olive_pe8 olive_requant olive_systolic_clocked orizuru orizuru_clocked "
    "orizuru_passes page_manager page_reader paged_attention pe_lane score_quantizer significance "
    "streaming_significance weighted_sum"
)
DUE = {name for name in grades.names() if name.rpartition("-")[0] in DUE_UNITS.split()}
#: faults that other legal rows detect and the set does not
MISSED = {
    **{("layer_step-batch", name): count for name, count in (("bits", 8), ("lanes", 3), ("words", 2), ("use", 7))},
    **{("bfp_pe_array_clocked-paper", name): count for name, count in (("bits", 1), ("use", 2), ("width", 6))},
    ("bfp_pe_array_clocked-paper", "decisions"): 1,
    ("bfp_pe_array_clocked-hold", "width"): 1,
}


def test_no_row_is_stale_except_due_ones() -> None:
    """`make grades` writes the page; CI grades every set again."""
    sets, _ = grades.sections(grades.PAGE.read_text())
    digests = {name: grades.digest(name) for name in grades.names()}
    assert {name for name, digest in grades.listed(sets).items() if digest != digests.pop(name)} == DUE
    assert not digests


def test_committed_sets_miss_no_other_fault() -> None:
    sets, _ = grades.sections(grades.PAGE.read_text())
    missed = {
        (name, each): grades.counted(cells[each]).missed
        for name, cells in grades.table(sets).items()
        for each in grades.GRADED
    }
    assert {key: count for key, count in missed.items() if count} == MISSED


@pytest.mark.parametrize(
    ("counts", "cell"),
    [
        (NONE, "-"),
        (Counts(5, 5, 0, 0, 0, 0), "5/5"),
        (Counts(9, 5, 1, 0, 2, 1), "5/6 ?2 !1"),
        (Counts(12, 5, 1, 3, 2, 1), "5/6 =3 ?2 !1"),
        (Counts(3, 0, 0, 0, 3, 0), "?3"),
    ],
)
def test_cells(counts: Counts, cell: str) -> None:
    assert grades.cell(counts) == cell
    again = grades.counted(cell)
    assert (again.detected, again.missed, again.undecided, again.raised) == (
        counts.detected,
        counts.missed,
        counts.undecided,
        counts.raised,
    )


def test_rows_with_fresh_digest_are_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = grades.digest("flint_decoder-flint4")
    columns = ["set", "rows", *grades.GRADED, "digest"]
    cells = {
        "flint_decoder-flint4": ["7/8"] * len(grades.GRADED),
        "concat-a4": ["1/2"] * len(grades.GRADED),
    }
    lines = [f"| {' | '.join(columns)} |", "|---|"]
    lines += [f"| {name} | 1 | {' | '.join(some)} | {fresh} |" for name, some in cells.items()]
    monkeypatch.setattr(grades, "names", lambda: list(cells))
    table = grades.table(grades.page("\n".join(lines)))

    assert table["flint_decoder-flint4"]["bits"] == "7/8" and table["concat-a4"]["bits"] not in ("1/2", "")
    assert table["concat-a4"]["digest"] == grades.digest("concat-a4")
    assert grades.differing("\n".join(lines)) == list(cells)


def test_rows_of_a_page_are_read_back() -> None:
    classes = {name: Counts(1, 1, 0, 0, 0, 0) for name in grades.GRADED}
    lines = [grades.row("orizuru-n8", 1209, classes, "0123456789ab"), grades.row("all", 1209, classes, "")]

    assert lines[0].startswith("| orizuru-n8 | 1,209 | 1/1 |")
    head = f"| {' | '.join(['set', 'rows', *grades.GRADED, 'digest'])} |"
    assert grades.listed("\n".join(["# Head", head, *lines])) == {"orizuru-n8": "0123456789ab"}


def test_digest_follows_set_unit_and_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = grades.digest("weighted_sum-example")
    paths = [path.relative_to(grades.ROOT) for path in grades.sources("weighted_sum")]
    assert {str(path) for path in paths} > {
        "refemu/units/kllm/weighted_sum/weighted_sum.py",
        "refemu/units/kllm/weighted_sum/compiled.py",
        "refemu/units/kllm/weighted_sum/cases.py",
        "refemu/golden/faults/bits.py",
        "refemu/golden/grade/answers.py",
    }
    for folder in ("golden/faults", "golden/grade", "units/kllm"):
        shutil.copytree(grades.ROOT / "refemu" / folder, tmp_path / "refemu" / folder)
    monkeypatch.setattr(grades, "ROOT", tmp_path)
    assert grades.digest("weighted_sum-example") == before
    for name in ("units/kllm/weighted_sum/compiled.py", "golden/faults/lanes.py", "golden/grade/slices.py"):
        path, seen = tmp_path / "refemu" / name, grades.digest("weighted_sum-example")
        path.write_text(path.read_text() + "\n# a comment\n")
        assert grades.digest("weighted_sum-example") == seen
        path.write_text(path.read_text() + "\nMORE = 1\n")
        assert grades.digest("weighted_sum-example") != seen
    assert grades.digest("weighted_sum-example") != before
