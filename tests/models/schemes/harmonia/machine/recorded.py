"""What the parts of a block of `tiny` took and gave."""

import functools
from collections.abc import Sequence
from typing import Any

from refemu import models
from refemu.models import text
from refemu.models.machine import Phase, runner
from refemu.models.machine.report import Call


@functools.cache
def block(scheme: str, tokens: int, phase: Phase) -> tuple[Any, Sequence[Call]]:
    """Prepared model, and calls of its block 0."""
    model = models.load("tiny")
    prepared = models.prepare(model, scheme)
    return prepared, runner.recorded(prepared, 0, model.tokenizer.encode(text.default()), tokens, phase)


def attended(scheme: str, tokens: int, phase: Phase) -> tuple[Any, Call]:
    """Prepared model, and the call of the attention."""
    prepared, calls = block(scheme, tokens, phase)
    return prepared, next(call for call in calls if call.part == "attention")
