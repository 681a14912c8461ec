"""Golden cases of pe_lane: tiles of [kllm Fig. 3]'s kind streamed, cut off, stalled, and beyond fp16.

The schedule of edges depends on sizes alone, so products of one shape share it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, side_by_side, uniform, words

NAME = "pe_lane"
ONE, LARGE, TINY, INFINITE = 0x3C00, 0x7BFF, 0x0001, 0x7C00
UNDEFINED = ((0, INFINITE), (INFINITE, 0x8000), (0x7D01, ONE), (ONE, 0xFE55))  #: factors whose product is NaN
ALTERNATE = 0x5555, 0xAAAA  #: finite words, whose products with 1 are finite
MOST = 64  #: slabs that fill a counter
EDGES = 24  #: edges of a case of uniform values


@dataclass(frozen=True)
class Shape:
    """Sizes of one tile, and what follows its reduction."""

    k: int  #: positions
    columns: int
    outliers: int = 0
    opens: int = 1
    closes: int = 1
    shifts: int = 0
    biases: int = 0
    masked: bool = True  #: whether every fifth position is excluded


def paper(config: Config) -> Blocks:
    macs = config["macs"]
    why = "[kllm §III-B, Fig. 3] a row by the columns of two tiles, outliers separately [kllm §III-D]"
    yield _case(why, config, [Shape(10, macs, 1), Shape(10, max(macs - 1, 1), 2)])


def edge(config: Config) -> Blocks:
    yield from _sizes(config)
    yield from _flow(config)
    yield from _values(config)
    yield from _registers(config)
    yield from _widths(config)
    yield from _operands(config)
    # cut off after a reduction, then one whose only tile does not open
    later = _edges(config, [Shape(3, config["macs"], opens=0)])
    first = _edges(config, [Shape(2, config["macs"]), Shape(_slab(config), config["macs"])])
    cut_off = {name: array[: len(later[name])] for name, array in first.items()}
    yield "from reset, sums start from 0 in a tile that does not open", side_by_side([cut_off, later])
    # a tile with a large odd shift, then one whose first outlier alone has a coded weight
    shapes = [Shape(1, 1, shifts=1), Shape(1, config["macs"], 1)]
    misread = _edges(config, shapes, shift=ONE + 1, row_sum=0x5C00, x=ONE, w=0x4500)
    misread["w_coded"][:] = np.arange(config["macs"]) == 0
    yield "the last bit of the shift, and the first of the coded weights", side_by_side([misread])


def random(config: Config, seed: Seeds) -> Blocks:
    """Products of drawn operands of one shape, and uniform values at all ports."""
    macs, slab = config["macs"], _slab(config)
    shapes = [Shape(slab + 3, macs, 2, biases=1), Shape(slab - 1, macs, 1, shifts=1), Shape(3, 1)]
    feed, lane = _feed(), _lane(config)
    schedule, blocks, count = None, [], max(4096, 16 * macs * slab + _entries(config))
    for row in words(f"{NAME}/product", seed, count):
        drawn = iter(row.astype(np.int64).tolist())
        stream, tiles, table = _drawn(config, lane, shapes, drawn)
        schedule = schedule or feed.picks(lane, stream, tiles)
        blocks.append(feed.edges(lane, schedule, stream, tiles, table))
    yield "products of drawn indices, centroids between 2^-6 and 1, one position in eight out", side_by_side(blocks)
    inputs = uniform(NAME, config, (2, EDGES), seed)
    inputs["outliers"] &= 1  # a tile of thousands would outlast the case
    yield "uniform values at all ports, at most one outlier", inputs


def _feed() -> Any:
    """The schedule that feeds a lane; imported late, since it imports this module."""
    from refemu.units.kllm.pe_lane import feed

    return feed


def _sizes(config: Config) -> Blocks:
    """K and columns around the sizes of a slab and of a tile."""
    macs, slab = config["macs"], _slab(config)
    turn = config["inputs"] * (1 if config["lane_mapping"] == "counter" else config["counters"])
    lengths = sorted({1, turn - 1, turn + 1, slab + 1})
    yield _case("columns of 1 position to one more than a slab", config, [Shape(k, 1) for k in lengths])
    why = "K of three slabs: counts are carried from slab to slab"
    yield _case(why, config, [Shape(2 * slab + 3, macs, 1)], decision="D-kllm-47")
    why = "K of three slabs in three tiles: sums are carried"
    parts = [(slab, 1, 0), (slab, 0, 0), (3, 0, 1)]
    yield _case(why, config, [Shape(k, macs, c, o, c) for k, o, c in parts], decision="D-kllm-47")
    yield _case("full tiles and tiles of one column in turn", config, [Shape(5, n) for n in (macs, 1) * 2])


def _flow(config: Config) -> Blocks:
    """Stalls on either side, and resets."""
    macs, slab = config["macs"], _slab(config)
    why = "short columns: counted tiles wait for the MACs, counters for the bank"
    yield _case(why, config, [Shape(3, macs) for _ in range(4)], decision="D-kllm-43")
    yield _case("long columns: the MACs wait", config, [Shape(4 * slab, 1) for _ in range(2)])
    edges = _edges(config, [Shape(slab, macs, 1, shifts=1, biases=1), Shape(3, macs)], range(3, 19))
    for name in ("shifts", "biases", "opens", "closes"):
        edges[name][3:19] ^= 1
    for name in ("a_scale", "shift", "b_scale", "row_sum", "bias"):
        edges[name][3:19] ^= 0x0400  # twice or half
    yield "no go for some edges, with a full tile waiting and other operands", side_by_side([edges])
    why = "load high at every edge, with other slabs: taken where the lane is ready"
    yield why, side_by_side([_crowded(config)]), "D-kllm-45"
    whole, parts = _edges(config, [Shape(1, 1, 1), *[Shape(3, 1)] * 4]), []
    for wait in (0, 1, 0, 2, 0, 3, 0, 4):  # idle edges, so that different registers are in use at the end
        idle = {name: _quiet(name, array, wait) for name, array in whole.items()}
        parts.append({name: np.concatenate([idle[name], array])[:11] for name, array in whole.items()})
    yield "cases that end early, each followed by one from reset", side_by_side(parts)


def _operands(config: Config) -> Blocks:
    """Words that multipliers treat specially, each where an output depends on it."""
    macs = config["macs"]
    yield _case("infinite entries: times a count of 0 they are NaN", config, [Shape(1, macs)], table=INFINITE)
    why = "outliers 0 times infinity, and NaN of either sign"
    slots = [UNDEFINED[at % len(UNDEFINED)] for at in range(-(-len(UNDEFINED) // macs) * macs)]
    raw: dict[str, Any] = {"x_coded": 0, "w_coded": 0}
    factors = [np.array(slots[at : at + macs]).T for at in range(0, len(slots), macs)]
    yield why, side_by_side([_edges(config, [Shape(1, macs, 1)], x=x, w=w, **raw) for x, w in factors])
    why = "subnormal entries and outliers of A, scale of A and outliers of B, scales of B; no bias hides them"
    parts: tuple[dict[str, Any], ...] = (
        {"table": 0x0203, "x": 0x0155, "w": 0x4C77},
        {"table": 0x0C55, "x": 0x4C77, "w": 0x0155, "a_scale": 0x0155, "b_scale": 0x7000},
        {"table": 0x0C55, "x": 0, "w": 0, "a_scale": 0x7000, "b_scale": 0x0155},
    )
    yield why, side_by_side([_edges(config, [Shape(7, macs, 1)], **part, **raw) for part in parts])


def _values(config: Config) -> Blocks:
    """Each operand of the outputs, and values at the ends of fp16."""
    macs = config["macs"]
    flags = [(0, 0), (1, 0), (0, 1), (1, 1)]
    shapes = [Shape(6, macs, i % 2, shifts=s, biases=b) for i, (s, b) in enumerate(flags)]
    yield _case("shift, bias, both [kllm §III-C2]", config, shapes, decision="D-kllm-39")
    yield _case("outliers of A, of B, of both, and inliers", config, [Shape(6, macs, 8)], decision="D-kllm-32")
    yield _case("everything is an outlier", config, [Shape(6, macs, 6, masked=False)], valid=0)
    why = "each product of outliers in a separate column, on sums that continue from reset"
    alone = _edges(config, [Shape(4, macs, macs, opens=0)], sparse=np.eye(macs, dtype=np.int64))
    yield why, side_by_side([alone, alone])
    extremes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("the product of the scales exceeds fp16", {"a_scale": LARGE, "b_scale": LARGE}),
        ("the weighted sum exceeds fp16", {"table": LARGE}),
        ("the sparse sum exceeds fp16", {"x": LARGE, "w": LARGE, "x_coded": 0, "w_coded": 0}),
        ("subnormal scales, entries and outliers", {"a_scale": TINY, "table": 0x0203, "x": TINY}),
        ("an infinite bias against an infinite sum", {"table": LARGE, "bias": INFINITE | 0x8000}),
        ("entries, shifts and biases of the other sign", {"table": 0xB555, "shift": 0xB800, "bias": 0xBAAA}),
        ("signed zeros", {"table": 0x8000, "x": 0x8000, "bias": 0x8000, "row_sum": 0x8000}),
    )
    for why, large in extremes:
        yield _case(why, config, [Shape(9, macs, 2, shifts=1, biases=1)], **large)
    why = "products that a fused unit rounds differently, and sums that depend on their order"
    yield _case(why, config, [Shape(15, macs, 3, biases=1)], table=_spread(config), decision="D-kllm-3")


def _registers(config: Config) -> Blocks:
    """Every bit of the operands of a tile, of its scales' products and of its flags toggles."""
    macs = config["macs"]
    shapes = [Shape(1, macs, closes=0)] * 3 + [Shape(1, macs, 1, biases=1)] * 3
    tiles = []
    for t, tile in enumerate(_tiles(config, shapes)):
        word, lane = ALTERNATE[t % 2], np.arange(macs)
        every, ones = np.full(macs, word), np.full(macs, ONE)
        if t < 3:
            tiles.append(tile._replace(a_scale=word, shift=word, b_scale=every, row_sum=every, bias=every))
        else:
            bias = np.where((lane + t) % 2, INFINITE, 0) * (t < 5)
            product = {"x": every[None], "w": ones[None], "x_coded": 0 * ones[None], "w_coded": 0 * ones[None]}
            tiles.append(tile._replace(a_scale=word, b_scale=ones, bias=bias, **product))
    table = np.resize(ALTERNATE, _entries(config))
    edges = _laid(config, _stream(config, _lane(config), shapes, None), tiles, table)
    edges["outliers"] = np.where(edges["closes"] == 1, edges["outliers"], edges["a_scale"])
    yield "every bit of the operands and flags of a tile, up and down", side_by_side([edges])
    edges = _edges(config, [Shape(1, 1, 1)])
    most = 1 << 15
    edges["outliers"] = edges["outliers"] * most
    yield f"a tile of {most} outliers begins", side_by_side([{n: x[:-2] for n, x in edges.items()}])


def _widths(config: Config) -> Blocks:
    """Counts up to the width of their registers, if that takes few slabs."""
    parts = 4 if config["integer"] else 2
    amount = (1 << config["a_bits"]) - 1 if config["integer"] else 1
    if (1 << config["counter_bits"]) // amount * _entries(config) > MOST * config["concat"]:
        return
    for part in range(parts):
        why = f"indices of part {part} of {parts}, and their neighbours, until their registers are full"
        yield why, side_by_side([_full(config, part, max(_entries(config) // parts, 1))])


def _full(config: Config, part: int, size: int) -> dict[str, np.ndarray]:
    """A tile in which counter c takes each of `size` indices until it is full, in part `part` + c of all indices.

    The full column is column `part`, modulo MACs; those before it have no positions. A short tile follows.
    Counters with separate columns share indices of A, so they take the same part, in another order.
    """
    counters, inputs, separate = config["counters"], config["inputs"], config["lane_mapping"] == "counter"
    most, amount = (1 << config["counter_bits"]) - 1, (1 << config["a_bits"]) - 1 if config["integer"] else 1
    each = -(-most // amount)
    wide = config["concat"] // counters
    slabs = -(-each * size // wide)
    index, valid, amounts = np.zeros((3, slabs, counters, wide), np.int64)
    rest = np.tile([most - (each - 1) * amount, *[amount] * (each - 1)], size)
    for counter in range(counters):
        first = part if separate else part + counter
        order = (first * size + (np.arange(size) + counter) % size) % _entries(config)
        index[:, counter].flat[: each * size] = np.repeat(order, each)
        valid[:, counter].flat[: each * size] = 1
        amounts[:, counter].flat[: each * size] = rest
    if not separate:  # register t * counters + c of every `inputs`
        index, valid, amounts = (x.reshape(slabs, counters, -1, inputs).swapaxes(1, 2) for x in (index, valid, amounts))
    column = 0 if separate else part % config["macs"] if config["integer"] else part * (config["macs"] - 1)
    return _column(config, column, *(x.reshape(slabs, -1) for x in (index, valid, amounts)))


def _column(
    config: Config, part: int, index: np.ndarray, valid: np.ndarray, amounts: np.ndarray
) -> dict[str, np.ndarray]:
    """Slabs of whole indices, one a row, after `part` columns without positions; the last one closes the tile."""
    feed = _feed()
    a = amounts if config["integer"] else index >> config["b_bits"]
    b, last = index & ((1 << config["b_bits"]) - 1), np.arange(len(index)) == len(index) - 1
    turns = config["concat"] // (config["inputs"] * config["counters"])
    rows = zip(a[:, : _slab(config)], b, valid, last.astype(int).tolist(), strict=True)
    stream = [feed.Slab(x, y, used, turns, end, end) for x, y, used, end in rows]
    none = feed.Slab(0 * a[0, : _slab(config)], 0 * b[0], 0 * b[0], 1, 1, 0)
    shapes = [Shape(1, 1), Shape(1, config["macs"], closes=0)]
    short = _stream(config, _lane(config), shapes[1:], None)
    return _laid(config, [none] * part + stream + short, _tiles(config, shapes), _table(config))


def _crowded(config: Config) -> dict[str, np.ndarray]:
    """Loads and operands of outliers at every edge."""
    base = _edges(config, [Shape(2 * _slab(config), config["macs"], 1), Shape(3, config["macs"], 1)])
    count = len(base["load"])
    for name in ("a", "b", "valid", "sparse"):
        limit = 1 << {"a": config["a_bits"], "b": config["b_bits"]}.get(name, 1)
        shape = base[name].shape
        base[name] = (np.arange(base[name].size) * 7 // 3).reshape(shape) % limit
    base["load"][:] = 1
    base["last"], base["tile_end"] = (np.array(np.arange(count) % n == n - 2, np.int64) for n in (3, 4))
    return base


def _drawn(config: Config, lane: Any, shapes: Sequence[Shape], drawn: Iterator[int]) -> tuple[Any, Any, Any]:
    """Slabs, tiles and table of drawn words."""

    def fill(*shape: int, bits: int) -> np.ndarray:
        flat = [next(drawn) & ((1 << bits) - 1) for _ in range(prod(shape))]
        return np.array(flat, np.int64).reshape(shape)

    def value(*shape: int) -> np.ndarray:
        """fp16 words of magnitude 2^-6 to 1, of either sign."""
        word = fill(*shape, bits=16)
        return (word & 0x83FF) | (9 + word // 1024 % 6) << 10

    feed, stream = _feed(), []
    for shape in shapes:
        a, b = fill(shape.k, bits=config["a_bits"]), fill(shape.columns, shape.k, bits=config["b_bits"])
        stream += list(feed.slabs(lane, a, b, (fill(shape.columns, shape.k, bits=3) > 0).astype(np.int64)))
    macs, tiles = config["macs"], []
    for shape in shapes:
        scales = value(1 + macs) & 0x7FFF
        size = shape.outliers, macs
        operands = [fill(*size, bits=1), value(*size), value(*size), fill(*size, bits=1), fill(*size, bits=1)]
        flags = {name: getattr(shape, name) for name in ("opens", "closes", "shifts", "biases")}
        more = {"shift": int(value(1)[0]), "row_sum": value(macs), "bias": value(macs)}
        tiles.append(feed.Tile(int(scales[0]), scales[1:], *operands, **flags, **more))
    return stream, tiles, value(_entries(config))


def _entries(config: Config) -> int:
    return 1 << (config["b_bits"] if config["integer"] else config["a_bits"] + config["b_bits"])


def _slab(config: Config) -> int:
    """Positions of a slab along K."""
    return int(config["concat"] // (config["counters"] if config["lane_mapping"] == "counter" else 1))


def _lane(config: Config) -> Any:
    """A lane for schedules, which do not depend on counts; a case that does not fit fails when it runs."""
    return find(NAME).unit_class(**{**config, "counter_bits": 62})


def _table(config: Config) -> np.ndarray:
    """Words of both signs; none of 64 is a multiple of another."""
    at = np.arange(_entries(config)) % 64
    return 0x3555 - 0x93 * at | np.where(at % 3 == 1, 0x8000, 0)


def _spread(config: Config) -> np.ndarray:
    """Words of many magnitudes, with long fractions."""
    at = np.arange(_entries(config))
    return 0x2FFB + 0x0A57 * (at * 5 % 7) | np.where(at % 2 == 1, 0x8000, 0)


def _tiles(config: Config, shapes: Sequence[Shape], **fixed: Any) -> list[Any]:
    """Operands in turn, each different from its neighbours; fixed: one word for all of a name."""
    feed, macs, tiles = _feed(), config["macs"], []
    lane = np.arange(macs)
    for t, shape in enumerate(shapes):
        count = np.arange(shape.outliers)[:, None] * macs + lane
        operands = {
            "a_scale": 0x3A55 + t,
            "b_scale": 0x3933 + 0x0111 * lane,
            "sparse": np.ones(count.shape, np.int64),
            "x": 0x4655 + 0x0333 * (count % 5) | np.where(count % 2 == 1, 0x8000, 0),
            "w": 0x3877 + 0x0215 * (count % 7),
            "x_coded": count % 2,
            "w_coded": (count // 2 + 1) % 2,
            "shift": 0x3666,
            "row_sum": 0x4155 + 0x0123 * lane,
            "bias": 0x3C11 + 0x0321 * lane,
        }
        operands |= {
            name: word if name in ("a_scale", "shift") else np.broadcast_to(word, operands[name].shape)
            for name, word in fixed.items()
            if name in operands
        }
        flags = {name: getattr(shape, name) for name in ("opens", "closes", "shifts", "biases")}
        tiles.append(feed.Tile(**operands, **flags))
    return tiles


def _stream(config: Config, lane: Any, shapes: Sequence[Shape], valid: int | None) -> list[Any]:
    feed, stream = _feed(), []
    for t, shape in enumerate(shapes):
        k, n = np.arange(shape.k), np.arange(shape.columns)[:, None]
        used = np.full((shape.columns, shape.k), 1 if valid is None else valid)
        if shape.masked and valid is None:
            used = ((k + n + t) % 5 != 4).astype(np.int64)
        a = (k * k + t) % (1 << config["a_bits"])
        stream += list(feed.slabs(lane, a, (3 * k + n + k // 4 + t) % (1 << config["b_bits"]), used))
    return stream


def _edges(
    config: Config, shapes: Sequence[Shape], waits: Sequence[int] = (), valid: int | None = None, **fixed: Any
) -> dict[str, np.ndarray]:
    """Edges that stream tiles of these shapes, then two idle edges."""
    stream, tiles = _stream(config, _lane(config), shapes, valid), _tiles(config, shapes, **fixed)
    table = np.broadcast_to(fixed.get("table", _table(config)), (_entries(config),))
    return _laid(config, stream, tiles, table, waits)


def _laid(
    config: Config, stream: Sequence[Any], tiles: Sequence[Any], table: np.ndarray, waits: Sequence[int] = ()
) -> dict[str, np.ndarray]:
    """Edges of slabs and tiles, then two idle edges."""
    feed, lane = _feed(), _lane(config)
    edges = feed.edges(lane, feed.picks(lane, stream, tiles, waits), stream, tiles, table, waits)
    return {name: np.concatenate([array, _quiet(name, array, 2)]) for name, array in edges.items()}


def _quiet(name: str, array: np.ndarray, count: int) -> np.ndarray:
    """Idle edges at a port."""
    return np.full((count, *array.shape[1:]), int(name == "turns"), np.int64)


def _case(why: str, config: Config, shapes: Sequence[Shape], decision: str = "", **more: Any) -> Block:
    return why, side_by_side([_edges(config, shapes, **more)]), decision


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    overflow = np.asarray(result.overflow).reshape(*result.y_valid.shape, -1).any(axis=-1)
    waits = (np.diff(result.left_turns, axis=-1, prepend=0) == 0) & (result.left_turns > 0)
    return {"OVERFLOW": overflow, "TILE": result.y_valid, "STALL": waits}
