"""Operands of a decoder: scales of the weights, gains and sums for norms, rejected weights."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.formats.kllm.kmeans_outliers import Thresholds, TopK
from refemu.models.schemes.kllm import weights
from refemu.models.schemes.kllm.operands import Operands
from tests.models.schemes.kllm import plain

CALIBRATION = [5, 3, 0, 12, 7, 7, 1, 9, 2, 11, 4, 8, 6, 10, 3, 5]
QKV = ("q", "k", "v")


@cache
def operands(scheme: str, make: Any = plain.small) -> Operands:
    prepared: Any = models.prepare(make(), scheme, calibration=CALIBRATION)
    found: Operands = prepared.operands
    return found


def test_scale_of_queries_holds_root_of_head() -> None:
    """D-kllm-35: a scale changes, no index."""
    small = operands("kllm-a4")
    wq, stored = small.group(0, QKV).weights[0].tensor, weights.stored(plain.small(), small.config, 0, "q")

    assert wq.scales.tolist() == (weights.scales(stored) / 2).tolist()
    assert np.abs(stored / wq.scales[:, None]).max() == 2


def test_overflow_is_rejected_where_it_is_encoded() -> None:
    x = np.full((1, 9), np.inf, np.float32)

    with pytest.raises(Refused, match=r"blk\.1\.attn_in: values must be finite"):
        operands("kllm-a4").encode("blk.1.attn_in", x)


def test_formats_follow_the_thresholds() -> None:
    """D-kllm-12, D-kllm-30."""
    dynamic, static, bare = (operands(f"kllm-a4{change}") for change in ("", "-s", ":kv_outliers=false"))

    assert isinstance(dynamic.formats["blk.0.k"].outliers, TopK)
    assert isinstance(static.formats["blk.0.k"].outliers, Thresholds)
    assert bare.formats["blk.0.k"].outliers is None and isinstance(bare.formats["blk.0.q"].outliers, TopK)


def test_norms_leave_their_operands() -> None:
    """D-kllm-18, D-kllm-39: gains if activations take them, sums of the weights after a LayerNorm."""
    gained, folded = (operands(f"kllm-a4{change}").groups.values() for change in (":gamma=activations", ""))
    gains = {group.full: group.gain for group in gained if group.gain is not None}
    model = plain.small()

    assert set(gains) == {f"blk.{layer}.{name}" for layer in (0, 1) for name in ("attn_in", "ffn_in")}
    assert np.array_equal(gains["blk.1.ffn_in"], model.tensor("blk.1.ffn_norm").astype(np.float16))
    assert all(group.gain is None and weight.row_sum is None for group in folded for weight in group.weights)
    layered = operands("kllm-a4", plain.layered).groups.values()
    summed = {weight.name for group in layered for weight in group.weights if weight.row_sum is not None}
    assert summed == {"q", "k", "v", "up"}


def test_a_group_is_what_reads_one_activation() -> None:
    """A block with a gate and RMSNorm, one without and with LayerNorm; with norm=fp16 nothing is delayed."""
    gated, layered, plainly = operands("kllm-a4"), operands("kllm-a4", plain.layered), operands("kllm-a4:norm=fp16")

    assert [(group.full, group.norm) for (layer, _), group in gated.groups.items() if layer == 1] == [
        ("blk.1.attn_in", "rms"),
        ("blk.1.o_in", None),
        ("blk.1.ffn_in", "rms"),
        ("blk.1.down_in", None),
    ]
    assert {group.tensor: group.norm for group in layered.groups.values()}["ffn_in"] == "layer"
    assert {group.norm for group in plainly.groups.values()} == {None}
    assert [weight.name for weight in gated.group(0, ["gate", "up"]).weights] == ["gate", "up"]
    assert all(weight.tensor.shape[0] == 11 for weight in gated.group(0, ("gate", "up")).weights)


def test_operands_repr() -> None:
    assert repr(operands("kllm-a4")).endswith("), 14 weights)")
