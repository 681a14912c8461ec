"""Vectors through pipes: `refemu generate --stdout --unit U | device | refemu check --stdin --unit U`.

A line to the device is the stimulus of one row as a hex word, laid out as in `hex/stim.mem` (for units with registers
the top bit says that a case begins). The device answers each line with the same word, a space, and its outputs as a
word laid out as in `hex/gold.mem`. The check computes its answers from the words that come back, so any stimulus will
do.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden import decode, fields, hexfile
from refemu.golden.rows import evaluate
from refemu.units.unit import Cases, Config, Port, Unit

CHUNK = 1 << 16  #: lines that are checked at once


@dataclass(frozen=True)
class Verdict:
    """What came back."""

    rows: int
    rows_differ: int
    first: dict[str, Any] | None  #: of the first difference: line, stimulus, port, lane, got, want


def stimulus(unit: Unit, config: str, kinds: Iterable[str], seed: int) -> Iterator[bytes]:
    """The lines of all cases of these kinds, without a header or a sentinel."""
    layout = _layouts(unit, unit.configs[config])[0]
    for kind in kinds:
        for cases in unit.cases(unit.configs[config], kind, seed):
            yield from hexfile.lines(layout, _words(unit, unit.configs[config], cases))


def check(unit: Unit, config: str, stream: BinaryIO) -> Verdict:
    """Hold every line of `stream` against the unit. Refused: lines of another form, and where there is none."""
    rows = differ = 0
    first: dict[str, Any] | None = None
    for lines in _chunks(unit, unit.configs[config], stream):
        found = _compared(unit, unit.configs[config], lines, rows)
        rows, differ, first = rows + found.rows, differ + found.rows_differ, first or found.first
    if rows == 0:
        raise Refused("check: nothing came through standard input: nothing was compared")
    return Verdict(rows, differ, first)


def _layouts(unit: Unit, config: Config) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Fields of a stimulus word and of an answer."""
    ports = unit.ports(config)
    return hexfile.layout(_entries(ports.inputs), unit.timing == "event"), hexfile.layout(_entries(ports.outputs))


def _entries(ports: Sequence[Port]) -> list[dict[str, Any]]:
    return [{"name": port.name, "lanes": port.lanes, "bits": port.bits, "signed": port.signed} for port in ports]


def _words(unit: Unit, config: Config, cases: Cases) -> dict[str, np.ndarray]:
    """Codes of every input port, one row per event, and for units with registers where a case begins."""
    arrays = {port.name: fields.encode(cases.inputs[port.name], port, f"{unit.name}.{port.name}")
              for port in unit.ports(config).inputs}
    if unit.timing != "event":
        return arrays
    count, rows = next(iter(arrays.values())).shape[:2]
    flat = {name: array.reshape(count * rows, *array.shape[2:]) for name, array in arrays.items()}
    return {**flat, "first": (np.arange(count * rows) % rows == 0).astype(np.uint8)}


def _chunks(unit: Unit, config: Config, stream: BinaryIO) -> Iterator[list[bytes]]:
    """Lines, many at once; of a unit with registers always whole cases."""
    digits = -(-hexfile.width(_layouts(unit, config)[0]) // 4)
    kept: list[bytes] = []
    for line in stream:
        if not line.strip():
            continue
        if len(kept) >= CHUNK and (unit.timing != "event" or _begins(line, digits, unit, config)):
            yield kept
            kept = []
        kept.append(line)
    if kept:
        yield kept


def _begins(line: bytes, digits: int, unit: Unit, config: Config) -> bool:
    top = hexfile.width(_layouts(unit, config)[0]) - 1
    try:
        return bool(int(line.split()[0][:digits], 16) >> top & 1)
    except ValueError:
        return True  # refused when the chunk is read


def _compared(unit: Unit, config: Config, lines: Sequence[bytes], before: int) -> Verdict:
    asked, answers, unknown = _read(unit, config, lines, before)
    expected = {port.name: np.concatenate(parts) for port, parts in _expected(unit, config, asked)}
    unlike = {name: (expected[name] ^ answers[name]) | unknown.get(name, 0) for name in expected}
    rows = np.any([(bits != 0).reshape(len(lines), -1).any(axis=1) for bits in unlike.values()], axis=0)
    if not rows.any():
        return Verdict(len(lines), 0, None)
    row = int(np.argmax(rows))
    port = next(port for port in unit.ports(config).outputs if unlike[port.name][row].any())
    lane = int(np.argmax(unlike[port.name][row] != 0))
    got, want = (decode.value(int(array[port.name][row].reshape(-1)[lane]), port) for array in (answers, expected))
    told = {"line": before + row + 1, "stimulus": lines[row].split()[0].decode(), "port": port.name, "lane": lane,
            "got": f"{got.hex} = {got.decoded}", "want": f"{want.hex} = {want.decoded}"}
    return Verdict(len(lines), int(np.count_nonzero(rows)), told)


def _read(
    unit: Unit, config: Config, lines: Sequence[bytes], before: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Stimulus, answers, and bits of answers that are x or z."""
    words = [line.split() for line in lines]
    for number, pair in enumerate(words):
        if len(pair) != 2:
            raise Refused(f"check: line {before + number + 1} must be the stimulus word, a space and the answer, "
                          f"got {lines[number].strip()[:60]!r}")
    stimulus_, answer = _layouts(unit, config)
    asked, _ = hexfile.read(b"\n".join(pair[0] for pair in words) + b"\n", stimulus_, len(words), "check: stimulus")
    answers, unknown = hexfile.read(b"\n".join(pair[1] for pair in words) + b"\n", answer, len(words), "check: answer")
    return asked, answers, unknown


def _expected(
    unit: Unit, config: Config, asked: dict[str, np.ndarray]
) -> Iterator[tuple[Port, list[np.ndarray]]]:
    """The unit's answer to every row, by port."""
    ports = unit.ports(config)
    made: dict[str, list[np.ndarray]] = {port.name: [] for port in ports.outputs}
    for start, cases, rows in _runs(unit, asked):
        inputs = {}
        for port in ports.inputs:
            values = fields.decode(asked[port.name][start:start + cases * rows], port)
            inputs[port.name] = values.reshape(cases, rows, *values.shape[1:]) if unit.timing == "event" else values
        block = evaluate(unit, config, Cases("random", "read from a pipe", inputs))
        for name, parts in made.items():
            array = block.arrays[f"out.{name}"]
            parts.append(array.reshape(-1, *array.shape[2:]))
    return ((port, made[port.name]) for port in ports.outputs)


def _runs(unit: Unit, asked: dict[str, np.ndarray]) -> Iterator[tuple[int, int, int]]:
    """First row, number of cases and rows of each, for every run of equally long cases."""
    total = len(next(iter(asked.values())))
    if unit.timing != "event":
        yield 0, total, 1
        return
    starts = np.flatnonzero(asked["first"]).tolist()
    if not starts or starts[0] != 0:
        raise Refused("check: the first row must begin a case: bit `first`, the top one of its stimulus word, is 0")
    lengths = np.diff([*starts, total]).tolist()
    at = 0
    while at < len(lengths):
        end = at
        while end < len(lengths) and lengths[end] == lengths[at]:
            end += 1
        yield starts[at], end - at, lengths[at]
        at = end
