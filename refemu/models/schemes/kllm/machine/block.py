"""KLLM's chip on a block: every quantization, norm, product, softmax and activation at the ports of a unit.

Paper: [kllm §III-A, §IV-A, Fig. 6]. Operands come from the scheme: the input of an operation is the scheme's result of
the operation before, so that a difference shows where it arises. Decision: D-kllm-31 (cycles of the lanes).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.models.machine.report import Absent, Call, Operation
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.machine.attention import attention
from refemu.models.schemes.kllm.machine.options import KllmMachine
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.machine.products import weighted
from refemu.models.schemes.kllm.machine.steps import encoded, gated, normed, plain

OUTSIDE = {
    "rotate": "rotary positions are computed in fp16 (D-kllm-34)",
    "add": "the residual sum is computed in fp16 (D-kllm-36)",
}
#: steps at the ports of a unit, without cycles
UNTIMED = {
    "activation": "no cycles: the paper states no latency for its tables or for the product of indices (D-kllm-75)",
    "scores": "no cycles: the paper states no latency for the integers of the scores (D-kllm-75)",
}
STATIC = "static thresholds are compared, not searched by Orizuru (D-kllm-30)"


def machine(
    prepared: Any, layer: int, calls: Sequence[Call], options: KllmMachine | None = None
) -> tuple[list[Operation], list[Absent]]:
    """Operations of a block on the chip, in order, and those outside. Raises Refused for another datapath."""
    require(prepared.config)
    ports = Ports(prepared.operands, layer, options)
    operations = [operation for call in calls for operation in _call(prepared, ports, call, calls)]
    return operations, [Absent(f"blk.{layer}.{each.name}", each.reason) for each in absent(ports.static)]


def absent(static: Sequence[str]) -> list[Absent]:
    """Steps of a block that have no unit or no cycles. static: activations with static thresholds."""
    searched = {f"{tensor}.outliers": STATIC for tensor in static}
    return [Absent(name, reason) for name, reason in (OUTSIDE | UNTIMED | searched).items()]


def require(config: KllmConfig) -> None:
    """Raise Refused for schemes that the units do not support."""
    if config.quantizer != "kmeans":
        raise Refused(
            f"machine: KLLM's chip multiplies indices, got quantizer={config.quantizer}; use quantizer=kmeans"
        )
    plain = config.preset == "paper" and config.norm == "delayed" and config.gamma == "weights"
    if not plain or config.score_scale != "fold" or config.function_table != "token":
        raise Refused(
            "machine: KLLM's chip has only the paper's datapath; use preset=paper, norm=delayed, gamma=weights, "
            "score_scale=fold, function_table=token"
        )


def _call(prepared: Any, ports: Ports, call: Call, calls: Sequence[Call]) -> Iterator[Operation]:
    if call.part == "linear":
        names, x = call.inputs
        yield from _linear(ports, names, x, call.output)
    elif call.part == "attention":
        yield from _attention(prepared, ports, call, calls)
    elif call.part == "activate":
        yield from plain(ports, call.inputs[0], call.output)
    else:
        gate, up = call.inputs
        yield from gated(ports, gate, up, call.output)


def _linear(ports: Ports, names: Sequence[str], x: np.ndarray, outputs: Sequence[np.ndarray]) -> Iterator[Operation]:
    """The activation, its norm, and a product with every weight."""
    group = ports.operands.group(ports.layer, names)
    a = ports.encode(group.tensor, x)
    yield from encoded(ports, group.tensor, x, a)
    dues = ports.operands.norms(a, group) if group.norm else [None] * len(names)
    for weight, due, output in zip(group.weights, dues, outputs, strict=True):
        norm = None
        if due is not None:
            operation, norm = normed(ports, group, weight, a, due)
            yield operation
        yield weighted(ports, group, weight, a, norm, output)


def _attention(prepared: Any, ports: Ports, call: Call, calls: Sequence[Call]) -> Iterator[Operation]:
    """q, k and v, then the attention over the whole cache."""
    q, cache = call.inputs
    before = next(other for other in calls if other.part == "linear" and tuple(other.inputs[0]) == ("q", "k", "v"))
    tokens, start = len(q), len(cache) - len(q)
    keys = before.output[1].reshape(tokens, -1, ports.operands.sizes.head_dim)
    if ports.operands.sizes.positions == "rotary":
        keys = prepared.rotate(keys, start)
    flat = {"q": q.reshape(tokens, -1), "k": keys.reshape(tokens, -1), "v": before.output[2]}
    queries = ports.encode("q", flat["q"])
    tensors = {"q": queries, "k": cache.k.tensor(len(cache), first=start), "v": cache.v.tensor(len(cache), first=start)}
    for name, tensor in tensors.items():
        yield from encoded(ports, name, flat[name], tensor)
    yield from attention(ports, queries, cache, call.output)
