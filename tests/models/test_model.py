"""What a model holds: tensors by canonical name, a tied head, its repr."""

from pathlib import Path

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models import load
from refemu.models.builtin import tiny
from tests.models import toy_files


@pytest.fixture(autouse=True)
def empty_cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "model" not in request.keywords:
        monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_may_be_the_embedding(tmp_path: Path, tied: bool) -> None:
    given = toy_files.values(toy_files.CONFIG)
    own = {} if tied else {"head": 2 * given["embed"]}
    model = load(toy_files.write_gguf(tmp_path / "toy.gguf", given | own))

    assert model.config.tied_head is tied
    assert np.array_equal(model.tensor("head"), given["embed"] if tied else own["head"])


def test_repr_shows_sizes_and_hash() -> None:
    assert repr(load("tiny")) == f"Model('tiny', {tiny.CONFIG!r}, sha256={tiny.sha256()!r})"


@pytest.mark.parametrize("kind", ["F32", "BF16"])
@pytest.mark.parametrize("value", [65_520.0, -1e6])
def test_weight_that_fp16_rounds_to_infinity_is_rejected(tmp_path: Path, kind: str, value: float) -> None:
    values = toy_files.values(toy_files.CONFIG)
    values["blk.0.q"][3, 5] = value
    model = load(toy_files.write_gguf(tmp_path / "toy.gguf", values, {"blk.0.q": kind}))
    rule = r"toy: tensor blk\.0\.q must round to a finite FP16 value, got -?\d+\.0 at index \(3, 5\)"
    for read in (model.tensor, model.half):
        with pytest.raises(Refused, match=rule):
            read("blk.0.q")


def test_an_unknown_tensor_is_rejected() -> None:
    with pytest.raises(Refused, match=r"unknown tensor 'blk\.0\.w'"):
        load("tiny").tensor("blk.0.w")


def test_an_encoder_has_no_head() -> None:
    with pytest.raises(Refused, match="unknown tensor 'head'"):
        load("tiny-encoder").tensor("head")
