"""Figures as data."""

import pytest

from refemu.arith.checks import Refused
from refemu.studies.output.figure import Series


@pytest.mark.parametrize(("x", "y", "error"), [((1.0,), (1.0, 2.0), ()), ((1.0, 2.0), (1.0, 2.0), (0.1,))])
def test_as_many_values_as_places(x: tuple[float, ...], y: tuple[float, ...], error: tuple[float, ...]) -> None:
    with pytest.raises(Refused, match="series a: must have equally many places and values"):
        Series("a", x, y, error)
