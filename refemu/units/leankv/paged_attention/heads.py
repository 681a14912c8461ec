"""Attention of any number of KV heads over their pages, and scores written there, for models. [leankv §6.2]"""

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.units.leankv import page_table
from refemu.units.leankv.page_table import HIGH, LOW
from refemu.units.leankv.paged_attention import phases
from refemu.units.leankv.paged_attention.arithmetic import PAPER, Arithmetic, Attended, Pages, empty, require
from refemu.units.leankv.significance import Gqa


def get_scores(
    pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Read scores and positions of stored tokens from their pages. [leankv §5.2]

    images: uint16 (pool, words), pages. cells: (..., L), table entries. lengths: (..., 2), tokens, high and low.
    Returns `scores, positions` uint32 (..., slots): patterns, high section first; zeros after the last token of a head.
    """
    sections = [_segment(pages, images, cells, lengths, section) for section in (HIGH, LOW)]
    wide, slot, high = sections[HIGH].shape[-2], np.arange(most(lengths)), lengths[..., :1]
    at = np.where(slot < high, slot, np.minimum(wide + slot - high, wide + sections[LOW].shape[-2] - 1))
    both = np.take_along_axis(np.concatenate(sections, axis=-2), at[..., None], -2)
    both = np.where((slot < high + lengths[..., 1:])[..., None], both, np.uint32(0))
    return both[..., 0], both[..., 1]


def most(lengths: np.ndarray) -> int:
    """Most slots of a head, at least 2: one lane would have no axis."""
    return max(2, int(np.max(lengths[..., 0] + lengths[..., 1], initial=0)))


def _segment(pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, section: int) -> np.ndarray:
    """Patterns of score and position of a section's slots, (..., slots, 2) uint32."""
    page = pages.sections[section]
    count = max(1, -(-int(lengths[..., section].max(initial=0)) // page.tokens))
    ids = np.maximum(cells[..., :count] if section == HIGH else cells[..., ::-1][..., :count], 0)
    base = page.offsets["score"] // 2
    words = images[ids, base : base + 4 * page.tokens].astype(np.uint32)
    values = words[..., ::2] | words[..., 1::2] << np.uint32(16)
    pair = values.reshape(*ids.shape, 2, page.tokens).swapaxes(-1, -2)
    return pair.reshape(*ids.shape[:-1], count * page.tokens, 2)


def set_scores(pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, score: np.ndarray) -> None:
    """Write scores of stored tokens back into their pages. [leankv §5.2]

    images: uint16 (pool, words), pages, written in place. cells: (..., L), table entries. lengths: (..., 2), tokens,
    high and low. score: uint32 (..., slots), patterns, in the form of `get_scores`.
    """
    for index in np.ndindex(lengths.shape[:-1]):
        first = 0
        for section, count in enumerate(lengths[index].tolist()):
            page, slots = pages.sections[section], np.arange(count)
            ids, places = page_table.locate(
                np.broadcast_to(cells[index], (count, cells.shape[-1])), section, slots, page.tokens
            )
            words = page.slot_words[places][:, page.parts["score"]]
            values = score[index][first : first + count]
            images[ids[:, None], words] = np.stack([values & np.uint32(0xFFFF), values >> np.uint32(16)], axis=-1)
            first += count


def attend(
    pages: Pages,
    q: np.ndarray,
    images: np.ndarray,
    cells: np.ndarray,
    lengths: np.ndarray,
    arithmetic: Arithmetic = PAPER,
) -> Attended:
    """Attend over the pages of any number of KV heads. [leankv §6.2]

    q: float16 (..., G, F), queries, finite. images: uint16 (pool, page_bytes / 2), pages. cells: (..., L), table
    entries, high pages from the left, low ones from the right. lengths: (..., 2), tokens, high and low. Raises Refused:
    a head has no token, its table is too short, a page id is outside the pool, or a query is not finite. Raises
    RefusedType: a dtype or shape is wrong.
    """
    require(pages, q, images, cells, lengths)
    out, p = empty(q, lengths)
    heads, features = q.shape[-2:]
    rows = zip(
        fp16.to_f32(q).reshape(-1, heads, features),
        cells.reshape(-1, cells.shape[-1]),
        lengths.reshape(-1, 2).tolist(),
        out.reshape(-1, heads, features),
        p.reshape(-1, heads, p.shape[-1]),
        strict=True,
    )
    for query, entry, (high, low), result, chances in rows:
        result[:], chances[:, : high + low] = _head(pages, arithmetic, query, images[entry], len(entry), high, low)
    return Attended(fp16.narrow(out), p)


def _head(
    pages: Pages, arithmetic: Arithmetic, q: np.ndarray, images: np.ndarray, cells: int, high: int, low: int
) -> tuple[np.ndarray, np.ndarray]:
    """out (G, F) and p (G, tokens) of one KV head; images: pages of its table entry, cell by cell."""
    cut, done = phases.chunks(pages, arithmetic, cells, high, low), []
    for chunk in cut:
        read = [(page, phases.read(pages, page, images[page.cell])) for page in chunk]
        logits = [phases.logits(pages, arithmetic, q, tokens.key.dequantize()) for _, tokens in read]
        slots = np.concatenate([np.arange(page.tokens) for page in chunk])
        seen = slots % 4 == 0 if arithmetic.lane_max else np.ones(len(slots), np.bool_)
        p, top, total = phases.softmax(pages, arithmetic, np.concatenate(logits, axis=1), seen)
        acc = np.zeros((len(q), pages.accumulators(arithmetic), q.shape[-1]), np.float32)
        for page, tokens in read:
            at = page.start - chunk[0].start
            acc = phases.add_values(
                pages, arithmetic, page, p[:, at : at + page.tokens], tokens.value.dequantize(), acc
            )
        done.append((phases.join(arithmetic, acc), p, top, total))
    parts, chances, tops, totals = zip(*done, strict=True)
    p = np.concatenate(chances, axis=1)
    if len(cut) == 1:
        return fp16.canonical(parts[0]), p
    out, weights = phases.combine(arithmetic, np.stack(parts), np.stack(tops), np.stack(totals))
    return fp16.canonical(out), phases.weigh(pages, arithmetic, p, [chunk[0].start for chunk in cut], weights)


def add_scores(
    pages: Pages,
    images: np.ndarray,
    cells: np.ndarray,
    lengths: np.ndarray,
    p: np.ndarray,
    newest: ArrayLike,
    include_self: bool = False,
    gqa: Gqa = "max",
) -> None:
    """Add the attention of a step to the stored scores: for every token the largest p of its heads. [leankv §4, §6.2]

    images: uint16 (pool, page_bytes / 2), pages, written in place; heads must not share them. cells: (..., L), table
    entries. lengths: (..., 2), tokens, high and low. p: float32 (..., G, tokens), attention, as `attend` returns it.
    newest: (...), position of the newest token of each head, whose score is unchanged unless `include_self`.
    include_self: whether the newest token's own p is added (D-leankv-17).
    """
    arithmetic = Arithmetic(include_self=include_self, gqa=gqa)
    position = np.broadcast_to(np.asarray(newest, np.int64), lengths.shape[:-1]).reshape(-1)
    for row, (entry, (high, low)) in enumerate(
        zip(cells.reshape(-1, cells.shape[-1]), lengths.reshape(-1, 2).tolist(), strict=True)
    ):
        chances = p.reshape(-1, *p.shape[-2:])[row]
        for page in phases.chunks(pages, arithmetic, len(entry), high, low)[0]:
            layout, image = pages.sections[page.section], images[entry[page.cell]]
            slots = np.arange(page.tokens)
            scores = phases.add_score(
                layout.score(image)[slots],
                layout.position(image)[slots],
                chances[:, page.start : page.start + page.tokens],
                int(position[row]),
                arithmetic,
            )
            layout.set_score(image, slots, scores)


def step(
    pages: Pages,
    q: np.ndarray,
    images: np.ndarray,
    cells: np.ndarray,
    lengths: np.ndarray,
    newest: ArrayLike,
    arithmetic: Arithmetic = PAPER,
) -> np.ndarray:
    """Attend, then add to the scores: one step of a model. [leankv §6.2]

    q: float32 (..., G, F), queries, fp16 values. images: uint16 (pool, page_bytes / 2), pages, whose scores are written
    in place. cells: (..., L), table entries. lengths: (..., 2), tokens, high and low. newest: (...), position of the
    newest token of each head. Returns float32 (..., G, F): output, fp16 values. Raises Refused: as `attend` does.
    """
    attended = attend(pages, fp16.to_f16(q), images, cells, lengths, arithmetic)
    add_scores(pages, images, cells, lengths, attended.p, newest, arithmetic.include_self, arithmetic.gqa)
    return attended.out.astype(np.float32)
