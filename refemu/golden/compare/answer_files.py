"""A device's answer: an .npz with the set's `out.*` names, a directory of another set, or text.

Text is like `gold.mem`, or one of the forms of exchange.py.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refemu.arith.archive import Header
from refemu.arith.checks import Refused, lookup
from refemu.arith.reader_errors import reading
from refemu.golden.files import exchange, fields, hexfile, masks, npz, sets
from refemu.golden.files.sets import Golden

PIECE = 1 << 20  #: words that are compared at a time, about


@dataclass(frozen=True, eq=False)
class Answer:
    """Arrays as bit patterns, by the set's names; `unknown` has the bits that a simulator printed as x or z."""

    arrays: Mapping[str, np.ndarray]
    unknown: Mapping[str, np.ndarray]
    any_nan: frozenset[str] = frozenset()  #: arrays in which NaNs count as equal (D-arith-1)
    excluded: tuple[str, ...] = ()  #: arrays that were given and are not compared

    def differing(
        self, golden: Golden, name: str, want: np.ndarray | None = None, rows: slice = slice(None)
    ) -> np.ndarray:
        """The bits of some rows of an array that count and differ from the set's, or are x.

        want: compared instead of the set's rows.
        """
        mask, unknown = golden.arrays.get(f"{name}.care"), self.unknown.get(name)
        return masks.differing(
            golden.arrays[name][rows] if want is None else want,
            self.arrays[name][rows],
            sets.port_of(golden.array(name)),
            None if mask is None else mask[rows],
            None if unknown is None else unknown[rows],
            name in self.any_nan,
        )

    def compared(self, golden: Golden) -> list[str]:
        """Names of the arrays that are compared, in the order of the set."""
        return [entry["name"] for entry in golden.manifest["arrays"] if entry["name"] in self.arrays]

    def pieces(self, golden: Golden, name: str) -> Iterator[tuple[slice, np.ndarray]]:
        """`differing` of all rows of an array, a part of the rows at a time: (rows, lanes)."""
        count = sets.port_of(golden.array(name)).count
        step = max(1, PIECE // count)
        for first in range(0, golden.rows, step):
            rows = slice(first, min(first + step, golden.rows))
            yield rows, self.differing(golden, name, rows=rows).reshape(-1, count)

    def wrong_rows(self, golden: Golden, name: str) -> np.ndarray:
        """Rows in which an array differs in a bit that counts, or is x: bool."""
        wrong = np.zeros(golden.rows, np.bool_)
        for rows, unlike in self.pieces(golden, name):
            wrong[rows] = (unlike != 0).any(axis=1)
        return wrong


def read(
    path: str | Path | Mapping[str, Any], golden: Golden, ports: Sequence[str] | None = None, any_nan: bool = False
) -> Answer:
    """The answer in file or directory `path`, or in a mapping of tensors by name, to the stimulus of `golden`.

    ports: the outputs that count, by default those that are there; other arrays are dropped. any_nan: whether NaNs
    count as equal in integer words too; in floats they always do. Refused: the file has another form, arrays
    that `golden` lacks, a wrong shape, codes of too many bits, no output, or not every one of `ports`.
    """
    needed = [f"out.{port}" for port in _known(ports, golden)]
    if isinstance(path, Mapping):
        named = {name if name.startswith(("out.", "st.")) else f"out.{name}": each for name, each in path.items()}
        answers = _from_arrays(named, golden, "answer", needed)
    else:
        with reading(str(path), "a readable answer"):
            answers = _read(Path(path), golden, needed)
    kept = {
        name: array for name, array in answers.arrays.items() if ports is None or name.removeprefix("out.") in ports
    }
    floats = {name for name in kept if fields.holds_floats(sets.port_of(golden.array(name)))} if any_nan else set()
    return Answer(
        kept,
        {name: bits for name, bits in answers.unknown.items() if name in kept},
        answers.any_nan & kept.keys() | floats,
        tuple(name for name in answers.arrays if name not in kept),
    )


def _known(ports: Sequence[str] | None, golden: Golden) -> Sequence[str]:
    """`ports`, after a check that each is an output of the set; () for None."""
    outputs = {sets.port_of(entry).name: entry for entry in golden.manifest["arrays"] if entry["role"] == "expected"}
    for port in ports or ():
        lookup(f"output of {golden.name}", port, outputs)
    return ports or ()


def _read(place: Path, golden: Golden, needed: Sequence[str]) -> Answer:
    if place.is_dir():
        return _other_set(sets.load(place), golden, needed)
    if not place.is_file():
        raise Refused(f"{place}: no such file")
    with place.open("rb") as stream:
        begin = stream.read(2)
        if begin == b"PK" or place.suffix == ".npz":
            return _from_archive(npz.Archive(stream, str(place)), golden, needed, str(place))
        data = begin + stream.read()
    if data.startswith(b"\x93NUMPY"):
        raise Refused(f"{place}: is a single .npy; save the arrays by name with np.savez")
    form = exchange.recognised(data, place.suffix)
    if form:
        return _from_arrays(exchange.read(data, form, golden, str(place)), golden, str(place), needed)
    layout = hexfile.layout([entry for entry in golden.manifest["arrays"] if entry["role"] == "expected"])
    return Answer(*hexfile.read(data, layout, golden.rows, str(place)))


def _from_archive(archive: npz.Archive, golden: Golden, needed: Sequence[str], thing: str) -> Answer:
    """Read an archive, names and shapes first, so that no array is inflated that the set lacks."""
    wanted = _wanted(golden)
    _require_names(archive.names, golden, thing, needed)
    for name in archive.names:
        header = archive.header(name)
        if not _same_bytes(header, wanted[name]):
            _require_shape(header.shape, wanted[name], f"{thing}: {name}")
    return _from_arrays({name: archive.array(name) for name in archive.names}, golden, thing, needed)


def _same_bytes(header: Header, entry: Mapping[str, Any]) -> bool:
    """Whether an array has the bytes of the port in other words, as `fields.lanes_of` views them."""
    word, shape = fields.dtype_of(sets.port_of(entry).bits).itemsize, entry["shape"]
    return (
        len(header.shape) == len(shape)
        and header.shape[:-1] == tuple(shape[:-1])
        and (header.shape[-1] * header.dtype.itemsize == shape[-1] * word)
    )


def _wanted(golden: Golden) -> dict[str, Mapping[str, Any]]:
    return {entry["name"]: entry for entry in golden.manifest["arrays"] if entry["role"] in ("expected", "state")}


def _other_set(other: Golden, golden: Golden, needed: Sequence[str]) -> Answer:
    for name in golden.arrays:
        if name.startswith("in.") and not _equal(other.arrays.get(name), golden.arrays[name]):
            raise Refused(f"{other.name}: its stimulus {name} differs from {golden.name}'s, nothing was compared")
    answers = {
        name: array
        for name, array in other.arrays.items()
        if name.startswith(("out.", "st.")) and not name.endswith(".care")
    }
    return _from_arrays(answers, golden, other.name, needed)


def _equal(a: np.ndarray | None, b: np.ndarray) -> bool:
    return a is not None and a.shape == b.shape and bool((a == b).all())


def _from_arrays(arrays: Mapping[str, Any], golden: Golden, thing: str, needed: Sequence[str]) -> Answer:
    wanted = _wanted(golden)
    _require_names(arrays, golden, thing, needed)
    plain = {
        name: fields.lanes_of(array, sets.port_of(wanted[name]), f"{thing}: {name}") for name, array in arrays.items()
    }
    return Answer(
        {name: _codes(array, wanted[name], f"{thing}: {name}") for name, array in plain.items()},
        {},
        frozenset(name for name, array in plain.items() if array.dtype.kind == "f"),
    )


def _require_names(arrays: Collection[str], golden: Golden, thing: str, needed: Sequence[str]) -> None:
    wanted = _wanted(golden)
    foreign = [name for name in arrays if name not in wanted]
    if foreign:
        raise Refused(f"{thing}: array {foreign[0]} is not an output of {golden.name}; known: {', '.join(wanted)}")
    if not any(name.startswith("out.") for name in arrays):
        raise Refused(f"{thing}: has no out.* array, nothing was compared")
    missing = [name for name in needed if name not in arrays]
    if missing:
        there = ",".join(name.removeprefix("out.") for name in arrays if name.startswith("out."))
        raise Refused(f"{thing}: has no {', '.join(missing)}, which --ports names; it has {there}")


def _require_shape(shape: Sequence[int], entry: Mapping[str, Any], thing: str) -> None:
    if list(shape) != entry["shape"]:
        raise Refused(f"{thing}: shape must be {tuple(entry['shape'])}, got {tuple(shape)}")


def _codes(array: np.ndarray, entry: Mapping[str, Any], thing: str) -> np.ndarray:
    """The port's bit patterns, from integers, bools or floats of any width that holds them."""
    _require_shape(array.shape, entry, thing)
    port = sets.port_of(entry)
    if array.dtype.kind == "u" and port.signed:  # already masked to the port's width
        if (over := array.astype(np.uint64) > np.uint64(fields.mask_of(port.bits))).any():
            raise Refused(f"{thing}: row {int(np.argwhere(over)[0][0])} holds more than {port.bits} bits")
        return array.astype(fields.dtype_of(port.bits))
    return fields.encode(array, port, thing)
