"""Words for `$readmemh`: one per row, most significant digit first, and a sentinel of all ones at the end.

The sentinel shows a testbench that the file was found and is complete: `$readmemh` reports neither.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.files import fields

_VALUE = np.full(256, 255, np.uint8)
_VALUE[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_VALUE[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)
_CHUNK = 1 << 21  # bits packed at once: their matrix, a byte for each, stays in the cache


def layout(entries: Sequence[Mapping[str, Any]], first: bool = False) -> list[dict[str, Any]]:
    """Fields of a word: `entries` (of the manifest's `arrays`) in order, the first lowest, lanes ascending.

    first: whether a bit `first` on top says that a case begins.
    """
    fields: list[dict[str, Any]] = []
    lsb = 0
    for entry in entries:
        for lane in range(entry["lanes"]):
            fields.append(_field(entry["name"], lane, lsb, entry["bits"], entry["signed"]))
            lsb += entry["bits"]
    return [*fields, _field("first", 0, lsb, 1, False)] if first else fields


def _field(name: str, lane: int, lsb: int, bits: int, signed: bool) -> dict[str, Any]:
    return {"name": name, "lane": lane, "lsb": lsb, "bits": bits, "signed": signed}


def width(layout_: Sequence[Mapping[str, Any]]) -> int:
    """Bits of a word with these fields."""
    return int(layout_[-1]["lsb"] + layout_[-1]["bits"])


def files(
    manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> dict[str, tuple[list[dict[str, Any]], bytes]]:
    """`stim.mem`, `gold.mem` and, where a set has masks, `care.mem`: name -> (fields, content)."""
    role = {name: [entry for entry in manifest["arrays"] if entry["role"] == name] for name in ("stimulus", "expected")}
    stimulus, expected = layout(role["stimulus"], manifest["timing"] == "event"), layout(role["expected"])
    contents = {
        "stim.mem": (stimulus, words(stimulus, {**arrays, "first": case_starts(manifest)})),
        "gold.mem": (expected, words(expected, arrays)),
    }
    masks = care(role["expected"], arrays)
    if masks:
        contents["care.mem"] = (expected, words(expected, masks))
    return contents


def care(entries: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A mask for each array of `entries`, by default all ones; {} if the set has no masks."""
    if not any(f"{entry['name']}.care" in arrays for entry in entries):
        return {}
    return {
        entry["name"]: arrays.get(
            f"{entry['name']}.care", np.full_like(arrays[entry["name"]], fields.mask_of(entry["bits"]))
        )
        for entry in entries
    }


def case_starts(manifest: Mapping[str, Any]) -> np.ndarray:
    """uint8 (rows,): 1 where a case begins."""
    first = np.zeros(manifest["rows"], np.uint8)
    for entry in manifest["cases"]:
        first[entry["first"] : entry["first"] + entry["cases"] * entry["rows"] : entry["rows"]] = 1
    return first


def words(layout_: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The text of one file: a comment, a word per row, the sentinel."""
    bits = width(layout_)
    rows = len(arrays[layout_[0]["name"]])
    sentinel = f"{fields.mask_of(bits):x}\n".encode()
    return b"".join([f"// {rows} words of {bits} bits and one sentinel\n".encode(), *lines(layout_, arrays), sentinel])


def lines(layout_: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    """The words of all rows as text, a chunk of lines at a time."""
    names = list(dict.fromkeys(field["name"] for field in layout_))
    bits = {field["name"]: field["bits"] for field in layout_}
    step = max(1, _CHUNK // width(layout_))
    for start in range(0, len(arrays[names[0]]), step):
        parts = [_bits(arrays[name][start : start + step], bits[name]) for name in names]
        yield _text(np.packbits(np.concatenate(parts, axis=1), axis=1, bitorder="little"), -(-width(layout_) // 4))


def _bits(codes: np.ndarray, bits: int) -> np.ndarray:
    """(rows, lanes * bits) of 0 and 1, least significant first."""
    raw = np.ascontiguousarray(codes, codes.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, codes.dtype.itemsize)
    return np.unpackbits(raw, axis=1, count=bits, bitorder="little").reshape(len(codes), -1)


def _text(packed: np.ndarray, digits: int) -> bytes:
    """Little-endian bytes (rows, n) as lines of `digits` hex digits, most significant first."""
    text = np.frombuffer(packed[:, ::-1].tobytes().hex().encode(), np.uint8).reshape(len(packed), -1)
    line = np.full((len(packed), digits + 1), ord("\n"), np.uint8)
    line[:, :digits] = text[:, text.shape[1] - digits :]
    return line.tobytes()


def read(
    data: bytes, layout_: Sequence[Mapping[str, Any]], rows: int, thing: str
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Arrays by name from text in the form of `gold.mem`, and by name the bits whose digits were x or z.

    rows: words expected; the sentinel may follow. Refused: a wrong number of words or digits, or an invalid digit.
    """
    digits, bits = -(-width(layout_) // 4), width(layout_)
    matrix = _digit_matrix(data, digits, thing)
    if len(matrix) == rows + 1:
        sentinel = _value(matrix[rows:])
        ones = fields.mask_of(bits).to_bytes(-(-digits // 2), "little")
        if (sentinel > 15).any() or _packed(sentinel).tobytes() != ones:
            raise Refused(
                f"{thing}: word {rows} must be the sentinel of {bits} ones, "
                f"got {bytes(matrix[rows]).decode('ascii', 'backslashreplace')}"
            )
    elif len(matrix) != rows:
        raise Refused(
            f"{thing}: {rows} words and an end word of ones are needed, got {len(matrix)}; is the file complete?"
        )
    unknown = np.isin(matrix[:rows], np.frombuffer(b"xXzZ", np.uint8))
    known = np.where(unknown, ord("0"), matrix[:rows])
    values = _value(known)
    _require_digits(values, matrix, thing)
    arrays = _split(_packed(values), layout_, thing)
    return arrays, _split(_packed(np.where(unknown, 15, 0).astype(np.uint8)), layout_, "") if unknown.any() else {}


def _digit_matrix(data: bytes, digits: int, thing: str) -> np.ndarray:
    """(words, digits) of characters, from text with `//` comments, empty lines, `_` and CRLF."""
    comment, _, rest = data.partition(b"\n")
    if comment.startswith(b"//"):
        data = rest
    if data and len(data) % (digits + 1) == 0:  # the plain form, without a loop over lines
        matrix = np.frombuffer(data, np.uint8).reshape(-1, digits + 1)
        if (
            (matrix[:, -1] == ord("\n")).all()
            and (matrix[:, :-1] > ord("/")).all()
            and (matrix[:, :-1] != ord("_")).all()
        ):
            return matrix[:, :-1]
    blocks = []
    for number, line in enumerate(data.splitlines(), 1 + comment.startswith(b"//")):
        word = line.partition(b"//")[0].strip().replace(b"_", b"")
        if word and len(word) != digits:
            shown = word[:40].decode("ascii", "backslashreplace")
            raise Refused(f"{thing}: line {number} must have {digits} digits, got {len(word)}: {shown}")
        if word:
            blocks.append(word)
    return np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, digits)


def _value(digits: np.ndarray) -> np.ndarray:
    return _VALUE[digits]


def _require_digits(values: np.ndarray, matrix: np.ndarray, thing: str) -> None:
    bad = values > 15
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise Refused(f"{thing}: word {row} has {chr(int(matrix[row, column]))!r}, which is not a hex digit")


def _packed(nibbles: np.ndarray) -> np.ndarray:
    """Hex digits, most significant first, as little-endian bytes."""
    even = (
        nibbles
        if nibbles.shape[1] % 2 == 0
        else np.concatenate([np.zeros((len(nibbles), 1), np.uint8), nibbles], axis=1)
    )
    return np.ascontiguousarray((even[:, 0::2] << 4 | even[:, 1::2])[:, ::-1])


def _split(packed: np.ndarray, layout_: Sequence[Mapping[str, Any]], thing: str) -> dict[str, np.ndarray]:
    """The fields of little-endian words; bits above them must be 0 (`thing` starts the message)."""
    bits = np.unpackbits(packed, axis=1, bitorder="little")
    if thing and (over := bits[:, width(layout_) :].any(axis=1)).any():
        raise Refused(f"{thing}: word {int(np.argmax(over))} has more than {width(layout_)} bits")
    arrays: dict[str, list[np.ndarray]] = {}
    for field in layout_:
        arrays.setdefault(field["name"], []).append(_codes(bits[:, field["lsb"] : field["lsb"] + field["bits"]]))
    return {name: lanes[0] if len(lanes) == 1 else np.stack(lanes, axis=1) for name, lanes in arrays.items()}


def _codes(bits: np.ndarray) -> np.ndarray:
    dtype = fields.dtype_of(bits.shape[1])
    padded = np.zeros((len(bits), 8 * dtype.itemsize), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view(dtype.newbyteorder("<"))[:, 0].astype(dtype)
