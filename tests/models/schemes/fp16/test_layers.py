"""What decoders and encoders share under scheme `fp16`: layers that read one input, biases, the residual sum."""

from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16
from refemu.models.schemes.fp16.layers import columns
from refemu.models.taps import Watch
from tests.models.schemes.fp16.test_decoder import small


@pytest.mark.parametrize("name", ["tiny", "tiny-opt", "tiny-encoder"])
def test_layers_of_one_input_equal_separate_layers(name: str) -> None:
    """One matrix holds the rows of all of them; a bias is added before the one rounding [D-arith-15]."""
    model, parts = models.load(name), prepared(name)
    x = fp16.round16(np.random.default_rng(1).standard_normal((3, model.config.width)).astype(np.float32))
    for kind, y in zip("qkv", parts.linear(1, ("q", "k", "v"), x, Watch()), strict=True):
        weight = fp16.to_f16(model.tensor(f"blk.1.{kind}"))
        wide = parts.backend.matmul(x, parts.backend.weights(weight), "fp32")
        bias = fp16.to_f16(model.tensor(f"blk.1.{kind}.bias")) if model.config.bias else np.float16(0)
        assert np.array_equal(y, fp16.round16(wide + bias.astype(np.float32)))


def prepared(name: str, scheme: str = "fp16") -> Any:
    return models.prepare(name, scheme, "numpy")


def test_residual_sum_is_rounded_unless_stream_is_float32() -> None:
    x, y = np.array([[2048]], np.float32), np.array([[1]], np.float32)  # 2049 is not an fp16 value

    assert prepared("tiny").add(x, y) == 2048
    assert prepared("tiny", "fp16:residual=fp32").add(x, y) == 2049


def test_rows_of_the_embedding_are_rounded_once() -> None:
    """`small` has weights that fp16 does not hold."""
    parts: Any = models.prepare(small(), "fp16", "numpy")
    rows = small().tensor("embed")[[7, 3, 7]]

    assert np.array_equal(parts.embed(np.array([7, 3, 7])), fp16.round16(rows))
    assert not np.array_equal(rows, fp16.round16(rows))


def test_columns_cut_the_outputs_of_concatenated_matrices() -> None:
    assert columns([np.zeros((3, 2)), np.zeros((1, 2))]) == [slice(0, 3), slice(3, 4)]
