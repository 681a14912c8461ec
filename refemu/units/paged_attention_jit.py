"""Compiled twins of paged_attention: `run` on ports, and `attend` over all heads of a layer and all requests at once.

Paper: [leankv §6.2]. Read paged_attention.py first. Kernels: `paged_*` of arith/float_jit.py. Pages are decoded one by
one into a small buffer, tokens of a key and features of a value side by side; chunks are combined by the readable form.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from refemu.arith import float_jit, fp16, threads
from refemu.arith.fp16_jit import plain, ready, round16, to_f32
from refemu.units import attention_phases_parts as phases
from refemu.units.paged_attention import PagedAttention
from refemu.units.paged_attention_parts import PAPER, Arithmetic, Attended, Pages, empty, finite, require
from refemu.units.paged_attention_ports_parts import COUNTERS, SEGMENTS, Result
from refemu.units.unit import admit

COLUMNS = 13  #: of `layout` in float_jit
GRAIN = 2048  #: tokens and query heads that a thread has at least to attend to


@lru_cache(maxsize=32)
def _layout(pages: Pages) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`layout`, and the words of a page's packs of token 0, keys and values, for both sections."""
    layout, sections = np.empty((2, COLUMNS), np.int64), pages.sections
    words = [np.zeros((2, max(counts)), np.int64) for counts in zip(*((page.key_packs, page.value_packs)
                                                                       for page in sections), strict=True)]
    for s, page in enumerate(sections):
        base = {name: byte // 2 for name, byte in page.offsets.items()}
        pair = page.config
        sign = -1 if pair.key(pages.preset).zero == "neg_min" else 1
        layout[s] = (page.tokens, pair.k_bits, pair.v_bits, base["key_meta"], base["val_meta"], pair.k_groups,
                     pair.v_groups, page.k_group * page.k_vec, page.v_group * page.v_vec, page.v_vec, sign,
                     base["score"], base["pos"])
        for table, part in zip(words, ("key", "val"), strict=True):
            own = page.slot_words[0, page.parts[part]]
            table[s, : len(own)] = own
    return layout, words[0], words[1]


@lru_cache(maxsize=64)
def _settings(pages: Pages, arithmetic: Arithmetic) -> np.ndarray:
    """`settings` of the kernels."""
    kernel = arithmetic.order == "kernel"
    return np.array([float_jit.FP32_FMA if arithmetic.fma else float_jit.FP32, arithmetic.softmax_div == "recip_mul",
                     arithmetic.lane_max, pages.high.k_group if kernel else 1, pages.rows if kernel else 0], np.int64)


def _tasks(pages: Pages, arithmetic: Arithmetic, lengths: np.ndarray) -> np.ndarray:
    """`tasks` of the kernels, head by head."""
    high, low = (page.tokens for page in pages.sections)
    tokens, size = lengths[:, 0] + lengths[:, 1], pages.chunk(arithmetic)
    if not size or (tokens <= size).all():
        tasks = np.zeros((len(lengths), 7), np.int64)
        tasks[:, 0], tasks[:, 6] = np.arange(len(lengths)), tokens
        tasks[:, 3:5] = -(-lengths // np.array([high, low]))
        return tasks
    rows = list[tuple[int, ...]]()
    for unit, pair in enumerate(lengths.tolist()):
        used = -(-pair[0] // high), -(-pair[1] // low)
        for chunk in phases.chunks(pages, arithmetic, used[0] + used[1], *pair):
            first, last = [0, 0], [0, 0]
            for page in chunk:
                j = page.cell if page.section == 0 else used[0] + used[1] - 1 - page.cell
                first[page.section] = j if last[page.section] == 0 else first[page.section]
                last[page.section] = j + 1
            rows.append((unit, *first, *last, chunk[0].start, chunk[-1].start + chunk[-1].tokens))
    return np.array(rows, np.int64)


def attend(pages: Pages, q: np.ndarray, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray,
           arithmetic: Arithmetic = PAPER) -> Attended:
    """As `paged_attention.attend`."""
    require(pages, q, images, cells, lengths)
    out, p = attend_unchecked(pages, to_f32(q), images, cells, lengths, arithmetic)
    return Attended(fp16.narrow(out), p)


def step(pages: Pages, q: np.ndarray, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, newest: Any,
         arithmetic: Arithmetic = PAPER) -> np.ndarray:
    """As `paged_attention.step`; what the memory manager says about the pages is not looked at again."""
    finite(q)
    out, p = attend_unchecked(pages, q, images, cells, lengths, arithmetic)
    add_scores(pages, images, cells, lengths, p, newest, arithmetic.include_self)
    return out


def attend_unchecked(pages: Pages, q: np.ndarray, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray,
                     arithmetic: Arithmetic) -> tuple[np.ndarray, np.ndarray]:
    """out (..., G, F) float32 of fp16 values, and p, of what `require` admits, with the queries as float32.

    The process's threads share out the heads.
    """
    ready()
    out, p = empty(q, lengths)
    heads, features = q.shape[-2:]
    flat = plain(q).reshape(-1, heads, features)
    chances = p.reshape(len(flat), heads, p.shape[-1])
    entries, stored = _rows(cells, np.int32), _rows(lengths, np.int64)
    tables, settings, tasks = _layout(pages), _settings(pages, arithmetic), _tasks(pages, arithmetic, stored)
    tops, totals = np.empty((len(tasks), heads), np.int32), np.empty((len(tasks), heads), np.float32)
    sums = np.empty((len(tasks), heads, features), np.float32)
    numbers = np.array([1 / np.sqrt(np.float64(features)), arithmetic.softmax_eps], np.float32)

    def run(first: int, last: int) -> None:
        float_jit.paged_heads(flat, images, entries, stored, *tables, numbers, settings, tasks, chances, tops, totals,
                              sums, first, last)

    with np.errstate(all="ignore"):
        threads.share_out(run, len(tasks), least=1 + GRAIN // max(1, p.shape[-1] * heads))
    if len(tasks) > len(flat):
        sums = _combined(pages, arithmetic, tasks, sums, tops, totals, chances)
    return round16(sums).reshape(out.shape), p


def _combined(pages: Pages, arithmetic: Arithmetic, tasks: np.ndarray, sums: np.ndarray, tops: np.ndarray,
              totals: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Sums (units, G, F) of heads with one chunk or several; p is weighted in place."""
    made = np.empty((len(p), *sums.shape[1:]), np.float32)
    maxima = np.where(tops < 0, tops ^ np.int32(0x7FFF_FFFF), tops).astype(np.int32).view(np.float32)
    for unit in range(len(p)):
        own = np.flatnonzero(tasks[:, 0] == unit)
        if len(own) == 1:
            made[unit] = sums[own[0]]
            continue
        made[unit], weights = phases.combine(arithmetic, sums[own], maxima[own], totals[own])
        tokens = tasks[own[-1], 6]
        p[unit, :, :tokens] = phases.weigh(pages, arithmetic, p[unit, :, :tokens], tasks[own, 5].tolist(), weights)
    return made


def add_scores(pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, p: np.ndarray,
               newest: Any, include_self: bool = False) -> None:
    """As `paged_attention.add_scores`."""
    rows = _rows(lengths, np.int64)
    position = np.broadcast_to(np.asarray(newest, np.int64), lengths.shape[:-1]).reshape(-1).copy()
    kept = np.full_like(position, -1) if include_self else position
    chances, entries, layout = plain(p).reshape(len(rows), *p.shape[-2:]), _rows(cells, np.int32), _layout(pages)[0]

    def run(first: int, last: int) -> None:
        float_jit.paged_scores(images, entries, rows, layout, kept, chances, first, last)

    with np.errstate(all="ignore"):
        threads.share_out(run, len(rows), least=1 + 8 * GRAIN // max(1, p.shape[-1] * p.shape[-2]))


def run(q: Any, images: Any, entry: Any, n_high: Any, n_low: Any, newest: Any, **parameters: Any) -> Result:
    """As `paged_attention.run`."""
    device = PagedAttention(**parameters)
    arrays = admit(device.name, device.ports.inputs, (q, images, entry, n_high, n_low, newest))
    shape, pages, arithmetic = arrays[-1].shape, device.layouts, device.arithmetic
    queries, pool, entries, lengths = device.operands(*arrays[:5])
    require(pages, queries, pool, entries, lengths)
    out, p = attend_unchecked(pages, to_f32(queries), pool, entries, lengths, arithmetic)
    add_scores(pages, pool, entries, lengths, p, arrays[-1].reshape(-1), arithmetic.include_self)
    lanes = {port.name: port.lanes for port in device.ports.outputs}
    chances = np.zeros((len(lengths), device.heads, lanes["score"]), np.float32)
    chances[..., : p.shape[-1]] = p
    return Result(fp16.bits(fp16.narrow(out)).reshape(*shape, lanes["out"]),
                  chances.view(np.uint32).reshape(*shape, lanes["p"]),
                  _scores(pages, pool, entries, lengths, lanes["score"]).reshape(*shape, lanes["score"]),
                  **_counters(device, lengths))


def _scores(pages: Pages, pool: np.ndarray, cells: np.ndarray, lengths: np.ndarray, lanes: int) -> np.ndarray:
    """Patterns of the scores of stored tokens, zeros behind them: (rows, lanes)."""
    made = np.zeros((len(lengths), lanes), np.uint32)
    for section, page in enumerate(pages.sections):
        words = pool[:, page.slot_words[:, page.parts["score"]]].astype(np.uint32)
        scores = words[..., 0] | (words[..., 1] << np.uint32(16))
        for row, (high, low) in enumerate(lengths.tolist()):
            index = np.arange((high, low)[section])
            cell = index // page.tokens if section == 0 else cells.shape[1] - 1 - index // page.tokens
            made[row, section * high + index] = scores[cells[row, cell], index % page.tokens]
    return made


def _counters(device: PagedAttention, lengths: np.ndarray) -> dict[str, int]:
    """What the readable unit counts page by page, from the lengths."""
    counted, arithmetic, heads = dict.fromkeys(COUNTERS, 0), device.arithmetic, device.heads
    for pair in lengths.tolist():
        tokens = pair[0] + pair[1]
        for count, page in zip(pair, device.layouts.sections, strict=True):
            counted["pages"] += -(-count // page.tokens)
            for name, part in zip(SEGMENTS[:4], ("key", "key_meta", "val", "val_meta"), strict=True):
                counted[name] += count * (page.parts[part].stop - page.parts[part].start)
        chunks = len(phases.chunks(device.layouts, arithmetic, device.cells, *pair))
        counted["score_words"] += 2 * tokens
        counted["pos_words"] += 2 * tokens * (not arithmetic.include_self)
        counted["macs"] += 2 * tokens * heads * device.features
        counted["exps"] += tokens * heads + (chunks * heads if chunks > 1 else 0)
        counted["divisions"] += heads * (tokens if arithmetic.softmax_div == "div" else chunks)
        counted["divisions"] += heads if chunks > 1 else 0
    return counted


def _rows(array: np.ndarray, dtype: Any) -> np.ndarray:
    return plain(array.astype(dtype, copy=False)).reshape(-1, array.shape[-1])
