"""Accelerators that the paper compares OliVe with, on the area of its array, as models of cycles and bytes.

Paper: [olive §2.2, §5.3, §5.4, Tables 5 and 11]. Decision: D-olive-61 (elements, codes, outliers of each).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from refemu.models.schemes.olive.array_options import DesignName, OliveMachine
from refemu.models.schemes.olive.array_works import Side
from refemu.units.declaration import decides

OUTLIERS = Fraction(1, 100)  #: of the values, for designs that store them apart [olive Table 2]
COORDINATE = 16  #: bits of an outlier's place in its row


@dataclass(frozen=True)
class Mode:
    """How a design multiplies."""

    name: str  #: of both operands, as in the counts of MACs
    elements: Fraction  #: multipliers, as a share of the 4-bit elements of the array
    a: Side
    b: Side


def _same(name: str, elements: Fraction, bits: int) -> Mode:
    return Mode(f"{name} x {name}", elements, Side(Fraction(bits), bits), Side(Fraction(bits), bits))


def _apart(bits: int, value: int) -> Side:
    """Codes, and outliers apart with their places."""
    return Side(bits + OUTLIERS * (value + COORDINATE), bits)


QUARTER = Fraction(1, 4)
WIDE = _same("int8", QUARTER, 8)
FOUR = _same("4-bit", Fraction(1), 4)
MODES: Mapping[DesignName, Mode] = {
    "int8": WIDE,
    "ant": FOUR,
    "gobo": Mode("fp16 x 4-bit", QUARTER, Side(Fraction(16), 16), _apart(4, 32)),
    "olaccel": Mode("4-bit x 4-bit", Fraction(1152, 4096), _apart(4, 16), _apart(4, 16)),
    "adafloat": _same("adafloat8", Fraction(896, 4096), 8),
}
EIGHT_BIT = {"ant": Fraction(4, 5)}  #: share of the layers at int8 [olive §5.3]
COLUMNS = {"olaccel": Fraction(1, 2), "adafloat": Fraction(1, 2)}  #: columns of the grid, as a share of the array's


@decides("D-olive-61")
def eight_bit_blocks(design: DesignName, blocks: int) -> int:
    """Blocks whose layers are at int8, the first of a model."""
    return ceil(EIGHT_BIT.get(design, 0) * blocks)


def mode(design: DesignName, wide: bool) -> Mode:
    """The mode of a block. wide: it is one of `eight_bit_blocks`."""
    return WIDE if wide else MODES[design]


@decides("D-olive-61")
def grid(design: DesignName, mode: Mode, machine: OliveMachine) -> tuple[int, int]:
    """Rows and columns of multipliers; those that fill no row are left out."""
    columns = max(
        1, int(machine.cols * COLUMNS.get(design, Fraction(1, 2) if mode.elements == QUARTER else Fraction(1)))
    )
    return max(1, int(machine.rows * machine.cols * mode.elements) // columns), columns
