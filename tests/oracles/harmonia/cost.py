"""Cost of a block on Harmonia's accelerator [harmonia §III, §IV]: what `core` counts, and the clocks of all parts.

block(sizes, tokens, before, n_initial, n_local) -> rows by kind of work
"""

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
    """Scores and context of all query heads, head after head."""
    length, dim, rows = before + tokens, sizes.head_dim, []
    for kind, inner, columns in (("score", dim, length), ("final" if dim % 32 else "context", length, dim)):
        given = Given(wide=wide(length, tokens, kind != "score", **local))
        asked = Product(kind, tokens, inner, columns, b_type="mixed", start=before)
        rows.append(product(asked, given, sizes.heads))
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
        {"activations": count["a"] + results, "weights" if weights else "kv": count["b"]},
        comparisons=count["comparisons"],
        conversions=0 if p.kind == "final" else results,
    )
    return costs.added(*[one] * products) | {"cycles": clocks(p, given, products)}


def clocks(p: Product, given: Given, products: int) -> int:
    """Clocks until everything is written."""
    jobs: list[Job] = []
    for _ in range(products):
        first = len(jobs)
        jobs += [replace(job, sources=[first + n for n in job.sources]) for job in planned(p, given)]
    machine = Machine(p, jobs)
    machine.run()
    return max(machine.written)


def wide(tokens: int, queries: int, values: bool, **sizes: int) -> list[list[int]]:
    """By query, the last ones of `tokens`: a query sees what the cache holds with it as the last token."""
    units_of = -(-tokens // 32) if values else tokens
    rows = []
    for seen in range(tokens - queries + 1, tokens + 1):
        held = [int(bits == 8) for bits in units.bits_at(seen, **sizes)[values]]
        rows.append(held + [1] * (units_of - len(held)))
    return rows
