"""Compiled twin of harmonia_core.run: same arguments, same Result. Read harmonia_core.py first. [harmonia §IV-A]

Each step once for all products: the array's sums, vector unit and codes by whole matrices. Counters are added up along
the plan.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.formats import bfp_jit
from refemu.formats.bfp import Bfp
from refemu.units import bfp_pe_array_jit, k_offset_jit
from refemu.units.bfp_accumulator import M8M8
from refemu.units.bfp_pe_array import COLUMNS
from refemu.units.harmonia_core import HarmoniaCore, admitted
from refemu.units.harmonia_core_parts import LANES, WINDOW
from refemu.units.harmonia_core_ports_parts import COUNTERS, Result
from refemu.units.harmonia_core_vector_parts import vector


def run(a_sign: Any, a_mag: Any, a_exp: Any, b: Any, b_sign: Any, b_exp: Any, w_scale: Any, *, kind: str = "linear",
        rows: int = 8, inner: int = 32, columns: int = 32, b_type: str = "int4", m: int = 8, tile_m: int = 64,
        tile_k: int = 64, head_dim: int = 32, start: int = 0, base: int = 10000, activation: str = "none",
        force: int = 0, partial: str = "fp16") -> Result:
    """As `harmonia_core.run`."""
    core = HarmoniaCore(kind, rows, inner, columns, b_type, m, tile_m, tile_k, head_dim, start, base, activation, force,
                        partial)
    arrays, lead = admitted(core, (a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale))
    words = _words(core, [array.reshape(prod(lead), array.shape[-1]) for array in arrays.values()])
    code = bfp_jit.encode(Bfp(m), 0 * words if kind == "final" else words, -2 if kind == "v" else -1, bits=True)
    found = (code.sign, code.mantissa, code.exponent, words)
    shown: dict[str, Any] = {
        port.name: field.astype(port.result_dtype).reshape(lead + ((port.lanes,) if port.lanes > 1 else ()))
        for port, field in zip(core.ports.outputs, found, strict=True)}
    counts: Any = {name: prod(lead) * count for name, count in _counts(core).items()}
    return Result(**shown, **counts)


def _words(core: HarmoniaCore, operands: list[np.ndarray]) -> np.ndarray:
    """C of every product in FP16, (products, M, K), before its conversion."""
    shape, groups = core.shape, core.groups
    lanes = shape.inner, shape.inner, groups, groups
    a = [field.reshape(-1, shape.rows, width) for field, width in zip(operands[:3], lanes[:3], strict=True)]
    b = [field.reshape(-1, shape.columns, width) for field, width in zip(operands[3:], lanes, strict=True)]
    modes = np.full((len(a[0]), groups), core.mode, np.uint8)
    sums, _ = bfp_pe_array_jit.tile_sums(core.array.accumulator, modes, *a, *b)
    words = fp16.bits(fp16_jit.to_f16(sums.view(np.float32)))
    if core.kind in ("q", "k", "score") or shape.activation != "none":
        words = vector(shape, core.base, words, core.start).astype(np.uint16, copy=False)
    if core.kind == "k":
        offset, _ = k_offset_jit.select(core.offsets.rule, words)
        words = k_offset_jit.shift(words, offset[:, None])
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
