"""Changes of words that are derived from the differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refemu.golden.explain import bits
from tests.golden.explain import made

Change = Callable[[np.ndarray], np.ndarray]
U16 = np.uint16


def crossed(y: np.ndarray) -> np.ndarray:
    return np.asarray(y & ~U16(3) | (y & 1) << U16(1) | y >> U16(1) & 1)


@pytest.mark.parametrize(
    ("id", "parameters", "change"),
    [
        ("bit_stuck", {"bit": 4, "value": 0}, lambda y: y & ~U16(16)),
        ("bit_stuck", {"bit": 4, "value": 1}, lambda y: y | U16(16)),
        ("bit_inverted", {"bit": 9}, lambda y: y ^ U16(512)),
        (
            "bit_swap",
            {"permutation": [1, 0, *range(2, 16)]},
            lambda y: y & ~U16(3) | (y & 1) << U16(1) | y >> U16(1) & 1,
        ),
        ("byte_swap", {}, lambda y: y.byteswap()),
        ("nibble_swap", {}, lambda y: (y & U16(0x0F0F)) << U16(4) | y >> U16(4) & U16(0x0F0F)),
        ("width", {"bits": 9}, lambda y: y & U16(511)),
        ("constant", {"added": -5}, lambda y: y - U16(5)),
        ("sign", {}, lambda y: y & U16(0x7FFF)),
        ("saturate", {}, lambda y: np.where(y & 0x7FFF == 0x7C00, y - U16(1), y)),
        ("flush", {}, lambda y: np.where(y & U16(0x7FFF) < 0x400, y & U16(0x8000), y)),
        ("nan", {}, lambda y: np.where(y & U16(0x7FFF) > 0x7C00, U16(0x7FFF), y)),
    ],
)
def test_derived_change_reproduces_the_device(id: str, parameters: dict[str, Any], change: Change) -> None:
    rows = made.golden("fp16_mac", "paper")
    arrays = made.outputs(rows)
    arrays["out.y"] = change(arrays["out.y"]).astype(np.uint16)
    table = made.table(rows, arrays)
    named = [guess for guess in bits.guesses(table, dict(table.want)) if guess.id == id]
    repeat = [
        guess
        for guess in named
        if guess.change and not table.unlike("out.y", guess.change(table, dict(table.want))["out.y"]).any()
    ]
    assert any({**guess.parameters, **parameters, "port": "y"} == guess.parameters for guess in repeat), named


def test_right_answers_suggest_no_change() -> None:
    rows = made.golden("fp16_mac", "paper")
    table = made.table(rows, made.outputs(rows))
    assert list(bits.guesses(table, dict(table.want))) == []
