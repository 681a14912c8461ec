"""The rows of a set as a testbench compares them with a device: answers, the bits that count, starts of cases."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from refemu import units
from refemu.arith.checks import Refused
from refemu.arith.integers import total
from refemu.golden.files import fields, sets
from refemu.golden.make.rows import Block, evaluate
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Cases, Config

PIECE = 1 << 20  #: rows that are compared at a time, about


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers of a unit in a configuration to blocks of cases. Arrays of all rows have shape (rows, lanes)."""

    unit: AnyUnit
    config: Config
    blocks: Sequence[Block]  #: not empty
    spare: bool = False  #: of a pool: a few cases of every block detect more than all cases of the first
    inputs: int = 0  #: of a pool with every legal input: their number
    first: int = 0  #: of a piece: number of its first row
    whole: int = 0  #: of a piece: rows of the whole

    @cached_property
    def ports(self) -> dict[str, Port]:
        """Outputs by name."""
        return {f"out.{port.name}": port for port in self.unit.ports(self.config).outputs}

    @cached_property
    def registers(self) -> dict[str, Port]:
        """Registers in the rows, by name."""
        ports = {f"st.{port.name}": port for port in self.unit.ports(self.config).state}
        return {name: port for name, port in ports.items() if all(name in block.arrays for block in self.blocks)}

    @cached_property
    def held(self) -> dict[str, np.ndarray]:
        """Bit patterns of every register."""
        return {name: _flat([block.arrays[name] for block in self.blocks]) for name in self.registers}

    @cached_property
    def outputs(self) -> dict[str, np.ndarray]:
        """Bit patterns of every output."""
        return {name: _flat([block.arrays[name] for block in self.blocks]) for name in self.ports}

    @cached_property
    def care(self) -> dict[str, np.ndarray]:
        """Bits of every output that count."""
        return {name: self._mask(name, port) for name, port in self.ports.items()}

    def _mask(self, name: str, port: Port) -> np.ndarray:
        if any(name in block.care for block in self.blocks):
            return _flat([block.mask(name, port.bits) for block in self.blocks])
        return np.broadcast_to(np.array(fields.mask_of(port.bits), fields.dtype_of(port.bits)), (self.rows, port.count))

    def pieces(self) -> Iterator[tuple[slice, slice, "Answers"]]:
        """Whole cases of about PIECE rows with a case before and after: the rows, and where they are in the piece.

        No fault of the answers depends on more.
        """
        if self.rows <= PIECE:
            yield slice(0, self.rows), slice(0, self.rows), self
            return
        row = number = 0
        for block in self.blocks:
            cases, rows = block.shape
            step = max(1, PIECE // rows)
            for start in range(0, cases, step):
                count = min(step, cases - start)
                blocks, lead = self._around(number + start, count)
                part = Answers(self.unit, self.config, blocks, self.spare, self.inputs, row - lead, self.rows)
                yield slice(row, row + count * rows), slice(lead, lead + count * rows), part
                row += count * rows
            number += cases

    def _around(self, first: int, count: int) -> tuple[list[Block], int]:
        """The cases from number `first` with one before and after, and the rows of the one before."""
        blocks, lead, number = [], 0, 0
        for block in self.blocks:
            cases, rows = block.shape
            start, stop = max(0, first - 1 - number), min(cases, first + count + 1 - number)
            if start < stop:
                blocks.append(block.pick(slice(start, stop)))
                lead += rows * (number + start < first)
            number += cases
        return blocks, lead

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(total([cases * rows for cases, rows in (block.shape for block in self.blocks)]))

    @property
    def steps(self) -> int:
        """Most rows of a case."""
        return max(block.shape[1] for block in self.blocks)

    @cached_property
    def cases(self) -> np.ndarray:
        """Number of each row's case; a combinational unit sees one stream, in which every row is a case."""
        numbers, first = [], 0
        for block in self.blocks:
            cases, rows = block.shape
            numbers.append(np.arange(first, first + cases).repeat(rows))
            first += cases
        return np.concatenate(numbers)

    @cached_property
    def before(self) -> np.ndarray:
        """The row before each row in its case, or in a combinational unit's stream; -1 for none."""
        rows = np.arange(self.rows) - 1
        if self.unit.timing == "event":
            rows[1:][self.cases[1:] != self.cases[:-1]] = -1
        return rows

    @cached_property
    def numbers(self) -> np.ndarray:
        """Number of each row."""
        return np.arange(self.first, self.first + self.rows)

    def span(self, within: bool) -> tuple[np.ndarray, np.ndarray]:
        """First and last row of the case of each row; of all rows, where not `within` a case or without registers."""
        if not within or self.unit.timing != "event":
            return np.zeros(self.rows, np.int64), np.full(self.rows, (self.whole or self.rows) - 1)
        starts = np.flatnonzero(np.diff(self.cases, prepend=-1)) + self.first
        return starts[self.cases], np.append(starts[1:], self.first + self.rows)[self.cases] - 1

    def place(self, rows: np.ndarray) -> np.ndarray:
        """Index of the rows with these numbers, -1 for rows that are not here."""
        place = rows - self.first
        return np.where((place >= 0) & (place < self.rows), place, -1)

    def differs(self, name: str, got: np.ndarray, lanes: slice = slice(None)) -> np.ndarray:
        """Rows in which `got`, (rows, those lanes) of an output, differs from the answer in a bit that counts: bool."""
        return np.asarray((((self.outputs[name][:, lanes] ^ got) & self.care[name][:, lanes]) != 0).any(axis=1))

    def stimulus(self, row: int) -> dict[str, list[str]]:
        """Words at every input from the start of a row's case up to the row, in hex, lane 0 first."""
        for block in self.blocks:
            cases, rows = block.shape
            if row < cases * rows:
                case, last = divmod(row, rows)
                return {
                    name: _hex(array[case, : last + 1]) for name, array in block.arrays.items() if name[:3] == "in."
                }
            row -= cases * rows
        raise IndexError(row)


class _Stimulus(Mapping[str, np.ndarray]):
    """Values at every input of the cases of a block, decoded at each access: signed integers become int64."""

    def __init__(self, unit: AnyUnit, config: Config, arrays: Mapping[str, np.ndarray]) -> None:
        self._ports = {port.name: port for port in unit.ports(config).inputs}
        self._arrays, self._row = arrays, slice(None) if unit.timing == "event" else 0

    def __getitem__(self, name: str) -> np.ndarray:
        return fields.decode(self._arrays[f"in.{name}"], self._ports[name])[:, self._row]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)


def of_set(golden: sets.Golden) -> Answers:
    """The rows of a set, with its own answers and masks. Refused: it lacks a port of its unit."""
    unit = units.find(golden.manifest["unit"])
    config, blocks = unit.config(golden.config), []
    ports = unit.ports(config)
    names = [f"in.{port.name}" for port in ports.inputs] + [f"out.{port.name}" for port in ports.outputs]
    if missing := [name for name in names if name not in golden.arrays]:
        raise Refused(
            f"{golden.name}: the set is older than the ports of {unit.name}, missing {', '.join(missing)};"
            " regenerate it"
        )
    for entry in golden.manifest["cases"]:
        first, shape = entry["first"], (entry["cases"], entry["rows"])
        rows = slice(first, first + entry["cases"] * entry["rows"])
        arrays = {
            name: array[rows].reshape(*shape, *array.shape[1:])
            for name, array in golden.arrays.items()
            if name != "flags"
        }
        care = {name.removesuffix(".care"): array for name, array in arrays.items() if name.endswith(".care")}
        kept = {name: array for name, array in arrays.items() if not name.endswith(".care")}
        cases = Cases(entry["kind"], entry["why"], _Stimulus(unit, config, kept))
        blocks.append(Block(cases, kept, golden.arrays["flags"][rows].reshape(shape), care))
    return Answers(unit, config, blocks)


def of_cases(unit: AnyUnit, config: Config, cases: Iterable[Cases], *, spare: bool = False) -> Answers:
    """Rows computed by the compiled form."""
    return Answers(unit, config, [evaluate(unit, config, each, compiled_from=1) for each in cases], spare)


def values(unit: AnyUnit, config: Config, block: Block) -> dict[str, np.ndarray]:
    """Stimulus of a block for its unit: (cases, rows) and lanes, or (cases,) without events."""
    return dict(_Stimulus(unit, config, block.arrays))


def _flat(parts: Sequence[np.ndarray]) -> np.ndarray:
    """(cases, rows) and lanes of every part as one array (rows, lanes)."""
    flat = [part.reshape(part.shape[0] * part.shape[1], -1) for part in parts]
    return flat[0] if len(flat) == 1 else np.concatenate(flat)


def _hex(array: np.ndarray) -> list[str]:
    lanes: Mapping[int, np.ndarray] = dict(enumerate(array.reshape(len(array), -1)))
    return [" ".join(f"{int(word):#x}" for word in row) for row in lanes.values()]
