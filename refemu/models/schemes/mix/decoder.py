"""A decoder whose linear layers and attention are computed by parts, each prepared by a scheme of its own.

Embedding, residual sums, the last norm and the output matrix are those of the linear part without layers of its own
(D-mix-4).
Queries get 1 / sqrt(head_dim) in front of an attention that does not multiply scores by it, where no linear part has
put it into its weights (D-mix-3).
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
        """linear: prepared parts by block. outer: the one that computes what is in no block. attention: of all."""
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
        scaled_here = attention.config.scales_queries and not self.model.qk_norm  # else by the attention's norm of q
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
        """Sum of the residual stream and a half of a block."""
        return self.outer_part.add(x, y)

    def head(self, x: np.ndarray, watch: Watch) -> np.ndarray:
        """The output matrix."""
        return self.outer_part.head(x, watch)

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """A norm of a block by its linear part, which may leave it to its linear layers; others by the outer part.

        Those of q and k are the attention's (D-mix-5).
        """
        if name.endswith((".q_norm", ".k_norm")):
            return self.attention_part.norm(name, x)
        start, _, rest = name.partition(".")
        part = self.linear_parts[int(rest.partition(".")[0])] if start == "blk" else self.outer_part
        return part.norm(name, x)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """Linear layers by the block's part."""
        return self.linear_parts[layer].linear(layer, names, x, watch)

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: Watch) -> np.ndarray:
        """The gated activation by the block's linear part."""
        return self.linear_parts[layer].activation(layer, gate, up, watch)

    def activate(self, layer: int, up: np.ndarray, watch: Watch) -> np.ndarray:
        """The activation without a gate by the block's linear part."""
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
        """Attention by the last part."""
        return self.attention_part.attention(layer, self.queries(layer, q), cache, watch)

    def queries(self, layer: int, q: np.ndarray) -> np.ndarray:
        """Queries as the attention reads them: times 1 / sqrt(head_dim) where that is due, rounded to fp16."""
        return self.backend.round16(q * self._scale) if layer in self._plain_queries else q
