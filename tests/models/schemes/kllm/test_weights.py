"""Weights before quantization, and sample weights of the user's."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.schemes.kllm import weights
from refemu.models.schemes.kllm.config import KllmConfig
from tests.models.schemes.kllm import plain


def config(text: str = "kllm-a4") -> Any:
    return schemes.parse(text)


def test_gain_is_folded_after_a_norm() -> None:
    """D-kllm-18: weight and gain are rounded to FP16, then their product."""
    model = plain.small()
    gain, weight = (model.tensor(name).astype(np.float16) for name in ("blk.1.ffn_norm", "blk.1.up"))

    assert np.array_equal(weights.stored(model, config(), 1, "up"), weight * gain)
    for text in ("kllm-a4:gamma=activations", "kllm-a4:norm=fp16"):
        assert np.array_equal(weights.stored(model, config(text), 1, "up"), weight)
    down = model.tensor("blk.1.down").astype(np.float16)
    assert np.array_equal(weights.stored(model, config(), 1, "down"), down)


def test_scale_is_the_largest_magnitude_of_an_output() -> None:
    """D-kllm-9, D-kllm-11: 1 for an output of zeros."""
    weight = np.array([[1, -3], [0, 0], [0.5, 0.25]], np.float16)

    assert weights.scales(weight).tolist() == [3, 1, 0.5]


def test_root_of_the_head_is_rounded_once() -> None:
    """D-kllm-35."""
    found = weights.attention_scale(np.array([1, 3], np.float16), replace(plain.small().config, head_dim=10))

    assert found.tolist() == [float(np.float16(s / np.sqrt(10))) for s in (1.0, 3.0)]


def test_user_weights_are_read_by_tensor(tmp_path: Path) -> None:
    """D-kllm-29."""
    path = tmp_path / "fisher.npz"
    np.savez(path, **{"blk.0.wq": np.ones((16, 9), np.float32), "blk.1.gate": np.arange(11.0)})
    found = weights.user_weights(KllmConfig(sensitivity=str(path)), plain.small())

    assert found.arrays["blk.1.gate"].tolist() == list(range(11))
    assert found.arrays["blk.0.wq"].dtype == np.float64
    assert found.sha256 is not None and len(found.sha256) == 64
    assert weights.user_weights(KllmConfig(), plain.small()).sha256 is None


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("blk.0.norm", np.ones(9), "must name quantized tensors, got 'blk.0.norm'"),
        ("blk.2.wq", np.ones((16, 9)), "must name quantized tensors, got 'blk.2.wq'"),
        ("blk.0.wq", np.ones((9, 16)), r"blk\.0\.wq must be floats of shape \(16, 9\), got float64 of shape \(9, 16\)"),
        ("blk.0.q", np.ones(16, np.int64), r"blk\.0\.q must be floats of shape \(16,\), got int64"),
    ],
)
def test_foreign_weights_are_rejected(tmp_path: Path, name: str, array: np.ndarray, message: str) -> None:
    path = tmp_path / "fisher.npz"
    np.savez(path, **{name: array})
    with pytest.raises(Refused, match=message):
        weights.user_weights(KllmConfig(sensitivity=str(path)), plain.small())


def test_unreadable_weights_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "fisher.npz"
    with pytest.raises(Refused, match=r"fisher\.npz: not a readable \.npz"):
        weights.user_weights(KllmConfig(sensitivity=str(path)), plain.small())
    path.write_bytes(b"no zip")
    with pytest.raises(Refused, match=r"fisher\.npz: not a readable \.npz"):
        weights.user_weights(KllmConfig(sensitivity=str(path)), plain.small())
