"""Pieces of tensors: rows, parts of fused heads, transposed, shifted; `Converted` is tested with the decoders."""

from typing import Any

import numpy as np

from refemu.models.weights.sources import Converted, Source, raw_name


def test_a_weight_is_cut_out_of_a_tensor() -> None:
    x = np.arange(24, dtype=np.float32).reshape(12, 2)

    assert Source("x", x.shape, first=3, count=2).cut(x).tolist() == [[6, 7], [8, 9]]
    assert Source("x", x.shape, transpose=True, first=1).cut(x).tolist() == [x[:, 1].tolist()]
    assert Source("x", x.shape, part=(1, 3, 2)).cut(x)[:, 0].tolist() == [4, 6, 16, 18]
    assert Source("x", (12,), part=(2, 3, 2)).cut(x[:, 0]).tolist() == [8, 10, 20, 22]
    assert Source("x", x.shape, count=1, plus=1.0).cut(x).tolist() == [[1, 2]]


def test_names_have_prefix_of_blocks_or_of_rest() -> None:
    table = {"q": "attention.query", "norm": "final"}

    assert raw_name("blk.3.q.bias", table, "layers.", "model.") == ("q", "layers.3.attention.query.bias")
    assert raw_name("norm", table, "layers.", "model.") == ("norm", "model.final.weight")


class Stored:
    """A file of one tensor."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def tensor(self, name: str) -> np.ndarray:
        return self.values

    def half(self, name: str) -> np.ndarray:
        return self.values.astype(np.float16)


def test_sum_rather_than_terms_is_rounded_to_fp16() -> None:
    weights: Any = object.__new__(Converted)
    weights.file = Stored(np.linspace(0.1, 0.2, 100, dtype=np.float32))
    for plus in (0.0, 1.0):
        weights._sources = {"norm": Source("x", (100,), plus=plus)}
        half = weights.half("norm")
        assert half.dtype == np.float16 and half.tobytes() == weights.tensor("norm").astype(np.float16).tobytes()
