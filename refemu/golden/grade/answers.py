"""The rows of a set as a testbench compares them with a device: answers, the bits that count, starts of cases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.files import fields, sets
from refemu.golden.make.rows import Block, evaluate
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Cases, Config


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers of a unit in a configuration to blocks of cases. Arrays of all rows have shape (rows, lanes)."""

    unit: AnyUnit
    config: Config
    blocks: Sequence[Block]  #: not empty
    spare: bool = False  #: of a pool: a few cases of every block detect more than all cases of the first
    inputs: int = 0  #: of a pool with every legal input: their number

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
        return {
            name: _flat([block.mask(name, port.bits) for block in self.blocks]) for name, port in self.ports.items()
        }

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.cases)

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
        return np.arange(self.rows)

    def span(self, within: bool) -> tuple[np.ndarray, np.ndarray]:
        """First and last row of the case of each row; of all rows, where not `within` a case or without registers."""
        if not within or self.unit.timing != "event":
            return np.zeros(self.rows, np.int64), np.full(self.rows, self.rows - 1)
        starts = np.flatnonzero(np.diff(self.cases, prepend=-1))
        return starts[self.cases], np.append(starts[1:], self.rows)[self.cases] - 1

    def place(self, rows: np.ndarray) -> np.ndarray:
        """Index of the rows with these numbers."""
        return rows

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
        cases = Cases(entry["kind"], entry["why"], sets.inputs(golden, unit, first, *shape))
        blocks.append(Block(cases, kept, golden.arrays["flags"][rows].reshape(shape), care))
    return Answers(unit, config, blocks)


def of_cases(unit: AnyUnit, config: Config, cases: Iterable[Cases], *, spare: bool = False) -> Answers:
    """Rows computed by the compiled form."""
    return Answers(unit, config, [evaluate(unit, config, each, compiled_from=1) for each in cases], spare)


def values(unit: AnyUnit, config: Config, block: Block) -> dict[str, np.ndarray]:
    """Stimulus of a block for its unit: (cases, rows) and lanes, or (cases,) without events."""
    decoded = {port.name: fields.decode(block.arrays[f"in.{port.name}"], port) for port in unit.ports(config).inputs}
    return decoded if unit.timing == "event" else {name: array[:, 0] for name, array in decoded.items()}


def _flat(parts: Sequence[np.ndarray]) -> np.ndarray:
    """(cases, rows) and lanes of every part as one array (rows, lanes)."""
    return np.concatenate([part.reshape(part.shape[0] * part.shape[1], -1) for part in parts])


def _hex(array: np.ndarray) -> list[str]:
    lanes: Mapping[int, np.ndarray] = dict(enumerate(array.reshape(len(array), -1)))
    return [" ".join(f"{int(word):#x}" for word in row) for row in lanes.values()]
