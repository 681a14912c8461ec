"""Compiled form of score_quantizer: a kernel of `arith` rounds the products, one here divides. [kllm §III-A]"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, fp16_compiled
from refemu.arith.jit import kernel
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm.score_quantizer import UNIT, Mode, Result, ScoreQuantizer, score_quantizer
from refemu.units.kllm.score_quantizer.score_quantizer import as_floats, register_words, scale_word


@compiled_run(UNIT)
def run(device: ScoreQuantizer, inputs: Arrays, outputs: Arrays) -> tuple[int]:
    """Run all rows."""
    q, scale, *registers = outputs
    answer, folded, top = _quantized(device, tuple(fp16.values(words.reshape(-1, device.t)) for words in inputs))
    q[:], scale[:] = answer.q.reshape(q.shape), answer.scale
    values = {"folded": folded, "top": top}
    for port, array in zip(device.ports.state, registers, strict=True):
        array[:] = register_words(values[port.name], device.wide).reshape(array.shape)
    return (answer.divides,)


def quantize(
    p: ArrayLike,
    v_scale: ArrayLike | None = None,
    *,
    bits: int = 4,
    mode: Mode = "fold",
    preset: Preset | KllmArith = "paper",
) -> Result:
    """`score_quantizer.quantize`, compiled."""
    arrays = score_quantizer.require_input(p, v_scale, mode)
    answer, _, _ = _quantized(ScoreQuantizer(arrays[0].shape[-1], bits, mode, preset), arrays)
    return replace(answer, scale=as_floats(answer.scale))


def _quantized(device: ScoreQuantizer, arrays: tuple[np.ndarray, ...]) -> tuple[Result, np.ndarray, np.ndarray]:
    """Outputs from float16 arrays of one shape (..., t), the folded scores and their maxima."""
    shape, folded = arrays[0].shape, fp16_compiled.to_f32(arrays[0])
    if device.mode == "fold":
        folded = folded * fp16_compiled.to_f32(arrays[1])  # 22 bits: exact in float32
        folded = folded if device.wide else fp16_compiled.round16(folded)
    score_quantizer.require_finite(folded)
    count, t = folded.size // device.t, device.t
    q, top = np.empty((count, t), np.uint8), np.empty(count, np.float64)
    zeros = _quantize(folded.reshape(count, t), device.largest, int(device.mode == "fixed"), q, top)
    scale = np.where(top == 0, 1.0, top / device.largest).astype(np.float32)
    divides = (count - int(zeros)) * (1 + (0 if device.mode == "fixed" else t))
    words = np.asarray(scale_word(scale, device.wide))
    return Result(q=q.reshape(shape), scale=words.reshape(shape[:-1]), divides=divides), folded, top


@kernel
def _quantize(x, largest, fixed, q, top):  # type: ignore[no-untyped-def]
    """Fill q = rint(x * largest / top) for rows of float32 x >= 0; return the number of zero rows, whose top is 0."""
    zeros = np.int64(0)
    for r in range(x.shape[0]):
        peak = np.float32(0)
        for k in range(x.shape[1]):
            peak = max(peak, np.float32(x[r, k]))
        whole = np.float64(peak)
        if fixed:
            whole = np.float64(1)
        top[r] = whole
        zeros += np.int64(whole == np.float64(0))
        divisor = max(whole, np.float64(5e-324))  # a row of zeros: 0 / anything
        for k in range(x.shape[1]):
            q[r, k] = np.uint8(np.int64(np.rint(np.float64(x[r, k]) * np.float64(largest) / divisor)))
    return zeros
