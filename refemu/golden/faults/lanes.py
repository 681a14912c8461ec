"""Faults of class `lanes`: lanes that are swapped, late, dead, copied or in another order."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from refemu.golden.explain.table import Table
from refemu.golden.faults import order
from refemu.golden.faults.fault import Change, Fault, Rows, Words, bits_of, short
from refemu.units.ports import Port

DEAD = 4  #: constant lanes of an output that a diagnosis tries, at most
PAIRS = 1 << 25  #: comparisons of lanes with lanes, at most


def faults(rows: Rows) -> Iterator[Fault]:
    """Those of every output with lanes, and orders of all outputs of one size."""
    for array, port in rows.ports.items():
        if port.count == 1:
            continue
        last = port.count - 1
        for lane in range(last):
            yield swapped(array, lane)
        for lane in range(port.count):
            yield frozen(array, port, lane)
        yield dead(array, port, last, 0)
        yield permuted([array], np.minimum(np.arange(port.count), last - 1), f"copied/{array}/{last}")
        yield from orders([array], port.count) if port.count > 2 else ()
    yield from shared(rows)


def suspected(table: Table, words: Words) -> Iterator[Fault]:
    """Faults that differences suggest. words: as predicted so far."""
    wrong = {array: table.unlike(array, words[array]) != 0 for array in table.ports}
    bad = [array for array, cells in wrong.items() if cells.any()]
    for array in bad:
        port, got = table.ports[array], table.got[array]
        constant = (got == got[:1]).all(axis=0) & wrong[array].any(axis=0)
        for lane in np.flatnonzero(constant)[:DEAD].tolist():
            yield dead(array, port, lane, int(got[0, lane]))
        if port.count == 1:
            continue
        yield from orders([array], port.count)
        source = _sources(table, words, array)
        if not np.array_equal(source, np.arange(port.count)):
            yield permuted([array], source)
            same = [other for other in table.ports if table.ports[other].count == port.count]
            if len(same) > 1 and same[0] == array and set(same) <= set(bad):
                yield permuted(same, source)
    yield from shared(table)


def shared(rows: Rows) -> Iterator[Fault]:
    """Orders that designs have, in all of several outputs of one size."""
    for count in sorted({port.count for port in rows.ports.values()} - {1}):
        arrays = [array for array, port in rows.ports.items() if port.count == count]
        if len(arrays) > 1:
            yield from orders(arrays, count)


def orders(arrays: Sequence[str], count: int) -> Iterator[Fault]:
    """Orders that designs have; of two lanes the only one is that they are swapped."""
    for key, says, source in usual(count):
        where = arrays[0] if len(arrays) == 1 else f"{count} lanes"
        yield permuted(arrays, source, f"{key}/{where}", says)


def usual(count: int) -> Iterator[tuple[str, str, np.ndarray]]:
    """Orders that designs have, and their names: reversed, rotated by one, neighbours exchanged, transposed."""
    straight = np.arange(count)
    orders = {"reversed": ("the lanes are reversed", straight[::-1].copy())}
    orders["neighbours"] = "neighbouring lanes are exchanged", straight ^ 1
    orders |= {f"rotated_{by}": (f"the lanes are rotated by {by}", np.roll(straight, -by)) for by in (1, -1)}
    for rows in range(2, count // 2 + 1):
        if count % rows == 0:
            says = f"the lanes are read column by column, {rows} rows of {count // rows}"
            orders[f"columns_{rows}"] = says, straight.reshape(rows, -1).T.reshape(-1)
    seen = {straight.tobytes()}
    for key, (says, source) in orders.items():
        if source.tobytes() not in seen and source.max(initial=0) < count:
            seen.add(source.tobytes())
            yield key, says, source


def swapped(array: str, lane: int) -> Fault:
    """Two neighbours swapped."""
    says = f"lanes {lane} and {lane + 1} of {array} are swapped"
    return _lanes(f"swapped/{array}/{lane}", says, "lane_permutation", array, (lane, lane + 1), _backwards)


def frozen(array: str, port: Port, lane: int) -> Fault:
    """A lane that is that of the row before; the first row of a case is right."""
    whole = order.shifted((array,), array, 1, frozen=True)
    says = f"lane {lane} of {array} is that of the row before"
    return replace(
        whole, id=f"frozen/{array}/{lane}", says=says, answers=partial(_one_late, array, lane), lanes=(lane,)
    )


def dead(array: str, port: Port, lane: int, value: int) -> Fault:
    """A lane that is always one word."""
    id, says = f"dead/{array}/{lane}", f"lane {lane} of {array} is always {value:#x}"
    price = min(port.bits, 2 * value.bit_length()) + bits_of(port.count)
    fault = _lanes(id, says, "lane", array, (lane,), partial(_always, value))
    return replace(fault, parameters={"port": short(array), "value": value}, price=price)


def permuted(arrays: Sequence[str], source: np.ndarray, id: str = "", says: str = "") -> Fault:
    """Lanes that come from others: lane i is lane `source[i]`. id, says: of an order that designs have."""
    count, lanes = len(source), source.tolist()
    moved = np.flatnonzero(source != np.arange(count)).tolist()
    whole = sorted(lanes) == list(range(count))
    price = 1 if says else len(moved) * bits_of(count)
    if not says:
        places = ", ".join(f"lane {lane} is lane {lanes[lane]}" for lane in moved[:8])
        says = f"{places}{', ...' * (len(moved) > 8)}"
    parameters: dict[str, object] = {"port": short(arrays[0]), "permutation": lanes}
    if len(arrays) > 1:
        parameters["ports"] = [short(array) for array in arrays]
    return Fault(
        id or f"permuted/{'/'.join(arrays)}/{'/'.join(map(str, moved))}",
        f"{', '.join(arrays)}: {says}",
        "lane_permutation" if whole else "lane",
        parameters,
        price,
        answers=partial(_permuted, tuple(arrays), source),
        lanes=() if whole else tuple(moved),
    )


def _lanes(id: str, says: str, name: str, array: str, lanes: tuple[int, ...], change: Change) -> Fault:
    return Fault(id, says, name, {"port": short(array)}, array=array, word=change, lanes=lanes)


def _backwards(codes: np.ndarray, port: Port) -> Any:
    return codes[:, ::-1]


def _always(value: int, codes: np.ndarray, port: Port) -> Any:
    return np.full_like(codes, value)


def _permuted(arrays: Sequence[str], source: np.ndarray, rows: Rows, words: Words) -> Words:
    return {**words, **{array: words[array][:, source] for array in arrays}}


def _one_late(array: str, lane: int, rows: Rows, words: Words) -> Words:
    column = {array: words[array][:, lane : lane + 1]}
    late = order.shifted((array,), array, 1, frozen=True).applied(rows, column)[array]
    new = words[array].copy()
    new[:, lane] = late[:, 0]
    return {**words, array: new}


def _sources(table: Table, words: Words, array: str) -> np.ndarray:
    """Lane of the prediction that each lane of the device agrees with most often, its own among equals."""
    got, want = table.got[array], words[array]
    lanes = got.shape[1]
    bad = np.flatnonzero((table.unlike(array, want) != 0).any(axis=1))
    bad = bad[: max(4, PAIRS // (lanes * lanes))]
    agree = np.zeros((lanes, lanes), np.int64)
    for row in bad.tolist():
        agree += got[row][:, None] == want[row][None, :]
    straight = agree[np.diag_indices(lanes)]
    best = np.argmax(agree, axis=1)
    return np.where(agree.max(axis=1) > straight, best, np.arange(lanes))
