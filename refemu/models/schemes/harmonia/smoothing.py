"""Offline smoothing: a factor per key channel, multiplied into W_K, with its inverse in W_Q [harmonia §III-C].

The factors of a rotary pair are equal, since others would not commute with the rotation; all query heads of a KV head
share them. They are data: learned once and saved in a file (D-harmonia-37).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, at, first_index
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.schemes import offline_file

FOLDER = Path(__file__).with_name("factors")  #: shipped factors, by name of the model


@dataclass(frozen=True, eq=False)
class Smoothing:
    """The factors of all layers, and a description of what they were learned from."""

    description: Mapping[str, Any]  #: model, weights_sha256, tokens_sha256, and settings of the configuration
    s: np.ndarray  #: float32 (blocks, KV heads, head_dim)

    def __repr__(self) -> str:
        return f"Smoothing({self.description.get('model')!r}, {self.s.shape})"

    def require(self, sizes: ModelConfig, name: str) -> "Smoothing":
        """Return itself; raise Refused unless factors are positive, finite, equal on rotary pairs, and fit."""
        thing = f"smoothing of {name}"
        shape = (sizes.blocks, sizes.kv_heads, sizes.head_dim)
        if self.s.dtype != np.float32 or self.s.shape != shape:
            raise Refused(f"{thing}: must be float32 {shape}, got {self.s.dtype} {self.s.shape}")
        bad = ~(np.isfinite(self.s) & (self.s > 0))
        if bad.any():
            index = first_index(bad)
            raise Refused(f"{thing}: factors must be positive and finite, got {float(self.s[index])}{at(index)}")
        first, second = (self.s[..., pairs(sizes)[:, end]] for end in (0, -1))
        bad = first != second
        if bad.any():
            index = first_index(bad)
            pair = tuple(pairs(sizes)[index[-1]].tolist())
            raise Refused(
                f"{thing}: factors of the rotary pair {pair} of KV head {index[1]} in block {index[0]} must "
                f"be equal, got {float(first[index])} and {float(second[index])}"
            )
        return self

    def of_first(self, model: Model) -> "Smoothing":
        """Factors for `model`, which has the first blocks of the same weights."""
        if self.description.get("weights_sha256") != model.sha256:
            return self
        return Smoothing(self.description, self.s[: model.config.blocks])

    def to_bytes(self) -> bytes:
        """The bytes of the file: equal factors give equal bytes."""
        return offline_file.to_bytes(self.description, {"s": self.s.astype("<f4")})

    def save(self, path: str | Path) -> None:
        """Write `to_bytes` to `path` atomically."""
        offline_file.save(path, self.to_bytes())


def load(path: str | Path) -> Smoothing:
    """Factors from a file of `Smoothing.save`; raises Refused if missing, damaged or foreign; unpickles nothing."""
    return Smoothing(*offline_file.load(path, "smoothing", lambda archive: archive.array("s")))


def read(data: bytes, where: Path) -> Smoothing:
    """`read` from the bytes of a file; where: its path, for messages."""
    return Smoothing(*offline_file.read(data, where, "smoothing", lambda archive: archive.array("s")))


def shipped(name: str) -> Smoothing | None:
    """The shipped factors for the model `name`, or None."""
    path = FOLDER / f"{name}.npz"
    return load(path) if path.is_file() else None


def ones(sizes: ModelConfig) -> Smoothing:
    """No smoothing: factors of 1, which change no bit."""
    return Smoothing({}, np.ones((sizes.blocks, sizes.kv_heads, sizes.head_dim), np.float32))


def pairs(sizes: ModelConfig) -> np.ndarray:
    """The channels of a head that rotate together, (head_dim / 2, 2); without a rotation single ones, (head_dim, 1).

    With a partial rotation, a channel that is not rotated is paired with itself.
    """
    places = np.arange(sizes.head_dim)
    if sizes.positions != "rotary":
        return places[:, None]
    turned, rest = places[: sizes.rotated], places[sizes.rotated :, None]
    rotary = turned.reshape(-1, 2) if sizes.rope_interleaved else turned.reshape(2, -1).T
    return np.concatenate([rotary, np.repeat(rest, 2, axis=1)])


def spread(factor: np.ndarray, heads: int) -> np.ndarray:
    """Factors (KV heads, head_dim) repeated for the query heads, (heads, head_dim)."""
    return np.repeat(factor, heads // len(factor), axis=0)
