"""Faults of class `bits`: bits of an output that are stuck, inverted, or wired to each other's place."""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from refemu.arith import integers
from refemu.golden.explain.table import Table
from refemu.golden.faults.fault import Change, Fault, Rows, Words, bits_of, short
from refemu.units.ports import Port

ALMOST = 0.6  #: share of the cells of a lane in which a bit must differ to be inverted
FEW = 8  #: bits of a port of which every two are tried crossed, at most; of wider ones neighbours
CROSSED = 1024  #: cells from which crossed wires are read, at most


def faults(rows: Rows) -> Iterator[Fault]:
    """Every bit of every lane stuck and inverted; all bits of an output inverted, reversed, and two crossed."""
    for array, port in rows.ports.items():
        for lane in range(port.count):
            for bit in range(port.bits):
                yield stuck(array, port, (bit,), 0, lane)
                yield stuck(array, port, (bit,), 1, lane)
                yield inverted(array, port, (bit,), lane)
        yield from wired(array, port)


def wired(array: str, port: Port) -> Iterator[Fault]:
    """All bits of an output inverted, reversed, and every two crossed."""
    if port.bits == 1:
        return
    every = list(range(port.bits))
    yield inverted(array, port, tuple(every))
    for left, right in combinations(every, 2):
        if port.bits <= FEW or right == left + 1:
            order = [right if bit == left else left if bit == right else bit for bit in every]
            yield crossed(array, port, order)
    if port.bits > 2:
        yield crossed(array, port, every[::-1])


def stuck(array: str, port: Port, bits: tuple[int, ...], value: int, lane: int | None = None) -> Fault:
    """Bits that are always `value`."""
    says = f"{_named(bits)} of {_place(array, port, lane)} {_are(bits)} stuck at {value}"
    parameters: dict[str, Any] = {"port": short(array), "bit": bits[0], "value": value}
    parameters |= {"bits": list(bits)} if len(bits) > 1 else {}
    price = bits_of(2 * port.bits) * len(bits)
    id = f"stuck_at_{value}/{_where(array, bits, lane)}"
    return _fault(id, says, "bit_stuck", parameters, price, array, partial(held, bits, value), lane)


def inverted(array: str, port: Port, bits: tuple[int, ...], lane: int | None = None) -> Fault:
    """Bits that are inverted."""
    every = len(bits) == port.bits > 1
    what = "every bit" if every else _named(bits)
    says = f"{what} of {_place(array, port, lane)} {'is' if every else _are(bits)} inverted"
    parameters: dict[str, Any] = {"port": short(array), "bit": bits[0]}
    parameters |= {"bits": list(bits)} if len(bits) > 1 else {}
    price = 1 if every else bits_of(2 * port.bits)
    change = partial(flipped, sum(1 << bit for bit in bits))
    return _fault(f"inverted/{_where(array, bits, lane)}", says, "bit_inverted", parameters, price, array, change, lane)


def crossed(array: str, port: Port, order: list[int]) -> Fault:
    """Bits that come from others: bit i is bit `order[i]`."""
    moved = [bit for bit, source in enumerate(order) if bit != source]
    says, price = f"bits {', '.join(map(str, moved))} of {array} come from {', '.join(str(order[b]) for b in moved)}", 0
    if len(moved) == 2:
        says, price = f"bits {moved[0]} and {moved[1]} of {array} are crossed", bits_of(port.bits)
    where = "/".join(map(str, moved))
    if order == list(range(port.bits))[::-1]:
        says, price, where = f"the bits of {array} are reversed", 1, "reversed"
    parameters = {"port": short(array), "permutation": order}
    return Fault(
        f"crossed/{array}/{where}",
        says,
        "bit_swap",
        parameters,
        price or len(moved) * bits_of(port.bits),
        array=array,
        word=partial(permuted, order),
    )


def _fault(
    id: str, says: str, name: str, parameters: dict[str, Any], price: int, array: str, word: Change, lane: int | None
) -> Fault:
    return Fault(id, says, name, parameters, price, array=array, word=word, lanes=() if lane is None else (lane,))


def _named(bits: tuple[int, ...]) -> str:
    return f"bit{'s' * (len(bits) > 1)} {', '.join(map(str, bits))}"


def _are(bits: tuple[int, ...]) -> str:
    return "are" if len(bits) > 1 else "is"


def _place(array: str, port: Port, lane: int | None) -> str:
    return f"{array}, lane {lane}" if lane is not None and port.count > 1 else array


def _where(array: str, bits: tuple[int, ...], lane: int | None) -> str:
    return "/".join([array, *([] if lane is None else [str(lane)]), *map(str, bits)])


def held(bits: tuple[int, ...], value: int, codes: np.ndarray, port: Port) -> Any:
    """Words in which some bits are always `value`."""
    word = 0
    for bit in bits:
        word |= 1 << bit
    mask = codes.dtype.type(word)
    return codes | mask if value else codes & ~mask


def flipped(word: int, codes: np.ndarray, port: Port) -> Any:
    """Words with the bits of `word` inverted."""
    return codes ^ codes.dtype.type(word)


def permuted(order: list[int], codes: np.ndarray, port: Port) -> Any:
    """Words in which each bit comes from another."""
    out = np.zeros_like(codes)
    for bit, source in enumerate(order):
        out |= (codes >> codes.dtype.type(source) & codes.dtype.type(1)) << codes.dtype.type(bit)
    return out


def suspected(table: Table, words: Words) -> Iterator[Fault]:
    """Faults that differences suggest. words: as predicted so far."""
    for array, port in table.ports.items():
        unlike = table.unlike(array, words[array])
        if unlike.any():
            yield from _single(table, array, port, unlike)
            yield from wired(array, port)
            yield from _crossed(table, words, array, port, unlike)


def _single(table: Table, array: str, port: Port, unlike: np.ndarray) -> Iterator[Fault]:
    """Bits that are constant in some lane, or the opposite."""
    got = table.got[array]
    always: dict[int, list[int]] = {0: [], 1: []}
    for bit in range(port.bits):
        here = unlike >> unlike.dtype.type(bit) & unlike.dtype.type(1)
        if not here.any():
            continue
        of_lane = np.count_nonzero(here, axis=0)
        ones = np.count_nonzero(got >> got.dtype.type(bit) & got.dtype.type(1), axis=0)
        for value, constant in enumerate((ones == 0, ones == len(got))):
            if (constant & (of_lane > 0)).any():
                always[value].append(bit)
                yield stuck(array, port, (bit,), value)
        if (of_lane >= ALMOST * len(got)).any():
            yield inverted(array, port, (bit,))
    for value, bits in always.items():
        if len(bits) > 1:
            yield stuck(array, port, tuple(bits), value)


def _crossed(table: Table, words: Words, array: str, port: Port, unlike: np.ndarray) -> Iterator[Fault]:
    """Wires that are crossed, read off a matrix of agreement of bits."""
    if port.bits < 2:
        return
    lanes = np.flatnonzero((unlike != 0).any(axis=0))
    got, want = (codes[array][:, lanes].reshape(-1) for codes in (table.got, words))
    some = np.flatnonzero(unlike[:, lanes].reshape(-1))[:CROSSED]
    a, b = (_bits(codes[some], port.bits) for codes in (got, want))
    agree = integers.matmul(a.T, b) + integers.matmul((1 - a).T, 1 - b)
    agree[np.diag_indices(port.bits)] *= 2  # a wire that may be straight is
    source = np.argmax(agree, axis=1)
    moved = np.flatnonzero(source != np.arange(port.bits))
    if len(moved) and np.array_equal(np.sort(source, kind="stable"), np.arange(port.bits)):
        yield crossed(array, port, source.tolist())


def _bits(codes: np.ndarray, bits: int) -> np.ndarray:
    """0 and 1 of every bit: int64 (cells, bits)."""
    places = np.arange(bits, dtype=codes.dtype)
    return np.asarray(codes[:, None] >> places & codes.dtype.type(1), np.int64)
