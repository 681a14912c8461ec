"""Preparation under a Harmonia scheme: given factors reach the weights, encoders are rejected."""

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.backend import NUMPY
from refemu.models.schemes.harmonia.config import KV4, KV8
from refemu.models.schemes.harmonia.prepare import prepare
from refemu.models.schemes.harmonia.smoothing import Smoothing
from refemu.models.schemes.scheme import silent
from tests.models.schemes.harmonia import plain


def test_given_factors_are_those_of_the_prepared_model() -> None:
    model = plain.small()
    sizes = model.config
    given = Smoothing({}, np.full((sizes.blocks, sizes.kv_heads, sizes.head_dim), 2, np.float32))
    prepared = prepare(KV4, model, NUMPY, given, silent)
    off = prepare(KV8, model, NUMPY, given, silent)

    assert (prepared.smoothing.s == 2).all() and (off.smoothing.s == 1).all()  # KV8: offline=False
    assert (prepared.config, prepared.backend) == (KV4, NUMPY)


def test_encoders_are_rejected() -> None:
    with pytest.raises(Refused, match="HarmoniaConfig computes decoders, and tiny-encoder is an encoder"):
        models.prepare("tiny-encoder", KV8)
