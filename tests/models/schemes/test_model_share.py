"""Shares of a model: what a part of a mix prepares, and weights that another part changed."""

from typing import Any

import numpy as np

from refemu import models
from refemu.models.schemes import model_share
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.mix.prepare import _share
from refemu.models.schemes.scheme import silent
from tests.models.schemes.mix.pairs import prepared


def test_any_other_model_is_computed_whole() -> None:
    model = models.load("tiny")

    assert list(model_share.blocks(model)) == [0, 1, 2]
    assert model_share.outer(model) and model_share.attends(model) and model_share.whole(model) is model
    assert (model_share.scaled(model, alone=True), model_share.scaled(model, alone=False)) == (True, False)


def test_a_share_says_what_is_computed() -> None:
    model = models.load("tiny")
    found = _share(model, blocks=(0, 2), scaled=False)

    assert model_share.blocks(found) == (0, 2)
    assert not model_share.outer(found) and not model_share.attends(found) and not model_share.scaled(found, alone=True)
    assert found.tensor("blk.0.q").tobytes() == model.tensor("blk.0.q").tobytes()
    assert (model_share.whole(found).weights, model_share.whole(found).sha256) == (model.weights, model.sha256)


def test_a_part_prepares_no_more_than_its_share() -> None:
    read: list[str] = []

    def look(name: str, tensor: np.ndarray) -> np.ndarray:
        read.append(name)
        return tensor

    model = model_share.changed(models.load("tiny"), b"", look)
    parts: Any = Fp16(_share(model, blocks=(1,)), Fp16Config(), prepared("fp16").backend, silent)
    matrices = {name for name in read if len(model.config.shapes[name]) == 2}

    assert matrices == {f"blk.1.{name}" for name in ("q", "k", "v", "o", "gate", "up", "down")}
    assert not hasattr(parts, "_embed")


def test_changed_weights_have_a_sha256_of_their_own() -> None:
    model = models.load("tiny")
    halved = model_share.changed(model, b"half", lambda name, tensor: tensor / 2 if name == "embed" else tensor)
    other = model_share.changed(model, b"other", lambda name, tensor: tensor)

    assert len({model.sha256, halved.sha256, other.sha256}) == 3
    assert halved.tensor("embed").tobytes() == (model.tensor("embed") / 2).tobytes()
    assert halved.tensor("head").tobytes() == halved.tensor("embed").tobytes()
    assert halved.weights.names == model.weights.names
    assert halved.weights.shape("embed") == model.weights.shape("embed")
    assert repr(halved.weights).startswith("Changed(")
