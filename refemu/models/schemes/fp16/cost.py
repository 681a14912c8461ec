"""Cost of the steps computed in FP16, outside the accelerator: products and words, without cycles [D-olive-32]."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.models.machine.report import Call, Cost

FP16 = "fp16"  #: mode of products outside the accelerator


def costs(prepared: Any, layer: int, call: Call) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work: "linear" and "attention"."""
    if call.part in ("linear", "head"):
        yield "linear", linear(call.inputs[-1], call.output)
    elif call.part == "attention":
        yield "attention", attention(prepared.model, *call.inputs)


def linear(x: np.ndarray, output: Any) -> Cost:
    """Products of linear layers that read one input; a weight is read once."""
    outputs = output if isinstance(output, list | tuple) else [output]
    columns = 0
    for y in outputs:
        columns += np.shape(y)[-1]
    return Cost({FP16: x.size * columns}, words={"activations": x.size, "weights": x.shape[-1] * columns})


def attention(sizes: Any, q: np.ndarray, cache: Any) -> Cost:
    """Both products of every head; a token reads the keys and values up to its own, once per KV head."""
    tokens, length = len(q), len(cache)
    pairs = tokens * length - tokens * (tokens - 1) // 2  # pairs of a token and a key it sees
    macs = 2 * pairs * sizes.heads * sizes.head_dim
    return Cost({FP16: macs}, words={"activations": q.size, "kv": 2 * pairs * sizes.kv_heads * sizes.head_dim})
