"""The unified page: layouts are bijections, slots are disjoint, and both forms read what they write."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import Affine, HeteroKV, UnifiedPage
from refemu.formats.leankv import hetero_kv
from refemu.formats.leankv.compiled import kv_page as kv_page_compiled
from tests.arith.strategies import codes, repeating

#: head size -> widths of keys and of values that divide into the layouts [leankv §6.2]
LAYOUTS = {
    32: ([8], [8, 4]),
    64: ([8, 4], [8, 4, 2]),
    80: ([], [8]),
    96: ([8], [8, 4]),
    112: ([], [8]),
    128: ([8, 4, 2], [8, 4, 2, 1]),
    256: ([8, 4, 2, 1], [8, 4, 2, 1]),
}
PAGES = [
    UnifiedPage(size, pair)
    for size in (64, 128, 256)
    for name, pair in hetero_kv.PAIRS.items()
    if name not in (() if size > 64 else ("K4V1", "K2V4"))
]
ODD = [UnifiedPage(128, "K8V2"), UnifiedPage(128, "K4V1"), UnifiedPage(64, "K8V8")]  # 37, 69, 41 tokens
IDS = [f"{page.config.name}-{page.head_size}" for page in PAGES]


def records_of(page: UnifiedPage, seed: int, count: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 1 << 16, (page.tokens if count is None else count, page.record_words), np.uint16)


@pytest.mark.parametrize("head_size", LAYOUTS)
def test_which_layouts_exist(head_size: int) -> None:
    """D-leankv-12: Kvec * Kgroup packs divide a key, Vgroup packs a value; 16 bits fit everywhere."""
    keys, values = LAYOUTS[head_size]
    for bits in (1, 2, 4, 8, 16):
        for side, known, pair in (("key", keys, HeteroKV(bits, 16)), ("value", values, HeteroKV(16, bits))):
            if bits in [*known, 16]:
                assert UnifiedPage(head_size, pair).tokens
            else:
                with pytest.raises(
                    Refused, match=rf"at head size {head_size}: 16-bit words per {side} must be a multiple of"
                ):
                    UnifiedPage(head_size, pair)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_word_of_every_slot_is_its_own(page: UnifiedPage) -> None:
    """[leankv §5.2, §6.2]: segments are disjoint, key and value layouts bijections, the end inside the page."""
    words = page.slot_words
    key, value = words[:, page.parts["key"]], words[:, page.parts["val"]]

    assert np.unique(words).size == words.size and words.min() == 0 and 2 * words.max() + 2 == page.end <= page.size
    assert np.array_equal(np.sort(key.ravel(), kind="stable"), np.arange(key.size))
    assert value.min() * 2 == page.offsets["val"]
    assert value.max() < page.offsets["val"] // 2 + -(-page.tokens // page.v_vec) * page.v_vec * page.value_packs


def test_first_words_of_the_layouts() -> None:
    """[leankv §6.2] K8V4, 128 features: member 1 owns features 32 on; two tokens of a value pack are neighbours."""
    page = UnifiedPage(128, "K8V4")

    assert [page.key_word(0, i) for i in (0, 1, 4, 16, 17, 63)] == [0, 1, 512, 4, 5, 3 * 512 + 15]
    assert [page.key_word(t, 0) for t in (1, 31)] == [16, 31 * 16]
    assert [page.value_word(0, i) for i in (0, 1, 4)] == [0, 256, 2]
    assert [page.value_word(t, 0) for t in (1, 2, 3)] == [1, 16, 17]


@pytest.mark.parametrize("page", [*PAGES, *ODD], ids=[*IDS, "37", "69", "41"])
def test_what_is_packed_comes_back(page: UnifiedPage) -> None:
    records = records_of(page, 1)
    image = page.pack(records)

    assert np.array_equal(page.unpack(image), records)
    assert np.array_equal(kv_page_compiled.pack(page, records), image)
    assert np.array_equal(kv_page_compiled.unpack(page, image), records)
    assert np.array_equal(page.from_bytes(page.to_bytes(image)), image) and len(page.to_bytes(image)) == page.size


@settings(deadline=None, max_examples=40)
@given(page=st.sampled_from([*PAGES, *ODD]), data=st.data())
def test_writing_one_token_changes_its_words_only(page: UnifiedPage, data: st.DataObject) -> None:
    slot = data.draw(st.integers(0, page.tokens - 1))
    before = data.draw(repeating(lambda count: codes(count, 16), page.size // 2)).astype(np.uint16)
    after, record = before.copy(), ~before[page.slot_words[slot]]
    page.write(after, slot, record)
    compiled_run = before[None].copy()
    kv_page_compiled.write(page, compiled_run, [0], [slot], record[None])

    assert np.array_equal(np.flatnonzero(after != before), np.sort(page.slot_words[slot], kind="stable"))
    assert np.array_equal(page.read(after, slot), record) and np.array_equal(compiled_run[0], after)
    assert np.array_equal(kv_page_compiled.read(page, compiled_run, [0], [slot])[0], record)


@pytest.mark.parametrize("preset", ["paper", "diffkv"])
def test_records_hold_codes_metadata_score_and_position(preset: str) -> None:
    """D-leankv-15: the score is fp32, the position int32, low words first."""
    page = UnifiedPage(128, "K8V4_G12")
    rng = np.random.default_rng(3)
    key, value = (rng.standard_normal((5, 128)).astype(np.float16) for _ in range(2))
    key_codes, value_codes = page.config.key(preset).encode(key), page.config.value(preset).encode(value)
    score, position = np.float32([0, 1.5, 2.0**-140, 3e38, 7]), np.int32([0, -1, 2**31 - 1, 70000, 5])
    records = page.record(key_codes, value_codes, score, position)
    back = page.tokens_of(records, preset)

    assert back.key.equals(key_codes) and back.value.equals(value_codes)
    assert back.score.tobytes() == score.tobytes() and np.array_equal(back.position, position)
    assert records[3, page.parts["score"]].tolist() == [
        int(score[3:4].view(np.uint32)[0]) & 0xFFFF,
        int(score[3:4].view(np.uint32)[0]) >> 16,
    ]
    assert records[3, page.parts["pos"]].tolist() == [70000 & 0xFFFF, 1]
    assert records[0, page.parts["val_meta"]].tolist() == value_codes.metadata()[0].tolist()


def test_scores_and_positions_are_read_written_alone() -> None:
    page = UnifiedPage(64, "K4V4")
    image = page.pack(records_of(page, 5))
    before = page.unpack(image)
    page.set_score(image, [3, 70], [1.5, -2.25])
    after = page.unpack(image)

    assert page.score(image)[[3, 70]].tolist() == [1.5, -2.25]
    assert np.array_equal(np.flatnonzero((before != after).any(axis=1)), [3, 70])
    assert np.array_equal(page.position(image), page.tokens_of(after).position)


def test_max_tokens_limits_a_page_and_its_offsets() -> None:
    small, full = UnifiedPage(128, "K8V4", max_tokens=3), UnifiedPage(128, "K8V4", max_tokens=99)

    assert (small.tokens, full.tokens, small.page_bytes, small.offsets["key_meta"]) == (3, 32, 6784, 384)


def test_other_constants_make_layout_where_default_has_none() -> None:
    """D-leankv-12: K2V4 at 64 features with two threads per key; 80 features of 4 bits with one."""
    two, one = UnifiedPage(64, "K2V4", k_group=2), UnifiedPage(80, HeteroKV(4, 8), k_group=1)
    for page in (two, one):
        records = records_of(page, 7)
        assert np.array_equal(page.unpack(page.pack(records)), records)
        assert np.array_equal(kv_page_compiled.pack(page, records), page.pack(records))


def test_several_images_at_once() -> None:
    page = UnifiedPage(64, "K8V4")
    images, records = page.empty(4), records_of(page, 9, 6)
    kv_page_compiled.write(page, images, [3, 0, 3, 1, 1, 0], [0, 1, 53, 2, 3, 4], records)

    assert np.array_equal(kv_page_compiled.read(page, images, [1, 3], [3, 53]), records[[4, 2]])
    assert np.array_equal(page.read(images[0], [1, 4]), records[[1, 5]]) and not images[2].any()


BAD_PAGES = [
    pytest.param(
        {"head_size": 64, "config": "K4V1"},
        Refused,
        "K4V1 at head size 64: 16-bit words per value must be a multiple of Vgroup = 8, got 4",
        id="value packs",
    ),
    pytest.param(
        {"head_size": 64, "config": "K2V4"},
        Refused,
        r"K2V4 at head size 64: 16-bit words per key must be a multiple of Kvec \* Kgroup = 16, got 8",
        id="key packs",
    ),
    pytest.param(
        {"head_size": 20, "config": "K4V4"},
        Refused,
        "16-bit words per key must be a multiple of .*, got 5",
        id="size 20",
    ),
    pytest.param({"head_size": 65, "config": "K4V4"}, Refused, "must fill 16-bit words, got 260 bits", id="bits"),
    pytest.param(
        {"head_size": 128, "config": HeteroKV(8, 4, 3)}, Refused, "3 key groups do not divide Kgroup 4", id="groups"
    ),
    pytest.param(
        {"head_size": 128, "config": HeteroKV(8, 4, meta="bf16")},
        Refused,
        "metadata must be fp16, got bf16",
        id="metadata",
    ),
    pytest.param(
        {"head_size": 128, "config": "K8V4", "page_bytes": 300},
        Refused,
        "a page of 300 bytes holds no token of K8V4 at head size 128, which takes 512 bytes",
        id="too small",
    ),
    pytest.param(
        {"head_size": 128, "config": "K8V4", "page_bytes": 6785},
        Refused,
        "page_bytes must be even, for words of 16 bits, got 6785",
        id="odd",
    ),
    pytest.param(
        {"head_size": 128, "config": 84}, RefusedType, "a precision pair or its name is needed, got 84", id="no pair"
    ),
    pytest.param({"head_size": 128, "config": "K8V4", "max_tokens": 0}, Refused, "max_tokens must be in", id="none"),
    pytest.param({"head_size": 128.0, "config": "K8V4"}, RefusedType, "head_size must be an int", id="float"),
]


@pytest.mark.parametrize(("parameters", "error", "message"), BAD_PAGES)
def test_kv_page_rejects_pages(parameters: dict[str, Any], error: type[Exception], message: str) -> None:
    """D-leankv-4: only fp16 metadata has a layout."""
    with pytest.raises(error, match=message):
        UnifiedPage(**parameters)


PAGE = UnifiedPage(128, "K8V4")
RECORD = np.zeros(PAGE.record_words, np.uint16)
BAD_WRITES = [
    pytest.param(32, RECORD, Refused, "slot 32, page holds 32 K8V4 tokens", id="behind"),
    pytest.param(-1, RECORD, Refused, "slot -1, page holds 32 K8V4 tokens", id="negative"),
    pytest.param(0, RECORD[:-1], RefusedType, "records must be uint16 of shape", id="short"),
    pytest.param(0, RECORD.astype(np.int64), RefusedType, "records must be uint16", id="dtype"),
    pytest.param(0.5, RECORD, RefusedType, "integers are needed", id="float"),
]


@pytest.mark.parametrize(("slot", "record", "error", "message"), BAD_WRITES)
def test_rejected_write_changes_nothing(slot: Any, record: np.ndarray, error: type[Exception], message: str) -> None:
    image = PAGE.pack(records_of(PAGE, 11))
    before = image.copy()
    with pytest.raises(error, match=message):
        PAGE.write(image, slot, record)
    with pytest.raises((error, RefusedType), match=message if error is Refused else None):
        kv_page_compiled.write(PAGE, image[None], [0], [slot], record[None])

    assert np.array_equal(image, before)


@pytest.mark.parametrize(("slots", "wrong"), [([0, 32, 33], 32), ([[5, 31], [-1, 0]], -1)])
def test_slot_among_others_is_rejected(slots: Any, wrong: int) -> None:
    image = PAGE.empty()
    with pytest.raises(Refused, match=f"slot {wrong}, page holds 32 K8V4 tokens"):
        PAGE.write(image, slots, np.ones((*np.shape(slots), PAGE.record_words), np.uint16))

    assert not image.any()


def test_a_position_has_32_bits() -> None:
    """D-leankv-15."""
    key, value = (fmt.encode(np.zeros((2, 128), np.float16)) for fmt in (PAGE.config.key(), PAGE.config.value()))
    ends = [-(1 << 31), (1 << 31) - 1]

    assert PAGE.tokens_of(PAGE.record(key, value, 0.0, ends)).position.tolist() == ends
    for wrong in (ends[0] - 1, ends[1] + 1):
        with pytest.raises(Refused, match=f"position {wrong} at index "):
            PAGE.record(key, value, 0.0, [0, wrong])


def test_kv_page_rejects_other_images_and_records() -> None:
    with pytest.raises(RefusedType, match=r"an image must be uint16 of shape \(3392,\), got uint16 of shape \(3391,\)"):
        PAGE.read(PAGE.empty()[:-1], 0)
    with pytest.raises(RefusedType, match="images must be contiguous uint16"):
        kv_page_compiled.read(PAGE, PAGE.empty(2)[:, :-1], [0], [0])
    with pytest.raises(Refused, match=r"page 2 at index \(0,\) is outside \[0, 2\)"):
        kv_page_compiled.read(PAGE, PAGE.empty(2), [2], [0])
    codes = Affine(4).encode(np.zeros((1, 128), np.float16))
    with pytest.raises(Refused, match="a record takes 8 bits in 1 groups, got AffineTensor"):
        PAGE.record(codes, codes)


@pytest.mark.parametrize("page", [PAGE, UnifiedPage(64, HeteroKV(2, 4), max_tokens=5, k_group=2)])
def test_kv_page_repr_evaluates_back(page: UnifiedPage) -> None:
    assert eval(repr(page)) == page and hash(eval(repr(page))) == hash(page)
