"""Compiled twin of harmonia_core: each step once for all products, by whole matrices. [harmonia §IV-A]

Counters are added up along the plan.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.formats.harmonia.bfp import Bfp
from refemu.formats.harmonia.twins import bfp as bfp_jit
from refemu.units.derived import Arrays, twin
from refemu.units.harmonia.bfp_accumulator import M8M8
from refemu.units.harmonia.bfp_pe_array import COLUMNS
from refemu.units.harmonia.harmonia_core import UNIT, HarmoniaCore
from refemu.units.harmonia.harmonia_core.plan import HEADS, LANES, vector_width
from refemu.units.harmonia.harmonia_core.vector_unit import vector
from refemu.units.harmonia.twins import bfp_pe_array as bfp_pe_array_jit
from refemu.units.harmonia.twins import k_offset as k_offset_jit


@twin(UNIT)
def run(core: HarmoniaCore, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All products."""
    operands = {
        port.name: array.reshape(len(array), port.lanes) for port, array in zip(core.ports.inputs, inputs, strict=True)
    }
    words, offset = _words(core, operands)
    codes = _codes(core, 0 * words if core.kind == "final" else words)
    for output, values in zip(outputs, (*codes, words, offset), strict=False):  # some kinds have no port `offset`
        output[:] = values.reshape(output.shape)
    return [len(words) * count for count in _counts(core)]


def _words(core: HarmoniaCore, operands: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """C of every product in FP16, (products, M, K), before its conversion, and what its rows lost, (products, K)."""
    shape, groups = core.shape, core.groups
    a = [
        operands[name].reshape(-1, shape.rows, width)
        for name, width in (("a_sign", shape.inner), ("a_mag", shape.inner), ("a_exp", groups))
    ]
    b = [
        operands[name].reshape(-1, shape.columns, width)
        for name, width in (("b", shape.inner), ("b_sign", shape.inner), ("b_exp", groups), ("w_scale", groups))
    ]
    modes = np.full((len(a[0]), groups), core.mode, np.uint8)
    sums, _ = bfp_pe_array_jit.tile_sums(core.array.accumulator, modes, *a, *b)
    words = fp16.bits(fp16_jit.to_f16(sums.view(np.float32)))
    if vector_width(shape):
        words = vector(shape, core.base, words, core.start).astype(np.uint16, copy=False)
    offset = operands.get("frozen", np.zeros((len(words), shape.columns), np.uint16))
    if shape.tracked:
        offset, _ = k_offset_jit.select(core.offsets.rule, words[:, : shape.tracked])
    if shape.shifted:
        words = k_offset_jit.shift(words, offset[:, None])
    return np.ascontiguousarray(words, np.uint16), offset


def _codes(core: HarmoniaCore, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signs, mantissas and exponents of C; groups of queries and keys end with their heads."""
    width = core.shape.head_dim
    heads = words.reshape(*words.shape[:2], core.shape.columns // width, width) if core.kind in HEADS else words
    code = bfp_jit.encode(Bfp(core.m), heads, -2 if core.kind == "v" else -1, bits=True)
    return code.sign, code.mantissa, code.exponent


def _counts(core: HarmoniaCore) -> tuple[int, ...]:
    """Counters of one product: sums along its plan, and the work of every pass and token."""
    shape, rule = core.shape, core.offsets.rule
    by_event = dict.fromkeys(("load", "dispatch", "compute", "fp2half", "store"), 0)
    for action in core.plan:
        if action.event in by_event:
            by_event[action.event] += action.number
    passes, adds = by_event["compute"], core.groups * shape.rows * shape.columns
    slots = core.groups * (2 if core.mode == M8M8 else 1)
    converted = [action for action in core.plan if action.event == "convert"]
    loops = [(-(-block.rows // 8), block.columns, block.rows) for block in converted]
    v = core.kind == "v"
    clocks, comparisons = 0, 0
    for high, wide, tall in loops:
        clocks += COLUMNS * high if v else wide
        comparisons += 8 * high * wide if v else tall * wide
    shifted = rule.chosen * shape.rows * shape.shifted
    tracked = rule.channels * shape.tracked + rule.chosen * (rule.scope - 1) * (shape.tracked > 0)
    computed = passes, passes * (slots + COLUMNS - 1), LANES * adds, adds, by_event["fp2half"]
    keys = clocks, clocks, comparisons, tracked, shifted
    return by_event["load"], by_event["dispatch"], *computed, *keys, by_event["store"]
