"""Lifts of units: their self-check, lines outside the subset, and registers that no port shows."""

import pytest

from refemu import units
from refemu.prove import equivalence, lift, selfcheck, terms

LEAVES = (
    *(
        "ovp_decoder:int4",
        "ovp_decoder:int8_repo",
        "outlier_decoder:e4m3",
        "flint_decoder:flint4",
        "olive_mac:saturate",
    ),
    *("olive_pe8:wrap", "bfp_aligner:half_even", "concat:a3_qk", "prefix_sum:odd", "sub_pe:paper", "fp16_mac:fma"),
    *("index_product:w4a4", "significance:paper", "olive_edp:int8_int8", "weighted_sum:example", "orizuru:n8"),
    *("fp2half:saturate", "bfp_accumulator:paper", "clustering:paper_3", "olive_edp_clocked:int4_flint4"),
)


@pytest.mark.parametrize("name", LEAVES)
def test_terms_equal_the_compiled_form(name: str) -> None:
    unit, config = units.choose(name)
    assert selfcheck.check(lift.lift(unit, unit.configs[config]), 2_000) >= 2_000


def test_ovp_encoder_is_legal_for_finite_inputs_only() -> None:
    pytest.importorskip("bitwuzla", reason="no solver here: the extra `formal`")
    unit = units.find("ovp_encoder")
    lifted = lift.lift(unit, unit.configs["int4"])
    assert lifted.legal is not terms.TRUE
    assert selfcheck.check(lifted, 500) >= 500
    assert equivalence.demands(lifted, 20).outcome == "proved"


def test_unit_outside_the_subset_names_its_line() -> None:
    unit = units.find("page_table")
    with pytest.raises(lift.NotLifted, match=r"page_table: refemu/units/leankv/page_table/page_table.py:\d+: "):
        lift.lift(unit, unit.configs["paper"])
