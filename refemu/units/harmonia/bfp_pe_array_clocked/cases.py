"""Golden cases of bfp_pe_array_clocked: streams of groups, tiles after each other, operands that come early or late.
[harmonia §IV-A, §IV-B, §IV-C]
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from refemu.units import Cases, Config, Kind, find
from refemu.units.harmonia.bfp_accumulator import cases as bfp_accumulator_cases
from refemu.units.stimuli import Seeds, random_inputs, side_by_side, words

Edges = dict[str, np.ndarray]  #: inputs by port, the first axis is that of edges
Operands = dict[str, np.ndarray]
NAME = "bfp_pe_array_clocked"
W4, M4, M8 = range(3)  # modes
LANES, SLOTS, ONE = 32, 4, 0x3C00
MOST = 3  #: groups of a tile of a random case
WHOLE = 8 * 16  #: PEs of the array of the paper
WHY_BITS = "every bit of every register toggles: sums of ones, infinity minus infinity, operands and complements"


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration; sums and streams are shown once, on the array without options."""
    plain = config["activity"] == "by_slot" and not config["overlap"]
    if config.get("holdable"):
        yield from _held(config, kind, seed)
    elif config["rows"] * config["columns"] == WHOLE:
        yield from _of_the_paper(config, kind, seed)
    elif plain and config["rows"] * config["columns"] == 1:
        yield from _long(config, kind, seed)
    elif plain and config["rows"] == 1 and kind == "edge":
        yield _crowded(config)
        yield from _whole(config)
    elif kind == "paper":
        yield from _paper(config)
    elif kind == "edge":
        yield _early(config)
        yield _crowded(config)
        yield from _whole(config)
        if plain or config["activity"] == "parallel":
            yield _ties(config)
        if config["activity"] == "parallel":
            yield _largest(config)
        if config["activity"] == "by_slot":
            yield from _tiles(config)
        if plain:
            yield from _streams(config)
            yield from _sums(config)
    elif kind == "random":
        yield from _random(config, seed)


def _of_the_paper(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """The whole array of 8 x 16: two tiles that overlap, a short one, two tiles of drawn modes."""
    rows, columns = config["rows"], config["columns"]
    if kind == "paper":
        why = "[harmonia §IV-C, Fig. 14a] two tiles of 8 x 16, a head of 64 channels: columns leave one by one"
        yield _cases(kind, why, _fed(config, drawn("whole", rows, 2 * columns, [M4] * 2)))
    if kind == "edge":
        why = "a tile of one column, then one of a row: activations stop at the last column"
        parts = [_fed(config, drawn(f"short {count}", count, columns + 1 - count, [W4])) for count in (rows, 1)]
        yield _cases(kind, why, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        yield _cases(kind, WHY_BITS, _all_bits(config))
    if kind == "random":
        parts = []
        for each in seed if isinstance(seed, range) else (seed,):
            choices = (words(f"{NAME}/random/whole", each, 3)[0] >> np.uint64(32)).tolist()
            modes = [mode % 3 for mode in choices[: 1 + choices[2] % 2]]
            parts.append(_fed(config, drawn("random/whole", rows, columns, modes, each)))
        yield _cases(kind, "a tile of one or two groups in drawn modes", *_padded(parts, 2 * 2 + columns))


def _padded(parts: Sequence[Edges], count: int) -> list[Edges]:
    """Parts with edges in which nothing enters at the end, so that each has `count`."""
    return [
        {name: np.concatenate([array, np.repeat(array[:1] * 0, count - len(array), 0)]) for name, array in part.items()}
        for part in parts
    ]


def _held(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Products whose edges `hold` interrupts: the source waits with its operands, as a stalled column does."""
    rows, columns = config["rows"], config["columns"]
    if kind == "paper":
        why = "[harmonia §IV-C, Fig. 12] columns wait for a bank of the converter, and the array with them"
        edges = _fed(config, drawn("held", rows, 2 * columns, [M8, M8]))
        yield _cases(kind, why, _stopped(edges, [5, 6, 7]))
    if kind == "edge":
        product = _fed(config, drawn("stops", rows, columns, [W4, M8]))
        for at, where in enumerate(("operands enter", "weights of column 1 come", "a slot is left", "a column leaves")):
            yield _cases(kind, f"held when {where}", _stopped(product, [at]), decision="D-harmonia-63")
        long = _stopped(product, [at for at in range(len(product["mode"])) for _ in range(2)])
        yield _cases(kind, "held two edges of three", long, decision="D-harmonia-63")
        empty = {name: array[:1] for name, array in product.items()} | {"hold": np.ones(1, np.int64)}
        yield _cases(kind, "operands that wait from the reset on", empty, decision="D-harmonia-63")
        whole = _all_bits(config)
        yield _cases(kind, WHY_BITS, whole | {"hold": np.zeros(len(whole["mode"]), np.int64)})
    if kind == "random":
        parts = []
        for each in seed if isinstance(seed, range) else (seed,):
            product = _fed(config, drawn("random/held", rows, 2 * columns, [each % 3, (each + 1) % 3], each))
            bits = words(f"{NAME}/random/hold", each, len(product["mode"]))[0] >> np.uint64(61)
            stops = [at for at, number in enumerate(bits.tolist()) for _ in range(max(0, number - 4))]
            parts.append(_stopped(product, stops))
        yield _cases(kind, "a product held at drawn edges", *_padded(parts, 4 * (2 * 4 + columns)))


def _stopped(edges: Edges, stops: Sequence[int]) -> Edges:
    """The edges of a product, those in `stops` repeated before they count, with 1 at port `hold`."""
    count = len(edges["mode"])
    order = np.sort(np.concatenate([np.arange(count), np.array(stops, np.int64)]), kind="stable")
    held = np.append(order[1:] == order[:-1], False)
    return {name: array[order] for name, array in edges.items()} | {"hold": held.astype(np.int64)}


def _schedule() -> Any:
    """The schedule that feeds products; imported late, since the unit imports this module."""
    from refemu.units.harmonia.bfp_pe_array_clocked import product

    return product


def _long(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """A reduction of 4,096 elements, as in the linear layers of the paper's models."""
    if kind == "paper":
        why = "[harmonia §V-A] a reduction of 4,096: 128 groups of weights"
        yield _cases(kind, why, _fed(config, drawn("long", 1, 1, [W4] * 128)))
    if kind == "edge":
        opposite = constant(1, 1, [W4, W4], a=255, b=7, a_exp=15)
        opposite["a_sign"][:, LANES:], opposite["a_mag"][:, -1], opposite["w_scale"][:] = 1, 253, 0x3FFF
        why = "a sum and almost its negative: each product is rounded before it is added"
        yield _cases(kind, why, _fed(config, opposite), decision="D-harmonia-10")
        yield _largest(config)
        yield from _whole(config)
    if kind == "random":
        yield _tile_streams(config, seed)


def _paper(config: Config) -> Iterator[Cases]:
    """Tiles of two modes; of an array that takes passes, a whole pass and a short one."""
    rows, columns = config["rows"], config["columns"]
    more = config["activity"] == "parallel"
    for mode, groups in ((W4, 5 if more else 2), (M8, 3 if more else 2)):
        name = "M8M8: two cycles a group" if mode == M8 else "M8W4"
        why = "[harmonia §IV-C, Fig. 14a] columns leave one after the other, T_0, T_1, ... in " + name
        yield _cases("paper", why, _fed(config, drawn("paper", rows, columns, [mode] * groups)))


def _early(config: Config) -> Cases:
    """The second group of M8M8, or pass of two, comes while the first has a slot left."""
    groups = 2 if config["activity"] == "by_slot" else 4
    edges = _moved(config, drawn("early", config["rows"], config["columns"], [M8] * groups), range(2))
    why = "operands of M8M8 that come while those before have a slot left: both files are in use"
    return _cases("edge", why, edges, decision="D-harmonia-41")


def _crowded(config: Config) -> Cases:
    """Groups, or passes, in every edge, and one more when a file is free: the sums show which were taken."""
    plain = config["activity"] == "by_slot"
    groups, room = (4, 3) if plain else (8, 5)
    edges = _moved(config, drawn("crowded", config["rows"], config["columns"], [M8] * groups), (*range(3), room))
    why = "operands of M8M8 in every edge: some find both files in use"
    return _cases("edge", why, edges, decision="D-harmonia-41")


def _whole(config: Config) -> Iterator[Cases]:
    """Bits and reset of every register, as far as outputs show them."""
    yield _cases("edge", WHY_BITS, _all_bits(config))
    groups = 2 if config["activity"] == "by_slot" else 4
    crowded = _moved(config, drawn("begun", config["rows"], config["columns"], [M8] * groups), range(2))
    begun = {name: array[:2] for name, array in crowded.items()}
    yield _cases("edge", "a case that ends with groups in the array, then one that begins with groups", begun, begun)
    why = "outputs that continue from the reset: beyond FP16, then 1"
    largest_and_one = [_group(p, a_exp) | {"w_scale": ONE} for p, a_exp in ((32 * 255, 30), (1, 22))]
    ends = [_entering(config, [[Entry(W4, [group], last=1)]]) for group in largest_and_one]
    yield _cases("edge", why, *({name: array[:-1] for name, array in edges.items()} for edges in ends))


def _tiles(config: Config) -> Iterator[Cases]:
    """Tiles after each other."""
    for groups in (1,) if not config["overlap"] else (1, 3):
        why = f"a tile of {groups} groups of M8M4, and the first group of the next at once"
        yield _cases("edge", why, _at_once(config, groups), decision="D-harmonia-43")
    operands = drawn("two", config["rows"], 2 * config["columns"], [M4])
    why = "two tiles, the second as soon as the array takes it"
    yield _cases("edge", why, _fed(config, operands), decision="D-harmonia-22")


def _streams(config: Config) -> Iterator[Cases]:
    """What enters, and when."""
    rows, columns = config["rows"], config["columns"]
    why = "modes mixed in a reduction, as for values of both precisions"
    yield _cases("edge", why, _fed(config, drawn("mixed", rows, columns, [M8, M4, W4])), decision="D-harmonia-36")
    if columns > 1:
        why = "a tile without the first column: activations pass it"
        holes = _fed(config, drawn("holes", rows, columns, [M4]))
        holes["col_valid"][:, 0] = holes["b_valid"][:, 0] = 0
        yield _cases("edge", why, holes, decision="D-harmonia-44")
    why = "a tile of one row and one column: activations stop there"
    yield _cases("edge", why, _fed(config, drawn("narrow", 1, 1, [W4])), decision="D-harmonia-44")
    yield _cases("edge", "weights of a column that come an edge late", _late(config), decision="D-harmonia-42")
    unread = drawn("unread", rows, columns, [W4, M4])
    unread["b"] |= 0xA0
    unread["b_sign"][:, :LANES], unread["b_exp"][:, 0], unread["w_scale"][:, 1] = 1, 21, 0x4321
    why = "bits at the ports that the mode does not read"
    yield _cases("edge", why, _fed(config, unread), decision="D-harmonia-42")


def _sums(config: Config) -> Iterator[Cases]:
    """Sums at which variants of an accumulator's decisions differ."""
    rows, columns = config["rows"], config["columns"]
    tiny = constant(rows, columns, [M4, M4], b=1, a_exp=8, b_exp=7)
    tiny["a_mag"][0, 0], tiny["a_mag"][0, LANES] = 1, 3  # 2^-25 and 3 * 2^-25, in the first row
    yield _cases("edge", "sums too small for FP16, at a tie and next to it", _fed(config, tiny), decision="D-arith-2")
    zero = constant(rows, columns, [W4], a=0, b=1, a_exp=15)
    zero["w_scale"][:] = ONE | 0x8000
    yield _cases("edge", "-0 is added to +0", *[_fed(config, zero)] * 2, decision="D-arith-5")


def _largest(config: Config) -> Cases:
    """Sums with every possible bit that FP16 still shows; M8M8 latches the sum of the first nibbles."""
    group = {"a_mag": 255, "a_exp": 15, "b": 255, "b_exp": 12}
    edges = _entering(config, [[Entry(M8, [group], clear=1, last=1)]])
    return _cases("edge", "the largest sum of products of a group of M8M8", edges)


def _ties(config: Config) -> Cases:
    """Halfway between two FP16 values."""
    ties = constant(config["rows"], config["columns"], [W4, W4], a=0, b=1, a_exp=15)
    ties["a_mag"][:, :8], ties["a_mag"][:, 8] = 255, 9  # 2,049
    ties["a_mag"][:, LANES : LANES + 8], ties["a_mag"][:, LANES + 8] = 255, 11
    ties["b"][1::2] = 15
    ties["w_scale"][:] = ONE, 0xC000
    return _cases("edge", "2,049 and 2,051 in eleven bits, either sign", _fed(config, ties), decision="D-arith-2")


class Entry(NamedTuple):
    """What enters in an edge: one group in every row, one in every column; a pass repeats it `groups` times."""

    mode: int
    groups: Sequence[Mapping[str, Any]]
    clear: int = 0
    last: int = 0
    rows: int = -1  #: a bit for each row
    columns: int = -1


def _all_bits(config: Config) -> Edges:
    """Three tiles: -(2 - 2^-23) of 24 ones, one with every flag, and a stream of sums -1 and 0, then of complements."""
    ones = [_group(2047, a_exp=15, b_exp=x - 15, a_sign=1) for x in (30, 19)] + [_group(3, 9, b_exp=8, a_sign=1)]
    flags = [_group(1, 8, 7), _group(122_400, 30, 30), _group(122_400, 30, 30, a_sign=1)]
    plain = {"a_mag": 0x55, "a_exp": 21, "b": 0x55, "b_exp": 19, "w_scale": 0x3FFF}
    other = {"a_sign": 1, "a_mag": 0xAA, "a_exp": 10, "b": 0xAA, "b_sign": 1, "b_exp": 12, "w_scale": 0xC000}
    minus, zero = _group(1, 8, a_sign=1) | {"w_scale": 0xC3FF}, _group(0, 15)
    stream = _passes(config, W4, [minus] * 4) + _passes(config, W4, [zero] * 4)
    stream[0] = stream[0]._replace(clear=1)
    stream += [
        Entry(M8, [plain], last=1),
        Entry(M4, [other], last=1),
        Entry(W4, [plain], rows=1),
        Entry(W4, [zero], rows=2),
    ]
    stream += [Entry(W4, [zero], columns=1), Entry(M4, [zero], columns=2), Entry(M4, [zero])]
    stream += [Entry(M4, [zero], columns=some) for some in _subsets(config["columns"])]
    tiles = [_passes(config, M4, groups) for groups in (ones, flags)]
    for tile in tiles:
        tile[0] = tile[0]._replace(clear=1)
        tile[-1] = tile[-1]._replace(last=1)
    return _entering(config, [*tiles, stream])


def _subsets(columns: int) -> Iterator[int]:
    """Tiles, a bit for each column, that separate every pair of columns once; a whole tile before and after each."""
    for bit in range((columns - 1).bit_length()) if columns > 2 else ():
        some = [column for column in range(columns) if column >> bit & 1]
        for without in (some, [column for column in range(columns) if column not in some]):
            yield -1 ^ sum(1 << column for column in without)
            yield -1


def _group(p: int, a_exp: int, b_exp: int = 0, a_sign: int = 0) -> dict[str, Any]:
    """A group whose sum is p: of codes 1 up to 9 * 255, of codes 15 for the largest, 32 * 255 * 15."""
    code = 15 if p > 32 * 255 else 1
    most = [min(255, max(0, p // code - 255 * lane)) for lane in range(LANES)]
    return {"a_sign": a_sign, "a_mag": np.array(most), "a_exp": a_exp, "b": code, "b_exp": b_exp}


def _passes(config: Config, mode: int, groups: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Groups of one mode, at most as many as in a pass, as they enter."""
    return [Entry(mode, groups)] if config["activity"] == "parallel" else [Entry(mode, [group]) for group in groups]


def _entering(config: Config, tiles: Sequence[Sequence[Entry]]) -> Edges:
    """Tiles in sequence, each after the previous one has left, and an edge at the end."""
    rows, columns, starts, now = config["rows"], config["columns"], [], 0
    for tile in tiles:
        for entry in tile:
            starts.append((now, entry))
            now += len(entry.groups) * (2 if entry.mode == M8 else 1)
        now += columns
    fields = _schedule().idle(now + 1, rows, columns, config["activity"])
    for edge, entry in starts:
        fields["mode"][edge], fields["clear"][edge], fields["last"][edge] = entry.mode, entry.clear, entry.last
        if "groups" in fields:
            fields["groups"][edge] = len(entry.groups)
        fields["a_valid"][edge] = entry.rows >> np.arange(rows) & 1 if rows > 1 else 1
        fields["col_valid"][edge] = entry.columns >> np.arange(columns) & 1
        for place in range(SLOTS if "groups" in fields else 1):
            group = entry.groups[place % len(entry.groups)]
            for name in ("a_sign", "a_mag", "a_exp"):
                fields[name][edge].reshape(rows, -1, _lanes(name))[:, place] = group.get(name, 0)
            for c in np.flatnonzero(fields["col_valid"][edge]).tolist():
                fields["b_valid"][edge + c, c] = 1
                for name in ("b", "b_sign", "b_exp", "w_scale"):
                    fields[name][edge + c].reshape(columns, -1, _lanes(name))[c, place] = group.get(name, 0)
    return fields


def _lanes(name: str) -> int:
    """Lanes of a group at a port."""
    return 1 if name.endswith(("_exp", "_scale")) else LANES


def _random(config: Config, seed: Seeds) -> Iterator[Cases]:
    yield _tile_streams(config, seed)
    ports = find(NAME).ports(config).inputs
    uniform = legal(config, random_inputs(NAME, ports, (1, 6), seed))
    uniform["col_valid"] = uniform["col_valid"] | 1
    yield Cases("random", "uniform values on all ports", uniform)


def _tile_streams(config: Config, seed: Seeds) -> Cases:
    """Three tiles of one to three groups in drawn modes, a case for every seed; idle edges after them."""
    parts = []
    for each in seed if isinstance(seed, range) else (seed,):
        choices = words(f"{NAME}/random/modes", each, 3 * (1 + MOST))[0].reshape(3, -1) >> np.uint64(32)
        tiles = []
        for number, (count, *modes) in enumerate(choices.tolist()):
            chosen = [mode % 3 for mode in modes[: 1 + count % MOST]]
            label = f"random/{number}"
            tiles.append(_fed(config, drawn(label, config["rows"], config["columns"], chosen, each)))
        parts.append({name: np.concatenate([tile[name] for tile in tiles]) for name in tiles[0]})
    why = "three tiles of drawn modes; exponents and factors as in real tensors"
    return _cases("random", why, *_padded(parts, 3 * (2 * MOST + config["columns"])))


def drawn(label: str, rows: int, columns: int, modes: Sequence[int], seed: int = 0) -> Operands:
    """Operands whose exponents and factors are near each other."""
    groups = len(modes)
    fields = constant(rows, columns, modes)
    for name, array in fields.items():
        if name != "mode":
            values = words(f"{NAME}/{label}/{name}", seed, array.size)[0] >> np.uint64(48)
            fields[name] = values.astype(np.int64).reshape(array.shape)
    wide = np.where(np.array(modes) == M8, 255, 15).repeat(LANES)
    read = np.array(modes) != W4
    fields["a_sign"], fields["a_mag"], fields["a_exp"] = (
        fields["a_sign"] & 1,
        fields["a_mag"] & 255,
        12 + fields["a_exp"] % 8,
    )
    fields["b"], fields["b_sign"] = fields["b"] & wide, fields["b_sign"] & read.repeat(LANES)
    fields["b_exp"], fields["w_scale"] = (10 + fields["b_exp"] % 8) * read, (0x2000 + fields["w_scale"] % 4096) * ~read
    assert len(fields["a_exp"][0]) == groups
    return fields


def constant(
    rows: int, columns: int, modes: Sequence[int], a: int = 0, b: int = 0, a_exp: int = 0, b_exp: int = 0
) -> Operands:
    """Operands with one value in every element of each side."""
    groups = len(modes)
    shapes = {"a_sign": (rows, LANES), "a_mag": (rows, LANES), "a_exp": (rows, 1), "b": (columns, LANES)}
    shapes |= {"b_sign": (columns, LANES), "b_exp": (columns, 1), "w_scale": (columns, 1)}
    values = {"a_mag": a, "a_exp": a_exp, "b": b, "b_exp": b_exp}
    fields = {name: np.full((lines, groups * lanes), values.get(name, 0)) for name, (lines, lanes) in shapes.items()}
    return {"mode": np.array(modes), **fields}


def _fed(config: Config, operands: Operands) -> Edges:
    """A product fed by its schedule."""
    named = ("rows", "columns", "activity", "overlap")
    edges: Edges = _schedule().edges(operands, *(config[name] for name in named))
    return edges


def _moved(config: Config, operands: Operands, edges: Sequence[int]) -> Edges:
    """A product whose entries come in different edges."""
    whole = _fed(config, operands)
    plan = _schedule().entries(operands["mode"], config["activity"])
    columns = config["columns"]
    moved = {name: 0 * array for name, array in whole.items()}
    for entry, edge in zip(plan, edges, strict=True):
        for name, array in whole.items():
            if not name.startswith(("b", "w_")):
                moved[name][edge] = array[entry.edge]
                continue
            for c in range(columns):
                here, there = (each.reshape(len(each), columns, -1)[:, c] for each in (array, moved[name]))
                there[edge + c] = here[entry.edge + c]
    return moved


def _late(config: Config) -> Edges:
    """The first weights of the last column come an edge late."""
    edges = _fed(config, drawn("late", config["rows"], config["columns"], [M8, M4]))
    edges = {name: np.concatenate([array, 0 * array[:1]]) for name, array in edges.items()}
    last = config["columns"] - 1
    for name in ("b_valid", "b", "b_sign", "b_exp", "w_scale"):
        lanes = edges[name].reshape(len(edges[name]), config["columns"], -1)[:, last]
        lanes[last + 1], lanes[last] = lanes[last].copy(), 0
    return edges


def _at_once(config: Config, groups: int) -> Edges:
    """Two tiles of M8M4, the first group of the second right after the last group of the first."""
    first = _fed(config, drawn("at once", config["rows"], config["columns"], [M4] * groups))
    second = _fed(config, drawn("and again", config["rows"], config["columns"], [M4]))
    count = groups + len(second["mode"])
    joined = {name: np.zeros((count, *array.shape[1:]), np.int64) for name, array in first.items()}
    for start, part in ((0, first), (groups, second)):
        for name, array in part.items():
            joined[name][start : start + len(array)] |= array
    return joined


def _cases(kind: Kind, why: str, *parts: Edges, decision: str = "") -> Cases:
    return Cases(kind, why, side_by_side(parts), decision)


def legal(config: Config, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with finite weight factors, and no more groups in a pass than slots."""
    factors = inputs["w_scale"]
    finite = np.where(factors & 0x7C00 == 0x7C00, factors ^ 0x4000, factors)
    fields = {**inputs, "w_scale": finite}
    if "groups" in inputs:
        most = np.where(inputs["mode"] == M8, SLOTS // 2, SLOTS)
        fields["groups"] = 1 + np.asarray(inputs["groups"], np.int64) % most
    return fields


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Edges of each flag, in some row of the column that leaves."""
    flags = bfp_accumulator_cases.mark(config, inputs, result)
    return {name: np.asarray(flag.any(axis=-1)) for name, flag in flags.items()}
