"""Page layouts and the memory manager that a configuration and a model give: D-leankv-12, D-leankv-36."""

from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.formats.leankv.hetero_kv import K4V2, K8V4
from refemu.models import schemes
from refemu.models.config import ModelConfig
from refemu.models.schemes.leankv import layout

ALIGN = (16, 16)
SIZES = ModelConfig(blocks=3, width=8, ffn=6, heads=8, kv_heads=4, head_dim=128, vocab=11, context=100)


def config(text: str = "") -> Any:
    return schemes.parse(f"leankv:{text}" if text else "leankv")


def test_heads_of_128_take_the_usual_constants() -> None:
    assert layout.constants(128, [K8V4, K4V2], {}, None, ALIGN) == layout.USUAL


@pytest.mark.parametrize("head_size", [16, 32, 64])
def test_constants_are_halved_until_all_pairs_fit(head_size: int) -> None:
    """Kvec first, then Kgroup, then Vgroup: no earlier choice fits both pairs."""
    answer = layout.constants(head_size, [K8V4, K4V2], {}, None, ALIGN)
    tried = [
        {"v_group": v_group, "k_group": k_group, "k_vec": k_vec, "v_vec": 2}
        for v_group in (8, 4, 2, 1)
        for k_group in (4, 2, 1)
        for k_vec in (4, 2, 1)
    ]
    before = tried[: tried.index(answer)]

    assert len(before) < len(tried)
    for choice in before:
        with pytest.raises(Refused):
            layout.constants(head_size, [K8V4, K4V2], choice, None, ALIGN)


def test_given_constants_are_used_or_error_names_others() -> None:
    assert layout.constants(128, [K8V4], {"k_vec": 2}, None, ALIGN)["k_vec"] == 2
    with pytest.raises(Refused, match=r"; use k_vec=4, k_group=4, v_vec=2, v_group=8"):
        layout.constants(128, [K8V4], {"v_group": 3}, None, ALIGN)


def test_pages_hold_both_precisions() -> None:
    pages = layout.pages(config(), 128)

    assert (pages.high.config, pages.sections[1].config) == (K8V4, K4V2)
    assert pages.high.size == pages.sections[1].size
    assert layout.pages(config("low=none,t_low=0.0,t_high=0.0"), 128).low is None


def test_low_page_that_holds_fewer_tokens_is_rejected() -> None:
    with pytest.raises(Refused, match="a low page must hold at least as many tokens as a high one"):
        layout.pages(config("high=K4V2,low=K8V4"), 128)


def test_pool_has_space_for_the_longest_requests() -> None:
    """A page for every `table_tokens` of the context and head, and `table_extra` more."""
    made_for = layout.shape(config("workers=2"), SIZES, 5)
    per_page = layout.pages(config(), 128).high.tokens
    cells = -(-100 // per_page) + config().of("table_extra")

    assert (made_for.layers, made_for.heads, made_for.slots, made_for.max_len) == (3, 2, 5, 100)
    assert (made_for.high_tokens, made_for.table_tokens) == (per_page, per_page)
    assert made_for.pages == 5 * 3 * 2 * cells


def test_what_a_configuration_says_is_taken() -> None:
    shape = layout.shape(config("num_pages=77,max_len=50,table_tokens=7,scrub=true,reserve_low=0"), SIZES, 1)

    assert (shape.pages, shape.max_len, shape.table_tokens, shape.scrub, shape.reserve_low) == (77, 50, 7, True, 0)


def test_published_code_knows_one_length_for_all_pairs() -> None:
    """The length of K8V8, the shortest."""
    paper, diffkv = (
        layout.shape(config(f"high=K4V4,low=none,t_high=0.0,{rest}"), SIZES, 1)
        for rest in ("preset=paper", "preset=diffkv,alpha_prune=0.0,alpha_quant=0.0")
    )

    assert paper.table_tokens == paper.high_tokens
    assert diffkv.table_tokens < diffkv.high_tokens
