"""The presets have the choices of their names, and contradictory choices are rejected."""

from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.arith.orders import Exact, Lanes, Sequential, Tree
from refemu.formats import KllmArith
from refemu.formats.kllm import kllm_arith


def test_paper_is_literal_fp16_datapath_and_default() -> None:
    """[kllm §IV-A], D-kllm-1, D-kllm-2, D-kllm-3, D-kllm-5, D-kllm-7, D-kllm-8, D-kllm-20."""
    assert (
        KllmArith()
        == KllmArith.preset("paper")
        == KllmArith(
            normalize="divide",
            distance="fp16",
            tie="low",
            table="fp16",
            acc="fp16",
            order=Sequential(),
            scale_y="fp16",
            stat="fp32",
            softmax="fp16",
        )
    )


def test_exact_rounds_once() -> None:
    """D-kllm-1: wide accumulation over the same fp16 product codebook."""
    assert KllmArith.preset("exact") == KllmArith(
        normalize="none",
        distance="real",
        tie="low",
        table="fp16",
        acc="exact",
        order=Exact(),
        scale_y="exact",
        stat="exact",
        softmax="softmax32",
    )


def test_lanes_are_the_macs_of_a_pe_lane() -> None:
    """[kllm Table I]: 32 MACs; D-kllm-2."""
    assert Lanes(32, "blocked", Tree(32)) == kllm_arith.LANES


@pytest.mark.parametrize("arith", [KllmArith(), KllmArith.preset("exact"), KllmArith(tie="high", acc="fp32")], ids=repr)
def test_repr_evaluates_back_with_preset_as_choices(arith: KllmArith) -> None:
    assert eval(repr(arith), vars(kllm_arith)) == arith == KllmArith.preset(arith)
    assert hash(arith) == hash(KllmArith.preset(arith))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"distance": "fp32"},
            ValueError,
            "KllmArith: distance must be one of 'fp16', 'real', 'midpoint16', got 'fp32'",
        ),
        ({"acc": "int"}, ValueError, "KllmArith: acc must be one of"),
        ({"acc": "exact"}, ValueError, r'KllmArith: acc="exact" and order=Exact\(\) go together'),
        ({"order": "sequential"}, TypeError, "KllmArith: order must be one of"),
        ({"normalize": "none"}, ValueError, 'KllmArith: normalize="none" needs distance="real", got \'fp16\''),
    ],
    ids=["distance", "acc", "order of exact", "order", "none"],
)
def test_kllm_arith_rejects_invalid_inputs(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        KllmArith(**given)


def test_unknown_preset_is_rejected() -> None:
    with pytest.raises(Refused, match="unknown preset 'papers' of KLLM; did you mean 'paper'"):
        KllmArith.preset("papers")
    with pytest.raises(TypeError, match="a preset's name or a KllmArith is needed, got 3"):
        KllmArith.preset(3)  # type: ignore[arg-type]
