"""Codes of the cache: packing is undone by unpacking, demoted tokens have fewer bits, a store rewinds."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models.schemes.harmonia.codes import Layout, Rows, Store
from refemu.models.schemes.harmonia.config import KV4, HarmoniaConfig

TOKENS, HEADS, DIM = 40, 2, 20


def encoded(config: HarmoniaConfig, seed: int) -> tuple[BfpTensor, BfpTensor]:
    """Keys at `high` and at `low` bits, both from the FP16 values."""
    random = np.random.default_rng(seed)
    drawn = random.standard_t(2, (TOKENS, HEADS, DIM)) * np.exp2(random.integers(-9, 9, (TOKENS, HEADS, DIM)))
    x = drawn.astype(np.float16)
    return config.format(config.high).encode(x), config.format(config.low).encode(x)


def wanted(config: HarmoniaConfig, seed: int, fallen: range) -> list[list[int]]:
    """Codes with those of fallen tokens at `low` bits, zeros below."""
    high, low = encoded(config, seed)
    sign, mantissa = high.sign.copy(), high.mantissa.copy()
    some = np.s_[fallen.start : fallen.stop]
    sign[some], mantissa[some] = low.sign[some], low.mantissa[some] << (config.high - config.low)
    return [sign.tolist(), mantissa.tolist(), high.exponent.tolist()]


def found(store: Store) -> list[list[int]]:
    return [part.tolist() for part in store.codes().parts()]


def filled(config: HarmoniaConfig, seed: int) -> Store:
    store, (high, low) = Store(Layout(config, DIM), HEADS, 1), encoded(config, seed)
    store.append(high, (low.sign, low.mantissa))
    return store


@settings(deadline=None, max_examples=60)
@given(
    high=st.integers(1, 11),
    fewer=st.integers(0, 10),
    rounding=st.sampled_from(["truncate", "floor", "half_even"]),
    preset=st.sampled_from(["paper", "exact"]),
    steps=st.lists(st.integers(5, TOKENS), min_size=1, max_size=4).map(sorted),
    seed=st.integers(0, 5),
)
def test_tokens_fall_and_rise_again(
    high: int, fewer: int, rounding: Any, preset: Any, steps: list[int], seed: int
) -> None:
    """[harmonia §III-B, Fig. 8] D-harmonia-6, D-harmonia-53: as if each token were converted at its own bits."""
    config = dataclasses.replace(KV4, high=high, low=max(high - fewer, 1), rounding=rounding, preset=preset)
    store = filled(config, seed)
    pasts = [store.past()]
    falls = [range(0), *(range(5, stop) if config.high > config.low else range(0) for stop in steps)]
    for tokens in falls[1:]:
        store.fall(tokens)
        pasts.append(store.past())
        assert found(store) == wanted(config, seed, tokens)
        [one] = {len(part) for part in (store.codes().parts(np.s_[1:2])[0], store.codes().upper)}
        assert one == TOKENS
    for tokens, past in [*zip(falls, pasts, strict=True)][::-1]:
        high_codes, low_codes = encoded(config, seed + 1)
        store.append(high_codes, (low_codes.sign, low_codes.mantissa))
        store.rewind(past)
        assert found(store) == wanted(config, seed, tokens)


def test_what_a_token_loses_is_gone() -> None:
    """8 to 4 bits: 4 bits of 20 elements are 10 bytes a head, of 30 of the 40 tokens."""
    store = filled(KV4, 1)
    assert store.codes().rest.shape == (40, 2, 10)
    store.fall(range(5, 15))

    assert store.codes().rest.shape == (30, 2, 10) and store.codes().upper.shape == (40, 2, 3 + 10)
    assert Layout(dataclasses.replace(KV4, rounding="floor"), 20).rest == 9
    assert Layout(dataclasses.replace(KV4, low=8, rounding="floor"), 20).rest == 0


@pytest.mark.parametrize("start", [0, 100, 1000])
def test_rows_allocate_little_spare_space(start: int) -> None:
    rows = Rows(2, 3)
    rows.append(np.zeros((start, 2, 3), np.uint8))
    for count in range(start + 1, start + 200):
        rows.append(np.full((1, 2, 3), count % 251, np.uint8))
        assert rows._room.nbytes <= (count + count // 32) * 6
    assert rows.array[start:, 1, 2].tolist() == [count % 251 for count in range(start + 1, start + 200)]
    rows.cut(start + 5)
    assert len(rows.array) == start + 5 and rows._room.nbytes == (start + 5) * 6
    assert repr(rows) == f"Rows({start + 5} of ({start + 5}, 2, 3))"
