"""LeanKV's accelerator on a block: the pages after a prompt, and a generation step of all KV heads.

Paper: [leankv §4, §5.3, §6.1, §6.2]. A prompt goes through significance, prompt_compressor, kv_quantizer, kv_compressor
and page_manager, the token after it through layer_step. The rest of a block, the attention of a prompt too, is computed
in fp16 (D-leankv-64).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from refemu.models.machine.report import Absent, Call, Operation
from refemu.models.schemes.leankv.machine.prompt import prompt
from refemu.models.schemes.leankv.machine.prompt_tokens import of_prompt
from refemu.models.schemes.leankv.machine.step import step

OUTSIDE = {
    "norm": "norms are computed in fp16 (D-leankv-64)",
    "linear": "linear layers are computed in fp16 (D-leankv-64)",
    "rotate": "rotary positions are computed in fp16, before a key is stored (D-leankv-50)",
    "activation": "the activation is computed in fp16 (D-leankv-64)",
    "add": "the residual sum is computed in fp16 (D-leankv-64)",
}
PROMPT = {"attention": "a prompt attends to its own keys and values in fp16 (D-leankv-49)"}


def machine(prepared: Any, layer: int, calls: Sequence[Call]) -> tuple[list[Operation], list[Absent]]:
    """Operations of the block's cache and attention, and those outside. calls: those of the prompt first."""
    first, *later = [call for call in calls if call.part == "attention"]
    q, cache = first.inputs
    held = cache.held
    operations: list[Operation] = []
    for pool, heads in zip(held.pools.pools, held.pools.parts, strict=True):
        kept = of_prompt(prepared, q, cache, heads)
        if later:
            operations += step(prepared, layer, pool, kept, heads, later[0])
        else:
            operations += prompt(prepared, layer, pool, kept, held)
    outside = OUTSIDE if later else PROMPT | OUTSIDE
    return operations, [Absent(f"blk.{layer}.{name}", reason) for name, reason in _there(prepared, outside)]


def _there(prepared: Any, outside: Mapping[str, str]) -> list[tuple[str, str]]:
    rotary = prepared.model.positions == "rotary"
    return [(name, reason) for name, reason in outside.items() if rotary or name != "rotate"]
