"""Verdicts as people read them."""

from refemu.golden.compare import answer_files
from refemu.golden.explain import diagnosis_text
from refemu.golden.explain.diagnosis import Diagnosis, Explanation
from refemu.golden.explain.histograms import Where, where
from tests.golden.explain import made

PART = Explanation("decision", "D-x-1", "right if D-x-1: ties go up", {}, 9, 11, 2, (3,), ("constant",), ())


def test_an_explanation() -> None:
    lines = list(diagnosis_text.lines(Diagnosis(40, 100, 100, ((PART,),)), Where(), 100, 9))
    assert lines == [
        "verdict: D-x-1 explains every wrong row (40 hypotheses on 100 rows)",
        "  1. right if D-x-1: ties go up (D-x-1 in lane 3 only): puts 9 of 9 wrong rows right; 11 rows tell it; "
        "it cannot take 2 rows; no row tells it from constant",
    ]


def test_a_set_that_the_unit_does_not_take() -> None:
    lines = list(diagnosis_text.lines(Diagnosis(refusal="unit.x: 7 is too large"), Where(), 100, 9))
    assert lines[0].endswith("the unit does not take the stimulus of the set: unit.x: 7 is too large")


def test_rows_that_were_not_reached_are_said() -> None:
    (line, *_) = diagnosis_text.lines(Diagnosis(40, 100, 900, ((PART,),)), Where(), 1000, 20)
    assert (
        line == "verdict: D-x-1 explains 9 of 20 wrong rows (40 hypotheses on 100 rows, held against 900 of 1000 rows)"
    )


def test_places_where_nothing_explains() -> None:
    rows = made.golden("bfp_aligner", "paper", ("paper", "edge"))
    arrays = made.outputs(rows)
    arrays["out.mantissa"][3, 5] ^= 6
    unlike = made.wrong(rows, arrays)
    places = where(rows, answer_files.Answer(arrays, {}), unlike, {"": 1})
    lines = list(diagnosis_text.lines(Diagnosis(40, 100, 100, possible=("right if x",)), places, 100, 1))

    assert lines == [
        "verdict: no explanation among 40 hypotheses on 100 rows",
        "  too few rows differ to say more than what would fit, 1 in all:",
        "  - right if x",
        "  where: mantissa: 1 rows, all in lane 5, all in bits 1, 2",
        "  where: 1 edge; 1 no flag",
    ]
