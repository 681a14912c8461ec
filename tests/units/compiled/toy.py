"""A unit with all that a text to be compiled may have: words, vectors, sums, records, registers, several events."""

from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple

from refemu.arith.checks import Refused
from refemu.arith.scalar32 import div32, f32, pattern32
from refemu.units.config import Config
from refemu.units.declaration import Changes, Combinational, Sequential, constant
from refemu.units.ports import Port, Ports
from refemu.units.unit import AnyUnit, Cases, Kind, Unit

LANES = 4


class Split(NamedTuple):
    """A value in two parts."""

    high: int
    low: int = 0


def split(value: int, bits: int = 4) -> Split:
    """The parts of a value."""
    return Split(value >> bits, value & ((1 << bits) - 1)) if value >= 0 else Split(value)


class Grader(Combinational):
    """A unit within the toy: a grade by real numbers."""

    name = "grader"
    events: ClassVar[tuple[str, ...]] = ("rated",)
    counters: ClassVar[dict[str, str]] = {}
    kind: Literal["up", "down"] = "up"  #: where a grade is rounded to

    @constant
    def ports(self) -> Ports:
        return Ports(inputs=(Port("value", 8, signed=True),), outputs=(Port("grade", 32), Port("rank", 4)))

    def rated(self, value: int) -> Changes:
        """The word of a third, and its place in an order."""
        return {"grade": self.graded(value), "rank": self.ranked()}

    def graded(self, value: int) -> int:
        """The word of a third."""
        return pattern32(div32(float(value), 3.0))

    def ranked(self) -> int:
        """The place in an order."""
        return 5 if self.kind == "up" else 3


class Toy(Sequential):
    """Sums of vectors, one step a lane."""

    name = "toy"
    events: ClassVar[tuple[str, ...]] = ("clear", "load", "lane")
    counters: ClassVar[dict[str, str]] = {"lanes": "lanes added", "odd": "odd lanes"}
    initial: ClassVar[dict[str, int]] = {"total": 3}
    rule: Literal["wrap", "saturate"] = "wrap"  #: of the total
    bits: int = 8  #: of a lane
    weights: tuple[int, ...] = (1, -2, 3, 4, 5)  #: of the lanes, and of the last one

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(Port("op", 2, most=2), Port("x", self.bits, LANES, signed=True)),
            outputs=(
                Port("total", 12, signed=True),
                Port("halves", self.bits, LANES, signed=True),
                Port("any_odd", 1),
                Port("parts", 16, signed=True),
                Port("grade", 32),
                Port("rank", 4),
                Port("first", 8, 1),
            ),
            state=(
                Port("left", 3),
                Port("kept", self.bits, LANES, signed=True),
                Port("previous", self.bits, LANES, signed=True),
            ),
        )

    @property
    def busy(self) -> bool:
        """Whether lanes are left."""
        return self.state.event in ("load", "lane") and self.state.left > 0

    @constant
    def grader(self) -> Grader:
        """Of the first lane."""
        return Grader("down" if self.rule == "wrap" else "up")

    def opens(self, op: int, *x: tuple[int, ...]) -> str:
        """Operation 0 clears."""
        return "clear" if op == 0 else "load"

    def clear(self, op: int, x: tuple[int, ...]) -> Changes:
        """The total becomes 0. Refused: it is."""
        before = self.state
        if before.total == 0 and before.any_odd:
            raise Refused(f"{self.name}: the total is 0")
        return {"total": 0, "halves": (0,) * LANES, "any_odd": 0, "left": 0}

    def load(self, op: int, x: tuple[int, ...]) -> Changes:
        """Store a vector, doubled by operation 2."""
        parts = [split(value) for value in x]
        odd = sum(value & 1 for value in x if value not in (1, 3))
        kept = {"kept": x, "left": LANES, "previous": self.state.kept}
        reals = [f32(value * 0.5) for value in x]
        low = all(value < 100 for value in x) + (x[0], x[1]).count(7)
        return {
            **kept,
            "grade": self.grader.graded(x[0]),
            "rank": self.grader.ranked(),
            "first": ((self.state.index + low + int(2 * abs(reals[3]))) & 255,),
            "halves": tuple(value >> 1 for value in x),
            "any_odd": any(sum(value & each for each in x) % 2 == 1 for value in x),
            "parts": divmod(x[0], 3)[1]
            + x[1].bit_length()
            + min(each.high for each in parts)
            + max(each.low for each in parts)
            + len(x),
            "odd": odd,
        }

    def lane(self) -> Changes:
        """The next lane is added."""
        before, place = self.state.total, (LANES - self.state.left) & (LANES - 1)
        factor = self.weights[place] * (self.state.op if self.state.op > 1 else 1)
        return self._kept(before + factor * self.state.kept[place])

    def _kept(self, total: int) -> Changes:
        least, most = -(1 << 11), (1 << 11) - 1
        wrapped = ((total - least) & 0xFFF) + least
        total = min(max(total, least), most) if self.rule == "saturate" else wrapped
        return {"total": total, "left": self.state.left - 1, "lanes": 1}


def cases(config: Config, kind: Kind, seed: int | range) -> Iterator[Cases]:
    """None."""
    yield from ()


UNIT: AnyUnit = Unit(
    unit_class=Toy,
    paper="olive §4.4",
    meaning="sums of vectors",
    configs={"wrap": Config(rule="wrap", bits=8), "saturate": Config(rule="saturate", bits=8)},
    cases=cases,
)
GRADER: AnyUnit = Unit(unit_class=Grader, paper="olive §4.4", meaning="grades", configs={"up": Config()}, cases=cases)
