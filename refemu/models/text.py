"""The texts that ship: one for prompts and evaluation, one for calibration.

Both are public domain; `texts/README.txt` gives their sources. No scheme is calibrated on the evaluation text.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

from refemu.arith.checks import Refused, lookup
from refemu.arith.reader_errors import contents, reading


@dataclass(frozen=True)
class Text:
    """A shipped text: its file in `texts/`, the sha256 of its UTF-8 bytes, and its title."""

    file: str
    sha256: str
    title: str


TEXTS = {
    "persuasion": Text(
        "persuasion.txt",
        "300b0a4367fc7fdf60fe09c0f10a5346f36ec5365aef7cc3c4c57bbdf347e2f5",
        "Jane Austen, Persuasion, characters 8346 to 25577",
    ),
    "pride_and_prejudice": Text(
        "pride_and_prejudice.txt",
        "33462de329b4a7ab451ab558e324e6b67e7dec601a6d76432351de563f2901ce",
        "Jane Austen, Pride and Prejudice, chapters 1 to 3",
    ),
}
FOLDER = Path(__file__).with_name("texts")
DEFAULT = "persuasion"  #: prompt and evaluation text
CALIBRATION = "pride_and_prejudice"  #: calibration text


def default() -> str:
    """The prompt and evaluation text: 17,232 characters, ASCII."""
    return shipped(DEFAULT)


def calibration() -> str:
    """The calibration text: 18,341 characters, ASCII."""
    return shipped(CALIBRATION)


def shipped(name: str) -> str:
    """The text `name` of `TEXTS`; raise Refused for an unknown name or a changed file."""
    entry = lookup("text", name, TEXTS)
    raw = (FOLDER / entry.file).read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    if digest != entry.sha256:
        raise Refused(f"text {name}: sha256 is {digest}, shipped was {entry.sha256}; install refemu again")
    return raw.decode("utf-8")


LONGEST = 1 << 24  #: largest text in bytes; its tokens take 14 times as much memory
STDIN = "-"  #: the path of standard input


def read(path: str | Path) -> str:
    """A user's text, UTF-8, line ends unchanged: a file, all files of a folder, or standard input for `-`.

    The files of a folder are joined by newlines in the order of their paths; hidden ones are left out. Raises Refused
    if the text is empty or not UTF-8, with the offset.
    """
    if str(path) == STDIN:
        return _decoded("standard input", _from_stdin())
    place = Path(path)
    if place.is_dir():
        return _folder(place)
    return _decoded(str(path), _bytes(place))


def _folder(folder: Path) -> str:
    files = [file for file in folder.rglob("*") if file.is_file()]
    files = [file for file in files if not any(part[0] == "." for part in file.relative_to(folder).parts)]
    files = sorted(files, key=lambda file: file.relative_to(folder).as_posix())
    if not files:
        raise Refused(f"{folder}: a folder of texts must have a file, got none")
    size = 0
    for file in files:
        size += file.stat().st_size
    if size > LONGEST:
        raise Refused(f"{folder}: the texts must have at most {LONGEST} bytes together; use a part of them")
    return "\n".join(_decoded(str(file), _bytes(file)) for file in files)


def _bytes(path: Path) -> bytes:
    try:
        with reading(str(path), "a text"):
            return contents(path, LONGEST, str(path))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from None


def _from_stdin() -> bytes:
    raw = sys.stdin.buffer.read(LONGEST + 1)
    if len(raw) > LONGEST:
        raise Refused(f"standard input: must have at most {LONGEST} bytes; use a part of it")
    return raw


def _decoded(thing: str, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(f"{thing}: not UTF-8, byte 0x{raw[error.start]:02x} at offset {error.start}") from None
    if not text:
        raise Refused(f"{thing}: the file is empty" if thing != "standard input" else f"{thing}: is empty")
    return text
