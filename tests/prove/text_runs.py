"""Functions that the interpreter runs on a variable, compared with Python for each of its values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refemu.prove import terms
from refemu.prove.lift import Interpreter
from refemu.prove.values import Int, Unsupported, word

BITS, VALUES = 4, range(8)
Text = Callable[[Any], int]


def interpreted(text: Text) -> list[int | None]:
    """Results for each value; None where a demand does not hold or the text raises."""
    run = Interpreter()
    with run.running():
        result = run.call(text, Int(terms.variable("x", BITS), VALUES[0], VALUES[-1]))
    conditions = [terms.not_(run.illegal), *(condition for condition, _ in run.obligations)]
    rows = {"x": np.array(VALUES, np.uint64)}
    values, legal = terms.evaluate([word(result, 32), terms.all_of(conditions)], rows, len(VALUES))
    return [int(value) if ok else None for value, ok in zip(values, legal, strict=True)]


def _of_python(text: Text, value: int) -> int | None:
    try:
        return int(text(value))
    except (ValueError, IndexError, KeyError):
        return None


def require_equal(text: Text) -> None:
    """Require the results of Python for every value."""
    assert interpreted(text) == [_of_python(text, value) for value in VALUES]


def require_unsupported(text: Text) -> None:
    """Require that the interpreter does not run a text that it would run wrongly."""
    with pytest.raises(Unsupported):
        interpreted(text)
