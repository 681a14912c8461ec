"""Addresses and sectors of a warp's loads against an oracle of tables; counters of both forms; other layouts."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats.leankv import hetero_kv
from refemu.formats.leankv.kv_layout import SEGMENTS
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv.paged_attention import Arithmetic
from refemu.units.leankv.paged_attention import run as readable
from refemu.units.leankv.paged_attention.compiled import run as compiled_run
from refemu.units.leankv.paged_attention.loads import Load, head_loads, page_loads, traffic
from refemu.units.leankv.paged_attention.ports import SECTORS
from tests.oracles.leankv import sectors as oracle
from tests.units.leankv.paged_attention.test_stages import parameters
from tests.units.leankv.test_paged_attention import Head, layouts

PAIRS = ("K8V8", "K8V4", "K8V4_G12", "K8V2", "K4V4", "K4V2", "K4V2_G24", "K4V1", "K4V8", "K2V4", "K16V16")


def all_pages() -> list[Any]:
    """The ready pairs that have the usual layout, at three head sizes, and two with other constants."""
    found = [
        pytest.param(UnifiedPage(size, pair, k_vec=2), id="K2V4 at 64")
        for size, pair in ((64, hetero_kv.find("K2V4")),)
    ]
    found.append(pytest.param(UnifiedPage(64, hetero_kv.find("K4V1"), v_group=4), id="K4V1 at 64"))
    for size in (64, 128, 256):
        for name in PAIRS:
            try:
                page = UnifiedPage(size, hetero_kv.find(name))
            except Refused:
                continue
            found.append(pytest.param(page, id=f"{name} at {size}"))
    return found


PAGES = all_pages()
ORDERS = ("paper", "token_major", "feature_major")


def plain(page: UnifiedPage) -> oracle.Page:
    config = page.config
    constants = page.k_vec, page.k_group, page.v_vec, page.v_group
    bits, groups = (config.k_bits, config.v_bits), (config.k_groups, config.v_groups)
    return oracle.Page(page.tokens, page.head_size, bits, groups, dict(page.offsets), *constants)


def counted(page: UnifiedPage, tokens: int, order: Any, element: Any, base: int) -> dict[str, list[int]]:
    made = traffic(page, tokens, order, element, base)
    return {name: [each.loads, each.sectors, each.least] for name, each in made.items()}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("order", ORDERS)
def test_sectors_of_a_page_are_the_oracles(page: UnifiedPage, order: Any) -> None:
    """D-leankv-57, D-leankv-58: a full page, and one that is partly full at an odd place of memory."""
    for tokens, base in ((page.tokens, 0), (page.tokens - 1, 16), (1, 0)):
        wanted = oracle.traffic(plain(page), tokens, order, True, base)
        assert counted(page, tokens, order, "pack", base) == wanted


@pytest.mark.parametrize("page", [each for each in PAGES if each.id in ("K8V4 at 64", "K4V2 at 128", "K4V1 at 128")])
@pytest.mark.parametrize("order", ORDERS)
def test_layouts_that_count_features_are_the_oracles(page: UnifiedPage, order: Any) -> None:
    """D-leankv-12: the other reading of F, Kvec and Kgroup."""
    wanted = oracle.traffic(plain(page), page.tokens, order, False)
    assert counted(page, page.tokens, order, "feature", 0) == wanted


@pytest.mark.parametrize("page", PAGES)
def test_threads_read_every_word_of_their_tokens_once(page: UnifiedPage) -> None:
    """And no other word, but of a value's last vector the slots that are not filled."""
    tokens = page.tokens - 1
    read: dict[str, list[int]] = {name: [] for name in SEGMENTS}
    for load in page_loads(page, tokens):
        for word in load.word[load.word >= 0].tolist():
            read[load.segment] += range(word, word + load.bits // 16)
    for name, words in read.items():
        own = page.slot_words[:tokens, page.parts[name]].ravel().tolist()
        if name in ("key", "score", "pos"):
            assert sorted(words) == sorted(own)
        elif name == "val":
            padded = -(-tokens // page.v_vec) * page.v_vec
            assert len(words) == len(set(words)) == padded * page.value_packs and set(own) <= set(words)
        else:
            assert set(words) == set(own)


def test_addresses_of_a_warp() -> None:
    """D-leankv-57, K8V4 at 128: four threads read 8 bytes each of a key; eight 4 bytes each of two values."""
    page = UnifiedPage(128, "K8V4")
    loads = list(page_loads(page, 9))
    key = [load for load in loads if load.segment == "key"]
    value = [load for load in loads if load.segment == "val"]

    assert [load.step for load in key] == list(range(8)) and [load.step for load in value] == list(range(8))
    assert key[0].first.tolist() == [64 * t for t in range(32)] and key[0].bits == 64
    assert key[1].word[0] == 32 * 16 and key[4].word.tolist() == [128 + 4 * t for t in range(4)] + [-1] * 28
    assert value[0].word.tolist() == [page.offsets["val"] // 2 + 2 * t for t in range(32)] and value[0].bits == 32
    assert value[4].word.tolist() == [page.offsets["val"] // 2 + 64 + 2 * t for t in range(8)] + [-1] * 24
    assert [load.sectors() for load in (key[0], key[4], value[0], value[4])] == [8, 1, 4, 1]
    assert Load("key", 0, np.array([0, 128]), 32).least == 1
    assert Load("key", 0, np.array([0, 512]), 32).sectors() == 2
    assert Load("key", 0, np.array([248]), 16).sectors() == 2


def gaps(page: UnifiedPage, tokens: int, order: Any, element: Any) -> int:
    """Loads of codes between whose first and last bit the warp reads not every bit."""
    loads = [load for load in page_loads(page, tokens, order, element) if load.segment in ("key", "val")]
    return sum(bool((np.diff(np.unique(load.first[load.first >= 0])) != load.bits).any()) for load in loads)


@pytest.mark.parametrize("element", ["pack", "feature"])
@pytest.mark.parametrize("page", PAGES)
def test_codes_of_a_load_are_contiguous(page: UnifiedPage, element: Any) -> None:
    """[leankv §6.2] in full and partly filled pages, in both readings of D-leankv-12; the naive orders have gaps."""
    assert [gaps(page, tokens, "paper", element) for tokens in (page.tokens, page.tokens - 1, 1)] == [0, 0, 0]
    assert gaps(page, page.tokens, "token_major", element) + gaps(page, page.tokens, "feature_major", element) > 0


def test_codes_take_least_sectors_where_layouts_count_packs() -> None:
    """[leankv §6.2] contiguous for keys and values of all ready pairs; both naive orders take more."""
    for each in PAGES:
        page = each.values[0]
        made = {order: traffic(page, None, order) for order in ORDERS}
        if each.id in ("K2V4 at 64", "K4V1 at 64"):
            continue
        for segment in ("key", "val"):
            found = [made[order][segment].sectors for order in ORDERS]
            assert found[0] == made["paper"][segment].least
            assert found[0] <= min(found[1:]) and found[0] < max(found[1:])


def test_codes_do_not_where_the_layouts_count_features() -> None:
    """D-leankv-12: V of K8V4 at 64 features takes 96 sectors of a page where 56 would do, or 54 in packs."""
    page = UnifiedPage(64, "K8V4")
    features, packs = traffic(page, element="feature")["val"], traffic(page)["val"]

    assert (features.sectors, features.least) == (96, 56)
    assert (packs.sectors, packs.least) == (54, 54)
    assert [traffic(page, None, order)["val"].sectors for order in ORDERS] == [54, 108, 152]
    low = UnifiedPage(128, "K4V2")
    assert (traffic(low, element="feature")["val"].sectors, traffic(low)["val"].sectors) == (156, 60)


def test_positions_and_metadata_of_groups_do_not_either() -> None:
    """Positions follow the scores without an alignment; metadata of two groups are between those of another token."""
    made, groups = traffic(UnifiedPage(64, "K8V4")), traffic(UnifiedPage(64, "K8V4_G12"))

    assert (made["pos"].sectors, made["pos"].least) == (9, 7)
    assert (groups["val_meta"].sectors, groups["val_meta"].least) == (26, 14)
    assert all(made[name].sectors == made[name].least for name in ("key_meta", "val_meta", "score"))


CONSTANTS = {"k_vec": 2, "k_group": 2, "v_vec": 4, "v_group": 4}
HEADS = [
    pytest.param(layouts(), (13, 9), id="usual"),
    pytest.param(layouts(size=656), (9, 12), id="pages that begin in the middle of a sector"),
    pytest.param(layouts(high="K8V4_G12", low="K4V2_G24", size=1024), (11, 17), id="groups"),
    pytest.param(layouts(high="K16V16", low="K8V8", size=1024), (8, 11), id="fp16"),
    pytest.param(layouts(**CONSTANTS), (7, 13), id="other constants"),
    pytest.param(layouts(128, "K8V2", "K4V1", 6784), (40, 71), id="odd pages of 128 features"),
]


@pytest.mark.parametrize("run", [readable, compiled_run], ids=["unit", "compiled"])
@pytest.mark.parametrize(("pages", "counts"), HEADS)
@pytest.mark.parametrize("include_self", [False, True])
def test_counters_are_the_oracles(run: Any, pages: Any, counts: tuple[int, int], include_self: bool) -> None:
    """Sectors of all loads of a head, page by page at its address; D-leankv-58."""
    head = Head(pages, counts, heads=1, seed=3, spare=0)
    config = {name: getattr(pages.high, name) for name in CONSTANTS}
    made = run(**head.ports(), **parameters(head, Arithmetic(include_self=include_self)), **config)
    wanted = dict.fromkeys(SEGMENTS, 0)
    for section, (page, count) in enumerate(zip(pages.sections, counts, strict=True)):
        for number in range(-(-count // page.tokens)):
            place = number if section == 0 else len(head.cells) - 1 - number
            held = min(page.tokens, count - number * page.tokens)
            for name, each in oracle.traffic(plain(page), held, base=place * page.size).items():
                wanted[name] += each[1]
    wanted["pos"] *= not include_self

    assert {name: getattr(made, name) for name in SECTORS} == {f"{name}_sectors": n for name, n in wanted.items()}


def test_loads_of_a_head_name_warp_and_page() -> None:
    pages = layouts()
    entry = [7, 5, 6, 4, 9, 8]
    found = list(head_loads(pages, entry, 13, 9, 2))
    order = list(dict.fromkeys((each.warp, each.section, each.page) for each in found))

    assert order == [(0, 0, 7), (1, 0, 5), (0, 0, 6), (1, 0, 4), (0, 1, 8), (1, 1, 9)]
    assert {each.load.segment for each in found} == set(SEGMENTS)
    assert sum(each.load.sectors() for each in found if each.page == 7) == sum(
        each.sectors for each in traffic(pages.high, 4).values()
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": 5}, r"tokens must be in \[1, 4\], got 5"),
        ({"tokens": 0}, "tokens must be in"),
        ({"tokens": 1, "order": "rows"}, "order must be one of 'paper', 'token_major', 'feature_major'"),
        ({"tokens": 1, "element": "byte"}, "element must be one of 'pack', 'feature'"),
    ],
)
def test_loads_rejects_invalid_inputs(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=f"page_loads: {message}"):
        list(page_loads(layouts().high, **change))
