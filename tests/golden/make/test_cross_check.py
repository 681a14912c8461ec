"""A unit outside refemu gets a set only if its compiled form equals its readable form."""

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
    """The unit of CLIPPER with a function of this module as compiled form."""
    space: dict[str, Any] = {"__name__": __name__}
    exec(CLIPPER.replace('compiled_run="none"', f'compiled_run="{__name__}:compiled_run"'), space)
    WRONG.update(unit=space["UNIT"])
    return space["UNIT"]


def compiled_run(**inputs: Any) -> Any:
    """The readable form with one field of its result changed."""
    result = WRONG["unit"].run(**inputs)
    return dataclasses.replace(result, **WRONG["change"](result))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda result: {}, ""),
        (
            lambda result: {"clipped": result.clipped ^ 1},
            r"clipped must be 0x7, .* got 0x6 in the compiled form at index \(0,\) of edge cases",
        ),
        (
            lambda result: {"over": ~result.over},
            r"over must be 0x1, that of the readable form, got 0x0 in the compiled form",
        ),
        (
            lambda result: {"operations": result.operations + 1},
            "operations must be 256, that of the readable form, got 257",
        ),
        (
            lambda result: {"clipped": result.clipped.astype("i4")},
            r"clipped must be int8 \(256,\), .* got int32 \(256,\)",
        ),
    ],
)
def test_differing_compiled_form_is_rejected(change: Any, message: str, tmp_path: Path) -> None:
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
        with pytest.raises(Refused, match="that of the readable form"):
            golden.generate(tmp_path, units=[unit], kinds=["edge"])
        assert not list(tmp_path.iterdir())
    finally:
        units.unregister("clipper")
