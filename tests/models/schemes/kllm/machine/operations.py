"""Operations of one block of `tiny` under a KLLM scheme, with the scheme that they were compared with."""

import functools
from typing import Any

from refemu import models
from refemu.models import text
from refemu.models.machine import Operation, Phase, runner
from refemu.models.machine.report import Call
from refemu.models.schemes.kllm.machine import block


@functools.cache
def prepared(scheme: str) -> Any:
    """`tiny` under a scheme."""
    return models.prepare("tiny", scheme)


@functools.cache
def calls(scheme: str, layer: int, tokens: int, phase: Phase) -> list[Call]:
    """What the parts of a block took and gave."""
    ids = models.load("tiny").tokenizer.encode(text.default())
    return runner.recorded(prepared(scheme), layer, ids, tokens, phase)


def operations(scheme: str, layer: int, tokens: int, phase: Phase = "prompt") -> dict[str, Operation]:
    """Operations by name."""
    done, _ = block.machine(prepared(scheme), layer, calls(scheme, layer, tokens, phase))
    return {operation.name: operation for operation in done}
