"""Cost of a block on Harmonia's accelerator [harmonia §III, §IV]: what `core` counts, and the clocks of all parts.

block(sizes, tokens, before, n_initial, n_local) -> rows by kind of work
"""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

from tests.oracles import costs
from tests.oracles.costs import Row, Sizes
from tests.oracles.harmonia import core, units
from tests.oracles.harmonia.core_clock import Job, Machine, planned
from tests.oracles.harmonia.core_values import NOTHING, Given, Product


def block(sizes: Sizes, tokens: int, before: int, **local: int) -> dict[str, Row]:
    """`tokens` tokens after `before` others of one cache. local: n_initial and n_local."""
    width, inputs = sizes.kv_heads * sizes.head_dim, [inputs for inputs, _ in sizes.groups]
    rows = {
        "quantize": costs.added(*(converted(tokens, length) for length in inputs)),
        "linear": costs.added(*(product(each) for each in linear(sizes, tokens, before))),
        "grouping": costs.row(conversions=(before % 32 + 1) * width if before else 0),
        "attention": attention(sizes, tokens, before, **local),
    }
    if not before:
        counts = units.offset_counters(tokens, width, width // 32)
        rows["offset"] = costs.row(comparisons=counts["comparisons"] + counts["select_comparisons"])
    return rows


def converted(tokens: int, length: int) -> Row:
    """An input through the converter: blocks of 8 rows by 32 columns."""
    groups = [min(32, length - first) for first in range(0, length, 32)]
    cycles = units.converter_cycles(groups * -(-tokens // 8))
    return costs.row(comparisons=tokens * length, conversions=tokens * length, cycles=cycles)


def linear(sizes: Sizes, tokens: int, before: int) -> list[Product]:
    """Products with INT4 weights; the gate goes through its function, and stays FP16 like what nobody converts."""
    q, kv = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    heads: dict[str, Any] = {"head_dim": sizes.head_dim, "start": before}
    final = [(sizes.width, q, "none"), (sizes.ffn, sizes.width, "silu"), (sizes.ffn, sizes.width, "none")]
    final.append((sizes.width, sizes.ffn, "none"))
    return [
        Product("q", tokens, sizes.width, q, **heads),
        Product("k", tokens, sizes.width, kv, window=min(32, before or tokens), **heads),
        Product("final" if before else "v", tokens, sizes.width, kv),
        *(Product("final", tokens, length, outputs, activation=name) for outputs, length, name in final),
    ]


def attention(sizes: Sizes, tokens: int, before: int, **local: int) -> Row:
    """Scores and context of all query heads, those of a KV head together: rows of a token follow each other."""
    length, dim, rows, share = before + tokens, sizes.head_dim, [], sizes.heads // sizes.kv_heads
    for kind, inner, columns in (("score", dim, length), ("final" if dim % 32 else "context", length, dim)):
        seen = [row for row in wide(length, tokens, kind != "score", **local) for _ in range(share)]
        asked = Product(kind, tokens * share, inner, columns, b_type="mixed", start=before)
        rows.append(product(asked, Given(wide=seen), sizes.kv_heads))
    return costs.added(*rows)


def product(p: Product, given: Given = NOTHING, products: int = 1) -> Row:
    """Some products of one size, one after the other."""
    count: Counter[str] = Counter()
    for event, _, counts in core.plan(p, given):
        count += Counter(counts) if event in ("compute", "convert") else Counter()
    flow = p.force or units.choose(p.rows, p.inner, p.columns, p.tile_m, p.tile_k)
    for event, _, _, elements in units.fdgf_events(p.rows, p.inner, p.columns, p.tile_m, p.tile_k, flow):
        if event != "compute":
            count["b" if "b" in event else "a"] += elements
    results, weights = p.rows * p.columns, p.b_type == "int4"
    modes = {"M8M8": count["wide_macs"], "M8M4": count["macs"] - count["wide_macs"]}
    macs = {"M8W4": count["macs"]} if weights else {mode: number for mode, number in modes.items() if number}
    one = costs.row(
        macs,
        {"activations": count["a"] + results, **({"weights": count["b"]} if weights else {})},
        comparisons=count["comparisons"],
        conversions=0 if p.kind == "final" else results,
    )
    some = costs.added(*[one] * products) | {"cycles": clocks(p, given, products)}
    if not weights:
        some["words"]["kv"] = math.ceil(products * stored(p, given, flow) / 16)
    return some


def stored(p: Product, given: Given, flow: int) -> int:
    """Bits of keys or values that a product reads, with their exponents: 9 or 5 of an element, as its rows see it."""
    tops = [0] if flow == 1 else range(0, p.rows, p.tile_m)
    bits = 0
    for top in tops:
        below = p.rows if flow == 1 else min(p.rows, top + p.tile_m)
        for unit in range(len(given.wide[0])):
            width = 9 if any(given.wide[row][unit] for row in range(top, below)) else 5
            if p.kind == "score":
                bits += p.inner * width + 5 * math.ceil(p.inner / 32)
            else:
                bits += p.columns * (min(32, p.inner - 32 * unit) * width + 5)
    return bits


def clocks(p: Product, given: Given, products: int) -> int:
    """Clocks until everything has left, with every operand at hand; passes of the array begin as PEs are free."""
    jobs: list[Job] = []
    for _ in range(products):
        first = len(jobs)
        jobs += [replace(job, sources=[first + n for n in job.sources]) for job in planned(p, given)]
    for job in jobs:
        if job.event == "load":
            job.clocks = 0
        if job.event == "compute":
            tiles = core.tiles(job.place)
            slots = [each[0] for tile in tiles for each in core.array_passes(p, tile, given)]
            job.held, job.early = sum(max(each, 16) for each in slots), slots[0]
            job.clocks = job.held - max(slots[-1], 16) + slots[-1] + 15
    machine = Machine(p, jobs)
    machine.writes = []
    machine.run()
    left = 0
    for job in jobs if p.kind == "final" else ():
        if job.event == "store":
            left = max(left, machine.stored(job)) + job.place[3] - job.place[1]
    return max(left, *machine.ends.values(), *(job.aligned for job in jobs))


def wide(tokens: int, queries: int, values: bool, **sizes: int) -> list[list[int]]:
    """By query, the last ones of `tokens`: a query sees what the cache holds with it as the last token."""
    units_of = -(-tokens // 32) if values else tokens
    rows = []
    for seen in range(tokens - queries + 1, tokens + 1):
        held = [int(bits == 8) for bits in units.bits_at(seen, **sizes)[values]]
        rows.append(held + [1] * (units_of - len(held)))
    return rows
