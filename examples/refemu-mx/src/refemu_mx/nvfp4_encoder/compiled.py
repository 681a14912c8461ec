"""Compiled form of nvfp4_encoder: float32 operations on whole arrays, and one kernel that rounds."""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units import compiled_run
from refemu_mx.elements import E2M1, E4M3, Element
from refemu_mx.nvfp4_encoder import UNIT, Nvfp4Encoder
from refemu_mx.rounding import code_of


@compiled_run(UNIT)
def run(encoder: Nvfp4Encoder, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Sequence[int]:
    """Encode every block."""
    words = np.concatenate([inputs[0][:, None], inputs[1]], axis=1)
    finite = (words >> np.uint32(23) & np.uint32(0xFF) != 0xFF).all(axis=1)
    words[~finite] = 0
    factor, x = words[:, :1].view(np.float32), np.ascontiguousarray(words[:, 1:]).view(np.float32)
    with np.errstate(all="ignore"):
        top = np.abs(x).max(axis=1, initial=0, keepdims=True)
        scale, over = _codes(E4M3, top / np.float32(6) * factor)
        unit = np.where(scale == 0, np.float32(1), E4M3.decode(scale))
        scaled = x * factor / unit if encoder.order == "division" else x * (factor / unit)
    scaled = np.where(scale == 0, x * np.float32(0), scaled)
    codes, clips = _codes(E2M1, scaled)
    outputs[0][:] = np.where(finite, scale[:, 0], 0x7F)
    outputs[1][:] = np.where(finite[:, None], codes, 0)
    outputs[2][:] = finite & (over[:, 0] | clips.any(axis=1)) & (scale[:, 0] != 0)
    return len(x), int(np.count_nonzero(outputs[2]))


def _codes(fmt: Element, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes of float32 values with their sign, and which saturated."""
    words = np.ascontiguousarray(values).view(np.uint32).astype(np.int64)
    codes, clipped = np.empty(words.shape, np.int64), np.empty(words.shape, np.bool_)
    _round(words.reshape(-1), fmt.man_bits, fmt.emin, fmt.largest_code, codes.reshape(-1), clipped.reshape(-1))
    return codes | words >> 31 << (fmt.width - 1), clipped


@kernel
def _round(words, man_bits, emin, largest, codes, clipped):  # type: ignore[no-untyped-def]
    for at in range(words.size):
        field, fraction = words[at] >> 23 & 0xFF, words[at] & 0x7FFFFF
        code = largest + 1
        if field == 0:
            code = code_of(fraction, np.int64(-149), 1, man_bits, emin)
        elif field < 255:
            code = code_of(fraction | 1 << 23, field - 150, 1, man_bits, emin)
        clipped[at] = code > largest
        codes[at] = min(code, largest)
