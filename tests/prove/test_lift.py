"""Lifts of units: their self-check, lines outside the subset, and registers that no port shows."""

from typing import Any

import pytest

from refemu import units
from refemu.prove import equivalence, lift, selfcheck, terms
from refemu.units.leankv.free_page_list import FreePageList

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
    *("score_quantizer:fold4", "free_page_list:small", "index_norm:layer", "olive_systolic_clocked:int4_flint4"),
    *("fp2half:saturate", "bfp_accumulator:paper", "clustering:paper_3", "olive_edp_clocked:int4_flint4"),
    *("fdgf:small", "fdgf:paper", "bfp_pe:exact", "orizuru_clocked:n8", "pe_lane:column", "pe_lane:integer"),
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


def test_counters_are_assumed_not_to_overflow() -> None:
    unit = units.find("free_page_list")
    lifted = lift.lift(unit, unit.configs["small"])
    assert {"head", "tail"} <= set(lifted.assumed)
    assert lifted.assumed["head"] == (1 << 48) - 1


@pytest.mark.parametrize(
    ("invariant", "reason"),
    [
        (lambda device, state: state.head == 0, r"legality|after an event"),
        (lambda device, state: state.head == 1, "does not hold at reset"),
    ],
)
def test_false_invariant_is_detected(invariant: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The self-check has a row that leaves it; one that is false at reset has no lift."""
    unit = units.find("free_page_list")
    monkeypatch.setattr(FreePageList, "invariant", invariant)
    with pytest.raises((selfcheck.Disagrees, lift.NotLifted), match=reason):
        selfcheck.check(lift.lift(unit, unit.configs["small"]), 500)


def test_invariant_of_a_latched_input_is_not_preserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next inputs are free, so nothing about them lasts."""
    pytest.importorskip("bitwuzla", reason="no solver here: the extra `formal`")
    unit = units.find("olive_mac")
    monkeypatch.setattr(unit.unit_class, "invariant", lambda device, state: state.a_exp == 0)
    assert equivalence.demands(lift.lift(unit, unit.configs["wrap"]), 20).outcome == "refuted"


LANES = ["pe_lane:column", "pe_lane:counter", "pe_lane:integer"]


@pytest.mark.parametrize("name", ["fdgf:small", "bfp_pe:exact", "orizuru_clocked:n8", *LANES])
@pytest.mark.long
def test_invariant_lasts_and_admits_all_demands(name: str) -> None:
    pytest.importorskip("bitwuzla", reason="no solver here: the extra `formal`")
    unit, config = units.choose(name)
    assert equivalence.demands(lift.lift(unit, unit.configs[config]), 120).outcome == "proved"


def test_register_beyond_its_reach_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = units.find("free_page_list")
    monkeypatch.setattr(FreePageList, "reaches", {"ring": 4, "free": 5, "head": 3})
    with pytest.raises(selfcheck.Disagrees, match=r"legality|head"):
        selfcheck.check(lift.lift(unit, unit.configs["small"]), 500)
