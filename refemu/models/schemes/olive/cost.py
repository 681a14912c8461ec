"""Cost of a run on OliVe's accelerator, from sizes alone: pairs, tiles of the array, outputs, fp16 elsewhere.

Paper: [olive §3.4, §4.3, Tbl. 11]. Decisions: D-olive-32 (attention and layers that are not quantized are in fp16,
without cycles), D-olive-39 (cycles of a tile).
"""

from collections.abc import Container, Iterator
from typing import Any

import numpy as np

from refemu.models.machine.report import Absent, Call, Cost
from refemu.models.machine.work import Work
from refemu.models.schemes.fp16 import cost as fp16_cost
from refemu.models.schemes.olive import array_works as works
from refemu.models.schemes.olive.array_options import OliveMachine
from refemu.models.schemes.olive.array_works import Layer
from refemu.models.schemes.olive.linear import Part, Plain
from refemu.models.schemes.olive.machine import (
    HEAD_REASON,
    bare,
    encoder_of,
    layer_of,
    mode,
    on_array,
    outside,
    refusal,
    require,
)


def costs(prepared: Any, layer: int, call: Call, machine: OliveMachine | None = None) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work: "quantize", "linear", "requant" and "attention".

    machine: options of the array. Raises Refused for another design, whose values are not those of the scheme.
    """
    machine = machine or OliveMachine()
    require(machine)
    there = on_array(prepared, layer)
    if call.part == "linear":
        names, x = call.inputs
        for part in prepared.group(layer, names):
            yield from _part(prepared, part, x, there, machine)
    elif call.part == "head":
        (x,) = call.inputs
        yield from _part(prepared, prepared.head_parts()[0], x, there, machine)
    elif call.part == "attention":
        record = Work("attention", "attention", cycles=None, after=works.sources("o", there))
        cost = fp16_cost.attention(prepared.model, *call.inputs)
        yield "attention", Cost(cost.macs, words=cost.words, works=(record,))


def absent(prepared: Any) -> list[Absent]:
    """What the cost leaves out, and why."""
    entries = outside(prepared)
    for part in prepared.linears():
        entries |= {name: refusal(part) for name in part.names if refusal(part)}
    heads = prepared.head_parts()
    if heads and refusal(heads[0]):
        entries["head"] = HEAD_REASON
    return [Absent(name, reason) for name, reason in entries.items()]


def _part(
    prepared: Any, part: Part | Plain, x: np.ndarray, there: Container[str], machine: OliveMachine
) -> Iterator[tuple[str, Cost]]:
    """Linear layers that read one input."""
    if isinstance(part, Plain) or refusal(part):
        yield "linear", _outside(part, x)
        return
    encoded = works.quantized(*encoder_of(part, x), machine, works.sources(bare(part.names[-1]), there))
    yield "quantize", Cost(conversions=x.size + x.shape[0] * (x.shape[1] % 2), works=(encoded,))
    for name, weight in zip(part.names, part.weights, strict=True):
        yield from products(layer_of(prepared, part, name, weight, len(x), machine), mode(part, weight), machine)


def products(layer: Layer, kind: str, machine: OliveMachine) -> Iterator[tuple[str, Cost]]:
    """Costs of a product and of its output stage. kind: types of both operands."""
    (down, across), half = layer.tiles, layer.k // 2
    product, output = works.product(layer, machine)
    words = {"activations": layer.m * across * half, "weights": layer.n * down * half}
    macs = {kind: layer.m * layer.n * layer.k}
    yield "linear", Cost(macs, words=words, cycles=product.cycles or 0, works=(product,))
    yield "requant", Cost(conversions=layer.m * layer.n, works=(output,))


def _outside(part: Part | Plain, x: np.ndarray) -> Cost:
    """Products in fp16, or of pairs that the array cannot read: no cycles; a weight is read once."""
    outputs = max(columns.stop for columns in part.columns.values())
    records = tuple(Work(bare(name), "linear", cycles=None, after=()) for name in part.columns)
    words = {"activations": x.size, "weights": x.shape[1] * outputs}
    return Cost({fp16_cost.FP16: x.size * outputs}, words=words, works=records)
