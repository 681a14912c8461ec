"""Harmonia's accelerator on a block: every product, conversion, group of V and offset of it at the ports of a unit.

Paper: [harmonia §III, §IV-A, Fig. 12]. Operands come from the scheme: the input of an operation is the scheme's result
of the operation before, so that a difference shows where it arises. Decision: D-harmonia-51 (operations of the vector
unit, outside).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models.machine.report import Absent, Call, Operation
from refemu.models.schemes.harmonia.machine.attention import attention
from refemu.models.schemes.harmonia.machine.memory import Memory, grouped, shifted
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from refemu.models.schemes.harmonia.machine.ports import Ports

OUTSIDE = {
    "norm": "norms are computed in fp16, on no port of the accelerator (D-harmonia-51)",
    "gated": "gate times up is one product in fp16 for each element, outside the array (D-harmonia-51)",
    "add": "the residual sum is computed in fp16 (D-harmonia-32)",
    "head": "the output matrix stays in fp16, outside the accelerator (D-harmonia-51)",
}


def machine(
    prepared: Any, layer: int, calls: Sequence[Call], machine: HarmoniaMachine | None = None
) -> tuple[list[Operation], list[Absent]]:
    """Operations of a block on the accelerator, in order, and those outside it.

    machine: options of the accelerator, by default those of the paper. Raises Refused for another datapath.
    """
    ports = Ports(prepared, layer, machine)
    operations = [operation for call in calls for operation in _call(ports, call, calls)]
    gated = prepared.model.gated
    names = [name for name in OUTSIDE if name != "head" and (gated or name != "gated")]
    return operations, [Absent(ports.full(name), OUTSIDE[name]) for name in names]


def _call(ports: Ports, call: Call, calls: Sequence[Call]) -> Iterator[Operation]:
    if call.part == "attention":
        memory = Memory(ports, *call.inputs)
        yield memory.allocated()
        yield from attention(memory, call.output)
    elif call.part == "linear":
        names, x = call.inputs
        words = ports.steps.words(x)
        a = ports.encode(words)
        if own_input(ports, names):
            yield ports.converted(names[0], words, a)
        for name, y in zip(names, call.output, strict=True):
            if name in ("q", "k", "v"):
                yield from _projected(ports, name, a, y, next(each for each in calls if each.part == "attention"))
            else:
                yield _linear(ports, name, a, y, calls)


def own_input(ports: Ports, names: Sequence[str]) -> bool:
    """Whether the input of linear layers is converted separately: not if the product before has done it."""
    model = ports.prepared.model
    if tuple(names) == ("o",):
        return bool(model.head_dim % 32)
    return bool(tuple(names) != ("down",) or model.gated)


def weights(ports: Ports, name: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Inputs of a product that are weights."""
    layers = ports.linear(names)
    some = layers.columns[tuple(names).index(name)]
    code, factors = layers.weight.code[some], layers.weight.scales_of(32)[some]
    bias = {} if layers.bias is None else {"bias": fp16.bits(fp16.to_f16(layers.bias[some]))[None]}
    none = np.zeros(factors.shape, np.uint8)
    return {
        "b": (code & 15)[None],
        "b_sign": np.zeros_like(code, np.uint8)[None],
        "b_exp": none[None],
        "w_scale": fp16.bits(factors)[None],
        **bias,
    }


def left(a: BfpTensor) -> dict[str, np.ndarray]:
    """Inputs of one product that are activations."""
    return {"a_sign": a.sign[None], "a_mag": a.mantissa[None], "a_exp": a.exponent[None]}


def options(ports: Ports, names: Sequence[str], name: str) -> dict[str, Any]:
    """Kind and further parameters of a linear layer's product, except those of a position."""
    biased = ports.linear(names).bias is not None
    bias = {"bias_add": ports.prepared.harmonia.bias_add} if biased else {}
    model = ports.prepared.model
    if name in ("q", "k"):
        return {"kind": name, **ports.heads(), **bias}
    if name == "gate" or (name == "up" and not model.gated):
        return {"kind": "final" if model.gated else "linear", "activation": model.activation, **bias}
    return {"kind": "final", **bias}


def _projected(ports: Ports, name: str, a: BfpTensor, y: np.ndarray, attended: Call) -> Iterator[Operation]:
    """q, k or v: rotated, shifted, converted; the offsets and groups of a prompt also by the units for them."""
    q, cache = attended.inputs
    tokens, names = len(y), ("q", "k", "v")
    start = len(cache) - tokens
    parameters = options(ports, names, name) | cached(cache, name, start)
    inputs, scheme = left(a) | weights(ports, name, names), ports.prepared.harmonia
    if name == "q":
        words = ports.steps.words(np.ascontiguousarray(q))
        codes: BfpTensor | None = ports.encode(words)
    elif name == "k":
        words = cache.words()[0][start:]
        codes = ports.encode(words, m=scheme.high)
        inputs |= {"frozen": cache.offset[None]} if start and scheme.online else {}
        if scheme.online and not start:
            yield shifted(ports, y, words, cache)
    else:
        words = cache.words()[1][start:]
        codes = None if start else ports.encode(words.reshape(tokens, -1), 0, scheme.high)
    config = ports.core(rows=tokens, inner=a.shape[1], columns=y.shape[1], **parameters)
    yield ports.multiply(name, config, inputs, "linear", words, parts(codes))[0]
    if name == "v":
        yield grouped(ports, cache, start)


def cached(cache: Any, name: str, start: int) -> dict[str, Any]:
    """Parameters of q, k or v that depend on a cache, for tokens from `start` on."""
    if name == "q":
        return {"start": start}
    scheme = cache.config
    if name == "v":
        return {"kind": "final" if start else "v", "m": scheme.high}
    return {"start": start, "m": scheme.high, "window": min(cache.prompt, 32) if scheme.online else 0}


def parts(codes: BfpTensor | None) -> tuple[np.ndarray, ...]:
    """Signs, mantissas and exponents; none for FP16."""
    return () if codes is None else (codes.sign, codes.mantissa, codes.exponent)


def _linear(ports: Ports, name: str, a: BfpTensor, y: np.ndarray, calls: Sequence[Call]) -> Operation:
    """o, gate, up or down; the gate after its activation."""
    names = ("gate", "up") if name in ("gate", "up") and ports.prepared.model.gated else (name,)
    parameters = options(ports, names, name)
    if "activation" in parameters:
        y = activated(ports, y, calls)
    words = ports.steps.words(np.ascontiguousarray(y))
    config = ports.core(rows=len(y), inner=a.shape[1], columns=y.shape[1], **parameters)
    codes = ports.encode(words) if parameters["kind"] == "linear" else None
    return ports.multiply(name, config, left(a) | weights(ports, name, names), "linear", words, parts(codes))[0]


def activated(ports: Ports, y: np.ndarray, calls: Sequence[Call]) -> np.ndarray:
    """The activation of a layer's outputs in the scheme."""
    done = [call.output for call in calls if call.part == "activate"]
    return np.asarray(done[0] if done else ports.prepared.backend.apply16(ports.prepared.model.activation, y))
