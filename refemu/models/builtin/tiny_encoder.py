"""Model `tiny-encoder`: a BERT-like encoder with seeded weights and the outliers of a real one; no download.

It reads bytes and has learned nothing. Every weight is a small integer times a power of two, made of random words by
integer operations, and an fp16 value: the same everywhere. Planted, as seen in all-MiniLM-L6-v2:
- heavy tails: about 0.5 % of a weight matrix lies beyond 3 sigma, some outliers beside another;
- two single weights of `down` in row `OUTLIER_ROW` far beyond all others, in all blocks, and a norm whose gain is small
  there.
"""

from collections.abc import Mapping
from functools import cache
from typing import ClassVar

import numpy as np

from refemu.models.builtin import random_weights
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model

NAME = "tiny-encoder"
CONFIG = EncoderConfig(blocks=2, width=48, ffn=96, heads=3, vocab=256, context=512)

OUTLIER_ROW = 13  #: of every `down`
OUTLIER_INPUTS = (20, 21)  #: neighbouring inputs of that row

FRACTION = {"embed": 9, "position": 10, "token_type": 10, "norm": 9, "o": 11, "down": 11, "bias": 12}  #: 10 elsewhere


def fraction(name: str) -> int:
    """Fraction bits of the integers that `integers(name)` gives."""
    return random_weights.fraction(name, FRACTION)


def integers(name: str) -> np.ndarray:
    """The weight `name` in units of 2**-fraction(name): int64."""
    shape, part = CONFIG.shapes[name], name.rpartition(".")[2]
    w = random_weights.bell(f"{NAME}/{name}", shape)
    if part.endswith("norm"):
        return _plant_gain(part, 448 + (w >> 1))
    if len(shape) == 2 and name.startswith("blk."):
        w = w << random_weights.tail(f"{NAME}/{name}", shape)
    return _plant_down(w) if part == "down" else w


class TinyEncoder(random_weights.Weights):
    """The weights of model `tiny-encoder`."""

    shapes: ClassVar[Mapping[str, tuple[int, ...]]] = CONFIG.shapes
    integers = staticmethod(integers)
    fraction = staticmethod(fraction)


@cache
def sha256() -> str:
    """sha256 over the weights in model order, each as little-endian float32."""
    return TinyEncoder().sha256()


def _plant_gain(part: str, w: np.ndarray) -> np.ndarray:
    """Gains of 0.4 to 1.4; the channel that `down` drives is damped behind it."""
    if part == "ffn_norm":
        w[OUTLIER_ROW] >>= 2
    return w


def _plant_down(w: np.ndarray) -> np.ndarray:
    """Weights of 8 and -6 where the others stay below 1 but for the tail."""
    w[OUTLIER_ROW, list(OUTLIER_INPUTS)] = np.array([8, -6]) << FRACTION["down"]
    return w


def model() -> Model:
    """The model "tiny-encoder"."""
    return Model(NAME, CONFIG, TinyEncoder(), sha256())
