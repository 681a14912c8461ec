"""The KV cache of a KLLM scheme: keys and values of every token so far as indices [kllm §III-A].

A token's K is one vector, all heads together, and so is its V: one scale each, outliers in FP16 (D-kllm-12, D-kllm-34).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.cache import FIRST

Encode = Callable[[np.ndarray], Any]  #: tokens (T, size) to a KMeansTensor, or one token to a `kmeans_row.Row`


def cut(tensor: KMeansTensor, columns: slice, parts: int = 1) -> KMeansTensor:
    """Some columns of tokens (T, size), cut into heads as rows: (T * parts, columns / parts).

    Every vector has the scale of its token.
    """
    word = outlier_words(tensor)
    rows = tensor.shape[0] * parts
    index, mask, word = (array[:, columns].reshape(rows, -1) for array in (tensor.index, tensor.mask, word))
    return KMeansTensor(tensor.codebook, index.copy(), np.repeat(tensor.scale, parts), mask.copy(), word[mask])


def outlier_words(tensor: KMeansTensor) -> np.ndarray:
    """FP16 words of the outliers in the shape of the values, 0 at inliers."""
    words = np.zeros(tensor.shape, np.uint16)
    words[tensor.mask] = tensor.outlier
    return words


class Tokens:
    """Encoded tokens, oldest first, in buffers that double."""

    def __init__(self, size: int, codebook: Codebook) -> None:
        """size: values of a token."""
        self.codebook: Codebook = codebook
        self.size: int = size
        self._buffers = {
            "index": np.empty((FIRST, size), np.uint8),
            "mask": np.empty((FIRST, size), np.bool_),
            "word": np.empty((FIRST, size), np.uint16),
            "scale": np.empty(FIRST, np.uint16),
        }

    def write(self, at: int, tokens: Any) -> None:
        """Write tokens, a KMeansTensor or one `kmeans_row.Row`, after the first `at`."""
        if isinstance(tokens, KMeansTensor):
            parts: Any = tokens.index, tokens.mask, outlier_words(tokens), tokens.scale
        else:
            parts = tokens.codes, tokens.mask, tokens.word, tokens.scale
        end = at + len(parts[0])
        self._reserve(at, end)
        for buffer, part in zip(self.arrays(), parts, strict=True):
            buffer[at:end] = part

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Index, mask, words of outliers (0 elsewhere) and scale words of all tokens that fit."""
        return tuple(self._buffers.values())

    @property
    def room(self) -> int:
        """Tokens that fit before the buffers grow."""
        return len(self._buffers["scale"])

    def _reserve(self, at: int, end: int) -> None:
        """Make space for `end` tokens; the first `at` are unchanged."""
        for name, buffer in self._buffers.items():
            if end > len(buffer):
                self._buffers[name] = wider = np.empty((max(end, 2 * len(buffer)), *buffer.shape[1:]), buffer.dtype)
                wider[:at] = buffer[:at]

    def scale(self, length: int) -> np.ndarray:
        """Scales of the first `length` tokens, float16."""
        return self._buffers["scale"][:length].view(np.float16)

    def tensor(self, length: int, columns: slice = slice(None), first: int = 0) -> KMeansTensor:
        """Some columns (a head) of tokens `first` to `length`, with the scales of the whole tokens."""
        index, mask, word = (self._buffers[name][first:length, columns] for name in ("index", "mask", "word"))
        scale = self._buffers["scale"][first:length]
        return KMeansTensor(self.codebook, index.copy(), scale.copy(), mask.copy(), word[mask])


class IndexCache:
    """Rotated keys, and values, of one layer."""

    def __init__(self, size: int, context: int, keys: tuple[Codebook, Encode], values: tuple[Codebook, Encode]) -> None:
        """size: of a token's K, all heads together. keys, values: codebook and encoder of each."""
        self.context = context
        self._length = 0
        self.layout: Any = None  #: a `compiled.cache.Layout` of the tokens, for decode steps; None: none yet
        self.k: Tokens = Tokens(size, keys[0])
        self._encode_k = keys[1]
        self.v: Tokens = Tokens(size, values[0])
        self._encode_v = values[1]

    def __len__(self) -> int:
        """Tokens in the cache."""
        return self._length

    def __repr__(self) -> str:
        return f"IndexCache({len(self)} of at most {self.context} tokens)"

    def append(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Encode and store keys and values, each (tokens, heads, head_dim)."""
        end = self._length + len(keys)
        if end > self.context:
            raise Refused(f"IndexCache: at most {self.context} tokens fit, got {end}")
        k, v = self._encode_k(keys.reshape(len(keys), -1)), self._encode_v(values.reshape(len(keys), -1))
        self.k.write(self._length, k)
        self.v.write(self._length, v)
        self._length = end

    def truncate(self, length: int) -> None:
        """Drop all but the first `length` tokens."""
        if not 0 <= length <= self._length:
            raise Refused(f"IndexCache: length must be in [0, {self._length}], got {length}")
        self._length, self.layout = length, None

    def storage_bits(self) -> int:
        """Size of the cache in bits: indices, scales, outliers with their masks; codebooks belong to the layer."""
        k, v = (tokens.tensor(self._length) for tokens in (self.k, self.v))
        return k.storage_bits(codebook=False) + v.storage_bits(codebook=False)
