"""Running sums of page counts by a network: every head's region of the list of free pages. [leankv §5.2]"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from refemu.units import AnyUnit, Changes, Combinational, Config, Lanes, Port, Ports, Result, Unit, constant, decides
from refemu.units.declaration import DeclaredState
from refemu.units.unit import RunFunction

__all__ = ["BITS", "UNIT", "PrefixSum", "Scan", "State", "add_level", "depth", "run", "scan"]

BITS = 32  #: Width of an adder; sums wrap


@dataclass(frozen=True)
class Scan:
    """Sums of one operation, with levels and additions."""

    inclusive: tuple[int, ...]  #: sum of the base and the counts up to each element
    levels: int  #: levels of the network
    adds: int  #: additions


def depth(elements: int) -> int:
    """Number of levels of the network, ceil(log2 elements). [leankv §5.2]"""
    return max(elements - 1, 0).bit_length()


@decides("D-leankv-39")
def add_level(values: Sequence[int], level: int) -> tuple[list[int], int]:
    """Add to every element the one 2**level places before it, simultaneously. [leankv §5.2]

    values: words of 32 bits.
    """
    reach = 1 << level
    summed = [(value + values[i - reach]) % (1 << BITS) if i >= reach else value for i, value in enumerate(values)]
    return summed, max(len(values) - reach, 0)


def scan(counts: Sequence[int], base: int = 0) -> Scan:
    """Compute inclusive sums of any number of counts; the base is loaded with element 0, so no level adds it.
    [leankv §5.2]

    counts: words of 32 bits.
    """
    values, adds = list(counts), 0
    if values:
        values[0] = (values[0] + base) % (1 << BITS)
    for level in range(depth(len(values))):
        values, additions = add_level(values, level)
        adds += additions
    return Scan(tuple(values), depth(len(values)), adds)


class PrefixSum(Combinational):
    """Network of prefix sums: an operation is a `load`, then ceil(log2 elements) times `level`."""

    name = "prefix_sum"
    events: ClassVar[tuple[str, ...]] = ("load", "level")
    counters: ClassVar[dict[str, str]] = {"levels": "levels executed", "adds": "additions made"}
    elements: Annotated[int, 1, 1 << 16] = 8  #: counts of one operation, 1 to 65536

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(
                Port("counts", BITS, self.elements, meaning="pages of every head"),
                Port("base", BITS, meaning="start of the first region in the ring"),
            ),
            outputs=(Port("inclusive", BITS, self.elements, meaning="end of the region of every head"),),
            state=(Port("level", max(depth(self.elements).bit_length(), 1), meaning="levels of the operation done"),),
        )

    @property
    def busy(self) -> bool:
        """Whether levels remain."""
        return self.state.event != "reset" and self.state.level < depth(self.elements)

    def load(self, counts: Lanes, base: int) -> Changes:
        """Load the counts, with the base added to the first."""
        first, *others = counts
        return {"inclusive": ((first + base) % (1 << BITS), *others), "level": 0}

    def level(self) -> Changes:
        """Add to every element the one 1, 2, 4, ... places before it."""
        before = self.state
        values, adds = add_level(before.inclusive, before.level)
        return {"inclusive": tuple(values), "level": before.level + 1, "levels": 1, "adds": adds}


UNIT: AnyUnit = Unit(
    unit_class=PrefixSum,
    paper="leankv §5.2",
    meaning="running sums of page counts, level by level",
    configs={"paper": Config(elements=8), "odd": Config(elements=13)},
)
State: type[DeclaredState] = PrefixSum.State
run: RunFunction[Result] = UNIT.run
