"""Golden cases of olive_systolic_clocked: products with skew and drain, switches of width, stalls, ends of 32 bits.

Stimuli only: expected outputs come from the unit.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, side_by_side, uniform, words

Edges = dict[str, np.ndarray]  #: inputs by port, the first axis is that of edges
NAME = "olive_systolic_clocked"
TYPES = ("flint_a", "flint_b")
BIASES = {"int4": 2, "flint4": 3, "int8": 4, "port": 3}  #: [olive §3.3]
TOP = (0x87, 0x8040)  #: a large outlier next to its victim, by width
ONES = (0x11, 0x0101)


def _typed(blocks: Callable[..., Blocks]) -> Callable[..., Blocks]:
    """Cases of arrays with types of their own; if types are ports, by turns with all four."""

    @wraps(blocks)
    def typed(config: Config, *seed: Seeds) -> Blocks:
        for place, (why, inputs, *decision) in enumerate(blocks(config, *seed)):
            types = {name: np.full(inputs["wide"].shape, 1 - (place >> at & 1)) for at, name in enumerate(TYPES)}
            yield why, {**types, **inputs} if config["a"] == "port" else inputs, *decision

    return typed


@_typed
def paper(config: Config) -> Blocks:
    why = "[olive §4.2, §4.3] an outlier at the head of every row of A, B counts: skew, compute, drain"
    yield _cases(why, _product(config, 3, _heads))
    yield _cases("[olive §4.5] the same with 8-bit operands on quads", _product(config, 3, _heads, wide=1))
    why = "[olive §3.1] an identifier next to magnitude 0 at the west border, which no encoder writes"
    yield _cases(why, _illegal(config, "west"), decision="D-olive-18")


def edge(config: Config) -> Blocks:
    yield from _edge(config)
    if config["a"] == "port":
        yield from _types(config)


@_typed
def random(config: Config, seed: Seeds) -> Blocks:
    """Products of drawn pairs, and uniform values on all ports."""
    for wide in (0, 1):
        rows, cols = config["rows"] >> wide, config["cols"] >> wide
        drawn = words(f"{NAME}/pairs/{wide}", seed, (rows + cols) * 4).reshape(-1, rows + cols, 4)
        pairs = (drawn >> np.uint64(64 - (8 << wide))).astype(np.int64)
        tiles = [_tile(config, each[:rows], each[rows:], _biases(config, wide), wide) for each in pairs]
        yield f"uniform pairs of {4 << wide} bits at the formats' biases", side_by_side(tiles)
    yield "uniform values on all ports", uniform(NAME, config, (1, 24), seed)


def _types(config: Config) -> Blocks:
    """Types that change: every code of both types at both borders, as first and as second element."""
    codes = np.array([code for code in range(16) if code != 8])
    first = [codes[(np.arange(16) + 3 * np.arange(config[lines])[:, None]) % 15] for lines in ("rows", "cols")]
    a, b = (words | words[:, ::-1] << 4 for words in first)
    parts = [_tile(config, a, b, (2, 2), 0, (flint & 1, flint >> 1)) for flint in range(4)]
    why = "[olive §4.5] tiles of all four pairs of types back to back, every code"
    yield why, side_by_side([_schedule().joined(*parts)]), "D-olive-63"
    count = np.arange(len(parts[0]["wide"]))
    edges = parts[0] | {"flint_a": count % 2, "flint_b": count // 2 % 2}
    yield "types that change from edge to edge, also while a line holds an element", side_by_side([edges]), "D-olive-63"
    edges = parts[1]
    edges["west"][4, 0] = 0x80
    yield "an illegal pair after legal ones", side_by_side([edges]), "D-olive-18"
    yield "8-bit outliers that are alone in their sums, of every exponent", side_by_side([_alone(config)])
    wide = _product(config, 3, _heads, wide=1)
    count = np.arange(len(wide["wide"])) % 2
    wide |= {"flint_a": count, "flint_b": 1 - count}
    yield "types that change while operands have 8 bits", side_by_side([wide]), "D-olive-63"


def _alone(config: Config) -> Edges:
    """11 * 2**(12 + e) times 1, of e from 1 on; a row of elements has an exponent of its own."""
    down, ones = config["rows"] >> 1, np.full((config["cols"] >> 1, 1), ONES[1])
    codes = np.array([[0x8000 | min(each, 15) << 3 | 3] for each in range(1, 16 + down)])
    starts = range(0, 15, down)
    tiles = [_tile(config, codes[first : first + down], ones, (12, 0), 1, (0, 0)) for first in starts]
    return _schedule().joined(*tiles)


def _schedule() -> Any:
    """The schedule that feeds products; imported late, since the unit imports this module."""
    from refemu.units.olive.olive_systolic_clocked import product as schedule

    return schedule


def _tile(config: Config, a: np.ndarray, b: np.ndarray, biases: tuple[int, int], *wide_and_types: Any) -> Edges:
    """Edges of one output tile."""
    edges: Edges = _schedule().tile(a, b, biases, config["rows"], config["cols"], *wide_and_types)
    return edges


@_typed
def _edge(config: Config) -> Blocks:
    rows, cols = config["rows"], config["cols"]
    empty = _schedule().idle(2, rows, cols)
    drain = {**empty, "drain": np.ones(2, np.int64)}
    yield _cases("from reset: nothing enters, nothing leaves", _schedule().joined(empty, drain, empty))
    yield _cases("K = 2, one row by one column", _sized(config, 1, 1, 1))
    first, second = _product(config, 2), _product(config, 1, _heads, biases=(5, 1))
    yield _cases("tiles back to back, the second at other biases", _schedule().joined(first, second, first))
    narrow, wide = _product(config, 1), _product(config, 2, wide=1)
    yield _cases(
        "4 bits, 8 bits, 4 bits, each drained", _schedule().joined(narrow, wide, narrow), decision="D-olive-49"
    )
    yield _cases("a change of width while operands are under way", _interrupted(config), decision="D-olive-49")
    yield _cases("a pair on every line in every edge", _crowded(config), decision="D-olive-48")
    yield _cases("a drain in the middle, with pairs on the lines, then the rest", _cut(config), decision="D-olive-50")
    yield _cases("stalls: two edges between pairs", _stalled(config))
    why = "the largest outliers of either sign exceed 32 bits, then small sums in the same elements"
    for sign in (0, 1):
        yield _cases(why, _schedule().joined(_ends(config, sign), _sized(config, rows, cols, 1)), decision="D-olive-33")
    yield _cases("8-bit outliers that exceed 32 bits", _ends(config, 0, 1), _ends(config, 1, 1))
    yield _cases("an illegal pair at the north border", _illegal(config, "north"), decision="D-olive-18")
    for side in ("west", "north"):
        yield _cases(f"outliers as second elements at the {side} border, by ones", _second(config, side))
        yield _cases(f"8-bit integers of every bit at the {side} border, by ones", _integers(config, side))
    yield _cases("other biases in every edge, outliers at both borders", _biased(config))
    why = "a case that ends while lines hold elements, then one that begins with pairs"
    begun = {name: array[:3] for name, array in _product(config, 2).items()}
    yield _cases(why, begun, begun)
    why = "biases whose exponents leave their port"
    yield _cases(why, _product(config, 2, _heads, biases=(15, 14)), decision="D-olive-20")


def _heads(lines: int, half: int, wide: int) -> np.ndarray:
    """An outlier at the head of every line, then counting pairs."""
    pairs = np.arange(lines * half).reshape(lines, half) % 7 + 1
    pairs[:, 0] = (0x85, 0x8040)[wide]
    return pairs


def _counting(lines: int, half: int, wide: int) -> np.ndarray:
    low = np.arange(lines * half).reshape(lines, half)
    return (low * 3 + 1) % 7 + 1 | ((low * 5 + 2) % 7 + 9) << (4 << wide)


def _product(
    config: Config, half: int, left: Any = _counting, wide: int = 0, biases: tuple[int, int] | None = None
) -> Edges:
    """A product of the grid's size and K = 2 * half."""
    a, b = left(config["rows"] >> wide, half, wide), _counting(config["cols"] >> wide, half, wide)
    return _tile(config, a, b, biases or _biases(config, wide), wide)


def _biases(config: Config, wide: int) -> tuple[int, int]:
    return (BIASES["int8"],) * 2 if wide else (BIASES[config["a"]], BIASES[config["b"]])


def _sized(config: Config, m: int, n: int, half: int) -> Edges:
    return _tile(config, _counting(m, half, 0), _counting(n, half, 0), _biases(config, 0))


def _interrupted(config: Config) -> Edges:
    """Changes of width both ways, amid the compute edges; the rest of each product meets empty elements."""
    narrow, wide = _product(config, 3), _product(config, 3, wide=1)
    parts = [
        {name: array[first:last] for name, array in edges.items()}
        for edges, first, last in ((narrow, 0, 5), (wide, 0, 5), (narrow, 3, None), (wide, 2, None))
    ]
    return _schedule().joined(*parts)


def _crowded(config: Config) -> Edges:
    """Half of the pairs come while their line holds an element."""
    edges = _product(config, 3)
    for side in ("west", "north"):
        lines = edges[side].shape[1]
        edges[side][:] = (np.arange(edges[side].size).reshape(-1, lines) * 7 + 0x12) & 0x77
        edges[f"{side}_valid"][:] = 1
    return edges


def _cut(config: Config) -> Edges:
    edges = _crowded(config)
    edges["drain"][4] = edges["drain"][7] = 1
    return _schedule().joined(edges, {name: array[:6] for name, array in _product(config, 2).items()})


def _stalled(config: Config) -> Edges:
    rows, cols, half = config["rows"], config["cols"], 3
    edges = _schedule().idle(4 * half + rows + cols, rows, cols)
    for side, lines in (("west", rows), ("north", cols)):
        for line, pairs in enumerate(_counting(lines, half, 0)):
            edges[side][line : line + 4 * half : 4, line] = pairs
            edges[f"{side}_valid"][line : line + 4 * half : 4, line] = 1
    edges["bias_a"][:], edges["bias_b"][:] = _biases(config, 0)
    drains = _schedule().idle(rows, rows, cols)
    drains["drain"][:] = 1
    return _schedule().joined(edges, drains)


def _ends(config: Config, sign: int, wide: int = 0) -> Edges:
    """Outliers whose products add up beyond 32 bits, in every other column."""
    rows, cols, half = config["rows"], config["cols"], 3
    a, b = (np.full((lines >> wide, half), TOP[wide]) for lines in (rows, cols))
    b += sign << (7 if wide else 3)
    b[1 - sign :: 2] = ONES[wide]  # neighbouring columns differ in their flags
    return _schedule().joined(_schedule().idle(1, rows, cols, wide), _tile(config, a, b, (12, 12), wide))


def _second(config: Config, side: str) -> Edges:
    """Large exponents in the elements that lines hold, in 4 and in 8 bits; sums stay within 32 bits."""
    parts = []
    for wide in (0, 1):
        lines = {"west": config["rows"] >> wide, "north": config["cols"] >> wide}
        pairs = {name: np.full((count, 2), ONES[wide]) for name, count in lines.items()}
        pairs[side][:] = (0x0980, 0x2B80) if wide else (0x38, 0xD8)
        parts.append(_tile(config, pairs["west"], pairs["north"], (12, 0) if side == "west" else (0, 12), wide))
    return _schedule().joined(*parts)


def _integers(config: Config, side: str) -> Edges:
    """127, -127, 85 and -86 as first and as second elements."""
    lines = {"west": config["rows"] >> 1, "north": config["cols"] >> 1}
    pairs = {name: np.full((count, 4), ONES[1]) for name, count in lines.items()}
    pairs[side][:] = (0x7F01, 0x8155, 0xAA7F, 0x0181)
    return _tile(config, pairs["west"], pairs["north"], (4, 4), 1)


def _biased(config: Config) -> Edges:
    """Outliers everywhere, whose exponents differ from edge to edge by the biases alone."""
    edges = _tile(config, np.full((config["rows"], 3), 0x83), np.full((config["cols"], 3), 0x85), (0, 0))
    count = np.arange(len(edges["bias_a"]))
    return edges | {"bias_a": count * 3 % 7, "bias_b": (count * 5 + 2) % 8}


def _illegal(config: Config, side: str) -> Edges:
    """The first pair of the first line is an identifier next to magnitude 0, in 4 and in 8 bits."""
    parts = [_product(config, 2, wide=wide) for wide in (0, 1)]
    for edges, pair in zip(parts, (0x08, 0x8000), strict=True):
        edges[side][0, 0] = pair
    return _schedule().joined(*parts)


def _cases(why: str, *parts: Edges, decision: str = "") -> Block:
    return why, side_by_side(parts), decision


def closes(config: Config, inputs: Inputs, result: Any) -> np.ndarray:
    """Edges in which a row of sums leaves the array."""
    return np.asarray(inputs["drain"] != 0)
