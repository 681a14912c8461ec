"""Cost of a run on Harmonia's accelerator, from sizes and the bits of keys and values alone.

Paper: [harmonia §III-B, §IV]. Decisions: D-harmonia-46 (rows with different codes), D-harmonia-51 (operations outside).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.models.machine.report import Absent, Call, Cost
from refemu.models.schemes.harmonia.cache import allocation, offsets
from refemu.models.schemes.harmonia.machine import work
from refemu.models.schemes.harmonia.machine.block import OUTSIDE, cached, options, own_input
from refemu.models.schemes.harmonia.machine.memory import GROUP
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from refemu.models.schemes.harmonia.machine.ports import Ports
from refemu.models.schemes.harmonia.machine.products import Heads, attended, linear
from refemu.models.schemes.harmonia.widths import falls
from refemu.units.harmonia.k_offset import WINDOW

__all__ = ["absent", "costs", "falls"]


def costs(prepared: Any, layer: int, call: Call, machine: HarmoniaMachine | None = None) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work: "quantize", "linear", "offset", "grouping" and "attention".

    machine: options of the accelerator, by default those of the paper. Raises Refused as the accelerator does.
    """
    ports = Ports(prepared, layer, machine)
    if call.part == "linear":
        yield from _linear(ports, *call.inputs)
    elif call.part == "attention":
        yield from _attention(ports, *call.inputs)
    elif call.part == "head":
        yield "linear", work.outputs(prepared.model, *call.inputs)


def absent(prepared: Any) -> list[Absent]:
    """What the cost leaves out, and why."""
    gated = prepared.model.gated
    return [Absent(name, reason) for name, reason in OUTSIDE.items() if gated or name != "gated"]


def _linear(ports: Ports, names: Any, x: np.ndarray) -> Iterator[tuple[str, Cost]]:
    """The conversion of the input and the products, except those of K and V, which depend on the cache."""
    if own_input(ports, names):
        yield "quantize", work.converted(f"{names[0]}.input", *x.shape)
    layers = ports.linear(names)
    for name, some in zip(names, layers.columns, strict=True):
        if name not in ("k", "v"):
            sizes = {"rows": len(x), "inner": x.shape[1], "columns": some.stop - some.start}
            yield "linear", _product(ports, name, sizes | options(ports, names, name))


def _product(ports: Ports, name: str, config: dict[str, Any]) -> Cost:
    """A linear layer."""
    return work.cost(name, "linear", linear(config, ports.machine), "weights", ports.machine)


def _attention(ports: Ports, q: np.ndarray, cache: Any) -> Iterator[tuple[str, Cost]]:
    """K, V, offsets and groups of the new tokens, then both products of every KV head."""
    tokens, heads, size = q.shape
    length, model, names = len(cache), ports.prepared.model, ("q", "k", "v")
    start, width = length - tokens, model.kv_heads * size
    for name in ("k", "v"):
        parameters = options(ports, names, name) | cached(cache, name, start)
        yield "linear", _product(ports, name, {"rows": tokens, "inner": model.width, "columns": width, **parameters})
    rule = offsets(cache.config, model.kv_heads, size)
    if cache.config.online and not start:
        tracked = min(WINDOW, tokens) * rule.channels
        yield "offset", Cost(comparisons=tracked + rule.chosen * (rule.scope - 1))
    for token in range(start, length) if start else ():
        place = f".{token}" if tokens > 1 else ""
        record = work.untimed(f"v.groups{place}", "grouping")
        yield "grouping", Cost(conversions=(token % GROUP + 1) * width, works=(record,))
        yield from attended(_heads(ports, heads, size, np.array([token + 1])), ports.machine, place)
    if not start:
        yield "grouping", Cost(works=(work.untimed("v.groups", "grouping"),))
        yield from attended(_heads(ports, heads, size, 1 + np.arange(tokens)), ports.machine)


def _heads(ports: Ports, heads: int, size: int, keys: np.ndarray) -> Heads:
    """The attention of tokens that may see `keys` keys each."""
    scheme, length = ports.prepared.harmonia, int(keys[-1])
    seen = keys if scheme.prefill_window == "query" else np.full(len(keys), length)
    sizes = heads, ports.prepared.model.kv_heads, size, length
    return Heads(*sizes, seen, keys, falls(allocation(scheme), length), (scheme.high, scheme.low))
