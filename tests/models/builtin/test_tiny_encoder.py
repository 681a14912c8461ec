"""Model `tiny-encoder`: the same weights everywhere, and the outliers of a real encoder."""

import hashlib

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models import load, prepare, text
from refemu.models.backend import NUMPY
from refemu.models.builtin import tiny_encoder
from refemu.models.encoder import runtime

CONFIG = tiny_encoder.CONFIG


def test_weights_are_pinned() -> None:
    """A change of one weight changes every pinned bit of the model."""
    assert tiny_encoder.sha256() == "c83e40b38809030e28ddf839b8b8c4efbbeee2251a1139f37259888d1cc6aba9"


def test_sha256_covers_every_weight_in_model_order() -> None:
    weights = tiny_encoder.TinyEncoder()
    parts = [weights.tensor(name).astype("<f4").tobytes() for name in weights.names]

    assert hashlib.sha256(b"".join(parts)).hexdigest() == tiny_encoder.sha256()


@pytest.mark.parametrize("name", CONFIG.shapes)
def test_every_weight_is_an_fp16_value(name: str) -> None:
    w = tiny_encoder.TinyEncoder().tensor(name)

    assert w.dtype == np.float32 and w.shape == tiny_encoder.TinyEncoder().shape(name) == CONFIG.shapes[name]
    assert np.array_equal(w, w.astype(np.float16))
    assert np.array_equal(w, tiny_encoder.integers(name) / 2.0 ** tiny_encoder.fraction(name))


@pytest.mark.parametrize("layer", range(CONFIG.blocks))
def test_down_has_one_row_of_outlier_weights(layer: int) -> None:
    w = np.abs(tiny_encoder.TinyEncoder().tensor(f"blk.{layer}.down"))
    row = w[tiny_encoder.OUTLIER_ROW, list(tiny_encoder.OUTLIER_INPUTS)]

    assert row.tolist() == [8, 6]
    assert row.min() > 30 * w.std()


def test_hidden_states_are_tame_but_have_outliers() -> None:
    model = load("tiny-encoder")
    ids = model.tokenizer.sentence(text.default(), 64)
    hidden = runtime.encode(prepare(model, backend=NUMPY), [ids])  # type: ignore[arg-type]

    assert 0.3 < hidden.std() < 3
    assert 3 < np.abs(hidden).max() / hidden.std() < 20


def test_repr_names_weights_and_unknown_name_raises() -> None:
    assert repr(tiny_encoder.TinyEncoder()) == "TinyEncoder()"
    with pytest.raises(Refused, match=r"unknown tensor 'blk\.2\.q'"):
        tiny_encoder.TinyEncoder().tensor("blk.2.q")
