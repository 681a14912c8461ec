"""Attention of any number of KV heads over their pages, without ports and registers: what a model calls.

Paper: [leankv §6.2]. Read paged_attention.py first. Decisions: D-leankv-17 (a token's attention to itself),
D-leankv-19 (heads that share a KV head).
"""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units import attention_phases_parts as phases
from refemu.units.paged_attention_parts import PAPER, Arithmetic, Attended, Pages, empty, require


def attend(
    pages: Pages,
    q: np.ndarray,
    images: np.ndarray,
    cells: np.ndarray,
    lengths: np.ndarray,
    arithmetic: Arithmetic = PAPER,
) -> Attended:
    """Attention of any number of KV heads over their pages.

    pages: layouts. q: (..., G, F) float16, finite. images: (pool, page_bytes / 2) uint16. cells: (..., L) table
    entries, high pages from the left, low ones from the right. lengths: (..., 2) tokens, high and low.
    Returns out (..., G, F) float16 and p (..., G, tokens) float32. Refuses a head without a token, one whose table is
    too short, and page ids outside the pool. Paper: [leankv §6.2].
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
    """out (G, F) and p (G, tokens) of one KV head; images: of its table entry, cell by cell."""
    cut, done = phases.chunks(pages, arithmetic, cells, high, low), []
    for chunk in cut:
        read = [(page, phases.read(pages, page, images[page.cell])) for page in chunk]
        logits = [phases.logits(pages, arithmetic, q, tokens.key.decode()) for _, tokens in read]
        slots = np.concatenate([np.arange(page.tokens) for page in chunk])
        seen = slots % 4 == 0 if arithmetic.lane_max else np.ones(len(slots), np.bool_)
        p, top, total = phases.softmax(pages, arithmetic, np.concatenate(logits, axis=1), seen)
        acc = np.zeros((len(q), pages.accumulators(arithmetic), q.shape[-1]), np.float32)
        for page, tokens in read:
            at = page.start - chunk[0].start
            acc = phases.add_values(pages, arithmetic, page, p[:, at : at + page.tokens], tokens.value.decode(), acc)
        done.append((phases.tree(acc), p, top, total))
    parts, chances, tops, totals = zip(*done, strict=True)
    p = np.concatenate(chances, axis=1)
    if len(cut) == 1:
        return fp16.canonical(parts[0]), p
    made, weights = phases.combine(arithmetic, np.stack(parts), np.stack(tops), np.stack(totals))
    return fp16.canonical(made), phases.weigh(pages, arithmetic, p, [chunk[0].start for chunk in cut], weights)


def add_scores(
    pages: Pages,
    images: np.ndarray,
    cells: np.ndarray,
    lengths: np.ndarray,
    p: np.ndarray,
    newest: Any,
    include_self: bool = False,
    gqa: str = "max",
) -> None:
    """Add to the scores in `images` what `attend` returned as p: for every stored token the largest of its heads.

    newest: (...) position of the newest token of each head, whose score stays unless `include_self` (D-leankv-17).
    gqa: "mean" adds the mean of the heads instead (D-leankv-19). Heads must not share pages.
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
            made = phases.add_score(
                layout.score(image)[slots],
                layout.position(image)[slots],
                chances[:, page.start : page.start + page.tokens],
                int(position[row]),
                arithmetic,
            )
            layout.set_score(image, slots, made)


def step(
    pages: Pages,
    q: np.ndarray,
    images: np.ndarray,
    cells: np.ndarray,
    lengths: np.ndarray,
    newest: Any,
    arithmetic: Arithmetic = PAPER,
) -> np.ndarray:
    """`attend`, then `add_scores`: what a model needs of one step. q: fp16 values in float32, as what it returns."""
    found = attend(pages, fp16.to_f16(q), images, cells, lengths, arithmetic)
    add_scores(pages, images, cells, lengths, found.p, newest, arithmetic.include_self, arithmetic.gqa)
    return found.out.astype(np.float32)
