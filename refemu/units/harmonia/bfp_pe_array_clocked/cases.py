"""Golden cases of bfp_pe_array_clocked: streams of groups, tiles after each other, operands that come early or late.
[harmonia §IV-A, §IV-B, §IV-C]
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refemu.units import Config
from refemu.units.harmonia.bfp_accumulator import cases as bfp_accumulator_cases
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, each, finite, joined, side_by_side, uniform, words

Edges = dict[str, np.ndarray]  #: inputs by port, the first axis is that of edges
Operands = dict[str, np.ndarray]
NAME = "bfp_pe_array_clocked"
W4, M4, M8 = range(3)  # modes
LANES, SLOTS, ONE = 32, 4, 0x3C00
MOST = 3  #: groups of a tile of a random case
WHOLE = 8 * 16  #: PEs of the array of the paper
WHY_BITS = "every bit of every register toggles: sums of ones, infinity minus infinity, operands and complements"


def paper(config: Config) -> Blocks:
    rows, columns = config["rows"], config["columns"]
    if config.get("holdable"):
        why = "[harmonia §IV-C, Fig. 12] columns wait for a bank of the converter, and the array with them"
        yield _cases(why, _stopped(_fed(config, drawn("held", rows, 2 * columns, [M8, M8])), [5, 6, 7]))
    elif rows * columns == WHOLE:
        why = "[harmonia §IV-C, Fig. 14a] two tiles of 8 x 16, a head of 64 channels: columns leave one by one"
        yield _cases(why, _fed(config, drawn("whole", rows, 2 * columns, [M4] * 2)))
    elif _is_plain(config) and rows * columns == 1:
        why = "[harmonia §V-A] a reduction of 4,096: 128 groups of weights"
        yield _cases(why, _fed(config, drawn("long", 1, 1, [W4] * 128)))
    else:  # of an array that takes passes, a whole pass and a short one
        more = config["activity"] == "parallel"
        for mode, groups in ((W4, 5 if more else 2), (M8, 3 if more else 2)):
            name = "M8M8: two cycles a group" if mode == M8 else "M8W4"
            why = "[harmonia §IV-C, Fig. 14a] columns leave one after the other, T_0, T_1, ... in " + name
            yield _cases(why, _fed(config, drawn("paper", rows, columns, [mode] * groups)))


def edge(config: Config) -> Blocks:
    """Sums and streams are shown once, on the array without options."""
    plain, elements = _is_plain(config), config["rows"] * config["columns"]
    if config.get("holdable"):
        yield from _held(config)
    elif elements == WHOLE:
        yield from _of_the_paper(config)
    elif plain and elements == 1:
        yield from _long(config)
    else:
        single = plain and config["rows"] == 1
        if not single:
            yield _early(config)
        yield _crowded(config)
        yield from _whole(config)
        if not single:
            if plain or config["activity"] == "parallel":
                yield _ties(config)
            if config["activity"] == "parallel":
                yield _largest(config)
            if config["activity"] == "by_slot":
                yield from _tiles(config)
            if plain:
                yield from _streams(config)
                yield from _sums(config)


def random(config: Config, seed: Seeds) -> Blocks:
    rows, columns, parts = config["rows"], config["columns"], []
    if config.get("holdable"):
        for number in each(seed):
            product = _fed(config, drawn("random/held", rows, 2 * columns, [number % 3, (number + 1) % 3], number))
            bits = words(f"{NAME}/random/hold", number, len(product["mode"]))[0] >> np.uint64(61)
            stops = np.repeat(np.arange(len(bits)), np.maximum(bits.astype(np.int64) - 4, 0))
            parts.append(_stopped(product, stops))
        yield _cases("a product held at drawn edges", *_padded(parts, 4 * (2 * 4 + columns)))
    elif rows * columns == WHOLE:
        for number in each(seed):
            choices = (words(f"{NAME}/random/whole", number, 3)[0] >> np.uint64(32)).tolist()
            modes = [mode % 3 for mode in choices[: 1 + choices[2] % 2]]
            parts.append(_fed(config, drawn("random/whole", rows, columns, modes, number)))
        yield _cases("a tile of one or two groups in drawn modes", *_padded(parts, 2 * 2 + columns))
    else:
        yield _tile_streams(config, seed)
        if not (_is_plain(config) and rows * columns == 1):
            any_values = legal(config, uniform(NAME, config, (1, 6), seed))
            yield "uniform values on all ports", any_values | {"col_valid": any_values["col_valid"] | 1}


def _is_plain(config: Config) -> bool:
    return config["activity"] == "by_slot" and not config["overlap"]


def _of_the_paper(config: Config) -> Blocks:
    """The whole array of 8 x 16: a short tile, every bit."""
    rows, columns = config["rows"], config["columns"]
    parts = [_fed(config, drawn(f"short {count}", count, columns + 1 - count, [W4])) for count in (rows, 1)]
    yield _cases("a tile of one column, then one of a row: activations stop at the last column", joined(parts))
    yield _cases(WHY_BITS, _all_bits(config))


def _padded(parts: Sequence[Edges], count: int) -> list[Edges]:
    """Parts with edges in which nothing enters at the end, so that each has `count`."""
    return [
        {name: np.concatenate([array, np.repeat(array[:1] * 0, count - len(array), 0)]) for name, array in part.items()}
        for part in parts
    ]


def _held(config: Config) -> Blocks:
    """Products whose edges `hold` interrupts: the source waits with its operands, as a stalled column does."""
    product = _fed(config, drawn("stops", config["rows"], config["columns"], [W4, M8]))
    for at, where in enumerate(("operands enter", "weights of column 1 come", "a slot is left", "a column leaves")):
        yield _cases(f"held when {where}", _stopped(product, [at]), decision="D-harmonia-63")
    long = _stopped(product, np.arange(len(product["mode"])).repeat(2))
    yield _cases("held two edges of three", long, decision="D-harmonia-63")
    empty = {name: array[:1] for name, array in product.items()} | {"hold": np.ones(1, np.int64)}
    yield _cases("operands that wait from the reset on", empty, decision="D-harmonia-63")
    whole = _all_bits(config)
    yield _cases(WHY_BITS, whole | {"hold": np.zeros(len(whole["mode"]), np.int64)})


def _stopped(edges: Edges, stops: ArrayLike) -> Edges:
    """The edges of a product, those in `stops` repeated before they count, with 1 at port `hold`."""
    count = len(edges["mode"])
    order = np.sort(np.concatenate([np.arange(count), stops]), kind="stable")
    held = np.append(order[1:] == order[:-1], False)
    return {name: array[order] for name, array in edges.items()} | {"hold": held.astype(np.int64)}


def _schedule() -> Any:
    """The schedule that feeds products; imported late, since the unit imports this module."""
    from refemu.units.harmonia.bfp_pe_array_clocked import product

    return product


def _long(config: Config) -> Blocks:
    opposite = constant(1, 1, [W4, W4], a=255, b=7, a_exp=15)
    opposite["a_sign"][:, LANES:], opposite["a_mag"][:, -1], opposite["w_scale"][:] = 1, 253, 0x3FFF
    why = "a sum and almost its negative: each product is rounded before it is added"
    yield _cases(why, _fed(config, opposite), decision="D-harmonia-10")
    yield _largest(config)
    yield from _whole(config)


def _early(config: Config) -> Block:
    """The second group of M8M8, or pass of two, comes while the first has a slot left."""
    groups = 2 if config["activity"] == "by_slot" else 4
    edges = _moved(config, drawn("early", config["rows"], config["columns"], [M8] * groups), range(2))
    why = "operands of M8M8 that come while those before have a slot left: both files are in use"
    return _cases(why, edges, decision="D-harmonia-41")


def _crowded(config: Config) -> Block:
    """Groups, or passes, in every edge, and one more when a file is free: the sums show which were taken."""
    plain = config["activity"] == "by_slot"
    groups, room = (4, 3) if plain else (8, 5)
    edges = _moved(config, drawn("crowded", config["rows"], config["columns"], [M8] * groups), (*range(3), room))
    return _cases("operands of M8M8 in every edge: some find both files in use", edges, decision="D-harmonia-41")


def _whole(config: Config) -> Blocks:
    """Bits and reset of every register, as far as outputs show them."""
    yield _cases(WHY_BITS, _all_bits(config))
    groups = 2 if config["activity"] == "by_slot" else 4
    crowded = _moved(config, drawn("begun", config["rows"], config["columns"], [M8] * groups), range(2))
    begun = {name: array[:2] for name, array in crowded.items()}
    yield _cases("a case that ends with groups in the array, then one that begins with groups", begun, begun)
    why = "outputs that continue from the reset: beyond FP16, then 1"
    largest_and_one = [_group(p, a_exp) | {"w_scale": ONE} for p, a_exp in ((32 * 255, 30), (1, 22))]
    ends = [_entering(config, [[Entry(W4, [group], last=1)]]) for group in largest_and_one]
    yield _cases(why, *({name: array[:-1] for name, array in edges.items()} for edges in ends))


def _tiles(config: Config) -> Blocks:
    """Tiles after each other."""
    for groups in (1,) if not config["overlap"] else (1, 3):
        why = f"a tile of {groups} groups of M8M4, and the first group of the next at once"
        yield _cases(why, _at_once(config, groups), decision="D-harmonia-43")
    operands = drawn("two", config["rows"], 2 * config["columns"], [M4])
    why = "two tiles, the second as soon as the array takes it"
    yield _cases(why, _fed(config, operands), decision="D-harmonia-22")


def _streams(config: Config) -> Blocks:
    """What enters, and when."""
    rows, columns = config["rows"], config["columns"]
    why = "modes mixed in a reduction, as for values of both precisions"
    yield _cases(why, _fed(config, drawn("mixed", rows, columns, [M8, M4, W4])), decision="D-harmonia-36")
    if columns > 1:
        why = "a tile without the first column: activations pass it"
        holes = _fed(config, drawn("holes", rows, columns, [M4]))
        holes["col_valid"][:, 0] = holes["b_valid"][:, 0] = 0
        yield _cases(why, holes, decision="D-harmonia-44")
    why = "a tile of one row and one column: activations stop there"
    yield _cases(why, _fed(config, drawn("narrow", 1, 1, [W4])), decision="D-harmonia-44")
    yield _cases("weights of a column that come an edge late", _late(config), decision="D-harmonia-42")
    unread = drawn("unread", rows, columns, [W4, M4])
    unread["b"] |= 0xA0
    unread["b_sign"][:, :LANES], unread["b_exp"][:, 0], unread["w_scale"][:, 1] = 1, 21, 0x4321
    yield _cases("bits at the ports that the mode does not read", _fed(config, unread), decision="D-harmonia-42")


def _sums(config: Config) -> Blocks:
    """Sums at which variants of an accumulator's decisions differ."""
    rows, columns = config["rows"], config["columns"]
    tiny = constant(rows, columns, [M4, M4], b=1, a_exp=8, b_exp=7)
    tiny["a_mag"][0, 0], tiny["a_mag"][0, LANES] = 1, 3  # 2^-25 and 3 * 2^-25, in the first row
    yield _cases("sums too small for FP16, at a tie and next to it", _fed(config, tiny), decision="D-arith-2")
    zero = constant(rows, columns, [W4], a=0, b=1, a_exp=15)
    zero["w_scale"][:] = ONE | 0x8000
    yield _cases("-0 is added to +0", *[_fed(config, zero)] * 2, decision="D-arith-5")


def _largest(config: Config) -> Block:
    """Sums with every possible bit that FP16 still shows; M8M8 latches the sum of the first nibbles."""
    group = {"a_mag": 255, "a_exp": 15, "b": 255, "b_exp": 12}
    edges = _entering(config, [[Entry(M8, [group], clear=1, last=1)]])
    return _cases("the largest sum of products of a group of M8M8", edges)


def _ties(config: Config) -> Block:
    """Halfway between two FP16 values."""
    ties = constant(config["rows"], config["columns"], [W4, W4], a=0, b=1, a_exp=15)
    ties["a_mag"][:, :8], ties["a_mag"][:, 8] = 255, 9  # 2,049
    ties["a_mag"][:, LANES : LANES + 8], ties["a_mag"][:, LANES + 8] = 255, 11
    ties["b"][1::2] = 15
    ties["w_scale"][:] = ONE, 0xC000
    return _cases("2,049 and 2,051 in eleven bits, either sign", _fed(config, ties), decision="D-arith-2")


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


def _tile_streams(config: Config, seed: Seeds) -> Block:
    """Three tiles of one to three groups in drawn modes, a case for every seed; idle edges after them."""
    parts = []
    for number in each(seed):
        choices = words(f"{NAME}/random/modes", number, 3 * (1 + MOST))[0].reshape(3, -1) >> np.uint64(32)
        tiles = []
        for place, (count, *modes) in enumerate(choices.tolist()):
            chosen = [mode % 3 for mode in modes[: 1 + count % MOST]]
            tiles.append(_fed(config, drawn(f"random/{place}", config["rows"], config["columns"], chosen, number)))
        parts.append(joined(tiles))
    why = "three tiles of drawn modes; exponents and factors as in real tensors"
    return _cases(why, *_padded(parts, 3 * (2 * MOST + config["columns"])))


def drawn(label: str, rows: int, columns: int, modes: Sequence[int], seed: int = 0) -> Operands:
    """Operands whose exponents and factors are near each other."""
    fields = constant(rows, columns, modes)
    for name, array in fields.items():
        if name != "mode":
            values = words(f"{NAME}/{label}/{name}", seed, array.size)[0] >> np.uint64(48)
            fields[name] = values.astype(np.int64).reshape(array.shape)
    read = np.array(modes) != W4
    near = {"a_sign": fields["a_sign"] & 1, "a_mag": fields["a_mag"] & 255, "a_exp": 12 + fields["a_exp"] % 8}
    near |= {"b": fields["b"] & np.where(np.array(modes) == M8, 255, 15).repeat(LANES)}
    near |= {"b_sign": fields["b_sign"] & read.repeat(LANES), "b_exp": (10 + fields["b_exp"] % 8) * read}
    return fields | near | {"w_scale": (0x2000 + fields["w_scale"] % 4096) * ~read}


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
    both = {name: np.zeros((count, *array.shape[1:]), np.int64) for name, array in first.items()}
    for start, part in ((0, first), (groups, second)):
        for name, array in part.items():
            both[name][start : start + len(array)] |= array
    return both


def _cases(why: str, *parts: Edges, decision: str = "") -> Block:
    return why, side_by_side(parts), decision


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with finite weight factors, and no more groups in a pass than slots."""
    fields = {**inputs, "w_scale": finite(inputs["w_scale"])}
    if "groups" in inputs:
        most = np.where(inputs["mode"] == M8, SLOTS // 2, SLOTS)
        fields["groups"] = 1 + np.asarray(inputs["groups"], np.int64) % most
    return fields


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    """Edges of each flag, in some row of the column that leaves."""
    flags = bfp_accumulator_cases.mark(config, inputs, result)
    return {name: np.asarray(flag.any(axis=-1)) for name, flag in flags.items()}
