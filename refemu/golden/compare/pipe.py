"""Vectors through pipes: `refemu generate --stdout --unit U | device | refemu check --stdin --unit U`.

A line to the device is the stimulus of one row as a hex word, laid out as in `hex/stim.mem` (for units with registers
the top bit says that a case begins). The device answers each line with the same word, a space, and its outputs as a
word laid out as in `hex/gold.mem`, and passes the end line, `// end rows=N sha256=D`, through unchanged. The check
computes its answers from the words that come back, so any stimulus will do; the end line says that all of it came back.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.reader_errors import reading
from refemu.golden.compare import decode
from refemu.golden.compare.pipe_end import Ledger, end_line
from refemu.golden.explain import stimulus as stimulus_
from refemu.golden.explain.stimulus import Answered, Explained
from refemu.golden.files import fields, hexfile, masks
from refemu.golden.make.rows import Block, evaluate, stacked
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Cases, Config, Kind

CHUNK = 1 << 16  #: lines that are checked at once
CHUNK_BYTES = 1 << 23  #: at most this much text of them
LONGEST = 16  #: chunks in one case, which is checked as a whole
COMMENT = b"//"


@dataclass(frozen=True)
class Outcome:
    """Result for a stream."""

    rows: int
    rows_differ: int
    first: dict[str, Any] | None  #: line, stimulus, port, lane, got and want of the first difference
    any_nan: tuple[str, ...] = ()  #: ports at which NaNs count as equal
    lost: str = ""  #: evidence that rows were lost; "" if every row came back
    explained: Explained | None = None  #: what the device did, from the first lines that differ and their neighbours

    @property
    def passed(self) -> bool:
        """Whether every row came back with the right answer."""
        return self.rows_differ == 0 and not self.lost


def stimulus(unit: AnyUnit, config: str, kinds: Iterable[Kind], seed: int) -> Iterator[bytes]:
    """The lines of all cases of these kinds, without a header or a sentinel, and the end line."""
    layout = _layouts(unit, unit.config(config))[0]
    sent, rows = hashlib.sha256(), 0
    for kind in kinds:
        for cases in unit.stimuli(unit.config(config), kind, seed):
            for lines in hexfile.lines(layout, _words(unit, unit.config(config), cases)):
                sent.update(lines)
                rows += lines.count(b"\n")
                yield lines
    yield end_line(rows, sent.hexdigest())


def check(
    unit: AnyUnit,
    config: str,
    stream: BinaryIO,
    rows: int | None = None,
    any_nan: bool = False,
    explain: bool = False,
) -> Outcome:
    """Check every line of `stream` against the unit in every bit that counts, and the number of lines.

    rows: number of rows sent, if no end line comes back. any_nan: whether NaNs count as equal. explain: whether to say
    what a faulty device did. Refused: a line is in another form, or there is none.
    """
    floats = [port.name for port in unit.ports(unit.config(config)).outputs if fields.holds_floats(port)]
    loose = tuple(floats) if any_nan else ()
    ledger = Ledger(rows)
    total = differ = 0
    first: dict[str, Any] | None = None
    explained: Explained | None = None
    for lines in _chunks(unit, unit.config(config), stream):
        if lines[0].startswith(COMMENT):
            ledger.end(lines[0])
            continue
        outcome = _compared(unit, unit.config(config), lines, total, loose)
        ledger.count(lines)
        if explain and outcome.first and first is None:
            explained = _explained(unit, config, lines, total, loose)
        total, differ, first = total + outcome.rows, differ + outcome.rows_differ, first or outcome.first
    if total == 0:
        raise Refused("check: standard input is empty, nothing was compared; pipe the device's answers into it")
    return Outcome(total, differ, first, loose, ledger.lost(), explained)


def _layouts(unit: AnyUnit, config: Config) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Fields of a stimulus word and of an answer."""
    ports = unit.ports(config)
    return hexfile.layout(_entries(ports.inputs), unit.timing == "event"), hexfile.layout(_entries(ports.outputs))


def _entries(ports: Sequence[Port]) -> list[dict[str, Any]]:
    return [{"name": port.name, "lanes": port.count, "bits": port.bits, "signed": port.signed} for port in ports]


def _words(unit: AnyUnit, config: Config, cases: Cases) -> dict[str, np.ndarray]:
    """Codes of every input port, one row per event, and for units with registers where a case begins."""
    arrays = {}
    for port in unit.ports(config).inputs:
        codes = fields.encode(cases.inputs[port.name], port, f"{unit.name}.{port.name}")
        arrays[port.name] = fields.stimulus(codes, port)
    if unit.timing != "event":
        return arrays
    count, rows = next(iter(arrays.values())).shape[:2]
    flat = {name: array.reshape(count * rows, *array.shape[2:]) for name, array in arrays.items()}
    return {**flat, "first": (np.arange(count * rows) % rows == 0).astype(np.uint8)}


def _chunks(unit: AnyUnit, config: Config, stream: BinaryIO) -> Iterator[list[bytes]]:
    """Answers in chunks, of whole cases if the unit has registers; each comment is its own chunk."""
    digits, answer = (-(-hexfile.width(layout) // 4) for layout in _layouts(unit, config))
    enough = max(1, min(CHUNK, CHUNK_BYTES // (digits + answer)))
    kept: list[bytes] = []
    for line in _lines(stream, 2 * (digits + answer) + 256):
        comment = line.startswith(COMMENT)
        full = len(kept) >= enough and (unit.timing != "event" or _begins(line, digits, unit, config))
        if kept and (comment or full):
            yield kept
            kept = []
        if len(kept) >= LONGEST * enough:
            raise Refused(
                f"check: a case has at most {LONGEST * enough} rows; bit `first`, the top one of the "
                "stimulus word, was 0 in all lines since the last one began"
            )
        if comment:
            yield [line]
        else:
            kept.append(line)
    if kept:
        yield kept


def _lines(stream: BinaryIO, longest: int) -> Iterator[bytes]:
    """Lines that are not empty. Refused: a line of more than `longest` bytes."""
    while line := stream.readline(longest):
        if len(line) == longest and not line.endswith(b"\n"):
            raise Refused(f"check: a line has at most {longest} bytes, got {line[:60]!r}...")
        if line.strip():
            yield line


def _begins(line: bytes, digits: int, unit: AnyUnit, config: Config) -> bool:
    top = hexfile.width(_layouts(unit, config)[0]) - 1
    try:
        return bool(int(line.split()[0][:digits], 16) >> top & 1)
    except ValueError:
        return True  # an error once the chunk is read


def _compared(unit: AnyUnit, config: Config, lines: Sequence[bytes], before: int, any_nan: Sequence[str]) -> Outcome:
    with reading("check", "lines of a device"):
        asked, answers, unknown = _read(unit, config, lines, before)
    blocks = list(_expected(unit, config, asked))
    expected, unlike = {}, {}
    for port in unit.ports(config).outputs:
        expected[port.name] = stacked([block.arrays[f"out.{port.name}"] for block in blocks])
        mask = stacked([block.mask(f"out.{port.name}", port.bits) for block in blocks])
        unlike[port.name] = masks.differing(
            expected[port.name], answers[port.name], port, mask, unknown.get(port.name), port.name in any_nan
        )
    rows = np.any([(bits != 0).reshape(len(lines), -1).any(axis=1) for bits in unlike.values()], axis=0)
    if not rows.any():
        return Outcome(len(lines), 0, None)
    row = int(np.argmax(rows))
    port = next(port for port in unit.ports(config).outputs if unlike[port.name][row].any())
    lane = int(np.argmax(unlike[port.name][row] != 0))
    got, want = (decode.value(int(array[port.name][row].reshape(-1)[lane]), port) for array in (answers, expected))
    parsed = {
        "line": before + row + 1,
        "stimulus": lines[row].split()[0].decode("ascii", "backslashreplace"),
        "port": port.name,
        "lane": lane,
        "got": f"{got.hex} = {got.decoded}",
        "want": f"{want.hex} = {want.decoded}",
    }
    return Outcome(len(lines), int(np.count_nonzero(rows)), parsed)


def _read(
    unit: AnyUnit, config: Config, lines: Sequence[bytes], before: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Stimulus, answers, and the x and z bits of answers."""
    words = [line.split() for line in lines]
    for number, pair in enumerate(words):
        if len(pair) != 2:
            raise Refused(
                f"check: line {before + number + 1} must be the stimulus word, a space and the answer, "
                f"got {lines[number].strip()[:60].decode(errors='replace')!r}"
            )
    question, answer = _layouts(unit, config)
    asked, _ = hexfile.read(b"\n".join(pair[0] for pair in words) + b"\n", question, len(words), "check: stimulus")
    answers, unknown = hexfile.read(b"\n".join(pair[1] for pair in words) + b"\n", answer, len(words), "check: answer")
    return asked, answers, unknown


def _expected(unit: AnyUnit, config: Config, asked: dict[str, np.ndarray]) -> Iterator[Block]:
    """The unit's answers to the words that came back, a block for every run of equally long cases."""
    for run in _runs(unit, asked):
        inputs = _inputs(unit, config, asked, run)
        yield evaluate(unit, config, Cases("random", "read from a pipe", inputs), keep_nan=True)


def _inputs(
    unit: AnyUnit, config: Config, asked: dict[str, np.ndarray], run: tuple[int, int, int]
) -> dict[str, np.ndarray]:
    """Stimulus of a run of cases, by port."""
    start, cases, rows = run
    inputs = {}
    for port in unit.ports(config).inputs:
        values = fields.decode(asked[port.name][start : start + cases * rows], port)
        inputs[port.name] = values.reshape(cases, rows, *values.shape[1:]) if unit.timing == "event" else values
    return inputs


def _explained(
    unit: AnyUnit, config: str, lines: Sequence[bytes], before: int, any_nan: Sequence[str]
) -> Explained | None:
    """What a device did that differs in some of these lines."""
    asked, answers, unknown = _read(unit, unit.config(config), lines, before)
    parts = []
    for start, cases, rows in _runs(unit, asked):
        some = slice(start, start + cases * rows)
        inputs = _inputs(unit, unit.config(config), asked, (start, cases, rows))
        parts.append(
            Answered(inputs, *({port: array[some] for port, array in of.items()} for of in (answers, unknown)))
        )
    return stimulus_.explained(unit, config, parts, frozenset(any_nan))


def _runs(unit: AnyUnit, asked: dict[str, np.ndarray]) -> Iterator[tuple[int, int, int]]:
    """First row, number of cases and rows of a case, for every run of cases of one length."""
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
