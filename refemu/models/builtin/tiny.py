"""Model `tiny`: a Llama-like decoder with untrained random weights and the outliers of a real one; no download.

It reads bytes; its logits are for comparing bits and mean nothing. Every weight is a small integer times a power of
two, made from random words by integer operations, and an fp16 value: the same everywhere.

These properties of real decoders are built in (seen in SmolLM2-135M):
- heavy tails: about 0.5 % of a weight matrix is beyond 3 sigma, and outliers have outlier neighbours more often than
  by chance;
- a massive activation: tokens ` `, newline and `.` carry a mark in channel `MASSIVE`; block 0 turns it into a residual
  of about 23,000 through two neighbouring feed-forward channels, and the last block removes most of it;
- channel outliers of K: every token carries a constant in channel `CONSTANT`, which some K rows read;
- clustered outliers at the input of the attention output: in block 0, two neighbouring V channels of each head read the
  mark.
"""

from collections.abc import Mapping
from functools import cache
from typing import ClassVar

import numpy as np

from refemu.models.builtin import random_weights
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.tokenizer import ByteTokenizer

CONFIG = ModelConfig(blocks=3, width=64, ffn=96, heads=4, kv_heads=2, head_dim=16, vocab=256, context=2048)
TEST_TOKENS = 16  #: tokens of a default test run: 1.8 million multiply-accumulates

MASSIVE, CONSTANT = 37, 10  #: channels of the residual stream
MARKED = tuple(b" \n.")  #: tokens that carry the mark
DETECT = (18, 19)  #: feed-forward channels that make and cancel the massive activation
KEY_ROWS = (3, 20)  #: rows of K that read CONSTANT
CLUSTER = (6, 7)  #: neighbouring channels of every V head that read MASSIVE in block 0

FRACTION = {"embed": 9, "norm": 9, "o": 12, "down": 11}  #: fraction bits of the integers; 10 where none is stated


def fraction(name: str) -> int:
    """Fraction bits of `integers(name)`."""
    return random_weights.fraction(name, FRACTION)


def integers(name: str) -> np.ndarray:
    """The weight `name` in units of 2**-fraction(name): int64."""
    shape, part = CONFIG.shapes[name], name.rpartition(".")[2]
    if part.endswith("norm"):
        return _plant_gain(name, 384 + (random_weights.bell(f"tiny/{name}", shape) >> 1))
    w = random_weights.bell(f"tiny/{name}", shape)
    if part != "embed":
        w = w << random_weights.tail(f"tiny/{name}", shape)
    return _PLANT.get(part, _keep)(name, w)


class Tiny(random_weights.Weights):
    """The weights of model `tiny`."""

    shapes: ClassVar[Mapping[str, tuple[int, ...]]] = CONFIG.shapes
    integers = staticmethod(integers)
    fraction = staticmethod(fraction)


@cache
def sha256() -> str:
    """sha256 over the weights in model order, each as little-endian float32."""
    return Tiny().sha256()


def _one(name: str) -> int:
    """1.0 in units of a weight."""
    return 1 << fraction(name)


def _keep(name: str, w: np.ndarray) -> np.ndarray:
    return w


def _plant_embed(name: str, w: np.ndarray) -> np.ndarray:
    """Every token has about 1 in CONSTANT and almost 0 in MASSIVE; marked tokens have 8."""
    w[:, CONSTANT] = _one(name) + (w[:, CONSTANT] >> 3)
    w[:, MASSIVE] >>= 4
    w[list(MARKED), MASSIVE] = 8 * _one(name)
    return w


def _plant_gain(name: str, w: np.ndarray) -> np.ndarray:
    """Gains of 0.25 to 1.25, half of that after the last block; MASSIVE is damped where it would dominate."""
    if name == "norm":
        w >>= 1
    if name == f"blk.{CONFIG.blocks - 1}.ffn_norm":
        w[MASSIVE] = _one(name) // 2
    elif not name.startswith("blk.0."):
        w[MASSIVE] = _one(name) // 32
    return w


def _plant_key(name: str, w: np.ndarray) -> np.ndarray:
    w[list(KEY_ROWS), CONSTANT] = 4 * _one(name)
    return w


def _plant_value(name: str, w: np.ndarray) -> np.ndarray:
    if name.startswith("blk.0."):
        for channel in CLUSTER:
            w[channel :: CONFIG.head_dim, MASSIVE] = _one(name)
    return w


def _plant_detector(name: str, w: np.ndarray) -> np.ndarray:
    """Gate and up of the first and last block read MASSIVE in two neighbouring channels."""
    if not name.startswith("blk.1."):
        w[list(DETECT), MASSIVE] = 8 * _one(name)
    return w


def _plant_down(name: str, w: np.ndarray) -> np.ndarray:
    """Block 0 writes the massive activation, the last block removes it; other blocks barely use the channel."""
    w[MASSIVE] >>= 4
    if not name.startswith("blk.1."):
        w[MASSIVE, list(DETECT)] = (3 if name.startswith("blk.0.") else -11) * _one(name)
    return w


def _plant_output(name: str, w: np.ndarray) -> np.ndarray:
    """The V channels with outliers have small weights back to the residual stream."""
    w[MASSIVE] >>= 4
    for channel in CLUSTER:
        w[:, channel :: CONFIG.head_dim] >>= 3
    return w


_PLANT = {
    "embed": _plant_embed,
    "k": _plant_key,
    "v": _plant_value,
    "o": _plant_output,
    "gate": _plant_detector,
    "up": _plant_detector,
    "down": _plant_down,
}


def model() -> Model:
    """Model "tiny"."""
    return Model("tiny", CONFIG, Tiny(), sha256(), ByteTokenizer)
