"""Changes of single bits and of whole words: stuck, inverted, crossed, swapped, narrowed."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from refemu.arith import integers
from refemu.golden.explain.guess import Guess, bits_of
from refemu.golden.explain.table import Table, Words
from refemu.golden.files import fields
from refemu.golden.grade import words as other_words
from refemu.units.ports import Port

Change = Callable[[np.ndarray, Port], Any]  #: words of the device
ALMOST = 0.6  #: share of a lane's cells in which an inverted bit differs
FEW = 8  #: most bits of a port whose pairs are tried crossed
CROSSED = 1024  #: most cells used to find crossed wires


def guesses(table: Table, words: Words) -> Iterator[Guess]:
    """Changes of single arrays that their differences suggest."""
    for name, port in table.ports.items():
        unlike = table.unlike(name, words[name])
        if unlike.any():
            yield from _single(table, words, name, port, unlike)
            yield from _crossed(table, words, name, port, unlike)
            yield from _few(name, port)
            yield from _whole(name, port)
            yield from _narrow(table, name, port)
            yield from _added(table, words, name, port, unlike)


def guess(name: str, id: str, says: str, change: Change, price: int = 0, **parameters: Any) -> Guess:
    """A change of the words of one array."""
    port = name.partition(".")[2]
    detail = f"right if {port}: {says}"
    return Guess("structure", id, detail, {"port": port, **parameters}, price, change=partial(_apply, name, change))


def _apply(name: str, change: Change, table: Table, words: Words) -> Words:
    port = table.ports[name]
    mask = words[name].dtype.type(fields.mask_of(port.bits))
    return {**words, name: np.asarray(change(words[name], port) & mask, words[name].dtype)}


def _single(table: Table, words: Words, name: str, port: Port, unlike: np.ndarray) -> Iterator[Guess]:
    """Bits that are constant or inverted in some lane."""
    got, price = table.got[name], bits_of(2 * port.bits)
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
                says = f"bit {bit} is always {value}"
                yield guess(name, "bit_stuck", says, partial(stuck, (bit,), value), price, bit=bit, value=value)
        if (of_lane >= ALMOST * len(got)).any():
            change = partial(flipped, 1 << bit)
            yield guess(name, "bit_inverted", f"bit {bit} is inverted", change, price, bit=bit)
    for value, bits in always.items():
        if len(bits) > 1:
            says = f"bits {', '.join(map(str, bits))} are always {value}"
            change = partial(stuck, tuple(bits), value)
            yield guess(name, "bit_stuck", says, change, price * len(bits), bit=bits[0], value=value, bits=bits)


def stuck(bits: tuple[int, ...], value: int, codes: np.ndarray, port: Port) -> Any:
    """Words in which some bits are always `value`."""
    word = 0
    for bit in bits:
        word |= 1 << bit
    mask = codes.dtype.type(word)
    return codes | mask if value else codes & ~mask


def flipped(word: int, codes: np.ndarray, port: Port) -> Any:
    """Words with the bits of `word` inverted."""
    return codes ^ codes.dtype.type(word)


def _crossed(table: Table, words: Words, name: str, port: Port, unlike: np.ndarray) -> Iterator[Guess]:
    """Crossed wires, from a matrix of agreement between bits."""
    if port.bits < 2:
        return
    lanes = np.flatnonzero((unlike != 0).any(axis=0))
    got, want = (array[name][:, lanes].reshape(-1) for array in (table.got, words))
    some = np.flatnonzero(unlike[:, lanes].reshape(-1))[:CROSSED]
    a, b = (_bits(array[some], port.bits) for array in (got, want))
    agree = integers.matmul(a.T, b) + integers.matmul((1 - a).T, 1 - b)
    agree[np.diag_indices(port.bits)] *= 2  # prefer straight wires
    source = np.argmax(agree, axis=1)
    moved = np.flatnonzero(source != np.arange(port.bits))
    if len(moved) and np.array_equal(np.sort(source, kind="stable"), np.arange(port.bits)):
        permutation = source.tolist()
        says = f"bits {', '.join(map(str, moved.tolist()))} come from {', '.join(str(permutation[b]) for b in moved)}"
        price = len(moved) * bits_of(port.bits)
        if permutation == list(range(port.bits))[::-1]:
            says, price = "its bits are reversed", 1
        yield guess(name, "bit_swap", says, partial(permuted, permutation), price, permutation=permutation)


def _few(name: str, port: Port) -> Iterator[Guess]:
    """All bits inverted, and pairs of crossed wires of a narrow port, which rarely set bits do not show."""
    if 1 < port.bits <= FEW:
        every = list(range(port.bits))
        all_ = partial(flipped, (1 << port.bits) - 1)
        yield guess(name, "bit_inverted", "all its bits are inverted", all_, 1, bit=0, bits=every)
        for left, right in combinations(every, 2):
            order = [right if bit == left else left if bit == right else bit for bit in every]
            says = f"bits {left} and {right} are crossed"
            yield guess(name, "bit_swap", says, partial(permuted, order), bits_of(port.bits), permutation=order)


def _bits(codes: np.ndarray, bits: int) -> np.ndarray:
    """0 and 1 of every bit: int64 (cells, bits)."""
    places = np.arange(bits, dtype=codes.dtype)
    return np.asarray(codes[:, None] >> places & codes.dtype.type(1), np.int64)


def permuted(permutation: list[int], codes: np.ndarray, port: Port) -> Any:
    """Words in which each bit comes from another."""
    out = np.zeros_like(codes)
    for bit, source in enumerate(permutation):
        out |= (codes >> codes.dtype.type(source) & codes.dtype.type(1)) << codes.dtype.type(bit)
    return out


def _whole(name: str, port: Port) -> Iterator[Guess]:
    """Words rearranged, or read as another kind of number."""
    for id, says, change in other_words.changes(port):
        known = {"bytes": "byte_swap", "nibbles": "nibble_swap", "sign_magnitude": "sign"}
        yield guess(name, known.get(id, id), says, change)
    if port.bits % 16 == 0 and port.bits > 16:
        yield guess(name, "byte_swap", "the bytes of its halves are swapped", partial(blocks, 16, 8))
        yield guess(name, "byte_swap", "its halves are swapped", partial(blocks, port.bits, port.bits // 2))
    if port.bits % 8 == 0 and port.bits > 8:
        yield guess(name, "nibble_swap", "its nibbles come in the other order", _nibbles)
    if port.signed:
        yield guess(name, "sign", "it is negated", _negated)
    if fields.holds_floats(port):
        yield guess(name, "sign", "its sign is never set", _unsigned)
        yield guess(name, "sign", "zero has no sign", partial(_zeros, 0))
        yield guess(name, "sign", "zero has the other sign", partial(_zeros, 1))
        yield guess(name, "flush", "subnormal words are 0 of their sign", partial(_subnormal, True))
        yield guess(name, "flush", "subnormal words are +0", partial(_subnormal, False))
        yield guess(name, "saturate", "infinity is the largest finite number", _finite)
        yield guess(name, "nan", "its NaN has a sign", _negative_nan)
        yield guess(name, "nan", "its NaN has every bit of the mantissa", _full_nan)
        yield guess(name, "nan", "NaN is infinity", _infinite)
        yield guess(name, "nan", "NaN is 0", _zero_nan)


def blocks(block: int, part: int, codes: np.ndarray, port: Port) -> Any:
    """The two parts of every block exchanged."""
    word = 0
    for low in range(0, port.bits, block):
        word |= fields.mask_of(part) << low
    mask, shift = codes.dtype.type(word), codes.dtype.type(part)
    return (codes & mask) << shift | codes >> shift & mask


def _nibbles(codes: np.ndarray, port: Port) -> Any:
    out = np.zeros_like(codes)
    for low in range(0, port.bits, 4):
        out |= (codes >> codes.dtype.type(low) & codes.dtype.type(15)) << codes.dtype.type(port.bits - 4 - low)
    return out


def _negated(codes: np.ndarray, port: Port) -> Any:
    return ~codes + codes.dtype.type(1)


def _top(codes: np.ndarray, port: Port) -> Any:
    return codes.dtype.type(1 << (port.bits - 1))


def _unsigned(codes: np.ndarray, port: Port) -> Any:
    return codes & ~_top(codes, port)


def _magnitude(codes: np.ndarray, port: Port) -> Any:
    return np.asarray(codes & ~_top(codes, port))


def _zeros(flip: int, codes: np.ndarray, port: Port) -> Any:
    zero = _magnitude(codes, port) == 0
    return np.where(zero, codes ^ _top(codes, port) if flip else np.zeros_like(codes), codes)


def _infinity(codes: np.ndarray, port: Port) -> Any:
    return codes.dtype.type(fields.infinity(port))


def _subnormal(signed: bool, codes: np.ndarray, port: Port) -> Any:
    infinity = int(_infinity(codes, port))
    least = codes.dtype.type(infinity & -infinity)  # of normal numbers: the lowest bit of the exponent
    zero = codes & _top(codes, port) if signed else np.zeros_like(codes)
    return np.where(_magnitude(codes, port) < least, zero, codes)


def _finite(codes: np.ndarray, port: Port) -> Any:
    return np.where(_magnitude(codes, port) == _infinity(codes, port), codes - codes.dtype.type(1), codes)


def _negative_nan(codes: np.ndarray, port: Port) -> Any:
    return np.where(fields.is_nan(codes, port), codes ^ _top(codes, port), codes)


def _full_nan(codes: np.ndarray, port: Port) -> Any:
    return np.where(fields.is_nan(codes, port), codes.dtype.type(fields.mask_of(port.bits - 1)), codes)


def _infinite(codes: np.ndarray, port: Port) -> Any:
    return np.where(fields.is_nan(codes, port), _infinity(codes, port), codes)


def _zero_nan(codes: np.ndarray, port: Port) -> Any:
    return np.where(fields.is_nan(codes, port), codes.dtype.type(0), codes)


def _narrow(table: Table, name: str, port: Port) -> Iterator[Guess]:
    """Words with only the bits that the device used, and words clipped at its largest one."""
    got = table.got[name]
    largest = int(got.max())
    bits = largest.bit_length()
    if 0 < bits < port.bits:
        says = f"it has {bits} of its {port.bits} bits"
        yield guess(name, "width", says, partial(_low, bits), bits_of(port.bits), bits=bits)
    if port.signed:
        values = fields.decode(got, port)
        low, high = int(values.min()), int(values.max())
        bits = max(high, ~low).bit_length() + 1
        if 0 < bits < port.bits:
            says = f"it has {bits} of its {port.bits} bits, the highest of them the sign"
            yield guess(name, "width", says, partial(_extended, bits), bits_of(port.bits), bits=bits)
            yield guess(name, "saturate", f"it stops at {low} and {high}", partial(_clipped, low, high), port.bits)
    elif not fields.holds_floats(port) and 0 < largest < fields.mask_of(port.bits):
        yield guess(name, "saturate", f"it stops at {largest}", partial(_stopped, largest), port.bits)


def _low(bits: int, codes: np.ndarray, port: Port) -> Any:
    return codes & codes.dtype.type(fields.mask_of(bits))


def _extended(bits: int, codes: np.ndarray, port: Port) -> Any:
    sign = codes.dtype.type(1 << (bits - 1))
    return (_low(bits, codes, port) ^ sign) - sign


def _clipped(low: int, high: int, codes: np.ndarray, port: Port) -> Any:
    return np.clip(fields.decode(codes, port), low, high).astype(codes.dtype)


def _stopped(high: int, codes: np.ndarray, port: Port) -> Any:
    return np.minimum(codes, codes.dtype.type(high))


def _added(table: Table, words: Words, name: str, port: Port, unlike: np.ndarray) -> Iterator[Guess]:
    """A constant: the most frequent difference, of all lanes and of the worst one."""
    mask = unlike.dtype.type(fields.mask_of(port.bits))
    difference, wrong = (table.got[name] - words[name]) & mask, unlike != 0
    worst = int(np.argmax(np.count_nonzero(wrong, axis=0)))
    added: Mapping[int, None] = {
        _commonest(difference[wrong]): None,
        _commonest(difference[:, worst][wrong[:, worst]]): None,
    }
    for value in added:
        signed = value - (1 << port.bits) if value >> (port.bits - 1) else value
        says = f"{abs(signed)} is {'added' if signed > 0 else 'subtracted'}"
        price = min(port.bits, 2 * abs(signed).bit_length())
        yield guess(name, "constant", says, partial(_plus, value), price, added=signed)


def _commonest(values: np.ndarray) -> int:
    unique, counts = np.unique(values, return_counts=True)
    return int(unique[np.argmax(counts)])


def _plus(value: int, codes: np.ndarray, port: Port) -> Any:
    return codes + codes.dtype.type(value)
