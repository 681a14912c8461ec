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
from refemu.units.leankv.kernels.chunks import join_chunks, tasks_of
from refemu.units.leankv.kernels.pages import paged_scores
from refemu.units.leankv.paged_attention import UNIT, PagedAttention
from refemu.units.leankv.paged_attention.arithmetic import PAPER, Arithmetic, Attended, Pages, empty, finite, require
from refemu.units.leankv.paged_attention.compiled.page_reads import get_scores
from refemu.units.leankv.paged_attention.loads import SECTOR, traffic
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
            pages.chunk(arithmetic),
            arithmetic.partition_score,
        ],
        np.int64,
    )


def numbers_of(features: int, arithmetic: Arithmetic) -> np.ndarray:
    """`numbers` of the kernels."""
    scale, epsilon = np.float32(1 / np.sqrt(np.float64(features))), np.float32(arithmetic.softmax_eps)
    return np.array([scale, epsilon, float(str(epsilon))], np.float64)


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
    done = stages(pages, to_f32(q), images, cells, lengths, arithmetic)
    return Attended(fp16.narrow(done.out), done.p)


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
    done = stages(pages, q, images, cells, lengths, arithmetic)
    add_scores(pages, images, cells, lengths, done.p, newest, arithmetic.include_self, arithmetic.gqa)
    return done.out


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
    every: bool = False,
) -> Stages:
    """Attention for arguments that `require` admits; every: logits, accumulators and probabilities of chunks too.

    Threads share the heads.
    """
    ready()
    out, p = empty(q, lengths)
    heads, features = q.shape[-2:]
    flat = plain(q).reshape(-1, heads, features)
    chances = p.reshape(len(flat), heads, p.shape[-1])
    entries, stored = _rows(cells, np.int32), _rows(lengths, np.int64)
    tables, settings = layout_of(pages), settings_of(pages, arithmetic)
    tasks = tasks_of(stored, tables[0], settings)
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
    before, joined = chances.copy() if every else logits, sums
    if len(tasks) > len(flat):
        joined = np.empty_like(flat)
        with np.errstate(all="ignore"):
            join_chunks(tasks, results, numbers, settings, joined)
    return Stages(round16(joined).reshape(out.shape), p, before, logits, acc, tops, totals, sums, tasks[:, 0])


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
        "score": _padded(get_scores(pages, pool, entries, lengths)[0].view(np.float32), slots),
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
    maxima = np.where(done.tops < 0, done.tops ^ np.int32(0x7FFF_FFFF), done.tops).view(np.float32)
    per_chunk = {"tops": maxima, "totals": done.totals, "sums": done.sums}
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
    tasks = tasks_of(_rows(lengths, np.int64), layout_of(device.layouts)[0], settings_of(device.layouts, arithmetic))
    tokens, chunks = stored[0] + stored[1], np.bincount(tasks[:, 0])
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
    counted, rows = dict.fromkeys(SECTORS, 0), np.arange(len(entries))
    for section, page in enumerate(device.layouts.sections):
        used = -(-lengths[:, section] // page.tokens)
        row = np.repeat(rows, used)
        number = np.arange(len(row)) - np.repeat(np.cumsum(used) - used, used)
        cell = number if section == 0 else device.cells - 1 - number
        base = (entries[row, cell] - device.cells * row) * page.size % SECTOR
        held = np.minimum(page.tokens, lengths[row, section] - number * page.tokens)
        kinds, times = np.unique(held * SECTOR + base, return_counts=True)
        for kind, count in zip(kinds.tolist(), times.tolist(), strict=True):
            loads = traffic(page, kind // SECTOR, base=kind % SECTOR)
            for name, segment in zip(SECTORS, loads.values(), strict=True):
                counted[name] += count * segment.sectors
    if device.arithmetic.include_self:  # no position is read
        counted[SECTORS[-1]] = 0
    return counted


def _rows(array: np.ndarray, dtype: Any) -> np.ndarray:
    return plain(array.astype(dtype, copy=False)).reshape(-1, array.shape[-1])
