"""Helpers of compiled forms are proved, and a wrong one is refuted."""

from typing import Any

import pytest

from refemu.arith.kernels import scalars
from refemu.prove.compiled import helpers
from refemu.prove.compiled.derived import CONVERSIONS

pytest.importorskip("bitwuzla")


@pytest.mark.slow
def test_helpers_of_compiled_forms_are_proved() -> None:
    assert {part.what: part.outcome for part in helpers.proofs(120)} == dict.fromkeys(
        [
            *("f32", "pattern16", "pattern32", "value16", "value32", "div32", "odd_sum"),
            *("round16_of_f64", "_widen_portable"),
        ],
        "proved",
    )


@pytest.mark.long
def test_wrong_helper_is_refuted() -> None:
    form: Any = CONVERSIONS[helpers._python(scalars.round16)]
    text = helpers._python(scalars._widen_portable)
    wrong = helpers._proved(
        text,
        lambda word: form(CONVERSIONS[helpers._python(scalars.widen)](word ^ 1)),
        [helpers.TEXTS[-1][2][0]],
        False,
        20,
    )
    assert wrong.outcome == "refuted"
