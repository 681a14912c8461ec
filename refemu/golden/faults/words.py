"""Faults of class `words`: words in another arrangement, read as another kind of number, or of fewer values."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from refemu.golden.explain.table import Table
from refemu.golden.faults.fault import Change, Fault, Rows, Words, bits_of, short
from refemu.golden.files import fields
from refemu.units.ports import Port


def faults(rows: Rows) -> Iterator[Fault]:
    """Those that the widths and encodings of the outputs allow; of numbers that can be any, one."""
    for array, port in rows.ports.items():
        yield from arranged(array, port)
        if port.bits > 1 and not fields.holds_floats(port):
            yield narrowed(array, port, port.bits // 2)
            yield plus(array, port, 1)
            top = fields.mask_of(port.bits - 1) >> 1
            yield clipped(array, port, ~top, top) if port.signed else clipped(array, port, 0, top)
    for left, right in pairs(rows.ports):
        yield exchanged(left, right)


def suspected(table: Table, words: Words) -> Iterator[Fault]:
    """Faults that differences suggest. words: as predicted so far."""
    for array, port in table.ports.items():
        unlike = table.unlike(array, words[array])
        if unlike.any():
            yield from arranged(array, port)
            yield from _narrow(table, array, port)
            yield from _added(table, words, array, port, unlike)
    for left, right in pairs(table.ports):
        if any(table.unlike(array, words[array]).any() for array in (left, right)):
            yield exchanged(left, right)


def pairs(ports: Mapping[str, Port]) -> Iterator[tuple[str, str]]:
    """Every two ports of one size."""
    for left, right in combinations(ports, 2):
        if (ports[left].bits, ports[left].count) == (ports[right].bits, ports[right].count):
            yield left, right


def arranged(array: str, port: Port) -> Iterator[Fault]:
    """Faults of one output that have no parameters."""
    for id, name, says, change in changes(port):
        yield Fault(f"{id}/{array}", f"{array}: {says}", name, {"port": short(array)}, array=array, word=change)


def exchanged(left: str, right: str) -> Fault:
    """Two outputs exchanged."""

    def swapped(rows: Rows, words: Words) -> Words:
        return {**words, left: words[right], right: words[left]}

    parameters = {"ports": [short(left), short(right)]}
    return Fault(
        f"exchanged/{left}/{right}", f"{left} and {right} are exchanged", "port_swap", parameters, answers=swapped
    )


def narrowed(array: str, port: Port, bits: int, signed: bool = False) -> Fault:
    """An output of fewer bits. signed: the highest of them is its sign."""
    says = f"{array} has {bits} of its {port.bits} bits{', the highest of them the sign' * signed}"
    parameters = {"port": short(array), "bits": bits}
    change = partial(extended if signed else low, bits)
    id = f"narrowed/{array}/{bits}{'/signed' * signed}"
    return Fault(id, says, "width", parameters, bits_of(port.bits), array=array, word=change)


def clipped(array: str, port: Port, lowest: int, highest: int) -> Fault:
    """Integers that stop at the ends of a range."""
    ends = f"{lowest} and {highest}" if port.signed else f"{highest}"
    id, says, parameters = f"clipped/{array}/{lowest}/{highest}", f"{array} stops at {ends}", {"port": short(array)}
    return Fault(id, says, "saturate", parameters, port.bits, array=array, word=partial(_clipped, lowest, highest))


def plus(array: str, port: Port, value: int) -> Fault:
    """A constant is added."""
    says = f"{array}: {abs(value)} is {'added' if value > 0 else 'subtracted'}"
    price = min(port.bits, 2 * abs(value).bit_length())
    parameters = {"port": short(array), "added": value}
    return Fault(f"added/{array}/{value}", says, "constant", parameters, price, array=array, word=partial(_plus, value))


def changes(port: Port) -> Iterator[tuple[str, str, str, Change]]:
    """Id, name in a diagnosis, what the device does and the words it gives, of each mistake such a port can have."""
    if port.bits > 8 and port.bits % 8 == 0:
        yield "bytes", "byte_swap", "its bytes come in the other order", _bytes
        yield "nibble_order", "nibble_swap", "its nibbles come in the other order", _nibble_order
    if port.bits % 8 == 0:
        yield "nibbles", "nibble_swap", "the nibbles of its bytes are swapped", partial(blocks, 8, 4)
    if port.bits % 16 == 0 and port.bits > 16:
        yield "half_bytes", "byte_swap", "the bytes of its halves are swapped", partial(blocks, 16, 8)
        yield "halves", "byte_swap", "its halves are swapped", partial(blocks, port.bits, port.bits // 2)
    if port.signed:
        yield "sign", "sign", "it has no sign", _magnitude
        yield "sign_magnitude", "sign", "it is sign and magnitude", _sign_magnitude
        yield "negated", "sign", "it is negated", _negated
    if fields.holds_floats(port):
        yield "sign", "sign", "it has no sign", unsigned
        yield "zero", "sign", "zero has no sign", partial(_zeros, 0)
        yield "zero_sign", "sign", "zero has the other sign", partial(_zeros, 1)
        yield "flush", "flush", "subnormal words are 0 of their sign", partial(_subnormal, True)
        yield "flush_positive", "flush", "subnormal words are +0", partial(_subnormal, False)
        yield "finite", "saturate", "infinity is the largest finite number", _finite
        yield "nan", "nan", "its NaN has another payload", _payload
        yield "nan_sign", "nan", "its NaN has a sign", _negative_nan
        yield "nan_full", "nan", "its NaN has every bit of the mantissa", _full_nan
        yield "nan_infinity", "nan", "NaN is infinity", _infinite
        yield "nan_zero", "nan", "NaN is 0", _zero_nan


def _narrow(table: Table, array: str, port: Port) -> Iterator[Fault]:
    """Fewer bits, as many as the device ever used; and numbers that stop at its largest."""
    got = table.got[array]
    largest = int(got.max())
    bits = largest.bit_length()
    if 0 < bits < port.bits:
        yield narrowed(array, port, bits)
    if port.signed:
        values = fields.decode(got, port)
        lowest, highest = int(values.min()), int(values.max())
        bits = max(highest, ~lowest).bit_length() + 1
        if 0 < bits < port.bits:
            yield narrowed(array, port, bits, signed=True)
            yield clipped(array, port, lowest, highest)
    elif not fields.holds_floats(port) and 0 < largest < fields.mask_of(port.bits):
        yield clipped(array, port, 0, largest)


def _added(table: Table, words: Words, array: str, port: Port, unlike: np.ndarray) -> Iterator[Fault]:
    """A constant: the commonest difference, of all lanes and of the worst one."""
    mask = unlike.dtype.type(fields.mask_of(port.bits))
    difference, wrong = (table.got[array] - words[array]) & mask, unlike != 0
    worst = int(np.argmax(np.count_nonzero(wrong, axis=0)))
    added: Mapping[int, None] = {
        _commonest(difference[wrong]): None,
        _commonest(difference[:, worst][wrong[:, worst]]): None,
    }
    for value in added:
        yield plus(array, port, value - (1 << port.bits) if value >> (port.bits - 1) else value)


def _commonest(values: np.ndarray) -> int:
    unique, counts = np.unique(values, return_counts=True)
    return int(unique[np.argmax(counts)])


def _bytes(codes: np.ndarray, port: Port) -> Any:
    return _parts_reversed(8, codes, port)


def _nibble_order(codes: np.ndarray, port: Port) -> Any:
    return _parts_reversed(4, codes, port)


def _parts_reversed(part: int, codes: np.ndarray, port: Port) -> np.ndarray:
    out, mask = np.zeros_like(codes), codes.dtype.type(fields.mask_of(part))
    for place in range(0, port.bits, part):
        out |= (codes >> codes.dtype.type(place) & mask) << codes.dtype.type(port.bits - part - place)
    return out


def blocks(block: int, part: int, codes: np.ndarray, port: Port) -> Any:
    """The two parts of every block exchanged."""
    word = 0
    for place in range(0, port.bits, block):
        word |= fields.mask_of(part) << place
    mask, shift = codes.dtype.type(word), codes.dtype.type(part)
    return (codes & mask) << shift | codes >> shift & mask


def low(bits: int, codes: np.ndarray, port: Port) -> Any:
    """The low bits."""
    return codes & codes.dtype.type(fields.mask_of(bits))


def extended(bits: int, codes: np.ndarray, port: Port) -> Any:
    """The low bits, at least one, the highest of them a sign."""
    sign = codes.dtype.type(1 << (bits - 1))
    return (low(bits, codes, port) ^ sign) - sign


def _clipped(lowest: int, highest: int, codes: np.ndarray, port: Port) -> Any:
    if port.signed:
        return np.clip(fields.decode(codes, port), lowest, highest).astype(codes.dtype)
    return np.minimum(codes, codes.dtype.type(highest))


def _plus(value: int, codes: np.ndarray, port: Port) -> Any:
    return codes + codes.dtype.type(value & fields.mask_of(port.bits))


def _negated(codes: np.ndarray, port: Port) -> Any:
    return ~codes + codes.dtype.type(1)


def _magnitude(codes: np.ndarray, port: Port) -> Any:
    return np.where(codes & _top(codes, port) != 0, _negated(codes, port), codes)


def _sign_magnitude(codes: np.ndarray, port: Port) -> Any:
    return _magnitude(codes, port) | codes & _top(codes, port)


def _top(codes: np.ndarray, port: Port) -> Any:
    return codes.dtype.type(1 << (port.bits - 1))


def unsigned(codes: np.ndarray, port: Port) -> Any:
    """All bits but the highest."""
    return codes & ~_top(codes, port)


def _zeros(flip: int, codes: np.ndarray, port: Port) -> Any:
    zero = unsigned(codes, port) == 0
    return np.where(zero, codes ^ _top(codes, port) if flip else np.zeros_like(codes), codes)


def _infinity(codes: np.ndarray, port: Port) -> Any:
    return codes.dtype.type(fields.infinity(port))


def _subnormal(signed: bool, codes: np.ndarray, port: Port) -> Any:
    infinity = int(_infinity(codes, port))
    least = codes.dtype.type(infinity & -infinity)  # of the normal numbers: the lowest bit of the exponent
    zero = codes & _top(codes, port) if signed else np.zeros_like(codes)
    return np.where(unsigned(codes, port) < least, zero, codes)


def _finite(codes: np.ndarray, port: Port) -> Any:
    return np.where(unsigned(codes, port) == _infinity(codes, port), codes - codes.dtype.type(1), codes)


def _payload(codes: np.ndarray, port: Port) -> Any:
    """Words of NaN with their lowest bit set; there is one NaN in sets, and its lowest bit is 0 (D-arith-1)."""
    return np.where(fields.is_nan(codes, port), codes | codes.dtype.type(1), codes)


def _negative_nan(codes: np.ndarray, port: Port) -> Any:
    return np.where(fields.is_nan(codes, port), codes ^ _top(codes, port), codes)


def _full_nan(codes: np.ndarray, port: Port) -> Any:
    return np.where(fields.is_nan(codes, port), codes.dtype.type(fields.mask_of(port.bits - 1)), codes)


def _infinite(codes: np.ndarray, port: Port) -> Any:
    return np.where(fields.is_nan(codes, port), _infinity(codes, port), codes)


def _zero_nan(codes: np.ndarray, port: Port) -> Any:
    return np.where(fields.is_nan(codes, port), codes.dtype.type(0), codes)
