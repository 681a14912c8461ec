"""Keys and values of a cache as right operands of products, a pair per KV head, growing token by token.

Paper: [kllm §III-A, §III-D]. A key is a column of q times K, a value a row of scores times V.
"""

import numpy as np

from refemu.arith import fp16
from refemu.models.schemes.kllm.cache import IndexCache, Tokens
from refemu.models.schemes.kllm.compiled.product import Columns
from refemu.models.schemes.kllm.compiled.token import kmeans_lay_out

KEYS, VALUES = 0, 1  #: sides of a cache, as `kmeans_lay_out` numbers them
OUTLIERS = 64  #: initial space for the outliers of a head


class Side:
    """The keys, or the values, of all heads."""

    def __init__(self, side: int, heads: int, dim: int, room: int) -> None:
        """`room`: maximum number of tokens."""
        positions, columns = (dim, room) if side == KEYS else (room, dim)
        self._side = side
        self._codes = np.zeros((heads, positions + 1, columns), np.uint8)
        self._starts = np.zeros((heads, positions + 1), np.int64)
        self._places = np.zeros((heads, OUTLIERS), np.int64)
        self._values = np.zeros((heads, OUTLIERS), np.float32)
        self._scale = np.ones(columns)  # scales of values are in the scores
        self._scale32 = np.ones(columns, np.float32)
        self._outliers = 0  # outliers of all heads

    def extend(self, tokens: Tokens, first: int, last: int) -> None:
        """Lay out the tokens from `first` to `last`, which follow those laid out before."""
        codes, mask, word, scale = tokens.arrays()
        self._outliers += int(np.count_nonzero(mask[first:last]))
        if self._outliers > self._places.shape[1]:
            self._places, self._values = (_wider(x, 2 * self._outliers) for x in (self._places, self._values))
        kmeans_lay_out(
            codes, mask, word, first, last, self._side, self._codes, self._starts, self._places, self._values
        )
        if self._side == KEYS:
            self._scale[first:last] = self._scale32[first:last] = fp16.values(scale[first:last])

    def columns(self) -> Columns:
        """The right operands of all KV heads; zeros after the tokens so far."""
        return Columns(self._codes, self._starts, self._places, self._values, self._scale, self._scale32)


class Layout:
    """Both sides of a cache."""

    keys: Side
    values: Side

    def __init__(self, cache: IndexCache, heads: int) -> None:
        """Space for as many tokens as in the buffers of `cache`."""
        self.room: int = cache.k.room
        self._length = 0
        dim = cache.k.size // heads
        self.keys, self.values = (Side(side, heads, dim, self.room) for side in (KEYS, VALUES))

    def take(self, cache: IndexCache) -> None:
        """Lay out the new tokens of the cache."""
        for side, tokens in ((self.keys, cache.k), (self.values, cache.v)):
            side.extend(tokens, self._length, len(cache))
        self._length = len(cache)


def layout_of(cache: IndexCache, heads: int) -> Layout:
    """The layout of a whole cache, stored in the cache until it grows or drops tokens."""
    if cache.layout is None or cache.layout.room != cache.k.room:
        cache.layout = Layout(cache, heads)
    layout: Layout = cache.layout
    layout.take(cache)
    return layout


def _wider(x: np.ndarray, more: int) -> np.ndarray:
    return np.concatenate([x, np.zeros((len(x), more), x.dtype)], axis=1)
