"""The KV cache in block floating point: codes after appends equal codes from scratch; bits, storage, going back."""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.models import backend
from refemu.models.schemes.harmonia.cache import HarmoniaCache
from refemu.models.schemes.harmonia.config import KV4, KV4_NAIVE, KV8, HarmoniaConfig
from refemu.models.schemes.harmonia.steps import Units
from refemu.units.harmonia.v_grouper import VGrouper
from tests.models.schemes.harmonia.arrays import bytes_of

HEADS, DIM = 2, 5
PLAIN = dataclasses.replace(KV4, offline=False)
OFF = dataclasses.replace(PLAIN, online=False)


def cache(config: HarmoniaConfig = OFF, context: int = 400, name: str = "blk.0") -> HarmoniaCache:
    return HarmoniaCache(HEADS, DIM, context, config, Units(backend.Jit(), config), name)


def rows(tokens: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    drawn = random.standard_t(3, (2, 200, HEADS, DIM)) * np.exp2(random.integers(-5, 6, (2, 200, 1, 1)))
    k, v = drawn[:, :tokens].astype(np.float16).astype(np.float32)
    return k, v


def filled(tokens: int, prompt: int, config: HarmoniaConfig = OFF) -> HarmoniaCache:
    """A prompt, then decode steps."""
    k, v = rows(tokens)
    made = cache(config)
    made.append(k[:prompt], v[:prompt])
    for t in range(prompt, tokens):
        made.append(k[t : t + 1], v[t : t + 1])
        made.advance()
    return made


def codes(made: HarmoniaCache) -> list[list[int]]:
    held = made.held()
    return [part.tolist() for part in (*held.k, *held.v)]


@settings(deadline=None, max_examples=25)
@given(
    tokens=st.integers(1, 170),
    prompt=st.integers(1, 170),
    initial=st.integers(0, 70),
    local=st.integers(0, 70),
    token=st.booleans(),
    rounding=st.sampled_from(["truncate", "floor"]),
)
def test_steps_give_the_codes_of_one_prompt(
    tokens: int, prompt: int, initial: int, local: int, token: bool, rounding: str
) -> None:
    """[harmonia §III-A, Fig. 6b], [harmonia §III-B, Fig. 8]: groups and bits after appends equal those from scratch."""
    config = dataclasses.replace(
        OFF, n_initial=initial, n_local=local, rounding=rounding, v_granularity="token" if token else "group"
    )

    assert codes(filled(tokens, min(prompt, tokens), config)) == codes(filled(tokens, tokens, config))


def test_groups_of_v_are_those_of_the_unit() -> None:
    """[harmonia §III-A, Fig. 6b] the cache holds at 8 bits what `v_grouper` holds."""
    made, (_, v) = filled(75, 40, dataclasses.replace(KV8)), rows(75)
    unit = VGrouper(HEADS * DIM)
    unit.prefill(v[:40].reshape(40, -1).astype(np.float16))
    for row in v[40:].reshape(35, -1).astype(np.float16).view(np.uint16).tolist():
        unit.step(row)
    groups, held = unit.groups(), made.held()

    assert np.array_equal(groups.mantissa, held.v[1].reshape(75, -1))
    assert np.array_equal(groups.exponent, held.v[2].reshape(3, -1))


def test_ordinary_tokens_lose_their_low_nibble() -> None:
    """[harmonia §III-B] K token by token, V when all 32 tokens of a group are ordinary (D-harmonia-17)."""
    k, v = (part.held() for part in (filled(150, 150), filled(150, 150)))
    low_k = [token for token in range(150) if not (k.k[1][token] & 15).any()]
    low_v = [group for group in range(5) if not (v.v[1][32 * group : 32 * group + 32] & 15).any()]

    assert low_k == list(range(32, 86))
    assert low_v == [1]


def test_step_returns_counts_of_its_work() -> None:
    """One token and one group fall at most; the first group of V falls at 128 tokens."""
    made, (k, v) = cache(), rows(130)
    made.append(k[:120], v[:120])
    made.append(k[120:], v[120:])
    found = [made.advance() for _ in range(10)]

    assert [step["demoted_tokens"] for step in found] == [1] * 10
    assert [step["demoted_groups"] for step in found] == [0] * 7 + [1] + [0] * 2
    assert [step["v_commits"] for step in found] == [0] * 7 + [1] + [0] * 2
    with pytest.raises(Refused, match="advance without a waiting token"):
        made.advance()


def test_offsets_are_those_of_the_prompt() -> None:
    """[harmonia §III-C] D-harmonia-26: from its first 32 tokens, subtracted from them and from all later ones."""
    k, v = rows(40)
    k[np.abs(k) > 8] = 1
    k[:, 1, 3] = 9
    k[5, 1, 3] = -12
    made = cache(PLAIN)
    made.append(k[:35], v[:35])
    made.append(k[35:], v[35:])
    wanted = k.copy()
    wanted[:, 1, 3] += 6

    assert np.flatnonzero(made.offset).tolist() == [DIM + 3]
    assert fp16.values(made.offset)[DIM + 3] == -6
    assert np.array_equal(made.words()[0], wanted.astype(np.float16).view(np.uint16))
    assert np.array_equal(made.first, k[:35].astype(np.float16).view(np.uint16))


@pytest.mark.parametrize(
    ("config", "tokens", "wanted"),
    [
        (KV8, 64, Fraction(293, 512)),
        (KV4_NAIVE, 64, Fraction(165, 512)),
        (KV8, 96, Fraction(293, 512)),
    ],
)
def test_storage_of_whole_groups(config: HarmoniaConfig, tokens: int, wanted: Fraction) -> None:
    """[harmonia Table I] of V; heads of 32 channels make whole groups of K, too."""
    made = HarmoniaCache(1, 32, 400, config, Units(backend.Jit(), config))
    made.append(np.zeros((tokens, 1, 32), np.float32), np.zeros((tokens, 1, 32), np.float32))

    assert Fraction(made.storage_bits(), 2 * 16 * 32 * tokens) == wanted
    assert Fraction(made.storage_bits(exponent=False), 2 * 16 * 32 * tokens) == wanted - Fraction(5, 512)


def storage(tokens: int, **options: Any) -> tuple[Fraction, Fraction]:
    """FP16 bits over those of a cache of 4 bits: with V by groups, by tokens."""
    found = []
    for granularity in ("group", "token"):
        config = dataclasses.replace(OFF, v_granularity=granularity)
        made = HarmoniaCache(1, 32, tokens, config, Units(backend.Jit(), config))
        zeros = np.zeros((tokens, 1, 32), np.float32)
        made.append(zeros, zeros)
        found.append(Fraction(2 * 16 * 32 * tokens, made.storage_bits(**options)))
    return found[0], found[1]


def test_reduction_at_4k() -> None:
    """[harmonia §III-B] 3.05 times smaller at 4K, with V by tokens or by groups (D-harmonia-17)."""
    assert storage(4096) == (Fraction(64, 21), Fraction(64, 21))
    assert [round(float(ratio), 4) for ratio in storage(4000)] == [3.0463, 3.0463]
    assert [round(float(ratio), 3) for ratio in storage(4096, exponent=False)] == [3.141, 3.141]


def test_storage_of_a_residual_group() -> None:
    """D-harmonia-33, D-harmonia-39: 8 tokens wait at 1000; as codes of 8 bits, or FP16. Offsets count if asked."""
    made = HarmoniaCache(1, 32, 1000, OFF, Units(backend.Jit(), OFF))
    zeros = np.zeros((1000, 1, 32), np.float32)
    made.append(zeros, zeros)
    k, v = 96 * 293 + 904 * 165, 32 * (28 * 165 + 3 * 293 + 8 * 9 + 5)
    fp = 32 * (28 * 165 + 3 * 293 + 8 * 16)

    assert made.storage_bits() == k + v
    assert made.storage_bits(count_residual="fp16") == k + fp
    assert made.storage_bits(metadata=True) - made.storage_bits() == 16 * 32
    assert (round(16000 * 32 / k, 3), round(16000 * 32 / v, 3)) == (2.888, 2.869)
    assert cache().storage_bits() == 0


@settings(deadline=None, max_examples=25)
@given(
    marked=st.integers(20, 140),
    later=st.integers(0, 90),
    again=st.integers(0, 40),
    change=st.sampled_from([{}, {"rounding": "floor"}, {"v_granularity": "token"}, {"low": 8}, {"preset": "exact"}]),
)
@example(marked=127, later=90, again=40, change={})  # a group is demoted and others close after the mark
def test_a_cache_goes_back_to_a_place(marked: int, later: int, again: int, change: dict[str, Any]) -> None:
    """D-harmonia-53: what fell since has its bits again, an open group its tokens; and the way on is the same."""
    config = dataclasses.replace(OFF, n_initial=16, n_local=20, **change)
    made, (k, v) = filled(marked, 20, config), rows(200)
    place, before = made.place(), codes(made)

    for _ in range(2):
        for t in range(later):
            made.append(-k[t : t + 1], 2 * v[t : t + 1])
            made.advance()
        made.append(k[:2], v[:2])
        made.rewind(place)
        assert (codes(made), len(made), made.waiting) == (before, marked, 0)
    for t in range(marked, marked + again):
        made.append(k[t : t + 1], v[t : t + 1])
        made.advance()
    wanted = filled(marked + again, 20, config)
    assert codes(made) == codes(wanted)
    assert made.storage_bits() == wanted.storage_bits()


def test_going_back_to_nothing_forgets_the_offsets() -> None:
    made, (k, v) = cache(PLAIN), rows(40)
    empty = made.place()
    made.append(k, v)
    assert made.offset.any() and made.prompt == 40
    made.rewind(empty)

    assert not made.offset.any() and made.prompt == len(made) == len(made.words()[0]) == 0
    made.append(k[:7], v[:7])
    again = cache(PLAIN)
    again.append(k[:7], v[:7])
    assert codes(made) == codes(again)


def test_invalid_marks_are_rejected() -> None:
    """D-harmonia-53."""
    made = filled(9, 6)
    ahead = made.place()
    made.rewind(filled(6, 6).place())
    before = codes(made)
    with pytest.raises(Refused, match="HarmoniaCache: a mark must be within the 6 tokens so far, got 9"):
        made.rewind(ahead)
    made.append(*rows(2))
    with pytest.raises(Refused, match="HarmoniaCache: must have no waiting tokens at a mark, got 2"):
        made.place()
    assert (codes(made), made.waiting) == (before, 2)


def test_saved_words_survive_the_prompt() -> None:
    """Words of all tokens, after attention and after a rewind."""
    (k, v), units = rows(9), Units(backend.Jit(), OFF)
    made = HarmoniaCache(HEADS, DIM, 400, OFF, units, keeps_words=True)
    made.append(k[:6], v[:6])
    made.settle()
    place = made.place()
    for _ in range(2):
        made.append(k[6:], v[6:])
        made.advance()
        assert all(np.array_equal(made.words()[i], units.words(x)) for i, x in enumerate((k, v)))
        made.rewind(place)
        assert np.array_equal(made.words()[1], units.words(v[:6])) and made.falling().high.tokens == 6


def test_words_of_a_prompt_end_with_its_attention() -> None:
    made = cache()
    made.append(*rows(6))
    assert len(made.words()[0]) == len(made.first) == made.falling().high.tokens == 6
    made.settle()

    assert len(made.words()[0]) == len(made.first) == 0
    with pytest.raises(Refused, match="HarmoniaCache: a prompt has words only until its attention is done, got 0"):
        made.falling()


@pytest.mark.parametrize("granularity", ["group", "token"])
@pytest.mark.parametrize(("high", "low"), [(8, 4), (8, 8), (4, 4), (8, 5), (11, 3), (7, 6)])
def test_arrays_are_hardly_larger_than_the_codes(high: int, low: int, granularity: Any) -> None:
    """D-harmonia-53: a tenth more at most, at any length; words of an open group are FP16 (D-harmonia-33)."""
    config = dataclasses.replace(OFF, high=high, low=low, v_granularity=granularity)
    made, one = HarmoniaCache(3, 64, 4000, config, Units(backend.Jit(), config)), np.ones((1, 3, 64), np.float32)
    made.append(np.repeat(one, 60, 0), np.repeat(one, 60, 0))
    made.settle()
    for _ in range(300):
        made.append(one, one)
        made.advance()
        wanted = made.storage_bits(count_residual="fp16", metadata=True) / 8
        assert wanted < bytes_of(made) <= 1.1 * wanted


def test_arrays_at_the_paper_s_length() -> None:
    """[harmonia §III-B] At 2,048 tokens and some a tenth holds by any count, after going back and forth, too."""
    made = HarmoniaCache(3, 64, 4000, OFF, Units(backend.Jit(), OFF))
    made.append(np.ones((2048, 3, 64), np.float32), np.ones((2048, 3, 64), np.float32))
    made.settle()
    place = made.place()
    for _ in range(31):
        assert bytes_of(made) <= 1.1 * made.storage_bits() / 8
        made.append(np.ones((1, 3, 64), np.float32), np.ones((1, 3, 64), np.float32))
        made.advance()
    made.rewind(place)
    assert bytes_of(made) <= 1.1 * made.storage_bits() / 8


def test_rejected_appends_change_nothing() -> None:
    made, (k, v) = cache(context=10), rows(6)
    made.append(k, v)
    before = codes(made)
    for bad in ((np.full_like(k[:1], np.inf), v[:1]), (k[:1], np.full_like(v[:1], np.nan))):
        with pytest.raises(Refused, match=r"blk\.0\.[kv]: Bfp\.encode: x must hold no infinity"):
            made.append(*bad)
    with pytest.raises(Refused, match="at most 10 tokens fit, got 12"):
        made.append(k, v)

    assert (codes(made), len(made), made.waiting) == (before, 6, 0)


def test_unknown_residual_count_is_rejected() -> None:
    with pytest.raises(Refused, match="count_residual must be one of"):
        cache().storage_bits(count_residual="fp32")


def test_cache_repr() -> None:
    assert repr(filled(3, 2)) == "HarmoniaCache(3 of at most 400 tokens)"
