"""Rotation of queries and keys: scaled, of a part of the channels, and with factors for long texts."""

import dataclasses
import math

import numpy as np
import pytest

from refemu import models
from refemu.arith.attention.rope_scaling import FactorScaling, LinearScaling
from refemu.arith.checks import Refused
from refemu.models.backend import NUMPY, Jit
from refemu.models.builtin.tiny_decoders import PHI3
from refemu.models.config import ModelConfig
from refemu.models.rotation import Rotation

SIZES = ModelConfig(blocks=1, width=8, ffn=8, heads=2, kv_heads=1, head_dim=6, vocab=4, context=64, rotary_dim=4)


def rotated(sizes: ModelConfig, x: np.ndarray, start: int) -> np.ndarray:
    jit, numpy = (Rotation(sizes).rotate(x, start, backend) for backend in (Jit(), NUMPY))
    assert jit.tobytes() == numpy.tobytes()
    return numpy


@pytest.mark.parametrize(("interleaved", "places"), [(True, [(0, 1), (2, 3)]), (False, [(0, 2), (1, 3)])])
def test_first_channels_are_rotated_and_rest_stays(interleaved: bool, places: list[tuple[int, int]]) -> None:
    sizes = dataclasses.replace(SIZES, rope_interleaved=interleaved, rope_scaling=LinearScaling(2.0))
    x = np.random.default_rng(1).normal(size=(3, 2, 6)).astype(np.float16).astype(np.float32)
    found = rotated(sizes, x, 5)

    assert np.array_equal(found[..., 4:], x[..., 4:])
    for t in range(3):
        for pair, (i, j) in enumerate(places):
            angle = (5 + t) / 2 * 10_000.0 ** (-2 * pair / 4)
            turned = x[t, :, i] * math.cos(angle) - x[t, :, j] * math.sin(angle)
            assert np.allclose(found[t, :, i], turned, rtol=2**-10, atol=1e-4)


def test_text_keeps_factors_that_it_began_with() -> None:
    """D-arith-31: a text that grows beyond the short context is rejected; given in one call it is long throughout."""
    sizes = dataclasses.replace(SIZES, rope_scaling=FactorScaling((1.0, 1.0), (2.0, 4.0), original=4))
    x = np.ones((6, 1, 6), np.float32)
    short, long = (
        dataclasses.replace(sizes, rope_scaling=FactorScaling(factors)) for factors in ((1.0, 1.0), (2.0, 4.0))
    )

    assert rotated(sizes, x[:4], 0).tobytes() == rotated(short, x[:4], 0).tobytes()
    assert rotated(sizes, x, 0).tobytes() == rotated(long, x, 0).tobytes()
    assert rotated(sizes, x[:1], 9).tobytes() == rotated(long, x[:1], 9).tobytes()
    with pytest.raises(
        Refused, match=r"a text of more than 4 tokens .* got 3 tokens before and 2 more; give all of it in one call"
    ):
        Rotation(sizes).rotate(x[:2], 3, NUMPY)


def test_session_that_becomes_long_raises_and_is_unchanged() -> None:
    session = models.session(models.prepare("tiny-phi3"))
    first = session.append(list(range(95)))
    session.append([1])
    with pytest.raises(Refused, match="more than 96 tokens"):
        session.append([2])

    assert len(session) == 96 and rope_is_long(first)


def rope_is_long(first: np.ndarray) -> bool:
    """Whether one call of 97 tokens has other logits from its first rows on."""
    assert PHI3.rope_scaling is not None
    return not np.array_equal(models.run("tiny-phi3", [*range(95), 1, 2]).logits[:95], first)


def test_rotation_repr() -> None:
    assert repr(Rotation(SIZES)) == "Rotation(4 of 6 channels, None)"
