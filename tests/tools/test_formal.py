"""Compiled forms: each is listed once, and one that is tried on all inputs may not differ."""

from collections import Counter
from typing import Any

import pytest

from refemu import units
from refemu.units.unit import Unit
from tools import formal


def test_each_compiled_form_is_listed_once() -> None:
    count: Counter[str] = Counter()
    for spec, _ in formal.forms():
        unit, _, config = spec.partition(":")
        count.update([spec] if config else [f"{unit}:{each}" for each in units.find(unit).configs])
    every = [f"{name}:{config}" for name in units.names() for config in units.find(name).configs]
    assert count == Counter(every)


@pytest.mark.long
def test_one_input_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert formal.tried("outlier_decoder:e2m1") == (256, True)
    evaluate = Unit.evaluate

    def wrong(unit: Any, config: Any, inputs: Any, jit: bool = True) -> Any:
        result = evaluate(unit, config, inputs, jit)
        result.exponent[77] ^= jit
        return result

    monkeypatch.setattr(Unit, "evaluate", wrong)
    assert formal.tried("outlier_decoder:e2m1") == (256, False)
