"""A unit that is not refemu's own gets a set only where its twin gives the bits of its readable form."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from refemu import golden, units
from refemu.arith.checks import Refused
from refemu.golden.make import cross_check
from tests.plugin_distribution import CLIPPER

WRONG: dict[str, Any] = {}


def clipper() -> Any:
    """The unit of CLIPPER, its twin a function of this module."""
    space: dict[str, Any] = {"__name__": __name__}
    exec(CLIPPER.replace('compiled_run="none"', f'compiled_run="{__name__}:compiled_run"'), space)
    WRONG.update(unit=space["UNIT"])
    return space["UNIT"]


def compiled_run(**inputs: Any) -> Any:
    """The readable form, one field of whose result is changed."""
    result = WRONG["unit"].run(**inputs)
    return dataclasses.replace(result, **WRONG["change"](result))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda result: {}, ""),
        (lambda result: {"clipped": result.clipped ^ 1}, r"got clipped 0x6, not 0x7, at index \(0,\) of edge cases"),
        (lambda result: {"over": ~result.over}, r"the twin must equal the readable form, got over 0x0, not 0x1"),
        (lambda result: {"operations": result.operations + 1}, "operations is 257, not 256"),
        (lambda result: {"clipped": result.clipped.astype("i4")}, r"clipped is int32 \(256,\), not int8 \(256,\)"),
    ],
)
def test_a_twin_that_differs_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    unit = clipper()
    WRONG["change"] = change
    blocks = list(unit.cases(unit.configs["b4"], "edge", 0))
    blocks[0].inputs["value"][0] = 100
    if not message:
        cross_check.require_equal(unit, unit.configs["b4"], blocks)
        return
    with pytest.raises(Refused, match=message):
        cross_check.require_equal(unit, unit.configs["b4"], blocks)
    try:
        with pytest.raises(Refused, match="the twin must equal the readable form"):
            golden.generate(tmp_path, units=[unit], kinds=["edge"])
        assert not list(tmp_path.iterdir())
    finally:
        units.unregister("clipper")
