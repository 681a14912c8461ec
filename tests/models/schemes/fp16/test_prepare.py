"""Preparation under scheme `fp16`: the kind of model decides the class, and nothing is calibrated."""

import pytest

from refemu import models
from refemu.models.backend import NUMPY
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.fp16.encoder import Fp16Encoder
from refemu.models.schemes.fp16.prepare import prepare


@pytest.mark.parametrize(("name", "kind"), [("tiny", Fp16), ("tiny-opt", Fp16), ("tiny-encoder", Fp16Encoder)])
def test_a_model_is_prepared_by_its_kind(name: str, kind: type) -> None:
    model, config, told = models.load(name), Fp16Config(acc="fp16"), list[tuple[str, int, int]]()
    prepared = prepare(config, model, NUMPY, [1, 2], lambda *step: told.append(step))

    assert type(prepared) is kind
    assert (prepared.name, prepared.sha256, prepared.model) == (name, model.sha256, model.config)
    assert (prepared.config, prepared.backend) == (config, NUMPY)
    assert told == [("weights", done, model.config.blocks) for done in range(model.config.blocks + 1)]
