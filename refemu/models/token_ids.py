"""Token ids from a user's file: decimal numbers in text, or a NumPy array."""

import io
import warnings
from pathlib import Path

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.reader_errors import contents, integer, reading

ZIP = b"PK\x03\x04"  #: first bytes of an .npz file
LONGEST = 1 << 24  #: largest file in bytes: two million ids


def read(path: str | Path, vocab: int) -> list[int]:
    """Token ids of a file: integers separated by white space, or in a .npy file an integer array of one axis.

    vocab: upper bound of the ids, exclusive. Raises Refused for a missing or empty file, for text that is not an
    integer, and for an id outside the vocabulary, with index and value; nothing is unpickled.
    """
    thing = f"ids {path}"
    try:
        with reading(thing, "token ids"):
            raw = contents(Path(path), LONGEST, thing)
    except OSError as error:
        raise Refused(f"{thing}: {error.strerror or error}") from None
    ids = _from_array(raw, thing) if Path(path).suffix == ".npy" else _from_text(raw, thing)
    if not ids:
        raise Refused(f"{thing}: at least one token id is needed, got none")
    for index, token in enumerate(ids):
        if not 0 <= token < vocab:
            raise Refused(f"{thing}: a token id must be in [0, {vocab}), got {token} at index {index}")
    return ids


def _from_text(raw: bytes, thing: str) -> list[int]:
    if raw.startswith(ZIP):
        raise Refused(f"{thing}: must be text or one .npy array, got an archive; save the array with numpy.save")
    ids = []
    for index, word in enumerate(raw.split()):
        try:
            if b"_" in word:  # Python allows it between digits
                raise ValueError
            ids.append(integer(word.decode("ascii"), 10))
        except ValueError:
            shown = repr(word[:40]).removeprefix("b")
            raise Refused(
                f"{thing}: a token id must be an integer, got {shown} at index {index}; "
                "give decimal numbers between white space, or an .npy array"
            ) from None
    return ids


def _from_array(raw: bytes, thing: str) -> list[int]:
    """Read the header first, so that nothing is unpickled and nothing larger than the file is allocated."""
    file = io.BytesIO(raw)
    try:
        with warnings.catch_warnings(action="error"):
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
    except Exception as error:  # NumPy parses the header as a Python literal; bad ones raise six types
        raise Refused(f"{thing}: not an array of token ids: {str(error) or type(error).__name__}") from error
    if dtype.kind not in "iu" or len(shape) != 1:
        raise Refused(f"{thing}: integers of one axis are needed, got {dtype} of shape {shape}")
    size = len(raw) - file.tell()
    if size != shape[0] * dtype.itemsize:
        raise Refused(f"{thing}: not an array of token ids: {shape[0]} of {dtype} are {size} bytes")
    ids: list[int] = np.frombuffer(raw, dtype, offset=file.tell()).tolist()
    return ids
