"""Coverage and its thresholds, and cases of committed sets that alone detect a fault."""

import dataclasses

import pytest

from refemu.golden.faults import bits, rounding, use, words
from refemu.golden.faults.fault import FaultClass
from refemu.golden.grade import decisions
from refemu.golden.grade.grade import Counts, Grade
from tests.golden.grade import plain

PRODUCT = [f"{id}/out.outlier" for id in ("zero", "nan", "nan_sign", "nan_full", "nan_infinity", "nan_zero")]
CROSSED = [f"crossed/out.d/{i}/{i + 1}" for i in range(21, 29)]
BIAS = [f"{id}/in.bias_b/3" for id in ("narrowed", "stuck_at_0")]
LAST = ["stuck_at_0/in.a_scale/0", "stuck_at_0/in.products/0"]
BOOK = ["stuck_at_0/in.a_codebook/0", "stuck_at_1/in.a_codebook/15"]
SCORE = ["stuck_at_1/in.score/0", "inverted/in.score/0", "stuck_at_0/in.window/0"]
WIDE = [
    *(f"crossed/out.low_slot/{i}" for i in ("4/5", "5/6", "6/7")),
    *(f"columns_{count}/in.position" for count in (18, 36, 72)),
    "nibbles/in.n_low",
    "stuck_at_1/in.n_low/0",
]
WIDTH = ["stuck_at_1/in.m/2", "inverted/in.m/2", "stuck_at_1/in.m/3"]
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
    *(
        (f"olive_systolic-{name}", "outliers of six", CROSSED)
        for name in ("int4", "flint4", "int4_flint4", "flint4_int4")
    ),
    ("olive_systolic-int8", "outliers of six", BIAS),
    ("olive_systolic-int8_saturate", "outliers of six", ["crossed/out.d/28/29", *BIAS]),
    ("mmaovp-i8_i8", "outliers of six", ["stuck_at_0/in.bias_b/1"]),
    ("mmaovp-i8_i8_saturate", "outliers of six", ["stuck_at_0/in.bias_b/0", "stuck_at_0/in.bias_b/1"]),
    ("score_quantizer-fixed3", "scores nearest", ["stuck_at_1/in.p/0"]),
    ("score_quantizer-max8", "an integer 1", ["flush/out.scale", "flush_positive/out.scale"]),
    ("orizuru-n16_total_order", "-0 remains", ["zero/out.root_max"]),
    ("orizuru_passes-n18_drained", "-0 remains", ["zero/out.root_max"]),
    ("kllm_chip-sums", "an output that", ["zero_sign/out.y", "nibbles/in.a_codebook", "stuck_at_0/in.a_codebook/0"]),
    ("kllm_chip-column", "an output that", ["zero_sign/out.y", *BOOK]),
    ("kllm_chip-counter", "an output that", ["zero_sign/out.y", *BOOK]),
    ("kllm_chip-softmax", "an output that", BOOK),
    (
        "index_matmul-long",
        "one product, or one",
        [*(f"{id}/in.a_codebook/0" for id in ("stuck_at_0", "stuck_at_1", "inverted")), *LAST],
    ),
    ("pe_lane-integer", "the last bit", ["stuck_at_0/in.shift/0", "reversed/in.w_coded"]),
    ("pe_lane-column", "the last bit", ["stuck_at_0/in.shift/0"]),
    ("page_manager-paper", "a prompt of one", ["stuck_at_0/in.prompts/0"]),
    ("page_manager-diffkv", "a prompt of one", ["stuck_at_0/in.prompts/0"]),
    ("free_page_list-small", "page 0 stays", ["dead/in.ids/1", "dead/in.ids/3", "stuck_at_0/in.ids/0"]),
    ("free_page_list-paper", "page 0 stays", [f"dead/in.ids/{i}" for i in range(8, 21)]),
    ("generation_compressor-static", "another mean is", [*(f"dead/in.position/{i}" for i in (12, 14, 15)), *SCORE]),
    ("generation_compressor-paper", "another mean is", [f"dead/in.position/{i}" for i in (1, 5, 6, 10, 11, 13)]),
    (
        "generation_compressor-cumulative",
        "another mean is",
        [f"dead/in.position/{i}" for i in (0, 5, 6, 7, 10, 11, 13)],
    ),
    (
        "generation_compressor-diffkv",
        "another mean is",
        ["crossed/out.low_slot/4/5", "crossed/out.low_slot/5/6", "nibbles/in.n_low", "stuck_at_0/in.window/0"],
    ),
    ("generation_compressor-wide", "another mean is", WIDE),
    ("generation_compressor-wide_cumulative", "another mean is", WIDE),
    (
        "bfp_converter-exact",
        "two columns of",
        [*(f"crossed/out.out_valid/{i}" for i in ("3/4", "5/6", "5/7", "6/7")), *WIDTH],
    ),
    ("fdgf-small", "the highest bit", ["stuck_at_0/in.rows/16", "stuck_at_0/in.columns/16"]),
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


@pytest.mark.parametrize(("name", "reason", "ids"), ALONE, ids=[f"{name}: {reason}" for name, reason, _ in ALONE])
def test_faults_are_detected_by_one_case(name: str, reason: str, ids: list[str]) -> None:
    answers = plain.committed(name)
    alone = [block for block in answers.blocks if block.cases.why.startswith(reason)]
    others = [block for block in answers.blocks if block not in alone]
    sets = {
        detected: dataclasses.replace(answers, blocks=blocks) for detected, blocks in ((True, alone), (False, others))
    }

    for detected, some in sets.items():
        modules = (bits, words, use, rounding, decisions)
        library = {fault.id: fault for each in modules for fault in each.faults(some)}
        assert {id: bool(library[id].wrong(some).any()) for id in ids} == dict.fromkeys(ids, detected)


def passes(classes: dict[FaultClass, Counts]) -> bool:
    return Grade("s", "u", "c", 1, 0, 0, classes, [], {}, {}, {}).passes
