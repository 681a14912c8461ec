"""Precision pairs: names, formats, bytes, and the ratios that the paper prints."""

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis.vendor.pretty import pretty

from refemu import formats
from refemu.arith.checks import Refused
from refemu.formats import K4V1, K4V2, K4V2_G24, K8V4, K8V4_G12, K8V8, K16V16, Affine, HeteroKV, UnifiedPage
from refemu.formats.leankv import hetero_kv


def test_constants_are_named_as_they_are() -> None:
    """[leankv §4, §7.2]; D-leankv-10: one group per vector but in the two that say otherwise."""
    names = ["K8V8", "K8V4", "K8V2", "K4V4", "K4V2", "K4V1", "K4V8", "K2V4", "K16V16", "K8V4_G12", "K4V2_G24"]

    assert names == list(hetero_kv.PAIRS)
    assert all(getattr(formats, name) is pair is getattr(HeteroKV, name) for name, pair in hetero_kv.PAIRS.items())
    assert (K8V4_G12.k_groups, K8V4_G12.v_groups, K4V2_G24.k_groups, K4V2_G24.v_groups) == (1, 2, 2, 4)


@pytest.mark.parametrize(
    ("pair", "bytes_128"),
    [(K8V8, 272), (K8V4, 208), (K8V4_G12, 212), (K4V2, 112), (K4V2_G24, 128), (K4V1, 96), (K16V16, 520)],
)
def test_bytes_of_a_token(pair: HeteroKV, bytes_128: int) -> None:
    """D-leankv-15: 8 of them are the fp32 score and the int32 position; 16-bit codes have no metadata."""
    assert bytes_128 == pair.token_bytes(128)


def test_payload_ratios_are_those_of_the_paper() -> None:
    """[leankv §7.2, §7.4, Table 1] D-leankv-55: K8V8 halves the cache, K4V4 quarters it, 18.75 to 37.5 % when mixed."""
    ratio = {name: Fraction(*pair.payload_ratio(128)) for name, pair in hetero_kv.PAIRS.items()}

    assert (ratio["K8V8"], ratio["K4V4"], ratio["K4V2"]) == (Fraction(1, 2), Fraction(1, 4), Fraction(3, 16))
    assert (ratio["K8V4"], ratio["K4V1"], ratio["K16V16"]) == (Fraction(3, 8), Fraction(5, 32), 1)
    assert ratio["K4V2"] <= Fraction(189, 1000) and Fraction(289, 1000) <= ratio["K8V4"]  # Table 1: 18.9 to 28.9 %
    assert Fraction(K4V2.token_bytes(128), 4 * 128) > Fraction(189, 1000)  # so Table 1 cannot count metadata


def test_pruning_fifth_of_eight_bits_needs_least_memory() -> None:
    """[leankv §3.3, Fig. 4]: 40 % of fp16, against 50 % for 8 bits and 80 % for pruning alone."""
    eight = Fraction(*K8V8.payload_ratio(128))

    assert eight * Fraction(4, 5) == Fraction(2, 5) < eight < Fraction(4, 5)


def test_low_token_in_high_slot_wastes_half() -> None:
    """[leankv §5.1]: of the payload; of all bytes of a token 46.2 %."""
    assert 1 - Fraction(K4V2.payload_bytes(128), K8V4.payload_bytes(128)) == Fraction(1, 2)
    assert round(100 * (1 - Fraction(K4V2.token_bytes(128), K8V4.token_bytes(128))), 1) == Fraction("46.2")


def test_seventy_billion_models_exceed_named_pair() -> None:
    """[leankv §7.2, Table 1]: K4V2 mixed with K4V1 spans 15.625 to 18.75 %, yet the table has 19.5 and 21.2 %."""
    assert Fraction(*K4V1.payload_ratio(128)) == Fraction("0.15625")
    assert all(Fraction(printed) > Fraction(*K4V2.payload_ratio(128)) for printed in ("0.195", "0.212"))


def test_formats_of_both_sides_follow_the_preset() -> None:
    assert K8V4_G12.key() == Affine(8) and K8V4_G12.value() == Affine(4, 2)
    assert K8V4.value("diffkv") == Affine(4, 1, "min", "recip_mul")
    assert HeteroKV(8, 4, meta="fp32").key().meta == "fp32"


@pytest.mark.parametrize("name", ["k8v4", "K8V4", "k4v2_g24"])
def test_find_takes_any_case(name: str) -> None:
    assert hetero_kv.find(name).name == name.upper() and hetero_kv.find(K8V4) is K8V4


def test_other_groups_show_in_the_name() -> None:
    assert (HeteroKV(4, 4, 2, 1).name, HeteroKV(16, 4).name, HeteroKV(16, 4, 0, 2).name) == (
        "K4V4_G21",
        "K16V4",
        "K16V4_G02",
    )


BAD = [
    pytest.param(lambda: HeteroKV(5, 4), "bits must be 1, 2, 4, 8 or 16, got 5", id="bits"),
    pytest.param(lambda: HeteroKV(8, 4, meta="fp8"), "meta must be one of", id="metadata"),
    pytest.param(lambda: hetero_kv.find("K8V3"), "unknown precision pair 'K8V3'; did you mean 'K8V", id="name"),
    pytest.param(lambda: HeteroKV(1, 1).payload_bytes(3), "head size 3 gives 6 bits of codes", id="odd"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_hetero_kv_rejects_invalid_inputs(call: Any, message: str) -> None:
    with pytest.raises(Refused, match=message):
        call()


@pytest.mark.parametrize("pair", hetero_kv.PAIRS.values(), ids=hetero_kv.PAIRS)
def test_hetero_kv_repr_evaluates_back(pair: HeteroKV) -> None:
    assert eval(repr(pair)) == pair


def test_pretty_printers_take_the_repr() -> None:
    """hypothesis prints the page of a failing case in no time, and what it prints evaluates back."""
    printed: list[str] = []
    K8V4._repr_pretty_(SimpleNamespace(text=printed.append), False)

    assert printed == [repr(K8V4)]
    assert eval(pretty(UnifiedPage(128, K8V4))) == UnifiedPage(128, K8V4)
