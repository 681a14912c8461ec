"""Phases of paged_attention on arrays: one page, one softmax, one sum of accumulators, one combination of chunks.

Arrays have the G query heads of a KV head first. [leankv §6.2]
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from refemu.arith import fp16
from refemu.arith.dot import dot
from refemu.arith.fp32 import exp32, fused32
from refemu.arith.operands import Accumulator
from refemu.arith.orders import Halves
from refemu.arith.sums import reduce, total32
from refemu.formats.leankv.kv_page import PageTokens
from refemu.units.declaration import decides
from refemu.units.leankv.paged_attention.arithmetic import Arithmetic, Pages, threads
from refemu.units.leankv.significance import update

Exponential: TypeAlias = Callable[[np.ndarray], np.ndarray]  #: exponential of float32 values


@dataclass(frozen=True)
class Page:
    """A page in the order in which a head's pages are read."""

    section: int  #: 0 high, 1 low
    number: int  #: number within its section, from the start of its chunk: selects the warp
    cell: int  #: cell of the table entry
    tokens: int  #: tokens in the page
    start: int  #: number of the first token: high slots, then low slots


@decides("D-leankv-46")
def chunks(pages: Pages, arithmetic: Arithmetic, cells: int, high: int, low: int) -> list[list[Page]]:
    """The pages of a head, high ones first, divided if there are more tokens than a partition holds."""
    size, parts, start = pages.chunk(arithmetic), list[list[Page]](), 0
    whole = size == 0 or high + low <= size
    for section, tokens in enumerate((high, low)):
        per_page = pages.sections[section].tokens
        for j in range(-(-tokens // per_page)):
            number = j if whole else j % (size // per_page)
            if not parts or (not whole and number == 0):
                parts.append([])
            count = min(per_page, tokens - j * per_page)
            parts[-1].append(Page(section, number, j if section == 0 else cells - 1 - j, count, start))
            start += count
    return parts


def read(pages: Pages, page: Page, image: np.ndarray) -> PageTokens:
    """Tokens of the used slots of a page."""
    layout = pages.sections[page.section]
    return layout.tokens_of(layout.read(image, np.arange(page.tokens)), pages.preset)


def accumulator(arithmetic: Arithmetic) -> Accumulator:
    """Accumulator of a product, by its name in `arith.dot`."""
    return "fp32_fma" if arithmetic.fma else "fp32"


def logits(pages: Pages, arithmetic: Arithmetic, q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """(G, tokens) scaled products of queries (G, F) and keys (tokens, F), all float32."""
    scale = np.float32(1 / np.sqrt(np.float64(q.shape[-1])))
    product = dot(q[:, None], keys[None], order=pages.key_order(arithmetic), acc=accumulator(arithmetic))
    with np.errstate(all="ignore"):
        return fp16.canonical(product * scale)


def maximum(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(G,) the largest of values (G, tokens) where `seen` (tokens,), as integer keys, so that a NaN is the largest."""
    word = fp16.canonical(values[:, seen]).view(np.int32)
    key = np.max(np.where(word < 0, word ^ np.int32(0x7FFF_FFFF), word), axis=-1)
    return np.where(key < 0, key ^ np.int32(0x7FFF_FFFF), key).astype(np.int32).view(np.float32)


def softmax(
    pages: Pages, arithmetic: Arithmetic, values: np.ndarray, seen: np.ndarray, exp: Exponential = exp32
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p (G, tokens), the subtracted maximum (G,), the sum of exponentials (G,).

    values: logits (G, tokens). seen: (tokens,) tokens of the maximum (D-leankv-43). exp: D-leankv-44.
    """
    top = maximum(values, seen)
    with np.errstate(all="ignore"):
        e = exp(values - top[:, None])
        total = total32(e, order=pages.total_order(arithmetic))
        bottom = total + np.float32(arithmetic.softmax_eps)
        if arithmetic.softmax_div == "div":
            return fp16.canonical(e / bottom[:, None]), top, total
        return fp16.canonical(e * (np.float32(1) / bottom)[:, None]), top, total


def add_values(
    pages: Pages, arithmetic: Arithmetic, page: Page, p: np.ndarray, values: np.ndarray, acc: np.ndarray
) -> np.ndarray:
    """acc (G, accumulators, F) after the slots of a page in turn; p (G, slots), values (slots, F)."""
    result = acc.copy()
    with np.errstate(all="ignore"):
        for slot in range(page.tokens):
            place = pages.place(page.number, slot, arithmetic)
            weight, value, before = p[:, slot, None], values[slot], acc_of(result, place)
            result[:, place] = fused32(weight, value, before) if arithmetic.fma else before + weight * value
    return result


def acc_of(acc: np.ndarray, place: int) -> np.ndarray:
    """One accumulator of every head and feature."""
    return acc[:, place].copy()


@decides("D-leankv-56")
def join(arithmetic: Arithmetic, acc: np.ndarray) -> np.ndarray:
    """(G, F) all accumulators of (G, accumulators, F), as a tree of halves or in turn."""
    if arithmetic.join == "tree":
        return tree(acc)
    total = acc[:, 0].copy()
    with np.errstate(all="ignore"):
        for place in range(1, acc.shape[1]):
            total += acc[:, place]
    return total


def tree(acc: np.ndarray) -> np.ndarray:
    """(G, F) all accumulators of (G, accumulators, F): i and i + half, repeatedly."""
    with np.errstate(all="ignore"):
        terms = [acc[:, i] for i in range(acc.shape[1])]
        return np.asarray(reduce(Halves(acc.shape[1]), terms, np.float32(0), np.add))


def combine(
    arithmetic: Arithmetic, parts: np.ndarray, tops: np.ndarray, totals: np.ndarray, exp: Exponential = exp32
) -> tuple[np.ndarray, np.ndarray]:
    """out (G, F) before its rounding, and the weight (chunks, G) of every chunk's p.

    parts: (chunks, G, F) sums of the chunks. tops, totals: (chunks, G) maxima and sums. `softmax_eps` is added to the
    total of all, and to a chunk's in float64, as the decimal constant of the published code (1e-6). The threads of a
    block add the total, for any `order`.
    """
    eps = np.float32(arithmetic.softmax_eps)
    with np.errstate(all="ignore"):
        weights = exp(tops - maximum(tops.T, np.ones(len(tops), np.bool_)))
        factors = ((totals.astype(np.float64) + float(str(eps))) * weights).astype(np.float32)
        total = dot(totals.T, weights.T, order=threads(arithmetic.sum_threads), acc=accumulator(arithmetic))
        inverse = np.float32(1) / (total + eps)
        acc = np.zeros(parts.shape[1:], np.float32)
        for part, factor in zip(parts, factors, strict=True):
            term = fp16.to_f32(fp16.narrow(part)) * factor[:, None]
            acc = fused32(term, inverse[:, None], acc) if arithmetic.fma else acc + term * inverse[:, None]
        return acc, factors * inverse


def weigh(pages: Pages, arithmetic: Arithmetic, p: np.ndarray, starts: list[int], weights: np.ndarray) -> np.ndarray:
    """p (G, tokens) of all chunks, which begin at tokens `starts`, times the weight of each (chunks, G).

    With the quirk `partition_score` a token's chunk is its number divided by the size of one.
    """
    token = np.arange(p.shape[1])
    chunk = np.searchsorted(np.array(starts), token, side="right") - 1
    if arithmetic.partition_score:
        chunk = token // pages.chunk(arithmetic)
    with np.errstate(all="ignore"):
        return fp16.canonical(p * weights[chunk].T)


def add_score(
    score: np.ndarray, position: np.ndarray, p: np.ndarray, newest: int, arithmetic: Arithmetic
) -> np.ndarray:
    """Scores (tokens,) plus the heads' p (G, tokens), joined; the token at position `newest` may keep its own."""
    added = fp16.canonical(update(score, p, arithmetic.gqa))
    return added if arithmetic.include_self else np.where(position == newest, score, added)
