"""Model `tiny-encoder`: a BERT-like encoder with untrained random weights and the outliers of a real one; no download.

It reads bytes. Every weight is a small integer times a power of two, made from random words by integer operations, and
an fp16 value: the same everywhere. These properties of all-MiniLM-L6-v2 are built in:
- heavy tails: about 0.5 % of a weight matrix is beyond 3 sigma, some outliers next to another;
- in all blocks, two weights of `down` in row `OUTLIER_ROW` are far above all others, and the norm has a small gain
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

OUTLIER_ROW = 13  #: row of every `down`
OUTLIER_INPUTS = (20, 21)  #: neighbouring inputs of that row

FRACTION = {
    "embed": 9,
    "position": 10,
    "token_type": 10,
    "norm": 9,
    "o": 11,
    "down": 11,
    "bias": 12,
}  #: by part; else 10


def fraction(name: str) -> int:
    """Fraction bits of `integers(name)`."""
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
    """Gains of 0.4 to 1.4; the channel that `down` drives is damped after it."""
    if part == "ffn_norm":
        w[OUTLIER_ROW] >>= 2
    return w


def _plant_down(w: np.ndarray) -> np.ndarray:
    """Weights of 8 and -6; the others are below 1, except the tail."""
    w[OUTLIER_ROW, list(OUTLIER_INPUTS)] = np.array([8, -6]) << FRACTION["down"]
    return w


def model() -> Model:
    """Model "tiny-encoder"."""
    return Model(NAME, CONFIG, TinyEncoder(), sha256())
