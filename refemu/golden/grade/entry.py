"""Fault coverage of sets and of users' stimuli, from their files, and sets of the rows that they lack."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from refemu import units
from refemu.arguments import checked
from refemu.arith.checks import Refused
from refemu.arith.reader_errors import reading
from refemu.golden.files import fields, npz, sets
from refemu.golden.grade import additions as missing_cases
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.grade import Grade
from refemu.golden.grade.grading import Grading
from refemu.golden.grade.pool import ROWS, Pool
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Cases, Config

FIRST = "first"  #: array of a stimulus for an event unit: 1 where a case starts; without it all rows are one case


@checked
def grade_set(
    path: str | Path,
    classes: Sequence[str] | None = None,
    pool: int = ROWS,
    missing: str | Path | None = None,
    every: bool = False,
    prove: float = 0,
) -> Grade:
    """Measure the fault coverage of a golden set.

    Parameters
    ----------
    path : str or Path
        Directory of the set.
    classes : sequence of str, optional
        Fault classes; by default all.
    pool : int
        Least number of random rows outside the set that distinguish missed from equivalent faults.
    missing : str or Path, optional
        Folder for a set of cases that detect every missed fault, `missing`/<unit>-<config>/.
    every : bool
        Try all mutants of class `model`, not a sample of 300.
    prove : float
        Seconds of a solver for each fault that no row tried detects; 0 for none.

    Returns
    -------
    Grade
        Counts by class, and every fault that the set does not detect.

    Raises
    ------
    Refused
        The set is damaged or of an unknown unit or configuration, or a class is unknown.
    """
    golden = sets.load(path)
    unit = units.find(golden.manifest["unit"])
    unit.config(golden.config)
    spare = Pool(unit, golden.config, golden.manifest["seed"], pool)
    return _graded(golden.name, answers_of.of_set(golden), spare, classes, missing, every, prove)


@checked
def grade_stimulus(
    path: str | Path,
    unit: str | AnyUnit,
    config: str | None = None,
    classes: Sequence[str] | None = None,
    pool: int = ROWS,
    missing: str | Path | None = None,
    every: bool = False,
    prove: float = 0,
) -> Grade:
    """Measure the fault coverage of a user's stimulus.

    Parameters
    ----------
    path : str or Path
        An .npz with an array `in.<port>`, (rows,) and lanes, for every input: bit patterns, or values. For an event
        unit `first` may say where cases start. Other arrays are not read.
    unit : str or Unit
        Unit.
    config : str, optional
        Ready configuration of the unit; by default its first.
    classes : sequence of str, optional
        Fault classes; by default all.
    pool : int
        As for `grade_set`.
    missing : str or Path, optional
        As for `grade_set`.
    every : bool
        As for `grade_set`.
    prove : float
        As for `grade_set`.

    Returns
    -------
    Grade
        Counts by class, and every fault that the stimulus does not detect.

    Raises
    ------
    Refused
        The file is damaged, lacks an input, has no rows, or has invalid values.
    """
    descriptor, name = units.choose(unit, config)
    chosen = descriptor.config(name)
    with reading(str(path), "a readable .npz"), Path(path).open("rb") as stream:
        arrays = npz.read(stream, str(path))
    cases = list(_cases(descriptor, chosen, arrays, str(path)))
    answers = answers_of.of_cases(descriptor, chosen, cases)
    return _graded(Path(path).name, answers, Pool(descriptor, name, 0, pool), classes, missing, every, prove)


def _graded(
    name: str,
    stimulus: Answers,
    pool: Pool,
    classes: Sequence[str] | None,
    missing: str | Path | None,
    every: bool,
    prove: float,
) -> Grade:
    grading = Grading(name, stimulus, pool, classes, every, prove)
    if missing is not None:
        missing_cases.write(grading, Path(missing))
    return grading.grade


def _cases(unit: AnyUnit, config: Config, arrays: Mapping[str, np.ndarray], thing: str) -> Iterator[Cases]:
    """The rows of a stimulus as blocks of cases of one length."""
    ports = unit.ports(config).inputs
    missing = [f"in.{port.name}" for port in ports if f"in.{port.name}" not in arrays]
    if missing:
        got = ", ".join(sorted(name for name in arrays if name.startswith("in."))) or "none"
        raise Refused(f"{thing}: must have all inputs of {unit.name}, got {got}; add {', '.join(missing)}")
    inputs = {port.name: _values(arrays[f"in.{port.name}"], port, thing) for port in ports}
    rows = len(inputs[ports[0].name])
    for port in ports:
        if len(inputs[port.name]) != rows or rows == 0:
            raise Refused(f"{thing}: in.{port.name} must have {max(rows, 1)} rows, got {len(inputs[port.name])}")
    if unit.timing != "event":
        yield Cases("edge", "a stimulus of the user's", inputs)
        return
    for first, cases, length in _runs(_starts(arrays, rows, thing), rows):
        rows_of = slice(first, first + cases * length)
        yield Cases(
            "edge",
            "a stimulus of the user's",
            {name: array[rows_of].reshape(cases, length, *array.shape[1:]) for name, array in inputs.items()},
        )


def _values(array: np.ndarray, port: Port, thing: str) -> np.ndarray:
    """Values of a port from values, or from bit patterns if they are unsigned and the port is signed."""
    lanes = (port.count,) if port.count > 1 else ()
    if array.shape[1:] != lanes:
        raise Refused(f"{thing}: in.{port.name} must have shape (rows{', lanes' * bool(lanes)}), got {array.shape}")
    if port.signed and array.dtype.kind == "u":
        return fields.decode(fields.encode(array, Port(port.name, port.bits), f"{thing}: in.{port.name}"), port)
    return array.reshape(len(array), *port.shape)


def _starts(arrays: Mapping[str, np.ndarray], rows: int, thing: str) -> list[int]:
    first = arrays.get(FIRST)
    if first is None:
        return [0]
    if first.shape != (rows,) or not first[0]:
        raise Refused(f"{thing}: {FIRST} must have shape ({rows},) and begin with 1, got shape {first.shape}")
    return [int(row) for row in np.flatnonzero(first)]


def _runs(starts: Sequence[int], rows: int) -> Iterator[tuple[int, int, int]]:
    """First row, number of cases and rows of each, of every run of cases of one length."""
    lengths = [stop - start for start, stop in zip(starts, [*starts[1:], rows], strict=True)]
    for length, some in groupby(zip(starts, lengths, strict=True), key=lambda pair: pair[1]):
        cases = list(some)
        yield cases[0][0], len(cases), length
