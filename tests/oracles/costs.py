"""Costs as plain numbers: a row has every count of the machines' tables, 0 where nothing is counted."""

from collections.abc import Mapping
from typing import Any, NamedTuple

Row = dict[str, Any]
NOTHING: Mapping[str, int] = {}


class Sizes(NamedTuple):
    """Of a block of a decoder with a gate."""

    width: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int

    @property
    def groups(self) -> list[tuple[int, list[int]]]:
        """Linear layers by the input that they share: its length, and their outputs."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return [(self.width, [q, kv, kv]), (q, [self.width]), (self.width, [self.ffn] * 2), (self.ffn, [self.width])]


TINY = Sizes(width=64, ffn=96, heads=4, kv_heads=2, head_dim=16, vocab=256)  #: of the model `tiny`


def row(macs: Mapping[str, int] = NOTHING, words: Mapping[str, int] = NOTHING, **counts: int) -> Row:
    """A row of a table."""
    zeros = dict.fromkeys(("index_operations", "comparisons", "conversions", "cycles"), 0)
    return {"macs": dict(macs), "words": dict(words), **zeros, **counts}


def added(*rows: Row) -> Row:
    """Rows one after the other."""
    result = row()
    for each in rows:
        for name, count in each.items():
            if name in ("macs", "words"):
                for part, number in count.items():
                    result[name][part] = result[name].get(part, 0) + number
            else:
                result[name] += count
    return result


def outside(tokens: int, outputs: int, inputs: int) -> Row:
    """A product in fp16, whose weights are read once."""
    words = {"activations": tokens * inputs, "weights": outputs * inputs}
    return row({"fp16": tokens * outputs * inputs}, words)


def attention(sizes: Sizes, tokens: int, before: int) -> Row:
    """Both products of some tokens in fp16: each reads the keys and values up to its own."""
    macs = kv = 0
    for token in range(before, before + tokens):
        macs += 2 * (token + 1) * sizes.heads * sizes.head_dim
        kv += 2 * (token + 1) * sizes.kv_heads * sizes.head_dim
    return row({"fp16": macs}, {"activations": tokens * sizes.heads * sizes.head_dim, "kv": kv})
