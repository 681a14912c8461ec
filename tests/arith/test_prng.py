"""Random words: splitmix64's published values, and that a part of a sequence is that part."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import prng
from refemu.arith.checks import Refused, RefusedType
from tests.oracles import prng as oracle

SEEDS = st.integers(0, (1 << 64) - 1)


def scalar_words(seed, count):
    """splitmix64 as its author writes it: a state that is stepped; Python integers."""
    mask, state, out = (1 << 64) - 1, seed, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(z ^ (z >> 31))
    return out


@pytest.mark.parametrize(
    ("seed", "want"),
    [
        pytest.param(0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F], id="0"),
        pytest.param(1234567, [6457827717110365317, 3203168211198807973], id="1234567"),
    ],
)
def test_words_are_the_published_ones(seed, want):
    """D-arith-14."""
    got = prng.words(seed, 0, len(want))

    assert want == got.tolist()
    assert got.dtype == np.uint64


@given(seed=SEEDS, count=st.integers(0, 40))
def test_words_equal_a_stepped_state(seed, count):
    assert scalar_words(seed, count) == prng.words(seed, 0, count).tolist() == oracle.words(seed, 0, count)


@given(seed=SEEDS, start=st.integers(0, 50), count=st.integers(0, 50))
def test_a_part_is_that_part_of_the_whole(seed, start, count):
    """D-arith-14: any shard makes its own words."""
    assert prng.words(seed, 0, start + count)[start:].tolist() == prng.words(seed, start, count).tolist()


@given(seeds=st.lists(SEEDS, max_size=3), start=st.integers(0, 9), count=st.integers(0, 9))
def test_words_of_seeds_are_those_of_each(seeds, start, count):
    got = prng.words_of(seeds, start, count)

    assert [oracle.words(seed, start, count) for seed in seeds] == got.tolist() and got.shape == (len(seeds), count)


def test_words_beyond_block_are_those_of_their_counters():
    assert prng.words(3, 0, 20_000)[19_990:].tolist() == oracle.words(3, 19_990, 10)


def test_the_counter_may_be_large():
    far = (1 << 64) - 2  # the counter is taken modulo 2**64
    assert prng.words(5, far, 4).tolist()[2:] == prng.words(5, 0, 2).tolist()


@given(label=st.text(st.characters(max_codepoint=127)), seed=st.integers())
def test_stream_is_named_by_its_label_and_seed(label, seed):
    assert oracle.stream(label, seed) == prng.stream(label, seed)


def test_a_stream_is_pinned():
    assert prng.stream("olive_mac/random/a_int", 0) == 0x86D8F1F499B8A10F


@given(w=st.lists(SEEDS, max_size=8), n=st.integers(1, 1 << 32))
def test_below_scales_the_upper_half(w, n):
    got = prng.below(np.array(w, np.uint64), n)

    assert [oracle.below(x, n) for x in w] == got.tolist()
    assert got.dtype == np.int64


def test_below_reaches_both_ends():
    ends = np.array([0, (1 << 64) - 1], np.uint64)
    assert [prng.below(ends, n).tolist() for n in (1, 7, 1 << 32)] == [[0, 0], [0, 6], [0, (1 << 32) - 1]]


@given(w=st.lists(SEEDS, max_size=8))
def test_bell_sums_the_four_fields(w):
    got = prng.bell(np.array(w, np.uint64))

    assert [oracle.bell(x) for x in w] == got.tolist()
    assert got.dtype == np.int64


def test_bell_is_symmetric_and_reaches_both_ends():
    assert prng.bell(np.array([0, (1 << 64) - 1], np.uint64)).tolist() == [-131_070, 131_070]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        pytest.param(
            lambda: prng.words(-1, 0, 1), Refused, r"words: seed must be in \[0, 2\*\*64\), got -1", id="seed"
        ),
        pytest.param(lambda: prng.words(1 << 64, 0, 1), Refused, r"seed must be in", id="seed too large"),
        pytest.param(
            lambda: prng.words(0, -1, 1), Refused, "words: start and count .* at least 0, got -1, 1", id="start"
        ),
        pytest.param(lambda: prng.words(0, 0, -1), Refused, "got 0, -1", id="count"),
        pytest.param(lambda: prng.stream("ü", 0), Refused, "stream: label must be ASCII, got 'ü'", id="label"),
        pytest.param(
            lambda: prng.below(np.zeros(1, np.uint64), 0), Refused, r"below: n must be in \[1, 2\*\*32\], got 0", id="n"
        ),
        pytest.param(lambda: prng.below(np.zeros(1, np.uint64), (1 << 32) + 1), Refused, "4294967297", id="large n"),
        pytest.param(lambda: prng.below(np.zeros(1), 2), RefusedType, "below: uint64 words .* float64", id="below"),
        pytest.param(lambda: prng.bell(np.zeros(1, np.int64)), RefusedType, "bell: uint64 words .* int64", id="bell"),
    ],
)
def test_prng_rejects_invalid_inputs(call, error, message):
    with pytest.raises(error, match=message):
        call()
