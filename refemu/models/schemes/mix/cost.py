"""Cost of a mix: that of each part, on the machine of its scheme, for what it computes."""

from collections.abc import Iterator
from typing import Any

from refemu.models.machine.report import Cost
from refemu.models.machine.runner import Call
from refemu.models.schemes import registry


def costs(prepared: Any, layer: int, call: Call) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work.

    Parameters
    ----------
    prepared : Mixed
        Decoder under a mix.
    layer : int
        Block; -1 is the head.
    call : Call
        What the part took and gave.

    Yields
    ------
    kind, cost : str and Cost
        As the scheme of the part names them.

    Raises
    ------
    Refused
        As that scheme does.
    """
    part = prepared.outer_part if call.part == "head" else prepared.linear_parts.get(layer)
    if call.part == "attention":
        q, cache = call.inputs
        part, call = prepared.attention_part, Call("attention", (prepared.queries(layer, q), cache), call.output)
    yield from registry.named(part.config, "part_costed_by")(part, layer, call)
