"""Offsets and sizes of pages: the paper's counts, and bounds that hold for every pair and head size."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.formats import K4V2, K8V4, K8V8, HeteroKV
from refemu.formats.leankv import hetero_kv, kv_layout

SIZES = {32: 7936, 64: 6144, 80: 6656, 96: 7808, 112: 7936, 128: 6784, 256: 5760}
pairs = st.builds(
    HeteroKV,
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4]),
)


@pytest.mark.parametrize(("head_size", "size"), SIZES.items())
def test_size_of_page_is_first_of_least_waste(head_size: int, size: int) -> None:
    """D-leankv-13: no size wastes less, and no smaller one as little."""
    least = kv_layout.waste(head_size, size)

    assert size == kv_layout.page_bytes(head_size)
    assert all(kv_layout.waste(head_size, other) > least for other in kv_layout.SEARCHED if other < size)
    assert all(kv_layout.waste(head_size, other) >= least for other in kv_layout.SEARCHED)


def test_page_of_papers_size_holds_its_example() -> None:
    """[leankv §5.2]: 32 tokens of K8V4, so that 4,096 tokens have a table of 128 cells; K4V2 pages hold more."""
    assert kv_layout.tokens_in(128, K8V4, 6784) == 32
    assert kv_layout.tokens_in(128, K4V2, 6784) == 60
    assert [kv_layout.tokens_in(128, pair, 3456) for pair in (K8V8, K8V4, K4V2)] == [12, 16, 30]


def test_low_pages_hold_more_tokens_than_high_ones() -> None:
    """[leankv §5.2]: for every pair of pairs that the paper mixes, at every head size."""
    mixed = [("K8V4", "K4V2"), ("K8V8", "K8V4"), ("K4V2", "K4V1"), ("K8V4_G12", "K4V2_G24"), ("K4V4", "K4V2")]
    for head_size, size in SIZES.items():
        counts = [[kv_layout.tokens_in(head_size, hetero_kv.find(name), size) for name in two] for two in mixed]
        assert all(high < low for high, low in counts)


def test_figures_of_the_cache_of_one_request() -> None:
    """[leankv §5.2]: 2 GB of fp16 keys and values, of 4,096 tokens in 32 layers of 32 heads."""
    assert 32 * 32 * 4096 * hetero_kv.find("K16V16").payload_bytes(128) == 2 << 30


@pytest.mark.parametrize(("name", "raw", "page"), [("K8V8", "53.1", "55.2"), ("K4V4", "28.1", "28.8")])
def test_metadata_and_unused_bytes_add_to_papers_ratios(name: str, raw: str, page: str) -> None:
    """[leankv §7.2]: 50 and 25 % count codes only."""
    pair = hetero_kv.find(name)
    in_pages = Fraction(6784, kv_layout.tokens_in(128, pair, 6784) * 512)

    assert f"{float(100 * Fraction(pair.token_bytes(128), 512)):.1f}" == raw
    assert f"{float(100 * in_pages):.1f}" == page


@given(
    head_size=st.integers(1, 40).map(lambda n: 16 * n), pair=pairs, tokens=st.integers(1, 200), v_vec=st.integers(1, 4)
)
def test_segments_follow_each_other_and_are_aligned(head_size: int, pair: HeteroKV, tokens: int, v_vec: int) -> None:
    """D-leankv-14: parts at multiples of 32, values and the end at multiples of 128, positions right after scores."""
    at = kv_layout.offsets(head_size, pair, tokens, v_vec)
    sizes = {
        "key": tokens * head_size * pair.k_bits // 8,
        "key_meta": 4 * tokens * pair.k_groups,
        "val": tokens * head_size * pair.v_bits // 8,
        "val_meta": 4 * tokens * pair.v_groups,
        "score": 4 * tokens,
    }
    names = [*kv_layout.SEGMENTS, "end"]

    assert all(at[name] + size <= at[after] for (name, size), after in zip(sizes.items(), names[1:], strict=False))
    assert all(at[name] % 32 == 0 for name in ("key_meta", "val_meta", "score")) and at["val"] % 128 == 0
    assert at["pos"] == at["score"] + 4 * tokens and at["end"] == at["pos"] + 4 * tokens
    assert at["end"] <= kv_layout.needed(head_size, pair, tokens, v_vec)
    assert kv_layout.needed(head_size, pair, tokens, v_vec) % 128 == 0


@given(head_size=st.integers(1, 20).map(lambda n: 16 * n), pair=pairs, size=st.integers(0, 9000))
def test_tokens_of_page_are_most_that_fit(head_size: int, pair: HeteroKV, size: int) -> None:
    tokens = kv_layout.tokens_in(head_size, pair, size)

    assert tokens == 0 or kv_layout.needed(head_size, pair, tokens) <= size
    assert kv_layout.needed(head_size, pair, tokens + 1) > size


def test_kv_layout_rejects_head_sizes_without_whole_words() -> None:
    with pytest.raises(Refused, match="head size must be a positive multiple of 8, got 20"):
        kv_layout.page_bytes(20)
