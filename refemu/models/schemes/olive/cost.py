"""Cost of a run on OliVe's accelerator, from sizes alone: pairs, tiles of the array, outputs, fp16 elsewhere.

Paper: [olive §3.4, §4.3, Tbl. 11]. Decisions: D-olive-32 (attention and layers that are not quantized are in fp16,
without cycles), D-olive-39 (cycles of a tile).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.models.machine.report import Call, Cost
from refemu.models.schemes.fp16 import cost as fp16_cost
from refemu.models.schemes.olive.linear import Part, Plain
from refemu.models.schemes.olive.machine import ARRAY, mode, refusal
from refemu.models.schemes.olive.tap_sums import operand
from refemu.units.olive.olive_systolic import OliveSystolic


def costs(prepared: Any, layer: int, call: Call) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work: "quantize", "linear", "requant" and "attention"."""
    if call.part == "linear":
        names, x = call.inputs
        for part in prepared.group(layer, names):
            yield from _part(part, x)
    elif call.part == "head":
        yield from _part(prepared.head_parts()[0], *call.inputs)
    elif call.part == "attention":
        yield "attention", fp16_cost.attention(prepared.model, *call.inputs)


def _part(part: Part | Plain, x: np.ndarray) -> Iterator[tuple[str, Cost]]:
    """Linear layers that read one input."""
    if isinstance(part, Plain) or refusal(part):
        yield "linear", _outside(part, x)
        return
    yield "quantize", Cost(conversions=x.size + x.shape[0] * (x.shape[1] % 2))
    for weight in part.weights:
        outputs, half = weight.pairs().shape
        types = operand(part.fmt), operand(weight.format)
        array = OliveSystolic(ARRAY["rows"], ARRAY["cols"], len(x), outputs, 2 * half, *types)
        down, across = array.tiles
        words = {"activations": array.m * across * half, "weights": array.n * down * half}
        macs = {mode(part, weight): array.m * array.n * array.k}
        yield "linear", Cost(macs, words=words, cycles=down * across * array.tile_cycles)
        yield "requant", Cost(conversions=array.m * array.n)


def _outside(part: Part | Plain, x: np.ndarray) -> Cost:
    """Products in fp16, or of pairs that the array cannot read: no cycles; a weight is read once."""
    outputs = max(columns.stop for columns in part.columns.values())
    return Cost({fp16_cost.FP16: x.size * outputs}, words={"activations": x.size, "weights": x.shape[1] * outputs})
