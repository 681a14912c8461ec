"""The cache of indices: appended tokens come back, head by head; growth, truncation, errors."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.compiled.kmeans_row import Encoder
from refemu.formats.kllm.kmeans import KMeans
from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.models.schemes.kllm.cache import IndexCache, cut
from refemu.models.schemes.kllm.compiled import cache as cache_compiled
from refemu.models.schemes.kllm.compiled.product import Columns
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from tests.arith.interpreted import needs_compiled

BOOK = Codebook(3, np.linspace(-1, 1, 8).astype(np.float16))
FORMAT = KMeans(BOOK, TopK(k=1))


def cache(context: int = 200) -> IndexCache:
    return IndexCache(8, context, (BOOK, FORMAT.encode), (BOOK, FORMAT.encode))


def tokens(count: int, seed: int = 0) -> Any:
    draws = np.random.default_rng(seed).standard_normal((count, 2, 4))
    return draws.astype(np.float16).astype(np.float32)


def test_tokens_come_back_as_they_were_encoded() -> None:
    """D-kllm-12, D-kllm-34: all heads of a token under one scale, with outliers; also after buffers have grown."""
    held, k, v = cache(), tokens(150, 1), tokens(150, 2)
    for at in (slice(0, 3), slice(3, 70), slice(70, 71), slice(71, 150)):
        held.append(k[at], v[at])

    assert held.k.tensor(150).equals(FORMAT.encode(k.reshape(150, 8)))
    assert held.v.tensor(20).equals(FORMAT.encode(v[:20].reshape(20, 8)))
    assert np.array_equal(held.v.scale(150), FORMAT.encode(v.reshape(150, 8)).scales)


def test_head_has_the_scale_of_its_token() -> None:
    held, k = cache(), tokens(5)
    held.append(k, k)
    head, whole = held.k.tensor(5, slice(4, 8)), FORMAT.encode(k.reshape(5, 8))

    assert np.array_equal(head.dequantize(), whole.dequantize()[:, 4:])
    assert head.equals(cut(whole, slice(4, 8)))
    assert np.array_equal(head.scale, whole.scale)
    both = cut(whole, slice(0, 8), 2)
    assert np.array_equal(both.dequantize(), whole.dequantize().reshape(10, 4))
    assert np.array_equal(both.scale, np.repeat(whole.scale, 2))


def test_truncated_tokens_are_overwritten() -> None:
    held, k = cache(), tokens(6)
    held.append(k, k)
    held.truncate(2)
    held.append(k[4:], k[4:])

    assert len(held) == 4
    assert held.k.tensor(4).equals(FORMAT.encode(k[[0, 1, 4, 5]].reshape(4, 8)))


def test_storage() -> None:
    """D-kllm-38: indices of 3 bits, a scale, a mask and two outliers of 16 bits per token, for K and for V."""
    held, k = cache(), tokens(3)
    held.append(k, k)

    assert held.storage_bits() == 2 * 3 * (8 * 3 + 16 + 8 + 2 * 16)


def test_rejected_calls_change_nothing() -> None:
    held = cache(context=4)
    held.append(tokens(3), tokens(3))
    with pytest.raises(Refused, match="at most 4 tokens fit, got 5"):
        held.append(tokens(2), tokens(2))
    with pytest.raises(Refused, match=r"length must be in \[0, 3\], got 4"):
        held.truncate(4)

    assert repr(held) == "IndexCache(3 of at most 4 tokens)"


def row(x: np.ndarray) -> Any:
    """One token as the compiled encoder gives it."""
    return Encoder(FORMAT, x.size).encode(np.ascontiguousarray(x.reshape(1, -1)))


@needs_compiled
def test_a_row_is_written_as_its_tensor() -> None:
    k, v = tokens(3, 1), tokens(3, 2)
    rows, tensors = IndexCache(8, 200, (BOOK, row), (BOOK, row)), cache()
    for token in range(3):
        rows.append(k[token : token + 1], v[token : token + 1])
    tensors.append(k, v)

    assert rows.k.tensor(3).equals(tensors.k.tensor(3))
    assert rows.v.tensor(3).equals(tensors.v.tensor(3))


def laid_out(held: IndexCache) -> None:
    """Every head of the layout is the operand that `index_matmul_jit.prepare` makes of the cached tokens."""
    layout, length = cache_compiled.layout_of(held, 2), len(held)
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        for side, tokens_, integer in ((layout.keys, held.k, False), (layout.values, held.v, True)):
            columns = Columns(*(each[head] for each in side.columns()[:4]), *side.columns()[4:])
            tensor = tokens_.tensor(length, part)
            wanted = index_matmul_compiled.prepare(tensor, integer=integer)
            k, n = wanted.index.shape[0] - 1, wanted.index.shape[1]
            assert np.array_equal(columns.codes[:k, :n], wanted.index[:k])
            assert np.array_equal(columns.starts[: k + 1], wanted.starts)
            assert not columns.codes[-1].any()
            outliers = wanted.values.size
            assert np.array_equal(columns.places[:outliers], wanted.places)
            assert np.array_equal(columns.values[:outliers], wanted.values)
            scale = np.ones(n) if integer else tensor.scales
            assert np.array_equal(columns.scale[:n], scale) and np.array_equal(columns.scale32[:n], scale)


@needs_compiled
def test_the_layout_follows_the_cache() -> None:
    """Token by token, over the first doubling of the buffers and of the space for outliers, and after a truncation."""
    held, k, v = cache(), tokens(80, 3), tokens(80, 4)
    for first, last in ((0, 3), (3, 4), (4, 63), (63, 64), (64, 65), (65, 80)):
        held.append(k[first:last], v[first:last])
        laid_out(held)
    held.truncate(40)
    assert held.layout is None
    held.append(k[:1], v[:1])
    laid_out(held)
