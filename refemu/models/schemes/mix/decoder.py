"""A decoder whose linear layers and attention are computed by parts, each prepared by its own scheme.

Embedding, residual sums, the last norm and the output matrix are computed by the linear part without layers of its own
(D-mix-4).
Queries are multiplied by 1 / sqrt(head_dim) before an attention that does not scale scores, unless a linear part has
the factor in its weights (D-mix-3).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.models.backend import Backend
from refemu.models.cache import Cache, Caches
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.schemes.mix.config import Mix
from refemu.models.schemes.scheme import PreparedPart, Scheme
from refemu.models.taps import Watch


class Mixed:
    """A decoder under a mix."""

    def __init__(
        self,
        model: Model,
        config: Mix,
        backend: Backend,
        linear: Mapping[int, PreparedPart],
        outer: PreparedPart,
        attention: PreparedPart,
    ) -> None:
        """linear: prepared parts by block. outer: computes all outside the blocks. attention: for all blocks."""
        assert isinstance(model.config, ModelConfig)
        self.name: str = model.name
        self.sha256: str = model.sha256
        self.model: ModelConfig = model.config
        self.config: Scheme = config
        self.backend: Backend = backend
        self.linear_parts: Mapping[int, PreparedPart] = linear
        self.outer_part: PreparedPart = outer
        self.attention_part: PreparedPart = attention
        self._scale = self.model.attention_scale
        scaled_here = attention.config.scales_queries and not self.model.qk_norm  # else its norm of q does
        self._plain_queries = {
            layer for layer, part in linear.items() if scaled_here and not part.config.scales_queries
        }

    def __repr__(self) -> str:
        return f"Mixed({self.name!r}, {self.config!r}, backend={self.backend.name!r})"

    def embed(self, ids: np.ndarray) -> np.ndarray:
        """Rows of the embedding."""
        return self.outer_part.embed(ids)

    def position(self, start: int, count: int) -> np.ndarray:
        """Rows of the position embedding."""
        return self.outer_part.position(start, count)

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The residual addition after a half of a block."""
        return self.outer_part.add(x, y)

    def head(self, x: np.ndarray, watch: Watch) -> np.ndarray:
        """The output matrix."""
        return self.outer_part.head(x, watch)

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """A norm of a block, by its linear part, which may leave it to its linear layers; others, by the outer part.

        The attention computes the norms of q and k (D-mix-5).
        """
        if name.endswith((".q_norm", ".k_norm")):
            return self.attention_part.norm(name, x)
        start, _, rest = name.partition(".")
        part = self.linear_parts[int(rest.partition(".")[0])] if start == "blk" else self.outer_part
        return part.norm(name, x)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """Linear layers, by the linear part of the block."""
        return self.linear_parts[layer].linear(layer, names, x, watch)

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: Watch) -> np.ndarray:
        """The gated activation, by the linear part of the block."""
        return self.linear_parts[layer].activation(layer, gate, up, watch)

    def activate(self, layer: int, up: np.ndarray, watch: Watch) -> np.ndarray:
        """The activation without a gate, by the linear part of the block."""
        return self.linear_parts[layer].activate(layer, up, watch)

    def rotate(self, x: np.ndarray, start: int) -> np.ndarray:
        """Rotary positions."""
        return self.attention_part.rotate(x, start)

    def cache(self, layer: int) -> Cache:
        """The cache of a block."""
        return self.attention_part.cache(layer)

    def caches(self) -> Caches:
        """The caches of a session."""
        return self.attention_part.caches()

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
        """Attention, by the last part."""
        return self.attention_part.attention(layer, self.queries(layer, q), cache, watch)

    def queries(self, layer: int, q: np.ndarray) -> np.ndarray:
        """Queries for the attention: multiplied by 1 / sqrt(head_dim) if it needs that, rounded to fp16."""
        return self.backend.round16(q * self._scale) if layer in self._plain_queries else q
