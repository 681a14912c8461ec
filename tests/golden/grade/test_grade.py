"""Coverage and its thresholds, and cases of committed sets that alone detect a fault."""

import dataclasses

import pytest

from refemu.golden.faults import rounding, use, words
from refemu.golden.faults.fault import FaultClass
from refemu.golden.grade import decisions
from refemu.golden.grade.grade import Counts, Grade
from tests.golden.grade import plain

PRODUCT = [f"{id}/out.outlier" for id in ("zero", "nan", "nan_sign", "nan_full", "nan_infinity", "nan_zero")]
WRAPS = ["D-olive-11/the exponent of an outlier beyond the largest wraps"]
MIDWAY = ["bytes/in.codebook", "fp16/half_away", "fp16/half_up", "fp16/half_down"]
#: set, start of the reason of a case, ids of faults that no other row of the set detects
ALONE = (
    ("index_product-w3a3", "products of -0", PRODUCT),
    ("index_product-w4a4", "products of -0", PRODUCT),
    ("functional-recip", "negative infinity", ["zero/out.y", "zero_sign/out.y"]),
    ("ovp_encoder-int4_repo", "outliers beyond", WRAPS),
    ("ovp_encoder-flint4_repo", "outliers beyond", WRAPS),
    ("clustering-exact", "repeated centroids", [f"dead/in.codebook/{i}" for i in (1, 2, 3, 4, 5, 11, 12, 13, 14)]),
    ("clustering-paper", "repeated centroids", [f"dead/in.codebook/{i}" for i in (1, 2, 3, 4, 5, 11, 12, 13, 14)]),
    ("clustering-paper", "two distances", MIDWAY),
    ("clustering-paper_3", "two distances", ["bytes/in.codebook", "fp16/half_down", "stuck_at_0/in.scale/0"]),
)


def test_grade_ignores_equivalent_and_untested_faults() -> None:
    assert Counts(10, 6, 2, 0, 1, 1).grade == 0.75
    assert Counts(3, 0, 0, 0, 2, 1).grade is None


def test_one_missed_fault_fails() -> None:
    good, bad = Counts(2, 1, 0, 0, 1, 0), Counts(2, 1, 1, 0, 0, 0)

    assert passes({"bits": good})
    assert not passes({"bits": good, "lanes": bad})


def test_97_percent_of_mutants_pass() -> None:
    assert passes({"model": Counts(120, 97, 3, 0, 15, 5)})
    assert not passes({"model": Counts(120, 96, 3, 0, 16, 5)})
    assert not passes({"width": Counts(120, 97, 3, 0, 15, 5)})


@pytest.mark.parametrize(("name", "reason", "ids"), ALONE)
def test_faults_are_detected_by_one_case(name: str, reason: str, ids: list[str]) -> None:
    answers = plain.committed(name)
    alone = [block for block in answers.blocks if block.cases.why.startswith(reason)]
    others = [block for block in answers.blocks if block not in alone]
    sets = {
        detected: dataclasses.replace(answers, blocks=blocks) for detected, blocks in ((True, alone), (False, others))
    }

    for detected, some in sets.items():
        library = {fault.id: fault for each in (words, use, rounding, decisions) for fault in each.faults(some)}
        assert {id: bool(library[id].wrong(some).any()) for id in ids} == dict.fromkeys(ids, detected)


def passes(classes: dict[FaultClass, Counts]) -> bool:
    return Grade("s", "u", "c", 1, 0, 0, classes, [], {}, {}, {}).passes
