"""Compiled form of functional: table look-ups by NumPy, roundings and sums by kernels. [kllm §IV-A]

Roundings, exponentials and sums are the kernels of `arith`; a kernel here finds the maxima.
"""

import math
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, fp16_compiled, fp32_compiled
from refemu.arith.checks import require_choice
from refemu.arith.jit import kernel
from refemu.arith.orders import Sequential
from refemu.arith.sums_compiled import total32
from refemu.arith.tables import table16
from refemu.arith.threads import share_out
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm.functional import OPS, PASSES, UNIT, WIDTH, Functional, Op, Result, Softmax, functional

LEAST = 1 << 15  #: least number of logits of a thread


@compiled_run(UNIT)
def run(device: Functional, inputs: Arrays, outputs: Arrays) -> tuple[int, ...]:
    """Run all operations."""
    rows, (y, *registers) = inputs[0].reshape(-1, device.t), outputs
    answer = apply(fp16.values(rows), op=device.op, softmax=device.softmax)
    y[:] = fp16.bits(answer.y).reshape(y.shape)
    if registers:
        _registers(rows, device.softmax, *registers)
    return answer.exps, answer.roots, answer.divides, answer.cycles


def apply(x: ArrayLike, *, op: Op = "exp", softmax: Softmax = "fp16") -> Result:
    """`functional.apply`, compiled."""
    require_choice(op, get_args(Op), "functional", "op")
    functional.require_softmax(softmax, op, "functional", "op")
    array = functional.require_rows(x, op)
    size, t = array.size, array.shape[-1] if array.ndim else 1
    cycles = (size // t if t else 0) * -(-t // WIDTH)
    if op == "softmax":
        return Result(y=_softmax(array, softmax), exps=size, roots=0, divides=size, cycles=len(PASSES) * cycles)
    functional.require_values(array, op)
    exps, roots, divides = (size * (each == op) for each in OPS)
    y = fp16.values(np.take(table16(op), fp16.bits(array)))
    return Result(y=y, exps=exps, roots=roots, divides=divides, cycles=cycles)


def _softmax(x: np.ndarray, softmax: Softmax) -> np.ndarray:
    """The scores of x (..., t), float16; threads share the rows."""
    rows = fp16_compiled.plain(fp16.bits(x).reshape(math.prod(x.shape[:-1]), x.shape[-1]))
    tops = np.empty((rows.shape[0], 1), np.uint16)
    if _tops(rows, tops[:, 0]):
        functional.require_values(x, "softmax")
    table, scores = table16("exp"), np.empty(rows.shape, np.float16)

    def some(first: int, last: int) -> None:
        wide = fp16_compiled.to_f32(fp16.values(rows[first:last]))
        if softmax == "softmax32":
            scores[first:last] = fp16_compiled.to_f16(fp32_compiled.softmax32(wide, Sequential()))
            return
        distance = fp16_compiled.to_f16(wide - fp16_compiled.to_f32(fp16.values(tops[first:last])))
        terms = fp16_compiled.to_f32(fp16.values(np.take(table, fp16.bits(distance))))
        scores[first:last] = fp16_compiled.to_f16(terms / total32(terms, order=Sequential())[:, None])

    share_out(some, rows.shape[0], least=-(-LEAST // rows.shape[1]))
    return scores.reshape(x.shape)


def _registers(rows: np.ndarray, softmax: Softmax, top: np.ndarray, terms: np.ndarray, total: np.ndarray) -> None:
    """Fill the registers of softmax after the last cycle, from rows of words (R, t)."""
    _tops(rows, top)
    first = np.argmax(rows & 0x7FFF == 0, axis=1)  # the first zero stays, with its sign
    top[:] = np.where(top == 0, rows[np.arange(len(rows)), first], top)
    distance = fp16_compiled.to_f32(fp16.values(rows)) - fp16_compiled.to_f32(fp16.values(top))[:, None]
    if softmax == "softmax32":
        values = fp32_compiled.exp32(distance)
        words = values.view(np.uint32)
    else:
        words = np.take(table16("exp"), fp16.bits(fp16_compiled.to_f16(distance)))
        values = fp16_compiled.to_f32(fp16.values(words))
    terms[:], total[:] = words.reshape(terms.shape), total32(values, order=Sequential()).view(np.uint32)


@kernel
def _tops(x, tops):  # type: ignore[no-untyped-def]
    """Find the largest word of every row, a zero as +0; return whether a word or row is invalid."""
    refused = np.int64(0)
    for r in range(x.shape[0]):
        best, worst = np.int64(-0x8000), np.int64(0)
        for k in range(x.shape[1]):
            word = np.int64(x[r, k])
            negative, magnitude = word >> 15, word & 0x7FFF
            best = max(best, (magnitude ^ -negative) + negative)
            worst = max(worst, magnitude + 1 - negative)  # +Inf counts one more than -Inf
        refused |= np.int64(worst > 0x7C00) | np.int64(best == -0x7C00)
        below = np.int64(best < 0)
        tops[r] = best * (1 - below) + (0x8000 - best) * below
    return refused != 0
