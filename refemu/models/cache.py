"""The KV caches of a session: keys and values of every token so far, for each layer."""

from typing import Any, Protocol

import numpy as np

from refemu.arith.checks import Refused

FIRST = 64  #: tokens for which a cache has space before it first grows


class Cache(Protocol):
    """Keys and values of one layer, stored as a scheme defines."""

    def __len__(self) -> int:
        """Tokens in the cache."""

    def append(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Add keys and values, each (tokens, heads, head_dim); raise Refused beyond the context."""


class KVCache:
    """Rotated keys and values of one layer, oldest first, in buffers that double: n tokens cost O(n) copied rows.

    Values are stored unrounded: scheme `fp16` appends fp16 values in float32, the paper schemes append codes.
    """

    def __init__(self, heads: int, head_dim: int, context: int) -> None:
        """heads: KV heads; context: maximum number of tokens."""
        self.context = context
        self._length = 0
        self._buffers = np.empty((2, min(FIRST, context), heads, head_dim), np.float32)

    def __len__(self) -> int:
        """Tokens in the cache."""
        return self._length

    def __repr__(self) -> str:
        return f"KVCache({len(self)} of at most {self.context} tokens)"

    @property
    def keys(self) -> np.ndarray:
        """(tokens, heads, head_dim) float32, a view."""
        return self._buffers[0, : self._length]

    @property
    def values(self) -> np.ndarray:
        """(tokens, heads, head_dim) float32, a view."""
        return self._buffers[1, : self._length]

    def append(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Add keys and values, each (tokens, heads, head_dim); raise Refused beyond the context."""
        end = self._length + len(keys)
        if end > self.context:
            raise Refused(f"KVCache: at most {self.context} tokens fit, got {end}")
        if end > self._buffers.shape[1]:
            self._grow(end)
        self._buffers[0, self._length : end] = keys
        self._buffers[1, self._length : end] = values
        self._length = end

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        if not 0 <= length <= self._length:
            raise Refused(f"KVCache: length must be in [0, {self._length}], got {length}")
        self._length = length

    def storage_bits(self) -> int:
        """Size of the cache in bits, at 16 bits a value."""
        return 16 * (self.keys.size + self.values.size)

    def _grow(self, tokens: int) -> None:
        room = self._buffers.shape[1]
        while room < tokens:
            room *= 2
        wider = np.empty((2, min(room, self.context), *self._buffers.shape[2:]), np.float32)
        wider[:, : self._length] = self._buffers[:, : self._length]
        self._buffers = wider


class Caches(list[Any]):
    """The caches of all layers, first layer first, as a session uses them.

    Derived by schemes that treat prompt and decode differently or cannot drop tokens one by one.
    """

    def passes(self, ids: np.ndarray) -> list[np.ndarray]:
        """The parts in which the next tokens are computed: here all in one."""
        return [ids]

    def mark(self) -> Any:
        """State that `rewind` needs besides the number of tokens: here none."""
        return None

    def rewind(self, tokens: int, mark: Any) -> None:
        """Drop all but the first `tokens` tokens; `mark` was taken at that length. Here each cache truncates."""
        for cache in self:
            cache.truncate(tokens)

    def storage_bits(self) -> int:
        """Size of the keys and values of all layers in bits, with the scales needed to read them."""
        bits = 0
        for cache in self:
            bits += cache.storage_bits()
        return bits
