"""Splits the text of a mix into its parts: `olive-8@0-1;29+olive-4:low=80+harmonia-kv4`.

    mix     part+...+part, the last one the attention
    part    NAME  NAME:parameter=value,...  NAME@LAYERS  NAME@LAYERS:parameter=value,...
    NAME    of a registered scheme, or FILE.py:NAME
    LAYERS  0  0-1  0-1;29

A plus among parameters starts a part only before a scheme's name, so `align=4+4` is one value.
"""

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from refemu.arith.checks import Refused

DIGITS = 4  #: most digits of a block number
MOST = 10_000  #: number of blocks that these digits can name
_BLOCKS = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_STEPS = {"[": 1, "]": -1}


@dataclass(frozen=True)
class Piece:
    """The text of one part."""

    number: int  #: number of the part, from 1
    start: int  #: its first character in the text of the mix, from 0
    text: str

    @property
    def place(self) -> str:
        """The part as error messages name it."""
        return f"part {self.number}, {self.text[:60]!r}, at character {self.start}"

    @property
    def layers(self) -> str | None:
        """The text after `@`, or None."""
        _, at, layers = self._head[0].partition("@")
        return layers if at else None

    @property
    def scheme(self) -> str:
        """The text without `@` and the layers."""
        head, parameters = self._head
        return head.partition("@")[0] + parameters

    @property
    def _head(self) -> tuple[str, str]:
        """NAME@LAYERS, or FILE.py:NAME@LAYERS, and the parameters with their colon."""
        head, colon, rest = self.text.partition(":")
        if not head.endswith(".py"):
            return head, colon + rest
        name, second, parameters = rest.partition(":")
        return head + colon + name, second + parameters


def split(text: str, names: Collection[str]) -> list[Piece]:
    """The parts of a mix, or the single scheme. names: of all schemes."""
    starts = [0]
    for place, depth in _pluses(text):
        head = ":" not in text[starts[-1] : place]
        if head or (depth == 0 and re.split(r"[:@+]", text[place + 1 :], maxsplit=1)[0] in names):
            starts.append(place + 1)
    ends = [start - 1 for start in starts[1:]] + [len(text)]
    return [
        Piece(number, start, text[start:end])
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), start=1)
    ]


def _pluses(text: str) -> list[tuple[int, int]]:
    """Position of every plus, with the number of brackets open there."""
    depth, places = 0, []
    for place, letter in enumerate(text):
        depth += _STEPS.get(letter, 0)
        if letter == "+":
            places.append((place, depth))
    return places


def read_layers(text: str, thing: str) -> tuple[int, ...]:
    """`0-1;29` as (0, 1, 29), ascending; Refused: another form, a descending range, a repeated block."""
    blocks: list[int] = []
    for part in text.split(";"):
        match = _BLOCKS.fullmatch(part)
        if match is None:
            raise Refused(_no_blocks(text, thing))
        first, last = (_block(digits, thing) for digits in (match[1], match[2] or match[1]))
        if last < first:
            raise Refused(_no_blocks(text, thing))
        blocks += range(first, last + 1)
        if len(blocks) > MOST:
            raise Refused(f"{thing}: must name at most {MOST} blocks, got more in {text[:60]!r}")
    ascending = sorted(blocks)
    for block, following in itertools.pairwise(ascending):
        if block == following:
            raise Refused(f"{thing}: must name each block once, got {block} twice in {text[:60]!r}")
    return tuple(ascending)


def _no_blocks(text: str, thing: str) -> str:
    return f"{thing}: layers must be blocks such as 0-1;29, got {text[:60]!r}"


def _block(digits: str, thing: str) -> int:
    """A block number; numbers with too many digits are not read."""
    if len(digits.lstrip("0")) > DIGITS:
        raise Refused(f"{thing}: a block must be in [0, {MOST - 1}], got {digits[:60]}")
    return int(digits.lstrip("0") or "0")


def write_layers(blocks: Sequence[int]) -> str:
    """The shortest text for ascending blocks."""
    ranges: list[list[int]] = []
    for block in blocks:
        if ranges and ranges[-1][1] == block - 1:
            ranges[-1][1] = block
        else:
            ranges.append([block, block])
    return ";".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
