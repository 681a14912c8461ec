"""Faults of class `words`: the bits of a word rearranged, or read as another kind of number."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

import numpy as np

from refemu.golden.files import fields
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault
from refemu.units.ports import Port

Change = Callable[[np.ndarray, Port], np.ndarray]  #: words of the device


def faults(answers: Answers) -> Iterator[Fault]:
    """Faults that the widths and encodings of the outputs allow."""
    for name, port in answers.ports.items():
        for id, says, change in changes(port):
            yield Fault(f"{id}/{name}", f"{name}: {says}", partial(_changed, name, change))
    for left, right in combinations(answers.ports, 2):
        if _size(answers.ports[left]) == _size(answers.ports[right]):
            yield Fault(
                f"exchanged/{left}/{right}", f"{left} and {right} are exchanged", partial(_exchanged, left, right)
            )


def _size(port: Port) -> tuple[int, int]:
    return port.bits, port.count


def changes(port: Port) -> Iterator[tuple[str, str, Change]]:
    """Id, description and words of each fault that a port can have."""
    if port.bits > 8 and port.bits % 8 == 0:
        yield "bytes", "its bytes come in the other order", _bytes
    if port.bits % 8 == 0:
        yield "nibbles", "the nibbles of its bytes are swapped", _nibbles
    if port.signed:
        yield "sign", "it has no sign", _magnitude
        yield "sign_magnitude", "it is sign and magnitude", _sign_magnitude
    if fields.holds_floats(port):
        yield "sign", "it has no sign", _unsigned
        yield "nan", "its NaN has another payload", _payload


def _changed(name: str, change: Change, answers: Answers) -> np.ndarray:
    return answers.differs(name, change(answers.outputs[name], answers.ports[name]))


def _exchanged(left: str, right: str, answers: Answers) -> np.ndarray:
    return np.asarray(answers.differs(left, answers.outputs[right]) | answers.differs(right, answers.outputs[left]))


def _bytes(codes: np.ndarray, port: Port) -> np.ndarray:
    out = np.zeros_like(codes)
    for low in range(0, port.bits, 8):
        out |= (codes >> codes.dtype.type(low) & codes.dtype.type(0xFF)) << codes.dtype.type(port.bits - 8 - low)
    return out


def _nibbles(codes: np.ndarray, port: Port) -> np.ndarray:
    low = codes.dtype.type(int("0F" * (port.bits // 8), 16))
    return np.asarray((codes & low) << codes.dtype.type(4) | codes >> codes.dtype.type(4) & low)


def _magnitude(codes: np.ndarray, port: Port) -> np.ndarray:
    """The absolute value."""
    mask = codes.dtype.type(fields.mask_of(port.bits))
    return np.where(_sign(codes, port) != 0, (~codes + codes.dtype.type(1)) & mask, codes)


def _sign_magnitude(codes: np.ndarray, port: Port) -> np.ndarray:
    return np.asarray(_magnitude(codes, port) | _sign(codes, port))


def _unsigned(codes: np.ndarray, port: Port) -> np.ndarray:
    return np.asarray(codes ^ _sign(codes, port))


def _payload(codes: np.ndarray, port: Port) -> np.ndarray:
    """NaN words with their lowest bit set; the one NaN of sets has a lowest bit of 0 (D-arith-1)."""
    return np.where(fields.is_nan(codes, port), codes | codes.dtype.type(1), codes)


def _sign(codes: np.ndarray, port: Port) -> np.ndarray:
    return np.asarray(codes & codes.dtype.type(1 << (port.bits - 1)))
