"""Variants of the decisions of flint_decoder."""

from refemu.units.variant import Variant, choices

#: 16 = <4,1> and 1, 2, 4, 8 = <e,1>: the integer has no trailing zero
ODD = ((0, 0), (0, 1), (1, 1), (0, 3), (4, 1), (3, 1), (2, 1), (1, 3))
#: 8 = <3,1>, 4 = <0,4>: the range of exponents is cut in another place
MIXED = ((0, 0), (0, 1), (0, 2), (0, 3), (3, 2), (3, 1), (1, 2), (1, 3))
#: 4 = <1,2>, 6 = <1,3>, 8 = <3,1>
SHORT = ((0, 0), (0, 1), (0, 2), (0, 3), (4, 1), (3, 1), (1, 2), (1, 3))

VARIANTS: tuple[Variant, ...] = choices("D-olive-16", "pairs", ODD, MIXED, SHORT)
