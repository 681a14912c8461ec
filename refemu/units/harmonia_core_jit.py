"""Compiled twin of harmonia_core.run: same arguments, same Result. Read harmonia_core.py first. [harmonia §IV-A]

The product as one grouped matmul, vector unit and codes by whole matrices; counters are added up along the plan.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith import dot_jit, fp16, fp16_jit
from refemu.arith.orders import Sequential
from refemu.formats import bfp_jit
from refemu.formats.bfp import Bfp
from refemu.formats.bfp_dot import filled
from refemu.units import k_offset_jit
from refemu.units.bfp_accumulator import M8M8, M8W4
from refemu.units.bfp_pe_array import COLUMNS
from refemu.units.harmonia_core import HarmoniaCore, admitted
from refemu.units.harmonia_core_parts import LANES, WINDOW
from refemu.units.harmonia_core_ports_parts import COUNTERS, Result
from refemu.units.harmonia_core_vector_parts import vector

BITS = (0, 4, 8)  #: of a mantissa of B, by mode


def run(a_sign: Any, a_mag: Any, a_exp: Any, b: Any, b_sign: Any, b_exp: Any, w_scale: Any, *, kind: str = "linear",
        rows: int = 8, inner: int = 32, columns: int = 32, b_type: str = "int4", m: int = 8, tile_m: int = 64,
        tile_k: int = 64, head_dim: int = 32, start: int = 0, base: int = 10000, activation: str = "none",
        force: int = 0, partial: str = "fp16") -> Result:
    """As `harmonia_core.run`."""
    core = HarmoniaCore(kind, rows, inner, columns, b_type, m, tile_m, tile_k, head_dim, start, base, activation, force,
                        partial)
    arrays, lead = admitted(core, (a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale))
    fields: dict[str, Any] = {port.name: np.zeros((*lead, port.lanes), port.result_dtype)
                              for port in core.ports.outputs}
    for place in np.ndindex(*lead):
        words = _words(core, [array[place] for array in arrays.values()])
        fields["y"][place] = words.reshape(-1)
        if kind != "final":
            code = bfp_jit.encode(Bfp(m), words, 0 if kind == "v" else 1, bits=True)
            for name in ("sign", "mantissa", "exponent"):
                fields[name][place] = getattr(code, name).reshape(-1)
    fields = {port.name: fields[port.name] if port.lanes > 1 else fields[port.name][..., 0]
              for port in core.ports.outputs}
    counts: Any = {name: prod(lead) * count for name, count in _counts(core).items()}
    return Result(**fields, **counts)


def _words(core: HarmoniaCore, operands: list[np.ndarray]) -> np.ndarray:
    """C in FP16, (M, K), before its conversion."""
    a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale = operands
    shape, mode, groups = core.shape, core.mode, core.groups
    code = b.astype(np.int64)
    wide = np.where(code > 7, code - 16, code) if mode == M8W4 else np.where(b_sign == 1, -code, code)
    magnitude = a_mag.astype(np.int64)
    left = filled(np.where(a_sign == 1, -magnitude, magnitude).reshape(shape.rows, shape.inner), LANES)
    right = filled(wide.reshape(shape.columns, shape.inner), LANES)
    a_power = np.maximum(a_exp.astype(np.int64), 1).reshape(shape.rows, groups) - 22
    b_power = np.maximum(b_exp.astype(np.int64), 1).reshape(shape.columns, groups) - 14 - BITS[mode]
    scale = fp16.values(w_scale.reshape(shape.columns, groups))
    options: dict[str, Any] = {"b_scale": scale.T, "product": "fp32"} if mode == M8W4 else {"b_exp": b_power.T}
    sums = dot_jit.grouped_matmul(left, right.T, group=LANES, a_exp=a_power, partial=core.array.partial,
                                  order=Sequential(), acc="fp32", **options)
    words = fp16.bits(fp16.narrow(fp16_jit.round16(sums)))
    if core.kind in ("q", "k", "score") or shape.activation != "none":
        words = vector(shape, core.base, words, core.start).astype(np.uint16)
    if core.kind == "k":
        offset, _ = k_offset_jit.select(core.offsets.rule, words)
        words = k_offset_jit.shift(words, offset[None])
    return np.ascontiguousarray(words, np.uint16)


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
    keys = core.kind == "k"
    tracked = rule.channels * min(WINDOW, shape.rows) + rule.chosen * (rule.scope - 1)
    values = (by_event["load"], by_event["dispatch"], passes, passes * (slots + COLUMNS - 1), LANES * adds, adds,
              by_event["fp2half"], clocks, clocks, comparisons, keys * tracked, keys * rule.chosen * shape.rows,
              by_event["store"])
    return dict(zip(COUNTERS, values, strict=True))
