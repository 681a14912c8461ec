"""Cost of a block on OliVe's array [olive §3.4, §4.3], tile by tile. Decision: D-olive-39.

block(sizes, tokens, before, bits, modes) -> rows by kind of work
"""

from collections.abc import Sequence

from tests.oracles import costs
from tests.oracles.costs import Row, Sizes


def block(sizes: Sizes, tokens: int, before: int, bits: int, modes: Sequence[str]) -> dict[str, Row]:
    """`tokens` tokens after `before` others. modes: types of both operands, by input of linear layers."""
    elements = 64 if bits == 4 else 32
    layers = [
        (outputs, inputs, elements, mode)
        for (inputs, several), mode in zip(sizes.groups, modes, strict=True)
        for outputs in several
    ]
    converted = [tokens * (inputs + inputs % 2) for inputs, _ in sizes.groups]
    return {
        "quantize": costs.added(*(costs.row(conversions=count) for count in converted)),
        "linear": costs.added(*(linear(tokens, *layer) for layer in layers)),
        "requant": costs.added(*(costs.row(conversions=tokens * outputs) for outputs, *_ in layers)),
        "attention": costs.attention(sizes, tokens, before),
    }


def linear(tokens: int, outputs: int, inputs: int, elements: int, mode: str) -> Row:
    """One layer on an array of elements x elements: the pairs of both sides enter again for every tile."""
    pairs, tiles = -(-inputs // 2), []
    for top in range(0, tokens, elements):
        for left in range(0, outputs, elements):
            rows, columns = min(elements, tokens - top), min(elements, outputs - left)
            words = {"activations": rows * pairs, "weights": columns * pairs}
            macs = {mode: rows * columns * inputs}
            tiles.append(costs.row(macs, words, cycles=edges(inputs, elements)))
    return costs.added(*tiles)


def edges(inputs: int, elements: int) -> int:
    """Edges of a tile: the last operand comes to the last element, then the rows leave one by one."""
    arrivals = [row + column + inputs for row in range(elements) for column in range(elements)]
    return max(arrivals) + elements
