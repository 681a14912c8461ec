"""Models `tiny-gpt2`, `tiny-opt`, `tiny-qwen2`, ...: decoders of every other family, untrained; no download.

They read bytes. Every weight is a small integer times a power of two, made from random words by integer operations, and
an fp16 value: the same everywhere. These properties of real models are built in:
- heavy tails: about 0.5 % of a weight matrix is beyond 3 sigma, some outliers next to another;
- outlier channels: the norms before a block half have a far larger gain in the channels `LOUD`;
- the massive activation of a first token: with learned positions, position 0 drives one channel far beyond all other
  tokens.
Windows and original contexts are short, so that a text of a few dozen tokens exceeds them.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from refemu.arith.attention.rope_scaling import FactorScaling, Llama3Scaling
from refemu.arith.checks import lookup
from refemu.models.builtin import random_weights
from refemu.models.config import ModelConfig
from refemu.models.model import Model

COMMON: dict[str, Any] = {"blocks": 2, "width": 64, "vocab": 256, "context": 512}
LAYERS: dict[str, Any] = {"norm": "layer", "positions": "learned", "bias": True, "gated": False}
GPT2 = ModelConfig(ffn=128, heads=4, kv_heads=4, head_dim=16, activation="gelu_tanh", **COMMON, **LAYERS)
OPT = ModelConfig(ffn=160, heads=2, kv_heads=2, head_dim=32, activation="relu", **COMMON, **LAYERS)
GROUPED: dict[str, Any] = {**COMMON, "ffn": 96, "heads": 4, "kv_heads": 2, "head_dim": 16, "rope_interleaved": False}
LONGROPE = FactorScaling(
    short=(1.0, 1.0, 1.25, 1.5, 2.0, 2.5), long=(1.0, 1.5, 2.0, 4.0, 6.0, 8.0), original=96, gain=1.25
)
LLAMA3 = Llama3Scaling(factor=8.0, low=1.0, high=4.0, original=64)
MISTRAL = ModelConfig(**GROUPED, windows=(12, 12), rope_scaling=LLAMA3)
MIXTRAL = ModelConfig(**{**GROUPED, "ffn": 48}, experts=4, experts_used=2)
QWEN2 = ModelConfig(**GROUPED, qkv_bias=True)
QWEN3 = ModelConfig(**GROUPED, qk_norm=True)
PHI3 = ModelConfig(**GROUPED, rotary_dim=12, rope_scaling=LONGROPE)
GEMMA2 = ModelConfig(
    **{**GROUPED, "head_dim": 32},
    activation="gelu_tanh",
    post_norms=True,
    scaled_embed=True,
    windows=(8, 0),
    attention_cap=4.0,
    logit_cap=12.0,
    scale_dim=24.0,
)
BLOOM = ModelConfig(
    **{**GROUPED, "kv_heads": 4, "rope_interleaved": True},
    norm="layer",
    positions="alibi",
    activation="gelu_tanh",
    gated=False,
    bias=True,
    embed_norm=True,
)
CONFIGS = {
    "tiny-gpt2": GPT2,
    "tiny-opt": OPT,
    "tiny-mistral": MISTRAL,
    "tiny-mixtral": MIXTRAL,
    "tiny-qwen2": QWEN2,
    "tiny-qwen3": QWEN3,
    "tiny-phi3": PHI3,
    "tiny-gemma2": GEMMA2,
    "tiny-bloom": BLOOM,
}

LOUD = (20, 21)  #: neighbouring outlier channels of the norms inside a block
MASSIVE = 37  #: channel of the massive activation of position 0

FRACTION = {"embed": 9, "position": 10, "norm": 9, "o": 11, "down": 11, "bias": 12}  #: by part; else 10


class TinyDecoder(random_weights.Weights):
    """The weights of one of the models; its name precedes the labels of its random words."""

    def __init__(self, name: str) -> None:
        """Raises Refused for an unknown name."""
        self.name = name
        self.shapes: Mapping[str, tuple[int, ...]] = lookup("model", name, CONFIGS).shapes  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"TinyDecoder({self.name!r})"

    def integers(self, name: str) -> np.ndarray:  # type: ignore[override]
        """The weight `name` in units of 2**-fraction(name): int64."""
        shape, part = self.shapes[name], name.rpartition(".")[2]
        w = random_weights.bell(f"{self.name}/{name}", shape)
        if part.endswith("norm"):
            return _plant_gain(part, 448 + (w >> 1))
        if len(shape) == 2 and name.startswith("blk."):
            w = w << random_weights.tail(f"{self.name}/{name}", shape)
        return _plant_position(w) if part == "position" else w

    @staticmethod
    def fraction(name: str) -> int:
        """Fraction bits of `integers(name)`."""
        return random_weights.fraction(name, FRACTION)


@cache
def sha256(name: str) -> str:
    """sha256 over the weights of a model in model order, each as little-endian float32."""
    return TinyDecoder(name).sha256()


def _plant_gain(part: str, w: np.ndarray) -> np.ndarray:
    """Gains of 0.4 to 1.4, before a block half 8 times that in `LOUD`, half of it after the last block."""
    if part == "norm":
        return w >> 1
    if part in ("attn_norm", "ffn_norm"):
        w[list(LOUD)] <<= 3
    return w


def _plant_position(w: np.ndarray) -> np.ndarray:
    w[0, MASSIVE] = 24 << FRACTION["position"]
    return w


def model(name: str) -> Model:
    """Model `name`, a key of `CONFIGS`."""
    return Model(name, CONFIGS[name], TinyDecoder(name), sha256(name))
