"""Cost of a block on KLLM's chip of Table I [kllm §III, §IV], from what is an outlier alone.

block(sizes, masks, pops, bits) -> rows by kind of work
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tests.oracles import costs
from tests.oracles.costs import Row, Sizes
from tests.oracles.kllm import chip, units
from tests.oracles.kllm.chip import Chip, Left, Right

CHIP = Chip(lanes=16, concat=4096, counters=32, inputs=16, macs=32)
TREE = 4096  #: inputs of Orizuru
WEIGHTS = 4  #: bits
Mask = Sequence[int]  #: 1 at outliers


class Masks(NamedTuple):
    """Outliers by token: of the last ones of a cache, and of all keys and values in it."""

    q: Sequence[Mask]
    k: Sequence[Mask]
    v: Sequence[Mask]
    gate: Sequence[Mask]
    up: Sequence[Mask]


def block(sizes: Sizes, masks: Masks, pops: int, bits: int) -> dict[str, Row]:
    """Some tokens. pops: outliers of each side of a token. bits: of activations, keys and values."""
    tokens, kv = len(masks.q), sizes.kv_heads * sizes.head_dim
    inputs = [length for length, _ in sizes.groups]
    quantized = [*inputs, sizes.heads * sizes.head_dim, kv, kv, sizes.ffn, sizes.ffn]
    layers = [(outputs, length) for length, several in sizes.groups for outputs in several]
    return {
        "quantize": costs.added(*[encoded(length, pops) for length in quantized] * tokens),
        "norm": costs.added(*[moment(length, pops, bits) for length in (inputs[0], inputs[2])] * tokens),
        "linear": costs.added(*(linear(tokens, *layer, pops, bits) for layer in layers)),
        "attention": attention(sizes, masks, bits),
        "activation": gated(masks, bits),
    }


def encoded(length: int, pops: int) -> Row:
    """A token through Orizuru's trees, then sixteen inliers a cycle through the Clustering Unit."""
    inliers, found = length - 2 * pops, units.orizuru_passes(range(length), pops, TREE).popped
    cycles = found.cycles + math.ceil(inliers / chip.CLUSTERING)
    return costs.row(comparisons=found.comparisons, conversions=inliers, cycles=cycles)


def moment(length: int, pops: int, bits: int) -> Row:
    """The mean square of a token: a product for every entry of its histogram, and for every outlier."""
    return costs.row({"norm": 2**bits + 2 * pops}, index_operations=length - 2 * pops)


def linear(tokens: int, outputs: int, inputs: int, pops: int, bits: int) -> Row:
    """Tokens by weights, which have no outliers."""
    rows = [left([1] * 2 * pops + [0] * (inputs - 2 * pops))] * tokens
    words = {"weights": tokens * outputs * inputs, "activations": tokens * inputs}
    columns = [right([0] * inputs)] * outputs
    return product(rows, columns, [(inputs, outputs)] * tokens, 2 ** (bits + WEIGHTS), words)


def attention(sizes: Sizes, masks: Masks, bits: int) -> Row:
    """KV head after KV head: the query heads that read it, token by token."""
    dim, group, tokens = sizes.head_dim, sizes.heads // sizes.kv_heads, len(masks.q)
    first = len(masks.k) - tokens
    seen = [first + token + 1 for token in range(tokens) for _ in range(group)]
    rows = []
    for head in range(sizes.kv_heads):
        queries = [left(part(mask, head * group + g, dim)) for mask in masks.q for g in range(group)]
        keys = [right(part(mask, head, dim)) for mask in masks.k]
        values = [right(column) for column in zip(*(part(mask, head, dim) for mask in masks.v), strict=True)]
        scores = [chip.scores([0] * len(masks.k), 0, [0] * len(masks.k))] * len(seen)
        words = {"activations": len(queries) * dim, "kv": sum(seen) * dim}
        rows.append(product(queries, keys, [(dim, count) for count in seen], 2 ** (2 * bits), words))
        words = {"activations": sum(seen), "kv": sum(seen) * dim}
        rows.append(product(scores, values, [(count, dim) for count in seen], 2**bits, words))
        passes = sum(3 * math.ceil(count / chip.FUNCTIONAL) for count in seen)  # maximum, exponential, division
        rows.append(costs.row(conversions=sum(seen), cycles=passes))
    return costs.added(*rows)


def part(mask: Mask, head: int, dim: int) -> Mask:
    """Outliers of one head."""
    return mask[head * dim : (head + 1) * dim]


def gated(masks: Masks, bits: int) -> Row:
    """A table of the function for every token, its outliers, and the product of indices."""
    either = [g or u for gate, up in zip(masks.gate, masks.up, strict=True) for g, u in zip(gate, up, strict=True)]
    outliers = sum(map(sum, masks.gate))
    tables = len(masks.gate) * 2**bits
    return costs.row({"sparse": sum(either)}, index_operations=len(either), conversions=tables + outliers)


def left(mask: Mask) -> Left:
    """A row with these outliers."""
    return Left([0] * len(mask), 0, mask, [], [])


def right(mask: Mask) -> Right:
    """A column with these outliers."""
    return Right([0] * len(mask), 0, [0 if outlier else None for outlier in mask])


def product(
    rows: Sequence[Left],
    columns: Sequence[Right],
    reach: Sequence[tuple[int, int]],
    entries: int,
    words: dict[str, int],
) -> Row:
    """reach: positions and columns of every row."""
    count: Counter[str] = Counter()
    table = [0] * entries
    for row, (length, width) in zip(rows, reach, strict=True):
        for column in columns[:width]:
            chip.work(count, row, column, [range(length)], table)
    plan = [each for m, limits in enumerate(reach) for each in chip.passes(CHIP, m, *limits)]
    cycles = chip.timed(CHIP, plan, rows, columns, table)["cycles"]
    macs = {"reduce": count["macs_reduce"], "sparse": count["macs_sparse"]}
    return costs.row(macs, words, index_operations=count["indices"], cycles=cycles)
