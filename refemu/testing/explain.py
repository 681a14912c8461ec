"""Explanation of a failed `hold` from all its comparisons in a test."""

from collections.abc import Sequence

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.explain.stimulus import Answered, explained
from refemu.golden.files import fields
from refemu.testing.compare import Failure


def lines(failure: Failure, tried: Sequence[Failure]) -> list[str]:
    """Lines of text; [] if there is no explanation. tried: comparisons of the same test, `failure` among them."""
    unit, config = failure.unit, failure.config
    held = unit.timing == "event"
    same = [each for each in tried if _key(each) == _key(failure)] or [failure]
    parts = []
    for each in same:
        arrays = {name: np.asarray(array) for name, array in each.inputs.items()}
        inputs = {name: array[None] if held else array for name, array in arrays.items()}
        parts.append(Answered(inputs, each.answers))
    ports = unit.ports(unit.config(config)).outputs
    loose = frozenset(port.name for port in ports if failure.any_nan and fields.holds_floats(port))
    try:
        result = explained(unit, config, parts, loose & set(failure.answers))
    except (Refused, RefusedType):  # a stimulus that makes no set: say nothing rather than hide the failure
        return []
    return result.lines if result is not None and result.diagnosis.stories else []


def _key(failure: Failure) -> tuple[str, str, tuple[str, ...]]:
    return failure.unit.name, failure.config, tuple(failure.answers)
