"""Cost of a block under LeanKV [leankv §4, §6.1, §6.2], token by token. Decision: D-leankv-65 (what is counted).

prompt(sizes, tokens, pairs, `kept`)   -> rows by kind of work
step(sizes, pairs, heads, window)      -> the same of the token after it
"""

from collections.abc import Sequence
from typing import NamedTuple

from tests.oracles import costs
from tests.oracles.costs import Row, Sizes

Pair = tuple[int, int]  #: bits of keys and of values
Tokens = tuple[int, int]  #: high and low ones


class Head(NamedTuple):
    """A KV head in a step: its case of Algorithm 1, and the tokens that it stores before and after it."""

    case: str
    before: Tokens
    after: Tokens
    moved: bool  #: whether a token goes from high to low

    def candidates(self, window: int) -> int:
        """Tokens that argmin looks at: high ones outside the new token's window, or low ones and the candidate."""
        high, low = self.before
        return {"A": high - (window - 1), "B": low + 1}.get(self.case[0], 0)


def linear(sizes: Sizes, tokens: int) -> Row:
    """All linear layers in fp16: an input is read once for the layers that share it."""
    rows = [costs.outside(tokens, sum(outputs), inputs) for inputs, outputs in sizes.groups]
    return costs.added(*rows)


def record(pair: Pair, size: int) -> int:
    """16-bit words of a token: codes, scale and zero point of both vectors, score, position."""
    return sum(size * bits // 16 + 2 for bits in pair) + 2 + 2


def prompt(sizes: Sizes, tokens: int, pairs: tuple[Pair, Pair], kept: Tokens) -> dict[str, Row]:
    """A prompt whose scores are joined after their sums: each token's is compared once for every query head."""
    heads, size, group = sizes.kv_heads, sizes.head_dim, sizes.heads // sizes.kv_heads
    stored = sum(kept)
    return {
        "linear": linear(sizes, tokens),
        "prompt attention": costs.attention(sizes, tokens, 0),
        "significance": costs.row(
            words={"activations": heads * group * tokens * tokens}, comparisons=heads * group * tokens
        ),
        "compress": costs.row(words={"activations": heads * tokens}),  # no network: shares are compared with thresholds
        "quantize": costs.row(comparisons=2 * 2 * stored * (size - 1), conversions=2 * stored * size),
        "pages": costs.row(words={"kv": written(pairs, kept, size)}),
    }


def network(tokens: int) -> int:
    """Comparators of a bitonic network: a network over a power of two is two of half the size and a merge."""
    levels = (tokens - 1).bit_length()
    return (1 << levels) // 2 * sum(range(1, levels + 1))


def written(pairs: tuple[Pair, Pair], tokens: Tokens, size: int) -> int:
    """Words of the records of some tokens."""
    return sum(count * record(pair, size) for pair, count in zip(pairs, tokens, strict=True))


def step(sizes: Sizes, pairs: tuple[Pair, Pair], heads: Sequence[Head], window: int) -> dict[str, Row]:
    """One token: decisions read scores and positions, and attention reads every stored record once."""
    size, group = sizes.head_dim, sizes.heads // sizes.kv_heads
    high, low = (record(pair, size) for pair in pairs)
    rows = []
    for head in heads:
        words = 4 * sum(head.before) + high + head.moved * (high + low) + written(pairs, head.after, size)
        macs = {"attention": 2 * sum(head.after) * group * size}
        counts = {"comparisons": head.candidates(window), "conversions": 1 + head.moved}
        rows.append(costs.row(macs, {"kv": words}, **counts))
    return {"linear": linear(sizes, 1), "attention": costs.added(*rows)}
