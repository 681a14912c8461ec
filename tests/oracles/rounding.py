"""Rounding of an exact fraction: look at the two integers around it and at the distance to them."""

from fractions import Fraction
from math import floor

MODES = ("floor", "ceil", "truncate", "half_even", "half_away", "half_up", "half_down", "half_zero")


def round_fraction(x: Fraction | int | float, mode: str) -> int:
    """`x` rounded to an integer by one of `MODES`; the half modes are to nearest and differ on ties only."""
    exact = Fraction(x)
    below = floor(exact)
    if exact == below:
        return below
    above = below + 1
    outward, inward = (above, below) if exact > 0 else (below, above)
    directed = {"floor": below, "ceil": above, "truncate": inward}
    if mode in directed:
        return directed[mode]
    if exact - below != above - exact:
        return below if exact - below < above - exact else above
    even = below if below % 2 == 0 else above
    return {"half_even": even, "half_away": outward, "half_up": above, "half_down": below, "half_zero": inward}[mode]
