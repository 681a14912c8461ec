"""A BERT-like encoder in plain float32, as other programs compute it: the baseline of schemes.

Uses NumPy and its BLAS, so its last bits depend on the machine: figures in reports only, never vectors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.models.encoder.config import BIAS, LINEARS, EncoderConfig
from refemu.models.model import Model
from refemu.models.taps import Watch


class FloatEncoder:
    """Parts for `encoder.encode`, with weights and sums in float32; hidden states (tokens, width)."""

    def __init__(self, model: Model) -> None:
        """Refuses a decoder."""
        if not isinstance(model.config, EncoderConfig):
            raise Refused(f"FloatEncoder: {model.name} is a decoder")
        self.name: str = model.name
        self.sha256: str = model.sha256
        self.model: EncoderConfig = model.config
        self.config: Any = None
        self.backend: Any = None
        self._weights = {name: model.tensor(name).astype(np.float32) for name in model.config.shapes}
        self._linears: dict[tuple[int, tuple[str, ...]], Any] = {
            (layer, names): self._group(layer, names) for layer in range(model.config.blocks) for names in LINEARS
        }

    def __repr__(self) -> str:
        return f"FloatEncoder({self.name!r})"

    def embeddings(self, ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Sum of the embeddings of word, position and token type 0."""
        return self._weights["embed"][ids] + self._weights["position"][positions] + self._weights["token_type"][0]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """LayerNorm."""
        off = x - x.mean(axis=-1, keepdims=True)
        root = np.sqrt((off * off).mean(axis=-1, keepdims=True) + np.float32(self.model.norm_eps))
        return off / root * self._weights[name] + self._weights[name + BIAS]

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """x @ w.T + bias; the rows of all `names` form one matrix."""
        rows, biases = self._linears[layer, tuple(names)]
        return np.split(x @ rows.T + biases, len(names), axis=1)

    def attention(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Softmax attention of every token to every token, head by head."""
        scale = np.sqrt(np.float32(self.model.head_dim))
        logits = q.transpose(1, 0, 2) @ k.transpose(1, 2, 0) / scale
        share = np.exp(logits - logits.max(axis=-1, keepdims=True))
        mixed = share / share.sum(axis=-1, keepdims=True) @ v.transpose(1, 0, 2)
        return mixed.transpose(1, 0, 2).reshape(len(q), -1)

    def activation(self, x: np.ndarray) -> np.ndarray:
        """GELU with erf."""
        from scipy import special

        return x * np.float32(0.5) * (np.float32(1) + special.erf(x / np.sqrt(np.float32(2))))

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The residual addition."""
        return x + y

    def _group(self, layer: int, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        full = [f"blk.{layer}.{name}" for name in names]
        return (
            np.concatenate([self._weights[name] for name in full]),
            np.concatenate([self._weights[name + BIAS] for name in full]),
        )
