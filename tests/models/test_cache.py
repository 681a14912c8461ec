"""The KV cache of one layer: append, growth by doubling, truncation, errors."""

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models.cache import FIRST, KVCache


def rows(start: int, count: int) -> np.ndarray:
    """`count` recognisable tokens of two heads of three."""
    return np.arange(start * 6, (start + count) * 6, dtype=np.float32).reshape(count, 2, 3)


@pytest.mark.parametrize("cuts", [[1] * 200, [200], [63, 1, 1, 135], [150, 50]])
def test_holds_what_was_appended_in_order(cuts: list[int]) -> None:
    cache = KVCache(heads=2, head_dim=3, context=200)
    for count in cuts:
        cache.append(rows(len(cache), count), -rows(len(cache), count))

    assert len(cache) == 200
    assert np.array_equal(rows(0, 200), cache.keys)
    assert np.array_equal(-rows(0, 200), cache.values)


def test_growth_copies_a_linear_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Appending token by token must not copy the whole cache every time."""
    grow, copied = KVCache._grow, []
    monkeypatch.setattr(KVCache, "_grow", lambda self, tokens: (copied.append(len(self)), grow(self, tokens))[1])
    cache, tokens = KVCache(2, 3, 1 << 14), 1 << 12
    for _ in range(tokens):
        cache.append(rows(0, 1), rows(0, 1))

    assert copied == [FIRST << i for i in range(6)]
    assert sum(copied) < tokens


def test_keys_and_values_are_views() -> None:
    cache = KVCache(2, 3, 8)
    cache.append(rows(0, 2), rows(0, 2))

    assert cache.keys.base is not None and np.shares_memory(cache.keys, cache.keys)


def test_truncate_forgets_the_last_tokens() -> None:
    cache = KVCache(2, 3, 8)
    cache.append(rows(0, 5), rows(0, 5))
    cache.truncate(2)
    cache.append(rows(7, 1), rows(7, 1))

    assert np.array_equal(np.concatenate([rows(0, 2), rows(7, 1)]), cache.keys)


def test_append_beyond_context_raises_and_changes_nothing() -> None:
    cache = KVCache(2, 3, 4)
    cache.append(rows(0, 3), rows(0, 3))
    with pytest.raises(Refused, match="KVCache: at most 4 tokens fit, got 5"):
        cache.append(rows(0, 2), rows(0, 2))

    assert len(cache) == 3


@pytest.mark.parametrize("length", [-1, 1])
def test_truncation_beyond_length_is_rejected(length: int) -> None:
    with pytest.raises(Refused, match=rf"length must be in \[0, 0\], got {length}"):
        KVCache(2, 3, 4).truncate(length)


def test_repr_says_how_full() -> None:
    assert repr(KVCache(2, 3, 4)) == "KVCache(0 of at most 4 tokens)"
