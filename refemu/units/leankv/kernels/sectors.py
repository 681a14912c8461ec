"""Sectors of 32 bytes that a warp's loads touch, page by page. [leankv §6.2]"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.units.leankv.kernels.pages import (
    P_K_GROUPS,
    P_K_META,
    P_K_STEP,
    P_POSITION,
    P_SCORE,
    P_TOKENS,
    P_V_GROUPS,
    P_V_META,
    P_V_STEP,
    P_V_VEC,
)

WARP, WORDS = 32, 16  # threads; words of a sector
KEY, KEY_META, VAL, VAL_META, SCORE, POS = range(6)  # of `counts`


@kernel
def page_sectors(cells, lengths, size, layout, key_packs, value_packs, groups, positions, counts):
    """counts (6,) += sectors of all pages of table entries `cells` (U, L) with tokens `lengths` (U, 2).

    Pages have `size` words and are consecutive; key_packs, value_packs (2, P): words of a page's packs of token
    0, of which P is groups[s, 0] for keys and groups[s, 1] for values; then Kgroup, Kvec, Vgroup. positions: whether
    they are read. Pages with the same offset in a sector and the same number of tokens are computed once.
    """
    marks = np.zeros(size // WORDS + 3, np.int64)
    most = max(layout[0, P_TOKENS], layout[1, P_TOKENS])
    known, touched = np.zeros((2, WORDS, most + 1), np.bool_), np.zeros((2, WORDS, most + 1, 6), np.int64)
    for u in range(cells.shape[0]):
        for s in range(2):
            table, held = layout[s], layout[s, P_TOKENS]
            for j in range((lengths[u, s] + held - 1) // held):
                base = cells[u, j + s * (cells.shape[1] - 1 - 2 * j)] * size
                count = min(held, lengths[u, s] - j * held)
                place = base % WORDS
                page = touched[s, place, count]
                if not known[s, place, count]:
                    known[s, place, count] = True
                    _keys(place, count, table, key_packs[s], groups[s], page, marks)
                    _values(place, count, table, value_packs[s], groups[s], page, marks)
                    for t in range(0, count, WARP):
                        last = 2 * min(count, t + WARP) - 1
                        page[SCORE] += _run(place + table[P_SCORE] + 2 * t, place + table[P_SCORE] + last)
                        if positions:
                            page[POS] += _run(place + table[P_POSITION] + 2 * t, place + table[P_POSITION] + last)
                for part in range(6):
                    counts[part] += page[part]


@callee
def _run(first, last):
    """Sectors of the words `first` to `last`."""
    return last // WORDS - first // WORDS + 1


@callee
def _seen(words, count, base, marks):
    """Different sectors among the first `count` of `words` of a page at `base`; marks[0] counts the calls."""
    different, first = np.int64(0), base // WORDS - 1
    marks[0] += 1
    for k in range(count):
        sector = words[k] // WORDS - first
        if marks[sector] != marks[0]:
            marks[sector] = marks[0]
            different += 1
    return different


@callee
def _pairs(base, tokens, first, meta, members, words, marks):
    """Sectors of the scales and zero points of some tokens, which all members of a group load."""
    used = 0
    for t in tokens:
        for member in range(members):
            at = base + first + 2 * (t * meta + member * meta // members)
            words[used], words[used + 1] = at, at + 1
            used += 2
    return _seen(words, used, base, marks)


@callee
def _keys(base, count, table, packs, groups, counts, marks):
    """Loads of a page's keys: one for each vector of Kvec packs of every Kgroup-th thread."""
    size, members, vec = groups[0], groups[2], groups[3]
    vectors, meta = size // (members * vec), table[P_K_GROUPS]
    words = np.empty(2 * WARP * max(vec, 2), np.int64)
    for t0 in range(0, count, WARP // members):
        end = min(count, t0 + WARP // members)
        for v in range(vectors):
            used = 0
            for t in range(t0, end):
                for member in range(members):
                    for e in range(vec):
                        words[used] = base + packs[(member * vectors + v) * vec + e] + t * table[P_K_STEP]
                        used += 1
            counts[KEY] += _seen(words, used, base, marks)
        if meta > 0:
            counts[KEY_META] += _pairs(base, range(t0, end), table[P_K_META], meta, members, words, marks)


@callee
def _values(base, count, table, packs, groups, counts, marks):
    """Loads of a page's values: one for each pack of a thread, of Vvec tokens; of the last of them all slots."""
    size, members, vec = groups[1], groups[4], table[P_V_VEC]
    part, meta = size // members, table[P_V_GROUPS]
    words = np.empty(2 * WARP * max(vec, 2), np.int64)
    block = WARP // members * vec
    for t0 in range(0, count, block):
        end = min((count + vec - 1) // vec * vec, t0 + block)
        for i in range(part):
            used = 0
            for t in range(t0, end):
                for member in range(members):
                    words[used] = base + packs[member * part + i] + t // vec * table[P_V_STEP] + t % vec
                    used += 1
            counts[VAL] += _seen(words, used, base, marks)
        if meta > 0:
            for lane in range(vec):
                tokens = range(t0 + lane, min(count, t0 + block), vec)
                counts[VAL_META] += _pairs(base, tokens, table[P_V_META], meta, members, words, marks)
