"""Golden cases of pe_lane: tiles of [kllm Fig. 3]'s kind streamed through, cut, held up, and beyond fp16.

Stimuli only: every answer comes from the unit. What an edge is given depends on sizes alone, so products of one shape
share their schedule.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.units import find
from refemu.units.stimuli import Seeds, random_inputs, words
from refemu.units.unit import Cases, Config, Kind

NAME = "pe_lane"
ONE, LARGE, TINY, INFINITE = 0x3C00, 0x7BFF, 0x0001, 0x7C00
UNDEFINED = ((0, INFINITE), (INFINITE, 0x8000), (0x7D01, ONE), (ONE, 0xFE55))  #: factors whose product is NaN
EDGES = 24  #: of a case of uniform values


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
    masked: bool = True  #: every fifth position does not count


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    macs = config["macs"]
    if kind == "paper":
        why = "[kllm §III-B, Fig. 3] a row by the columns of two tiles, outliers apart [kllm §III-D]"
        yield _case(kind, why, config, [Shape(10, macs, 1), Shape(10, macs - 1, 2)])
    if kind == "edge":
        yield from _sizes(config)
        yield from _flow(config)
        yield from _values(config)
        yield from _widths(config)
        yield from _operands(config)
        yield from _cut(config)
    if kind == "random":
        yield from _random(config, seed)


def _feed() -> Any:
    """How a lane is fed; it imports this module, so this one imports it late."""
    from refemu.units.kllm.pe_lane import feed

    return feed


def _sizes(config: Config) -> Iterator[Cases]:
    """K and columns around the sizes of a slab and of a tile."""
    macs, slab = config["macs"], _slab(config)
    turn = config["inputs"] * (1 if config["lane_mapping"] == "counter" else config["counters"])
    lengths = [1, turn - 1, turn, turn + 1, slab, slab + 1]
    yield _case("edge", "columns of 1 position to one more than a slab", config, [Shape(k, 1) for k in lengths])
    why = "K of three slabs: counts are carried from slab to slab"
    yield _case("edge", why, config, [Shape(2 * slab + 3, macs, 1)], decision="D-kllm-47")
    why = "K of three slabs in three tiles: sums are carried"
    parts = [(slab, 1, 0), (slab, 0, 0), (3, 0, 1)]
    yield _case("edge", why, config, [Shape(k, macs, c, o, c) for k, o, c in parts], decision="D-kllm-47")
    yield _case("edge", "full tiles and tiles of one column in turn", config, [Shape(5, n) for n in (macs, 1) * 2])


def _flow(config: Config) -> Iterator[Cases]:
    """Waiting on either side, and resets."""
    macs, slab = config["macs"], _slab(config)
    why = "short columns: counted tiles wait for the MACs, counters for the bank"
    yield _case("edge", why, config, [Shape(3, macs) for _ in range(4)], decision="D-kllm-43")
    why = "long columns: the MACs wait"
    yield _case("edge", why, config, [Shape(3 * slab, 1) for _ in range(3)])
    why = "no go for some edges, with a full tile waiting"
    yield _case("edge", why, config, [Shape(slab, macs, 1), Shape(3, macs)], waits=range(6, 19))
    why = "load high at every edge, with other slabs: taken where the lane is ready"
    yield _crowded(config, why)
    first = _edges(config, [Shape(slab, macs, 1), Shape(slab, macs, 1)])
    cut = {name: array[: 2 * len(array) // 3] for name, array in first.items()}
    yield Cases("edge", "a case cut off in the middle, then the same from reset", _stacked([cut, cut]))


def _operands(config: Config) -> Iterator[Cases]:
    """Words that multipliers treat apart, each where an output depends on it."""
    macs = config["macs"]
    yield _case("edge", "infinite entries: times a count of 0 they are NaN", config, [Shape(1, macs)], table=INFINITE)
    why = "outliers 0 times infinity, and NaN of either sign"
    slots = [UNDEFINED[at % len(UNDEFINED)] for at in range(-(-len(UNDEFINED) // macs) * macs)]
    raw = {"x_coded": 0, "w_coded": 0}
    factors = [np.array(slots[at : at + macs]).T for at in range(0, len(slots), macs)]
    yield Cases("edge", why, _stacked([_edges(config, [Shape(1, macs, 1)], x=x, w=w, **raw) for x, w in factors]))
    why = "subnormal entries and outliers of A, scale of A and outliers of B, scales of B; no bias hides them"
    parts = (
        {"table": 0x0203, "x": 0x0155, "w": 0x4C77},
        {"table": 0x0C55, "x": 0x4C77, "w": 0x0155, "a_scale": 0x0155, "b_scale": 0x7000},
        {"table": 0x0C55, "x": 0, "w": 0, "a_scale": 0x7000, "b_scale": 0x0155},
    )
    yield Cases("edge", why, _stacked([_edges(config, [Shape(7, macs, 1)], **part, **raw) for part in parts]))


def _cut(config: Config) -> Iterator[Cases]:
    """Cases that end early."""
    macs, slab = config["macs"], _slab(config)
    later = _edges(config, [Shape(3, macs, opens=0)])
    first = _edges(config, [Shape(2, macs), Shape(slab, macs)])
    why = "a case cut off behind a reduction; from reset, sums start from 0 in a tile that does not open"
    yield Cases("edge", why, _stacked([{name: array[: len(later[name])] for name, array in first.items()}, later]))
    edges = _edges(config, [Shape(1, 1, 3)])
    edges["outliers"][:] = 1 << 15
    yield Cases("edge", "a tile of 2^15 sparse edges, cut off early", _stacked([edges]))


def _values(config: Config) -> Iterator[Cases]:
    """Each operand of the outputs, and values at the ends of fp16."""
    macs = config["macs"]
    flags = [(0, 0), (1, 0), (0, 1), (1, 1)]
    shapes = [Shape(6, macs, i % 2, shifts=s, biases=b) for i, (s, b) in enumerate(flags)]
    yield _case("edge", "shift, bias, both [kllm §III-C2]", config, shapes, decision="D-kllm-39")
    why = "outliers of A, of B, of both, and inliers beside them"
    coded = [_edges(config, [Shape(6, macs, 8)], x_coded=c & 1, w_coded=c >> 1) for c in range(4)]
    yield Cases("edge", why, _stacked(coded), "D-kllm-32")
    yield _case("edge", "everything is an outlier", config, [Shape(6, macs, 6, masked=False)], valid=0)
    why = "each product of outliers in a column of its own"
    yield _case("edge", why, config, [Shape(4, macs, macs)], sparse=np.eye(macs, dtype=np.int64))
    for why, large in (
        ("the product of the scales leaves fp16", {"a_scale": LARGE, "b_scale": LARGE}),
        ("the weighted sum leaves fp16", {"table": LARGE}),
        ("the sparse sum leaves fp16", {"x": LARGE, "w": LARGE, "x_coded": 0, "w_coded": 0}),
        ("subnormal scales, entries and outliers", {"a_scale": TINY, "table": 0x0203, "x": TINY}),
        ("an infinite bias against an infinite sum", {"table": LARGE, "bias": INFINITE | 0x8000}),
        ("entries, shifts and biases of the other sign", {"table": 0xB555, "shift": 0xB800, "bias": 0xBAAA}),
        ("signed zeros", {"table": 0x8000, "x": 0x8000, "bias": 0x8000, "row_sum": 0x8000}),
    ):
        yield _case("edge", why, config, [Shape(9, macs, 2, biases=1), Shape(5, macs, 0, shifts=1)], **large)
    why = "products that a fused unit rounds otherwise, and sums that depend on their order"
    yield _case("edge", why, config, [Shape(15, macs, 3, biases=1)], table=_spread(config), decision="D-kllm-3")


def _widths(config: Config) -> Iterator[Cases]:
    """Counts up to the width of their registers."""
    most, slab = (1 << config["counter_bits"]) - 1, config["concat"]
    amount = (1 << config["a_bits"]) - 1 if config["integer"] else 1
    own = config["lane_mapping"] == "counter"
    inputs, macs = config["inputs"], config["macs"]
    for counter in range(config["counters"]):
        lanes = np.zeros((1, slab), np.int64)
        for turn in range(slab // (inputs * config["counters"])):
            place = counter * slab // config["counters"] + turn * inputs if own else (turn * config["counters"] + counter) * inputs
            lanes[0, place : place + inputs] = 1
        each = int(lanes.sum()) * amount
        count = most // each
        why = f"one index at all positions of counter {counter}, until its register is full"
        yield Cases("edge", why, _stacked([_one_index(config, lanes, count, index) for index in (0, _entries(config) - 1)]))


def _one_index(config: Config, lanes: np.ndarray, count: int, index: int) -> dict[str, np.ndarray]:
    """`count` slabs whose positions in `lanes` have one index; the last one closes the tile."""
    feed, lane = _feed(), _lane(config)
    a = np.full(_slab(config), index >> config["b_bits"] if not config["integer"] else (1 << config["a_bits"]) - 1)
    b = np.full(config["concat"], index & ((1 << config["b_bits"]) - 1))
    turns = config["concat"] // (config["inputs"] * config["counters"])
    stream = [feed.Slab(a, b, lanes[0], turns, int(at == count - 1), int(at == count - 1)) for at in range(count)]
    tiles, table = _tiles(config, [Shape(1, 1)]), _table(config)
    return feed.edges(lane, feed.picks(lane, stream, tiles), stream, tiles, table)  # type: ignore[no-any-return]


def _crowded(config: Config, why: str) -> Cases:
    """Loads and operands of outliers at every edge."""
    base = _edges(config, [Shape(2 * _slab(config), config["macs"], 1), Shape(3, config["macs"], 1)])
    count = len(base["load"])
    for name in ("a", "b", "valid", "sparse"):
        limit = 1 << {"a": config["a_bits"], "b": config["b_bits"]}.get(name, 1)
        shape = base[name].shape
        base[name] = (np.arange(base[name].size) * 7 // 3).reshape(shape) % limit
    base["load"][:] = 1
    base["last"], base["tile_end"] = (np.array(np.arange(count) % n == n - 2, np.int64) for n in (3, 4))
    return Cases("edge", why, _stacked([base]), "D-kllm-45")


def _random(config: Config, seed: Seeds) -> Iterator[Cases]:
    """Products of drawn operands of one shape, and uniform values at all ports."""
    macs, slab = config["macs"], _slab(config)
    shapes = [Shape(slab + 3, macs, 2, biases=1), Shape(slab - 1, macs, 1, shifts=1), Shape(3, 1)]
    feed, lane = _feed(), _lane(config)
    found, blocks = None, []
    for each in seed if isinstance(seed, range) else (seed,):
        drawn = iter(words(f"{NAME}/product", each, 4096)[0].astype(np.int64).tolist())
        stream, tiles, table = _drawn(config, lane, shapes, drawn)
        found = found or feed.picks(lane, stream, tiles)
        blocks.append(feed.edges(lane, found, stream, tiles, table))
    yield Cases("random", "products of drawn indices, centroids between 2^-6 and 1, one position in eight out", _stacked(blocks))
    ports = find(NAME).ports(config).inputs
    yield Cases("random", "uniform values at all ports", random_inputs(NAME, ports, (2, EDGES), seed))


def _drawn(config: Config, lane: Any, shapes: Sequence[Shape], drawn: Iterator[int]) -> tuple[Any, Any, Any]:
    """Slabs, tiles and table of drawn words."""

    def fill(*shape: int, bits: int) -> np.ndarray:
        flat = [next(drawn) & ((1 << bits) - 1) for _ in range(int(np.prod(shape)))]
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
    """Positions along K that a slab has."""
    return int(config["concat"] // (config["counters"] if config["lane_mapping"] == "counter" else 1))


def _lane(config: Config) -> Any:
    return find(NAME).unit_class(**config)


def _table(config: Config) -> np.ndarray:
    """Words of both signs, none a multiple of another."""
    at = np.arange(_entries(config))
    return 0x3555 - 0x93 * at | np.where(at % 3 == 1, 0x8000, 0)


def _spread(config: Config) -> np.ndarray:
    """Words of many magnitudes, with long fractions."""
    at = np.arange(_entries(config))
    return 0x2FFB + 0x0A57 * (at * 5 % 7) | np.where(at % 2 == 1, 0x8000, 0)


def _tiles(config: Config, shapes: Sequence[Shape], **fixed: Any) -> list[Any]:
    """Operands in turn, none like its neighbours; fixed: one word for all of a name."""
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
    """Edges that stream tiles of these shapes, then two without anything."""
    feed, lane = _feed(), _lane(config)
    stream, tiles = _stream(config, lane, shapes, valid), _tiles(config, shapes, **fixed)
    table = np.broadcast_to(fixed.get("table", _table(config)), (_entries(config),))
    edges = feed.edges(lane, feed.picks(lane, stream, tiles, waits), stream, tiles, table, waits)
    return {name: np.concatenate([array, _quiet(name, array)]) for name, array in edges.items()}


def _quiet(name: str, array: np.ndarray) -> np.ndarray:
    return np.full((2, *array.shape[1:]), int(name == "turns"), np.int64)


def _case(kind: Kind, why: str, config: Config, shapes: Sequence[Shape], decision: str = "", **more: Any) -> Cases:
    return Cases(kind, why, _stacked([_edges(config, shapes, **more)]), decision)


def _stacked(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Cases of equal length side by side."""
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}


def mark(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    overflow = np.asarray(result.overflow).reshape(*result.y_valid.shape, -1).any(axis=-1)
    waits = (np.diff(result.left_turns, axis=-1, prepend=0) == 0) & (result.left_turns > 0)
    return {"OVERFLOW": overflow, "TILE": result.y_valid, "STALL": waits}
