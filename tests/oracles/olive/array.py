"""The clocked systolic array by where operands are, not by how they move [olive §4.3, §4.5].

An operand that enters line i at edge t is at distance s from the border after edge t + s, unless the array was emptied
in between. Nothing of refemu is imported.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tests.oracles.olive import units

NOTHING = (0, 0, 0)
KINDS = {
    "int4": ("int4", (2, 1)),
    "flint4": ("flint4", (2, 1)),
    "int8": ("int8", (4, 3)),
    "int8_repo": ("int8", (2, 5)),
}


def entering(
    words: Sequence[int],
    valid: Sequence[int],
    emptied: Sequence[int],
    drains: Sequence[int],
    used: Sequence[int],
    codes: Any,
) -> tuple[list[Any], list[Any], list[int], list[int]]:
    """What one line feeds in each edge, what it holds after it, whether it decodes, and whether that pair is illegal.

    emptied, drains: by edge. used: whether the line is in use. codes: decodes the word of an edge.
    """
    feeds, holds, decodes, bad = [], [], [], []
    held = NOTHING
    for edge, word in enumerate(words):
        if emptied[edge]:
            held = NOTHING
        feed, held, did, illegal = held, NOTHING, 0, 0
        if drains[edge]:
            feed = NOTHING
        elif used[edge] and valid[edge] and not feed[0]:
            (e0, e1), (i0, i1), flag = codes(edge, word)
            feed, held, did, illegal = (1, e0, i0), (1, e1, i1), 1, int(flag)
        feeds.append(feed)
        holds.append(held)
        decodes.append(did)
        bad.append(illegal)
    return feeds, holds, decodes, bad


def halves(value: int, split: str) -> tuple[int, int]:
    """High and low half of an 8-bit integer (D-olive-36)."""
    if split == "sign_magnitude":
        sign = -1 if value < 0 else 1
        return sign * (abs(value) // 16), sign * (abs(value) % 16)
    return value // 16, value % 16


def wrapped(exact: int, overflow: str) -> tuple[int, int]:
    """A sum in 32 bits, and whether it left them."""
    low, high = -(2**31), 2**31 - 1
    if low <= exact <= high:
        return exact, 0
    if overflow == "saturate":
        return (high if exact > 0 else low), 1
    return (exact + 2**31) % 2**32 - 2**31, 1


class Array:
    """One device over a list of edges."""

    def __init__(
        self, rows: int, cols: int, a: str, b: str, eight: str, overflow: str, split: str, inputs: Mapping[str, Any]
    ):
        self.rows, self.cols, self.types, self.eight = rows, cols, (a, b), eight
        self.overflow, self.split, self.inputs = overflow, split, inputs
        self.wide = [int(x) for x in inputs["wide"]]
        self.drain = [int(x) for x in inputs["drain"]]
        before = [0, *self.wide]
        self.emptied = [int(now != last) for now, last in zip(self.wide, before, strict=False)]
        self.lines = [self.side("west", rows, 0), self.side("north", cols, 1)]

    def side(self, name: str, lines: int, which: int) -> list[Any]:
        """`entering` of every line of a border."""
        each = []
        for line in range(lines):
            words = [int(row[line]) for row in self.inputs[name]]
            valid = [int(row[line]) for row in self.inputs[name + "_valid"]]
            used = [line < lines // (1 + wide) for wide in self.wide]
            each.append(entering(words, valid, self.emptied, self.drain, used, partial(self.pair, which)))
        return each

    def pair(self, which: int, edge: int, word: int) -> Any:
        """Exponents and integers of both elements of a pair, and whether it is illegal."""
        wide, bias = self.wide[edge], int(self.inputs["bias_" + "ab"[which]][edge])
        four = self.types[which]
        if four == "port":
            four = ("int4", "flint4")[int(self.inputs["flint_" + "ab"[which]][edge])]
        normal, outlier = KINDS[self.eight if wide else four]
        return units.ovp_decoder(int(word) & (0xFFFF if wide else 0xFF), bias, normal, outlier)

    def at(self, which: int, line: int, distance: int, edge: int) -> Any:
        """The operand at a distance from its border after an edge."""
        entered = edge - distance
        if entered < 0 or any(self.drain[entered : edge + 1]) or any(self.emptied[entered + 1 : edge + 1]):
            return NOTHING
        return self.lines[which][line][0][entered]

    def rows_of(self) -> list[dict[str, Any]]:
        """Every output, register and counter after every edge."""
        acc, flags = [0] * (self.rows * self.cols), [0] * (self.rows * self.cols)
        counts = dict.fromkeys(
            ("cycles", "compute_cycles", "drain_cycles", "decodes", "decoder_idle", "macs", "idle", "overflows"), 0
        )
        illegal, answer = 0, []
        for edge, wide in enumerate(self.wide):
            size = 1 + wide
            down, across = self.rows // size, self.cols // size
            if self.emptied[edge]:
                acc, flags = [0] * len(acc), [0] * len(acc)
            row: dict[str, Any] = {"south": [0] * self.cols, "south_overflow": [0] * self.cols}
            operands = {name: [NOTHING] * len(acc) for name in "ab"}
            partial = [0] * len(acc)
            counts["cycles"] += 1
            if self.drain[edge]:
                acc, flags = self.drained(acc, flags, row, size)
                counts["drain_cycles"] += 1
            else:
                counts["compute_cycles"] += 1
                for i in range(down):
                    for j in range(across):
                        lane = i * size * self.cols + j * size
                        x, y = self.at(0, i, j, edge), self.at(1, j, i, edge)
                        operands["a"][lane], operands["b"][lane] = x, y
                        if x[0] and y[0]:
                            exact = acc[lane] + x[2] * y[2] * 2 ** (x[1] + y[1])
                            acc[lane], over = wrapped(exact, self.overflow)
                            flags[lane] |= over
                            counts["macs"] += 1
                            counts["overflows"] += over
                            if wide:
                                place = 4 * (i * across + j)
                                partial[place : place + 4] = [
                                    p * q for p in halves(x[2], self.split) for q in halves(y[2], self.split)
                                ]
                        else:
                            counts["idle"] += 1
                decodes = sum(line[2][edge] for side in self.lines for line in side)
                counts["decodes"] += decodes
                counts["decoder_idle"] += down + across - decodes
                illegal |= int(any(line[3][edge] for side in self.lines for line in side))
            row |= {"illegal": illegal, "mode": wide, "partial": partial, "acc": list(acc), "acc_overflow": list(flags)}
            for name, lanes in operands.items():
                row |= named(name, lanes)
            for name, side in zip(("west_held", "north_held"), self.lines, strict=True):
                row |= named(name, [line[1][edge] for line in side])
            answer.append(row | counts)
        return answer

    def drained(self, acc: list[int], flags: list[int], row: dict[str, Any], size: int) -> tuple[list[int], list[int]]:
        """Accumulators a row of elements further south."""
        below, over = [0] * len(acc), [0] * len(acc)
        for lane, (value, flag) in enumerate(zip(acc, flags, strict=True)):
            i, j = divmod(lane, self.cols)
            if i % size or j % size:
                continue
            if i + size >= self.rows:
                row["south"][j // size], row["south_overflow"][j // size] = value, flag
            else:
                below[lane + size * self.cols], over[lane + size * self.cols] = value, flag
        return below, over


def named(name: str, operands: Sequence[Any]) -> dict[str, list[int]]:
    """Lanes of operands by register."""
    fields = zip(*operands, strict=True)
    return {
        f"{name}_{field}": list(lanes) for field, lanes in zip(("valid", "exponent", "integer"), fields, strict=True)
    }


def simulate(
    rows: int, cols: int, a: str, b: str, eight: str, overflow: str, split: str, inputs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Outputs, registers and counters of one device after every edge. inputs: by port, lists over edges."""
    return Array(rows, cols, a, b, eight, overflow, split, inputs).rows_of()
