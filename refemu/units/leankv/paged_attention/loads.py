"""Loads of the warp that works on a page: addresses of each thread, and the 32-byte sectors that they touch.

Paper: [leankv §6.2], whose layouts aim at contiguous accesses of a warp.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import numpy as np

from refemu.arith.checks import require_choice, require_int
from refemu.formats.leankv.affine import WORD
from refemu.formats.leankv.kv_layout import SEGMENTS, up
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv.paged_attention.arithmetic import WARP, Pages

SECTOR = 32  #: bytes of the smallest access to memory
#: Order of the codes in a segment: the paper's, [tokens, features] or [features, tokens] (D-leankv-57)
CodeOrder: TypeAlias = Literal["paper", "token_major", "feature_major"]
Element: TypeAlias = Literal["pack", "feature"]  #: unit of F, Kvec and Kgroup (D-leankv-12)


@dataclass(frozen=True, eq=False)
class Load:
    """One load instruction of a warp."""

    segment: str  #: segment of the page: key, key_meta, val, val_meta, score or pos
    step: int  #: number of the load within its segment and page
    first: np.ndarray  #: (32,) int64: bit of the page at which each thread's datum begins, -1 for an idle thread
    bits: int  #: bits that a thread reads

    @property
    def word(self) -> np.ndarray:
        """(32,) int64: word of the page with a thread's first bit, -1 for an idle thread."""
        return self.first // WORD

    def sectors(self, base: int = 0) -> int:
        """Count the sectors that hold what the threads read. [leankv §6.2]"""
        begin = self.first[self.first >= 0] + 8 * base
        ends = (begin, begin + self.bits - 1)
        return len(np.unique(np.concatenate([end // (8 * SECTOR) for end in ends])))

    @property
    def least(self) -> int:
        """Sectors that the same bits would take if contiguous."""
        different = len(np.unique(self.first[self.first >= 0]))
        return -(-different * self.bits // (8 * SECTOR))


@dataclass(frozen=True)
class Traffic:
    """Loads of a segment of a page."""

    loads: int  #: load instructions of the warp
    sectors: int  #: sectors that they touch, load by load
    least: int  #: sectors that the same data would take if contiguous, load by load


@dataclass(frozen=True, eq=False)
class WarpLoad:
    """A load with its warp."""

    warp: int  #: warp of the block
    section: int  #: 0 high, 1 low
    page: int  #: id
    load: Load  #: load of the page


def page_loads(page: UnifiedPage, tokens: int, order: CodeOrder = "paper", element: Element = "pack") -> Iterator[Load]:
    """Yield the loads of a warp for a page with `tokens` tokens: keys, values, then scores and positions. [leankv §6.2]

    Raises Refused: more tokens than the page holds, or an unknown order or element.
    """
    thing = "page_loads"
    require_int(tokens, 1, page.tokens, thing, "tokens")
    require_choice(order, get_args(CodeOrder), thing, "order")
    require_choice(element, get_args(Element), thing, "element")
    yield from _keys(page, tokens, order, element)
    yield from _values(page, tokens, order, element)
    for segment in ("score", "pos"):
        for step, first in enumerate(range(0, tokens, WARP)):
            slot = first + np.arange(WARP)
            yield _load(page, segment, step, 2 * WORD * slot, slot < tokens, 2 * WORD)


def _keys(page: UnifiedPage, tokens: int, order: CodeOrder, element: Element) -> Iterator[Load]:
    """Kgroup threads share a key; each reads Kvec elements at a time."""
    bits, packs = _elements(element, page.config.k_bits, page.head_size)
    vectors = packs // (page.k_vec * page.k_group)
    lane, steps = np.arange(WARP), [0, 0]
    group, member = lane // page.k_group, lane % page.k_group
    for first in range(0, tokens, WARP // page.k_group):
        token = first + group
        for load in _metadata(page, "key_meta", page.config.k_groups, token, member, page.k_group, tokens):
            yield _numbered(load, steps, 0)
        for vector in range(vectors):
            pack = (member * vectors + vector) * page.k_vec
            for at, count in _codes_of_key(page, order, vector, token, member, pack, packs):
                yield _numbered(_load(page, "key", 0, bits * at, token < tokens, bits * count), steps, 1)


def _codes_of_key(
    page: UnifiedPage,
    order: CodeOrder,
    vector: int,
    token: np.ndarray,
    member: np.ndarray,
    pack: np.ndarray,
    packs: int,
) -> list[tuple[np.ndarray, int]]:
    """Loads of Kvec packs from `pack` on: first elements in the segment, and number of contiguous ones."""
    if order == "paper":
        return [(((vector * page.tokens + token) * page.k_group + member) * page.k_vec, page.k_vec)]
    if order == "token_major":
        return [(token * packs + pack, page.k_vec)]
    return [((pack + i) * page.tokens + token, 1) for i in range(page.k_vec)]


def _values(page: UnifiedPage, tokens: int, order: CodeOrder, element: Element) -> Iterator[Load]:
    """Vgroup threads share Vvec values; each reads one element of all of them at a time."""
    bits, packs = _elements(element, page.config.v_bits, page.head_size)
    steps, lane, span = [0, 0], np.arange(WARP), up(page.tokens, page.v_vec)
    row, member = lane // page.v_group, lane % page.v_group
    for first in range(0, tokens, WARP // page.v_group * page.v_vec):
        token = first + row * page.v_vec
        for i in range(page.v_vec):
            for load in _metadata(page, "val_meta", page.config.v_groups, token + i, member, page.v_group, tokens):
                yield _numbered(load, steps, 0)
        for number in range(packs // page.v_group):
            pack = member * (packs // page.v_group) + number
            for at, slot, count in _codes_of_value(page, order, number, token, member, pack, packs, span):
                if (slot < tokens).any():
                    yield _numbered(_load(page, "val", 0, bits * at, slot < tokens, bits * count), steps, 1)


def _codes_of_value(
    page: UnifiedPage,
    order: CodeOrder,
    number: int,
    token: np.ndarray,
    member: np.ndarray,
    pack: np.ndarray,
    packs: int,
    span: int,
) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Loads of `pack` of Vvec tokens: first elements in the segment, slots, and number of contiguous tokens."""
    if order == "paper":
        return [
            (
                ((number * (span // page.v_vec) + token // page.v_vec) * page.v_group + member) * page.v_vec,
                token,
                page.v_vec,
            )
        ]
    if order == "feature_major":
        return [(pack * span + token, token, page.v_vec)]
    return [((token + i) * packs + pack, token + i, 1) for i in range(page.v_vec)]


def _elements(element: Element, bits: int, features: int) -> tuple[int, int]:
    """Bits of an element, and elements of a vector."""
    return (WORD, features * bits // WORD) if element == "pack" else (bits, features)


def _metadata(
    page: UnifiedPage, segment: str, groups: int, token: np.ndarray, member: np.ndarray, members: int, tokens: int
) -> list[Load]:
    """Scale and zero point of each thread's features of one token, together; none for codes without them."""
    if not groups or not (token < tokens).any():
        return []
    place = token * groups + member * groups // members
    return [_load(page, segment, 0, 2 * WORD * place, token < tokens, 2 * WORD)]


def _load(page: UnifiedPage, segment: str, step: int, first: np.ndarray, busy: np.ndarray, bits: int) -> Load:
    """first: bits from the start of the segment."""
    return Load(segment, step, np.where(busy, 8 * page.offsets[segment] + first, -1), bits)


def _numbered(load: Load, steps: list[int], kind: int) -> Load:
    """The next load of its kind."""
    steps[kind] += 1
    return Load(load.segment, steps[kind] - 1, load.first, load.bits)


def traffic(
    page: UnifiedPage,
    tokens: int | None = None,
    order: CodeOrder = "paper",
    element: Element = "pack",
    base: int = 0,
) -> dict[str, Traffic]:
    """Count loads and sectors of a page, segment by segment. Raises Refused: as `page_loads` does. [leankv §6.2]"""
    count = page.tokens if tokens is None else tokens
    return dict(_traffic(page, count, order, element, base % SECTOR))


@lru_cache(maxsize=4096)
def _traffic(
    page: UnifiedPage, tokens: int, order: CodeOrder, element: Element, base: int
) -> tuple[tuple[str, Traffic], ...]:
    counted = {segment: [0, 0, 0] for segment in SEGMENTS}
    for load in page_loads(page, tokens, order, element):
        count = counted[load.segment]
        for i, more in enumerate((1, load.sectors(base), load.least)):
            count[i] += more
    return tuple((segment, Traffic(*count)) for segment, count in counted.items())


def head_loads(pages: Pages, entry: Sequence[int], high: int, low: int, warps: int) -> Iterator[WarpLoad]:
    """Yield the loads of all pages of a KV head, page by page; warps take the pages of a section in turn. [leankv §6.2]

    entry: table entry: page ids, high ones from the left, low ones from the right. Raises Refused: a page has more
    tokens than it holds.
    """
    for section, (page, tokens) in enumerate(zip(pages.sections, (high, low), strict=True)):
        for number in range(-(-tokens // page.tokens)):
            cell = number if section == 0 else len(entry) - 1 - number
            held = min(page.tokens, tokens - number * page.tokens)
            for load in page_loads(page, held):
                yield WarpLoad(number % warps, section, int(entry[cell]), load)
