"""Compiled twin of kv_quantizer.run: same arguments, same Result. Read kv_quantizer.py first. [leankv §2.2 Eq. (2)]

Groups of one width go through the compiled `Affine.encode` together.
"""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats import affine_jit
from refemu.units.kv_quantizer import KvQuantizer, Result


def run(x: Any, bits: Any, *, features: int = 32, preset: str = "paper", quantize_with: str = "unrounded") -> Result:
    """As `kv_quantizer.run`."""
    device = KvQuantizer(features, preset, quantize_with)
    xs, widths = device.admitted(x, bits)
    flat, width = fp16.values(xs.reshape(-1, features)), widths.ravel()
    outputs: dict[str, Any] = {
        port.name: np.zeros((len(width), port.lanes) if port.lanes > 1 else len(width), port.result_dtype)
        for port in device.ports.outputs
    }
    for code_bits, fmt in device.formats.items():
        rows = np.flatnonzero(width == code_bits)
        if not rows.size:
            continue
        tensor, ends = affine_jit.encode(fmt, flat[rows]), affine_jit.ends(fmt, flat[rows])
        columns = {
            "mn": ends[0],
            "mx": ends[1],
            "s32": tensor.s32,
            "inv32": tensor.inv32,
            "scale": tensor.scale,
            "zero": tensor.zero,
            "status": tensor.status,
        }
        for name, column in columns.items():
            outputs[name][rows] = np.asarray(column)[:, 0]
        words = tensor.words()
        outputs["words"][rows, : words.shape[1]] = words
    shaped = {
        port.name: outputs[port.name].reshape(widths.shape + ((port.lanes,) if port.lanes > 1 else ()))
        for port in device.ports.outputs
    }
    counts: dict[str, Any] = counters(len(width), features, preset)
    return Result(**shaped, **counts)


def counters(groups: int, features: int, preset: str) -> dict[str, int]:
    """What `groups` operations count: every group does the same."""
    multiplies = KvQuantizer(features, preset).formats[8].quant_div == "recip_mul"
    per_group = {
        "comparisons": 2 * (features - 1),
        "divisions": 2 if multiplies else 1 + features,
        "multiplications": features if multiplies else 0,
        "roundings": features,
    }
    return {name: groups * count for name, count in per_group.items()}
