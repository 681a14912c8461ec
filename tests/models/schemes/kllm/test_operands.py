"""Operands of a decoder: scales of the weights, gains and sums that norms need, what is refused."""

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


@cache
def operands(scheme: str, make: Any = plain.small) -> Operands:
    prepared: Any = models.prepare(make(), scheme, calibration=CALIBRATION)
    found: Operands = prepared.operands
    return found


def test_scale_of_queries_holds_the_root_of_the_head() -> None:
    """D-kllm-35: a scale changes, no index."""
    small = operands("kllm-a4")
    wq, stored = small.weights["blk.0.wq"], weights.stored(plain.small(), small.config, 0, "q")

    assert wq.scales.tolist() == (weights.scales(stored) / 2).tolist()
    assert np.abs(stored / wq.scales[:, None]).max() == 2


def test_overflow_is_refused_where_it_is_encoded() -> None:
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
    """D-kllm-18, D-kllm-39: gains where activations take them, sums of the weights behind a LayerNorm."""
    gains = operands("kllm-a4:gamma=activations").gains
    model = plain.small()

    assert set(gains) == {f"blk.{layer}.{name}" for layer in (0, 1) for name in ("attn_in", "ffn_in")}
    assert np.array_equal(gains["blk.1.ffn_in"], model.tensor("blk.1.ffn_norm").astype(np.float16))
    assert operands("kllm-a4").gains == operands("kllm-a4").row_sums == {}
    layered = operands("kllm-a4", plain.layered)
    assert set(layered.row_sums) == {f"blk.{layer}.{name}" for layer in (0, 1) for name in ("wq", "wk", "wv", "wup")}
    assert layered.delayed("ffn_in") and not layered.delayed("o_in")


def test_repr() -> None:
    assert repr(operands("kllm-a4")).endswith("), 14 weights)")
