"""Diagnoses as text."""

from dataclasses import replace

from refemu.golden.compare import answer_files
from refemu.golden.explain import diagnosis_text
from refemu.golden.explain.diagnosis import Diagnosis, Explanation
from refemu.golden.explain.histograms import Where, where
from tests.golden.explain import made

PART = Explanation("decision", "D-x-1", "right if D-x-1: ties go up", {}, 9, 11, 2, (3,), ("constant",), ())


def test_explanation_has_counts_and_rivals() -> None:
    lines = list(diagnosis_text.lines(Diagnosis(40, 100, 100, ((PART,),)), Where(), 100, 9))
    assert lines == [
        "diagnosis: D-x-1 explains every wrong row (40 hypotheses on 100 rows)",
        "  1. right if D-x-1: ties go up (D-x-1 in lane 3 only): explains 9 of 9 wrong rows; 11 rows show it; "
        "2 rows are invalid for it; no row distinguishes it from constant",
    ]


def test_explanation_of_some_ports_says_which_agree() -> None:
    part = replace(PART, lanes=(), equivalent=(), refused_rows=0, title="ties", ports=("v",), agreeing=("k", "s"))
    lines = list(diagnosis_text.lines(Diagnosis(40, 100, 100, ((part,),)), Where(), 100, 9))
    assert lines == [
        "diagnosis: in v alone, D-x-1 explains every wrong row (40 hypotheses on 100 rows)",
        "  1. in v alone (k and s agree with the unchanged decision): right if D-x-1, ties: ties go up: explains 9 of "
        "9 wrong rows; 11 rows show it",
    ]


def test_invalid_stimulus_is_reported() -> None:
    lines = list(diagnosis_text.lines(Diagnosis(refusal="unit.x: 7 is too large"), Where(), 100, 9))
    assert lines[0].endswith("the stimulus of the set is invalid for the unit: unit.x: 7 is too large")


def test_number_of_verified_rows_is_shown() -> None:
    (line, *_) = diagnosis_text.lines(Diagnosis(40, 100, 900, ((PART,),)), Where(), 1000, 20)
    assert (
        line == "diagnosis: D-x-1 explains 9 of 20 wrong rows (40 hypotheses on 100 rows, verified on 900 of 1000 rows)"
    )


def test_places_are_shown_without_an_explanation() -> None:
    rows = made.golden("bfp_aligner", "paper", ("paper", "edge"))
    arrays = made.outputs(rows)
    arrays["out.mantissa"][3, 5] ^= 6
    unlike = made.wrong(rows, arrays)
    places = where(rows, answer_files.Answer(arrays, {}), unlike, {"": 1})
    lines = list(diagnosis_text.lines(Diagnosis(40, 100, 100, possible=("right if x",)), places, 100, 1))

    assert lines == [
        "diagnosis: no explanation among 40 hypotheses on 100 rows",
        "  too few rows differ to choose; 1 hypotheses fit:",
        "  - right if x",
        "  where: mantissa: 1 rows, all in lane 5, all in bits 1, 2",
        "  where: 1 edge; 1 no flag",
    ]
