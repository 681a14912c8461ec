"""Places of ports in the packed 32-bit words of a transaction: the first port lowest, lanes ascending.

The words are those of an svBitVecVal array, least significant first; bits above the last field mean nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from refemu.units.ports import Lanes, Port

WORD = 32  #: bits of a word
Group = Literal["in", "out", "st", "care"]  #: an input, an output, a register, the mask of an output


@dataclass(frozen=True)
class Place:
    """A port in the words of a transaction."""

    group: Group
    port: Port
    lsb: int  #: of lane 0
    first: int  #: number of its first field; a field is a lane

    @property
    def name(self) -> str:
        """Name of the field: `exponent`, `st_acc`, `care_exponent`."""
        return self.port.name if self.group in ("in", "out") else f"{self.group}_{self.port.name}"

    @property
    def fields(self) -> slice:
        """Fields of its lanes."""
        return slice(self.first, self.first + self.port.count)

    @property
    def item(self) -> dict[str, Any]:
        """Entry of the port in a hello frame."""
        low, high = self.port.limits
        return {
            "group": self.group,
            "name": self.port.name,
            "lsb": self.lsb,
            "bits": self.port.bits,
            "lanes": self.port.count,
            "signed": self.port.signed,
            "encoding": self.port.kind,
            "least": low,
            "most": high,
        }


class Layout:
    """Fields of the words of a transaction: of its inputs or of its answer."""

    def __init__(self, ports: Sequence[tuple[Group, Port]]) -> None:
        """ports: in order, each with its group."""
        self.places: tuple[Place, ...] = tuple(_places(ports))
        fields = [
            (place.lsb + lane * place.port.bits, place.port.bits, int(place.port.signed))
            for place in self.places
            for lane in range(place.port.count)
        ]
        columns = np.array(fields, np.int64).T.copy()
        self.lsb: np.ndarray = columns[0]
        self.bits: np.ndarray = columns[1]
        self.signed: np.ndarray = columns[2]
        last = self.places[-1]
        self.width: int = last.lsb + last.port.bits * last.port.count
        self.words: int = -(-self.width // WORD)
        self.bytes: int = 4 * self.words
        self._wide = [place for place in self.places if place.port.bits == 64 and not place.port.signed]

    def values(self, data: bytes | bytearray) -> np.ndarray:
        """Values of all fields of complete transactions: int64 (rows, fields)."""
        from refemu.units.kernels import packing

        words = np.frombuffer(bytearray(data), "<u4").reshape(-1, self.words)
        values = np.empty((len(words), len(self.lsb)), np.int64)
        packing.unpack(words, self.lsb, self.bits, self.signed, values)
        return values

    def packed(self, values: np.ndarray) -> bytes:
        """The words of values, int64 (rows, fields)."""
        from refemu.units.kernels import packing

        words = np.zeros((len(values), self.words), np.dtype("<u4"))
        packing.pack(values, self.lsb, self.bits, words)
        return words.tobytes()

    def of_ports(self, row: list[int]) -> list[int | Lanes]:
        """The value of every port for a step, from the fields of one row, which it may modify."""
        for place in self._wide:
            row[place.fields] = [code & (1 << 64) - 1 for code in row[place.fields]]
        return [tuple(row[place.fields]) if place.port.shape else row[place.first] for place in self.places]

    def of_fields(self, values: Sequence[int | Lanes]) -> list[int]:
        """The fields of one row, from the value of every port: the inverse of `of_ports`."""
        row: list[int] = []
        for value in values:
            if isinstance(value, tuple):
                row += value
            else:
                row.append(value)
        for place in self._wide:
            row[place.fields] = [code - (code >> 63 << 64) for code in row[place.fields]]
        return row


def _places(ports: Sequence[tuple[Group, Port]]) -> Iterator[Place]:
    lsb = first = 0
    for group, port in ports:
        yield Place(group, port, lsb, first)
        lsb += port.bits * port.count
        first += port.count
