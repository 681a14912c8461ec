"""Compiled forms of paged_attention: `run` on ports, and `attend` over all heads of a layer and all requests at once.

Paper: [leankv §6.2]. Kernels: kernels/attention.py and kernels/pages.py. Pages are decoded one by one
into a small buffer, with tokens of a key and features of a value contiguous; the readable form
combines chunks, all heads with equally many chunks at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from refemu.arith import fp16, integers, kernels, threads
from refemu.arith.fp16_compiled import plain, ready, round16, to_f32
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.leankv.kernels.attention import paged_heads
from refemu.units.leankv.kernels.pages import paged_scores
from refemu.units.leankv.kernels.sectors import page_sectors
from refemu.units.leankv.paged_attention import UNIT, PagedAttention, phases
from refemu.units.leankv.paged_attention.arithmetic import PAPER, Arithmetic, Attended, Pages, empty, finite, require
from refemu.units.leankv.paged_attention.ports import COUNTERS, SECTORS, SEGMENTS
from refemu.units.leankv.significance import Gqa

COLUMNS = 13  #: of `layout` in kernels/attention.py
GRAIN = 2048  #: least number of tokens times query heads of a thread


@lru_cache(maxsize=32)
def layout_of(pages: Pages) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`layout`, and the words of a page's packs of token 0, keys and values, for both sections."""
    layout, sections = np.empty((2, COLUMNS), np.int64), pages.sections
    words = [
        np.zeros((2, max(counts)), np.int64)
        for counts in zip(*((page.key_packs, page.value_packs) for page in sections), strict=True)
    ]
    for s, page in enumerate(sections):
        base = {name: byte // 2 for name, byte in page.offsets.items()}
        pair = page.config
        sign = -1 if pair.key(pages.preset).zero == "neg_min" else 1
        metadata = base["key_meta"], base["val_meta"], pair.k_groups, pair.v_groups
        vectors = page.k_group * page.k_vec, page.v_group * page.v_vec, page.v_vec
        layout[s] = page.tokens, pair.k_bits, pair.v_bits, *metadata, *vectors, sign, base["score"], base["pos"]
        for table, part in zip(words, ("key", "val"), strict=True):
            first = page.slot_words[0, page.parts[part]]
            table[s, : len(first)] = first
    return layout, words[0], words[1]


@lru_cache(maxsize=64)
def settings_of(pages: Pages, arithmetic: Arithmetic) -> np.ndarray:
    """`settings` of the kernels."""
    kernel = arithmetic.order == "kernel"
    return np.array(
        [
            kernels.FP32_FMA if arithmetic.fma else kernels.FP32,
            arithmetic.softmax_div == "recip_mul",
            arithmetic.lane_max,
            pages.key_order(arithmetic).count if kernel else 1,
            pages.rows_of(arithmetic) if kernel else 0,
            arithmetic.warps,
            arithmetic.sum_threads,
            arithmetic.value_slots or pages.high.v_vec,
            arithmetic.join == "sequential",
        ],
        np.int64,
    )


def numbers_of(features: int, arithmetic: Arithmetic) -> np.ndarray:
    """`numbers` of the kernels."""
    return np.array([1 / np.sqrt(np.float64(features)), arithmetic.softmax_eps], np.float32)


def _tasks(pages: Pages, arithmetic: Arithmetic, lengths: np.ndarray) -> np.ndarray:
    """`tasks` of the kernels, head by head: `phases.chunks` of all heads at once."""
    per_page, size = np.array([page.tokens for page in pages.sections]), pages.chunk(arithmetic)
    used, total = -(-lengths // per_page), lengths[:, 0] + lengths[:, 1]
    per_chunk = size // per_page
    whole = total <= (size or total)
    if whole.all():  # the case of models in every layer of every step
        tasks = np.zeros((len(total), 7), np.int64)
        tasks[:, 0], tasks[:, 3:5], tasks[:, 6] = np.arange(len(total)), used, total
        return tasks
    chunks = np.where(whole[:, None], np.array([1, 0]), -(-used // np.maximum(per_chunk, 1)))
    unit, number = _runs(chunks[:, 0] + chunks[:, 1])
    section = (number >= chunks[unit, 0]).astype(np.int64)
    first = (number - section * chunks[unit, 0]) * per_chunk[section]
    last = np.minimum(first + per_chunk[section], used[unit, section])
    tasks, row, before = np.zeros((len(unit), 7), np.int64), np.arange(len(unit)), section * lengths[unit, 0]
    tasks[:, 0], tasks[row, 1 + section], tasks[row, 3 + section] = unit, first, last
    tasks[:, 5] = before + first * per_page[section]
    tasks[:, 6] = before + np.minimum(last * per_page[section], lengths[unit, section])
    alone = whole[unit]
    tasks[alone, 3:5], tasks[alone, 6] = used[whole], total[whole]
    return tasks


def _runs(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `counts[row]` items each: the row of every item, and its number within the row."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)


def attend(
    pages: Pages,
    q: np.ndarray,
    images: np.ndarray,
    cells: np.ndarray,
    lengths: np.ndarray,
    arithmetic: Arithmetic = PAPER,
) -> Attended:
    """As `paged_attention.attend`."""
    require(pages, q, images, cells, lengths)
    out, p = attend_unchecked(pages, to_f32(q), images, cells, lengths, arithmetic)
    return Attended(fp16.narrow(out), p)


def step(
    pages: Pages,
    q: np.ndarray,
    images: np.ndarray,
    cells: np.ndarray,
    lengths: np.ndarray,
    newest: Any,
    arithmetic: Arithmetic = PAPER,
) -> np.ndarray:
    """As `paged_attention.step`, without checks of the pages, which come from the memory manager."""
    finite(q)
    out, p = attend_unchecked(pages, q, images, cells, lengths, arithmetic)
    add_scores(pages, images, cells, lengths, p, newest, arithmetic.include_self, arithmetic.gqa)
    return out


def attend_unchecked(
    pages: Pages, q: np.ndarray, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, arithmetic: Arithmetic
) -> tuple[np.ndarray, np.ndarray]:
    """out (..., G, F) float32 of fp16 values, and p, for arguments that `require` admits, with queries as float32."""
    done = stages(pages, q, images, cells, lengths, arithmetic, False)
    return done.out, done.p


@dataclass(frozen=True)
class Stages:
    """Results of `stages`; U heads, C chunks of all heads one after the other."""

    out: np.ndarray  #: (..., G, F) float32 of fp16 values
    p: np.ndarray  #: (..., G, tokens)
    chances: np.ndarray  #: (U, G, tokens): p before chunks are combined; this and the rest are empty unless requested
    logits: np.ndarray  #: (U, G, tokens)
    acc: np.ndarray  #: (C, G, accumulators, F)
    tops: np.ndarray  #: (C, G) integer keys
    totals: np.ndarray  #: (C, G)
    sums: np.ndarray  #: (C, G, F), not rounded
    unit: np.ndarray  #: (C,) head of a chunk


def stages(
    pages: Pages,
    q: np.ndarray,
    images: np.ndarray,
    cells: np.ndarray,
    lengths: np.ndarray,
    arithmetic: Arithmetic,
    every: bool = True,
) -> Stages:
    """As `attend_unchecked`; every: logits, accumulators and probabilities of chunks too.

    Threads share the heads.
    """
    ready()
    out, p = empty(q, lengths)
    heads, features = q.shape[-2:]
    flat = plain(q).reshape(-1, heads, features)
    chances = p.reshape(len(flat), heads, p.shape[-1])
    entries, stored = _rows(cells, np.int32), _rows(lengths, np.int64)
    tables, settings, tasks = layout_of(pages), settings_of(pages, arithmetic), _tasks(pages, arithmetic, stored)
    tops, totals = np.empty((len(tasks), heads), np.int32), np.empty((len(tasks), heads), np.float32)
    sums = np.empty((len(tasks), heads, features), np.float32)
    logits = np.zeros(chances.shape if every else (0, 0, 0), np.float32)
    acc = np.zeros((len(tasks), heads, pages.accumulators(arithmetic), features) if every else (1, 0, 0, 0), np.float32)
    numbers = numbers_of(features, arithmetic)
    operands = flat, (images, entries, stored), tables, numbers, settings, tasks
    results = chances, tops, totals, sums, logits, acc

    def run(first: int, last: int) -> None:
        paged_heads(*operands, results, first, last)

    with np.errstate(all="ignore"):
        threads.share_out(run, len(tasks), least=1 + GRAIN // max(1, p.shape[-1] * heads))
    before = chances.copy() if every else logits
    joined = _combined(pages, arithmetic, tasks, sums, tops, totals, chances) if len(tasks) > len(flat) else sums
    return Stages(round16(joined).reshape(out.shape), p, before, logits, acc, tops, totals, sums, tasks[:, 0])


def _combined(
    pages: Pages,
    arithmetic: Arithmetic,
    tasks: np.ndarray,
    sums: np.ndarray,
    tops: np.ndarray,
    totals: np.ndarray,
    p: np.ndarray,
) -> np.ndarray:
    """Sums (units, G, F) of heads with one chunk or several; p is weighted in place."""
    units, heads, features = len(p), *sums.shape[1:]
    joined, weights = np.empty((units, heads, features), np.float32), np.empty_like(totals)
    maxima, count = _maxima(tops), np.bincount(tasks[:, 0], minlength=units)
    first = np.cumsum(count) - count
    joined[count == 1] = sums[first[count == 1]]
    for chunks in sorted(set(count.tolist()) - {1}):
        rows = first[count == chunks] + np.arange(chunks)[:, None]
        out, weight = phases.combine(
            arithmetic,
            sums[rows].reshape(chunks, -1, features),
            maxima[rows].reshape(chunks, -1),
            totals[rows].reshape(chunks, -1),
        )
        joined[count == chunks], weights[rows] = out.reshape(-1, heads, features), weight.reshape(*rows.shape, heads)
    _weigh(pages, arithmetic, tasks, np.flatnonzero(count[tasks[:, 0]] > 1), first, weights, p)
    return joined


def _maxima(tops: np.ndarray) -> np.ndarray:
    """float32 values of integer keys with the same order."""
    return np.where(tops < 0, tops ^ np.int32(0x7FFF_FFFF), tops).astype(np.int32).view(np.float32)


def _weigh(
    pages: Pages,
    arithmetic: Arithmetic,
    tasks: np.ndarray,
    some: np.ndarray,
    first: np.ndarray,
    weights: np.ndarray,
    p: np.ndarray,
) -> None:
    """`phases.weigh` for the chunks `some`; first (units,) chunks of all heads, weights (chunks, G)."""
    row, number = _runs(tasks[some, 6] - tasks[some, 5])
    chunk = some[row]
    unit, token = tasks[chunk, 0], tasks[chunk, 5] + number
    if arithmetic.partition_score:
        chunk = first[unit] + token // pages.chunk(arithmetic)
    with np.errstate(all="ignore"):
        p[unit, :, token] = fp16.canonical(p[unit, :, token] * weights[chunk])


def add_scores(
    pages: Pages,
    images: np.ndarray,
    cells: np.ndarray,
    lengths: np.ndarray,
    p: np.ndarray,
    newest: Any,
    include_self: bool = False,
    gqa: Gqa = "max",
) -> None:
    """As `paged_attention.add_scores`."""
    rows = _rows(lengths, np.int64)
    position = np.broadcast_to(np.asarray(newest, np.int64), lengths.shape[:-1]).reshape(-1).copy()
    kept = np.full_like(position, -1) if include_self else position
    chances, entries, layout = plain(p).reshape(len(rows), *p.shape[-2:]), _rows(cells, np.int32), layout_of(pages)[0]

    def run(first: int, last: int) -> None:
        paged_scores(images, entries, rows, layout, kept, chances, gqa == "mean", first, last)

    with np.errstate(all="ignore"):
        threads.share_out(run, len(rows), least=1 + 8 * GRAIN // max(1, p.shape[-1] * p.shape[-2]))


@compiled_run(UNIT)
def run(device: PagedAttention, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all heads together, each with its own pages."""
    pages, arithmetic = device.layouts, device.arithmetic
    queries, pool, entries, lengths = device.operands(*inputs[:5])
    done = stages(pages, to_f32(queries), pool, entries, lengths, arithmetic, bool(device.ports.state))
    add_scores(pages, pool, entries, lengths, done.p, inputs[5], arithmetic.include_self, arithmetic.gqa)
    slots = device.ports.outputs[2].count
    columns = {
        "out": fp16.bits(fp16.narrow(done.out)),
        "p": _padded(done.p, slots),
        "score": _scores(pages, pool, entries, lengths, slots),
    }
    if device.ports.state:
        columns |= _registers(device, done, slots)
    for port, output in zip(device.ports.outputs + device.ports.state, outputs, strict=True):
        output[...] = columns[port.name].reshape(output.shape)
    counts = counters(device, entries, lengths)
    return [counts[name] for name in COUNTERS]


def _registers(device: PagedAttention, done: Stages, slots: int) -> dict[str, np.ndarray]:
    """Patterns of the registers after the last chunk, row by row; 0 for chunks that a row does not have."""
    rows, lanes = len(done.logits), {port.name: port.count for port in device.stage_ports}
    chunks = np.bincount(done.unit, minlength=rows)
    last, number = np.cumsum(chunks) - 1, np.arange(len(done.unit)) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    per_chunk = {"tops": _maxima(done.tops), "totals": done.totals, "sums": done.sums}
    columns = {"logits": _padded(done.logits, slots), "chances": _padded(done.chances, slots)}
    columns["acc"] = fp16.canonical(done.acc[last]).view(np.uint32)
    for name, array in per_chunk.items():
        each = array.reshape(len(array), math.prod(array.shape[1:]))
        whole = np.zeros((rows, lanes[name] // each.shape[1], each.shape[1]), np.float32)
        whole[done.unit, number] = each
        columns[name] = fp16.canonical(whole).view(np.uint32)
    return columns


def _padded(p: np.ndarray, slots: int) -> np.ndarray:
    """Patterns of values of tokens (..., G, tokens), zero-padded to the lanes of a port."""
    padded = np.zeros((*p.shape[:-1], slots), np.float32)
    padded[..., : p.shape[-1]] = p
    return padded.view(np.uint32)


def _scores(pages: Pages, pool: np.ndarray, cells: np.ndarray, lengths: np.ndarray, lanes: int) -> np.ndarray:
    """Patterns of the scores of stored tokens, zero-padded: (rows, lanes)."""
    scores = np.zeros((len(lengths), lanes), np.uint32)
    for section, page in enumerate(pages.sections):
        row, index = _runs(lengths[:, section])
        cell, slot = index // page.tokens, index % page.tokens
        image = cells[row, cell if section == 0 else cells.shape[1] - 1 - cell]
        words = pool[image[:, None], page.slot_words[slot, page.parts["score"]]].astype(np.uint32)
        scores[row, section * lengths[row, 0] + index] = words[:, 0] | (words[:, 1] << np.uint32(16))
    return scores


def counters(device: PagedAttention, entries: np.ndarray, lengths: np.ndarray) -> dict[str, int]:
    """Counters of the readable unit. entries: (rows, cells) of pages of the rows, `device.cells` each."""
    return _operations(device, lengths) | _sectors(device, entries, lengths)


def _operations(device: PagedAttention, lengths: np.ndarray) -> dict[str, int]:
    """Words and operations, from the lengths."""
    counted, arithmetic, heads = dict.fromkeys(COUNTERS, 0), device.arithmetic, device.heads
    stored = integers.total(lengths, axis=0).tolist()
    for section, (count, page) in enumerate(zip(stored, device.layouts.sections, strict=True)):
        counted["pages"] += int(integers.total(-(-lengths[:, section] // page.tokens)))
        for name, part in zip(SEGMENTS[:4], ("key", "key_meta", "val", "val_meta"), strict=True):
            counted[name] += count * (page.parts[part].stop - page.parts[part].start)
    tokens, chunks = stored[0] + stored[1], np.bincount(_tasks(device.layouts, arithmetic, lengths)[:, 0])
    several = chunks > 1
    combined = int(integers.total(chunks[several])), int(integers.total(several))
    divided = tokens if arithmetic.softmax_div == "div" else int(integers.total(chunks))
    return counted | {
        "score_words": 2 * tokens,
        "pos_words": 2 * tokens * (not arithmetic.include_self),
        "macs": 2 * tokens * heads * device.head_size,
        "exps": heads * (tokens + combined[0]),
        "divisions": heads * (divided + combined[1]),
    }


def _sectors(device: PagedAttention, entries: np.ndarray, lengths: np.ndarray) -> dict[str, int]:
    """Sectors that the warps' loads touch; pages of a row are numbered from 0."""
    pages, counts = device.layouts, np.zeros(len(SECTORS), np.int64)
    groups = np.array(
        [(page.key_packs, page.value_packs, page.k_group, page.k_vec, page.v_group) for page in pages.sections],
        np.int64,
    )
    cells = np.asarray(entries, np.int64) - device.cells * np.arange(len(entries))[:, None]
    positions = not device.arithmetic.include_self
    page_sectors(
        cells, np.asarray(lengths, np.int64), pages.high.size // 2, *layout_of(pages), groups, positions, counts
    )
    return dict(zip(SECTORS, counts.tolist(), strict=True))


def _rows(array: np.ndarray, dtype: Any) -> np.ndarray:
    return plain(array.astype(dtype, copy=False)).reshape(-1, array.shape[-1])
