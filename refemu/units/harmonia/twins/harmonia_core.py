"""Compiled twin of harmonia_core.run: same arguments, same Result. Read harmonia_core.py first. [harmonia §IV-A]

Each step once for all products: the array's sums, vector unit and codes by whole matrices. Counters are added up along
the plan.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.formats import bfp_jit
from refemu.formats.bfp import Bfp
from refemu.units import bfp_pe_array_jit, k_offset_jit
from refemu.units.bfp_accumulator import M8M8
from refemu.units.bfp_pe_array import COLUMNS
from refemu.units.harmonia_core import HarmoniaCore
from refemu.units.harmonia_core_parts import HEADS, LANES, vector_width
from refemu.units.harmonia_core_ports_parts import COUNTERS, Result, admitted
from refemu.units.harmonia_core_vector_parts import vector
from refemu.units.k_offset import WINDOW


def run(
    a_sign: Any,
    a_mag: Any,
    a_exp: Any,
    b: Any,
    b_sign: Any,
    b_exp: Any,
    w_scale: Any,
    frozen: Any = None,
    *,
    kind: str = "linear",
    rows: int = 8,
    inner: int = 32,
    columns: int = 32,
    b_type: str = "int4",
    m: int = 8,
    tile_m: int = 64,
    tile_k: int = 64,
    head_dim: int = 32,
    start: int = 0,
    base: int = 10000,
    activation: str = "none",
    force: int = 0,
    partial: str = "fp16",
    rotation: str = "half",
    window: int = WINDOW,
) -> Result:
    """As `harmonia_core.run`."""
    core = HarmoniaCore(
        kind,
        rows,
        inner,
        columns,
        b_type,
        m,
        tile_m,
        tile_k,
        head_dim,
        start,
        base,
        activation,
        force,
        partial,
        rotation,
        window,
    )
    arrays, lead = admitted(core, (a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale, frozen))
    operands = {name: array.reshape(prod(lead), array.shape[-1]) for name, array in arrays.items()}
    words, offset = _words(core, operands)
    sign, mantissa, exponent = _codes(core, 0 * words if kind == "final" else words)
    found = (sign, mantissa, exponent, words, offset)[: len(core.ports.outputs)]
    shown: dict[str, Any] = {"offset": np.zeros((*lead, 0), np.uint16)} | {
        port.name: field.astype(port.result_dtype).reshape(lead + ((port.lanes,) if port.lanes > 1 else ()))
        for port, field in zip(core.ports.outputs, found, strict=True)
    }
    counts: Any = {name: prod(lead) * count for name, count in _counts(core).items()}
    return Result(**shown, **counts)


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


def _counts(core: HarmoniaCore) -> dict[str, int]:
    """What one product counts: sums along its plan, and what every pass and token takes."""
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
    values = (
        by_event["load"],
        by_event["dispatch"],
        passes,
        passes * (slots + COLUMNS - 1),
        LANES * adds,
        adds,
        by_event["fp2half"],
        clocks,
        clocks,
        comparisons,
        tracked,
        shifted,
        by_event["store"],
    )
    return dict(zip(COUNTERS, values, strict=True))
