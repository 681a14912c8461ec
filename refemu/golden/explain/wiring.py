"""Changes of complete answers: rows late or early, lanes reordered or dead, ports exchanged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np

from refemu.golden.explain import bits
from refemu.golden.explain.guess import Guess, Inputs, bits_of
from refemu.golden.explain.table import Group, Table, Words
from refemu.golden.files import fields
from refemu.golden.grade import words as other_words
from refemu.units.ports import Port

LATE = (1, 2, 3, 4, -1, -2)  #: rows late
FEW = 4  #: most bits of an input that are all tried stuck and inverted; of wider ones, the ends
LANES = 32  #: most lanes of an input that are all tried dead
NARROW = 8  #: most bits of an input that is tried with fewer bits
PAIRS = 1 << 25  #: most comparisons of lanes with lanes


def guesses(table: Table, words: Words) -> Iterator[Guess]:
    """Possible changes of rows, lanes and ports."""
    wrong = {name: table.unlike(name, words[name]) != 0 for name in table.ports}
    bad = [name for name, cells in wrong.items() if cells.any()]
    yield from _late(table, bad)
    yield from _lanes(table, words, bad, wrong)
    yield from _orders(table, bad)
    for left, right in combinations(table.ports, 2):
        if _size(table.ports[left]) == _size(table.ports[right]) and {left, right} & set(bad):
            ports = [_short(left), _short(right)]
            detail = f"right if {ports[0]} and {ports[1]} are exchanged"
            yield _change("port_swap", detail, partial(_exchanged, left, right), {"ports": ports})


def stimuli(table: Table) -> Iterator[Guess]:
    """Possible changes of a device's inputs: late, exchanged, with reordered words or lanes."""
    ports = {port.name: port for port in table.unit.ports(table.config).inputs}
    for name, port in ports.items():
        for id, says, change in other_words.changes(port):
            known = {"bytes": "byte_swap", "nibbles": "nibble_swap"}
            if id in known:
                yield _seen(known[id], f"input {name}: {says}", partial(_respelled, port, change), {"port": name})
        if port.signed:
            yield _seen("sign", f"input {name} has no sign", partial(_respelled, port, _magnitude), {"port": name})
        for few in range(max(1, port.bits // 2), port.bits) if port.bits <= NARROW else ():
            says = f"input {name} has {few} of its {port.bits} bits"
            yield _seen("width", says, partial(_respelled, port, partial(_low, few)), {"port": name, "bits": few})
        for says, order in _usual(port.count):
            parameters = {"port": name, "permutation": order.tolist()}
            yield _seen("lane_permutation", f"of input {name} {says}", partial(_ordered, name, order), parameters)
    for name, port in ports.items():
        yield from _tampered(name, port)
    for name in ports:
        yield _seen("row_shift", f"input {name} is a row late", partial(_delayed, name), {"rows": 1, "port": name})
    for left, right in combinations(ports, 2):
        if _size(ports[left]) == _size(ports[right]) and ports[left].signed == ports[right].signed:
            detail = f"inputs {left} and {right} are exchanged"
            yield _seen("port_swap", detail, partial(_crossed, left, right), {"ports": [left, right]})


def _tampered(name: str, port: Port) -> Iterator[Guess]:
    """Changed bits and lanes of an input."""
    seen = partial(_seen_words, name, port)
    top = port.bits - 1
    for bit in range(port.bits) if port.bits <= FEW else (top, 0):
        for value in (0, 1):
            yield seen(
                "bit_stuck", f"bit {bit} is always {value}", partial(bits.stuck, (bit,), value), bit=bit, value=value
            )
        yield seen("bit_inverted", f"bit {bit} is inverted", partial(bits.flipped, 1 << bit), bit=bit)
    if port.bits > 1:
        order = list(range(port.bits))[::-1]
        yield seen("bit_swap", "its bits are reversed", partial(bits.permuted, order), permutation=order)
    if port.bits == 32:
        yield seen("byte_swap", "its halves are exchanged", partial(bits.blocks, 32, 16))
    for lane in range(port.count) if 1 < port.count <= LANES else ():
        detail = f"right if lane {lane} of input {name} is always 0"
        parameters = {"port": name, "value": 0}
        yield Guess("structure", "lane", detail, parameters, 3, stimulus=partial(_unseen, name, lane), lanes=(lane,))


def _seen_words(name: str, port: Port, id: str, says: str, change: bits.Change, **parameters: object) -> Guess:
    return _seen(id, f"input {name}: {says}", partial(_respelled, port, change), {"port": name, **parameters})


def _unseen(name: str, lane: int, table: Table, number: int, inputs: Inputs) -> Inputs:
    array = np.array(inputs[name])
    array[..., lane] = 0
    return {**inputs, name: array}


def _change(
    id: str, detail: str, change: Callable[[Table, Words], Words], parameters: Mapping[str, object], price: int = 0
) -> Guess:
    return Guess("structure", id, detail, parameters, price, change=change)


def _seen(
    id: str, says: str, stimulus: Callable[[Table, int, Inputs], Inputs], parameters: Mapping[str, object]
) -> Guess:
    return Guess("structure", id, f"right if {says}", parameters, 1, stimulus=stimulus)


def _short(name: str) -> str:
    return name.partition(".")[2]


def _size(port: Port) -> tuple[int, int]:
    return port.bits, port.count


def _late(table: Table, bad: Sequence[str]) -> Iterator[Guess]:
    """All outputs, or one of them, some rows late or early."""
    event = table.unit.timing == "event"
    groups = [list(table.ports), *([name] for name in bad if len(table.ports) > 1)]
    for names in groups:
        for rows in LATE:
            for within in (True, False) if event else (False,):
                what = "the answers are" if len(names) == len(table.ports) else f"{_short(names[0])} is"
                says = f"{abs(rows)} row{'s' * (abs(rows) > 1)} {'late' if rows > 0 else 'early'}"
                says += ", restarting with each case" if within else ""
                parameters: dict[str, object] = {"rows": rows}
                if len(names) < len(table.ports):
                    parameters["port"] = _short(names[0])
                yield _change(
                    "row_shift", f"right if {what} {says}", partial(_shifted, names, rows, within), parameters
                )


def _shifted(names: Sequence[str], late: int, within: bool, table: Table, words: Words) -> Words:
    """Shift rows; those without a source are unchanged."""
    source = table.rows - late
    inside = (source >= 0) & (source < table.golden.rows)
    place = np.where(inside, table.place(source), -1)
    if within:
        place = np.where(
            (place >= 0) & (table.first(table.rows) == table.first(np.where(inside, source, 0))), place, -1
        )
    place = np.where(place < 0, np.arange(len(place)), place)
    return {**words, **{name: words[name][place] for name in names}}


def _exchanged(left: str, right: str, table: Table, words: Words) -> Words:
    return {**words, left: words[right], right: words[left]}


def _lanes(table: Table, words: Words, bad: Sequence[str], wrong: Mapping[str, np.ndarray]) -> Iterator[Guess]:
    for name in bad:
        lanes = table.ports[name].count
        got = table.got[name]
        constant = (got == got[:1]).all(axis=0) & wrong[name].any(axis=0)
        for lane in np.flatnonzero(constant)[:4].tolist():
            value = int(got[0, lane])
            detail = f"right if lane {lane} of {_short(name)} is always {value:#x}"
            parameters = {"port": _short(name), "value": value}
            price = min(table.ports[name].bits, 2 * value.bit_length()) + bits_of(lanes)
            yield replace(_change("lane", detail, partial(_dead, name, lane, value), parameters, price), lanes=(lane,))
        if lanes == 1:
            continue
        source = _sources(table, words, name)
        moved = np.flatnonzero(source != np.arange(lanes))
        if not len(moved):
            continue
        for names in ([name], [other for other in table.ports if table.ports[other].count == lanes]):
            if len(names) == 1 or (names[0] == name and set(names) <= set(bad)):
                yield _moved(source, moved, names)


def _orders(table: Table, bad: Sequence[str]) -> Iterator[Guess]:
    """Usual orders of lanes, in all arrays of one size."""
    for lanes in sorted({table.ports[name].count for name in bad} - {1}):
        names = [name for name, port in table.ports.items() if port.count == lanes]
        for says, order in _usual(lanes):
            yield _moved(order, np.flatnonzero(order != np.arange(lanes)), names, says)


def _usual(lanes: int) -> Iterator[tuple[str, np.ndarray]]:
    """Usual orders and their names: reversed, rotated by one, neighbours exchanged, transposed."""
    straight = np.arange(lanes)
    orders = {"the lanes are reversed": straight[::-1].copy(), "neighbouring lanes are exchanged": straight ^ 1}
    orders |= {f"the lanes are rotated by {by}": np.roll(straight, -by) for by in (1, -1)}
    for rows in range(2, lanes // 2 + 1):
        if lanes % rows == 0:
            says = f"the lanes are read column by column, {rows} rows of {lanes // rows}"
            orders[says] = straight.reshape(rows, -1).T.reshape(-1)
    seen = {straight.tobytes()}
    for says, order in orders.items():
        if order.tobytes() not in seen and order.max(initial=0) < lanes:
            seen.add(order.tobytes())
            yield says, order


def _moved(source: np.ndarray, moved: np.ndarray, names: Sequence[str], says: str = "") -> Guess:
    """Lanes taken from other lanes. says: name of a usual order."""
    lanes, order = len(source), source.tolist()
    whole = np.array_equal(np.sort(source, kind="stable"), np.arange(lanes))
    price = 1 if says else len(moved) * bits_of(lanes)
    if not says:
        places = ", ".join(f"{lane} gives {order[lane]}" for lane in moved.tolist()[:8])
        says = f"lane {places}{', ...' * (len(moved) > 8)}"
    parameters: dict[str, object] = {"port": _short(names[0]), "permutation": order}
    if len(names) > 1:
        parameters["ports"] = [_short(name) for name in names]
    detail = f"right if of {', '.join(map(_short, names))} {says}"
    guess = _change(
        "lane_permutation" if whole else "lane", detail, partial(_permuted, names, source), parameters, price
    )
    return guess if whole else replace(guess, lanes=tuple(moved.tolist()))


def _sources(table: Table, words: Words, name: str) -> np.ndarray:
    """Lane of the prediction with which each lane of the device agrees most often, by default its own."""
    got, want = table.got[name], words[name]
    lanes = got.shape[1]
    bad = np.flatnonzero((table.unlike(name, want) != 0).any(axis=1))
    bad = bad[: max(4, PAIRS // (lanes * lanes))]
    agree = np.zeros((lanes, lanes), np.int64)
    for row in bad.tolist():
        agree += got[row][:, None] == want[row][None, :]
    straight = agree[np.diag_indices(lanes)]
    best = np.argmax(agree, axis=1)
    return np.where(agree.max(axis=1) > straight, best, np.arange(lanes))


def _permuted(names: Sequence[str], source: np.ndarray, table: Table, words: Words) -> Words:
    return {**words, **{name: words[name][:, source] for name in names}}


def _dead(name: str, lane: int, value: int, table: Table, words: Words) -> Words:
    array = words[name].copy()
    array[:, lane] = value
    return {**words, name: array}


def _respelled(port: Port, change: other_words.Change, table: Table, number: int, inputs: Inputs) -> Inputs:
    codes = fields.encode(inputs[port.name], port, port.name)
    mask = codes.dtype.type(fields.mask_of(port.bits))
    return {**inputs, port.name: fields.decode(np.asarray(change(codes, port) & mask, codes.dtype), port)}


def _ordered(name: str, order: np.ndarray, table: Table, number: int, inputs: Inputs) -> Inputs:
    return {**inputs, name: inputs[name][..., order]}


def _low(few: int, codes: np.ndarray, port: Port) -> np.ndarray:
    """The low bits, at least one, with a sign if the port is signed."""
    low = codes & codes.dtype.type(fields.mask_of(few))
    sign = codes.dtype.type(1 << (few - 1) if port.signed else 0)
    return np.asarray((low ^ sign) - sign)


def _magnitude(codes: np.ndarray, port: Port) -> np.ndarray:
    """All bits except the sign."""
    return np.asarray(codes & codes.dtype.type(fields.mask_of(port.bits - 1)))


def _crossed(left: str, right: str, table: Table, number: int, inputs: Inputs) -> Inputs:
    return {**inputs, left: inputs[right], right: inputs[left]}


def _delayed(name: str, table: Table, number: int, inputs: Inputs) -> Inputs:
    """The input of the row before; the first row has its own."""
    group: Group = table.groups[number]
    array = inputs[name]
    if table.unit.timing == "event":
        return {**inputs, name: np.concatenate([array[:, :1], array[:, :-1]], axis=1)}
    late = np.concatenate([array[:1], array[:-1]])
    follows = np.diff(group.rows[:, 0], prepend=-2) == 1
    shape = (-1, *(1,) * (array.ndim - 1))
    return {**inputs, name: np.where(follows.reshape(shape), late, array)}
