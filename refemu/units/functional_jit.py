"""Compiled twin of functional.run: same arguments, same Result. Read functional.py first. [kllm §IV-A]

Tables are looked up by NumPy; roundings, exponentials and sums are the kernels of `arith`.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_jit, fp32_jit
from refemu.arith.checks import require_choice
from refemu.arith.orders import Sequential
from refemu.arith.sums_jit import total32
from refemu.arith.tables import table16
from refemu.units import functional
from refemu.units.functional import OPS, PASSES, SOFTMAX, WIDTH, Functional, Result
from refemu.units.unit import admit


def run(x: Any, *, op: str = "exp", softmax: str = "fp16") -> Result:
    """As `functional.run`."""
    array = functional.require_input(x, require_choice(op, (*OPS, "softmax"), "functional", "op"))
    require_choice(softmax, SOFTMAX, "functional", "softmax")
    words, t = fp16.bits(array), array.shape[-1] if array.ndim else 1
    y = _softmax(array, softmax) if op == "softmax" else np.take(table16(op), words)
    size, cycles = array.size, (array.size // t if t else 0) * -(-t // WIDTH)
    counts = {counter: size * (counter == OPS.get(op)) for counter in OPS.values()}
    if op == "softmax":
        counts, cycles = {"exps": size, "roots": 0, "divides": size}, len(PASSES) * cycles
    return Result(y=fp16.values(y), **counts, cycles=cycles)


def _softmax(x: np.ndarray, softmax: str) -> np.ndarray:
    """Words of the scores of x (..., t)."""
    if not x.size:
        return fp16.bits(x)
    wide = fp16_jit.to_f32(x)
    if softmax == "softmax32":
        return fp16.bits(fp16.narrow(fp32_jit.softmax32(wide, Sequential())))
    key = fp16.order_key(x)
    top = np.take_along_axis(wide, np.argmax(key, axis=-1)[..., None], axis=-1)
    distance = fp16.bits(fp16.narrow(wide - top))
    terms = fp16_jit.to_f32(fp16.values(np.take(table16("exp"), distance)))
    return fp16.bits(fp16.narrow(terms / total32(terms, order=Sequential())[..., None]))


def run_ports(x: Any, *, op: str = "exp", t: int = 1, softmax: str = "fp16") -> Result:
    """As `functional.run_ports`."""
    device = Functional(op, t, softmax)
    (words,) = admit(device.name, device.ports.inputs, (x,))
    answer = run(fp16.values(words if t > 1 else words[..., None]), op=op, softmax=softmax)
    return replace(answer, y=fp16.bits(answer.y).reshape(words.shape))
