"""Operands and positions of the sub-PEs of bfp_pe, checks, and the drawing. [harmonia §IV-B, Fig. 13]"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, at, first_index
from refemu.units.harmonia.bfp_accumulator import (
    FP16_OVERFLOW,
    FP16_UNDERFLOW,
    INVALID,
    M8M4,
    M8M8,
    M8W4,
    MODES,
    number,
)
from refemu.units.harmonia.bfp_accumulator.bfp_accumulator import require_legal

SLOTS = 4  #: Slots of a pass: cycles of the accumulator, which the wrappers share (D-harmonia-21) [harmonia §IV-B]
WRAPPERS = 2  #: wrappers, with two sub-PEs each
NIBBLES = (1, 1, 2)  #: Slots of a group, by mode


def operand(mode: int, b: tuple[int, ...], b_sign: tuple[int, ...], shift: int) -> tuple[tuple[int, ...], ...]:
    """Signs and 4-bit magnitudes that a sub-PE reads: INT4, 4-bit mantissas, or the nibbles at `shift`.
    [harmonia §IV-B]

    b: INT4 codes or mantissas. b_sign: signs of the mantissas.
    """
    if mode == M8W4:
        return tuple(code >> 3 for code in b), tuple(16 - code if code >> 3 else code for code in b)
    return b_sign, b if mode == M8M4 else tuple(mantissa >> shift & 15 for mantissa in b)


def seat(mode: int, slot: int) -> int:
    """Number of the sub-PE that works in a slot: in M8M8 wrapper 0 has the high nibbles, wrapper 1 the low ones.
    [harmonia §IV-B, Fig. 13]
    """
    return WRAPPERS * (slot % 2) + slot // 2 if mode == M8M8 else slot


def require_fields(
    name: str, mode: ArrayLike, b: ArrayLike, b_sign: ArrayLike, b_exp: ArrayLike, w_scale: ArrayLike
) -> None:
    """Check that fields that a mode does not have are 0. [harmonia §IV-B]

    mode: modes. b, b_sign: codes and signs. b_exp, w_scale: shared exponents and weight factors. Raises Refused: a bit
    is set that the mode does not have; the message gives port, mode, value and index.
    """
    modes, codes = np.asarray(mode), np.asarray(b)
    narrow = modes != M8M8
    wide = narrow[..., None] & (codes > 15) if narrow.any() else narrow
    if wide.any():
        index = first_index(wide)
        named = MODES[int(modes[index[:-1]])]
        raise Refused(f"{name}: b must have 4 bits in mode {named}, got {int(codes[index])}{at(index)}")
    require_legal(name, mode, w_scale, b_sign=b_sign, b_exp=b_exp)


def draw(state: Any) -> str:
    """Register files, the operand, sums of the sub-PEs (the last one marked) and the accumulator, a line each."""
    b = [code - 16 * (code >> 3) for code in state.b] if state.mode == M8W4 else _signed(state.b_sign, state.b)
    place = seat(state.mode, state.slot) if state.event == "psum" else -1
    wrappers = [
        f"wrapper {w}  "
        + "  ".join(
            f"{'*' if place == WRAPPERS * w + n else ' '}sub-PE {n}: {state.latched[WRAPPERS * w + n]:>8}"
            for n in range(WRAPPERS)
        )
        for w in range(WRAPPERS)
    ]
    raised = [
        name
        for bit, name in ((FP16_OVERFLOW, "FP16 overflow"), (FP16_UNDERFLOW, "FP16 underflow"), (INVALID, "NaN"))
        if state.flags & bit
    ]
    flags = ", ".join(raised) or "none"
    factor = f", factor {np.uint16(state.w_scale).view(np.float16)!s}" if state.mode == M8W4 else f", E {state.b_exp}"
    return "\n".join(
        [
            f"{MODES[state.mode]}, group {state.index}, slot {state.slot}, cycle {state.cycles}",
            f"next       {_file(state.next_sign, state.next_mag, state.next_exp)}",
            f"current    {_file(state.current_sign, state.current_mag, state.current_exp)}",
            f"b          {_values(b)}{factor}",
            *wrappers,
            f"sum {state.psum}, value {_float(state.value)}, acc {_float(state.acc)}, flags {flags}",
        ]
    )


def _signed(signs: Any, magnitudes: Any) -> list[int]:
    return [-magnitude if sign else magnitude for sign, magnitude in zip(signs, magnitudes, strict=True)]


def _file(signs: Any, magnitudes: Any, exponent: int) -> str:
    """A register file: 32 elements and their exponent."""
    return f"{_values(_signed(signs, magnitudes))}, E {exponent}"


def _values(values: list[int]) -> str:
    """Elements up to the last that is not 0."""
    used = max((place + 1 for place, value in enumerate(values) if value), default=0)
    rest = len(values) - used
    return " ".join([*map(str, values[:used]), *([f"{rest} x 0"] if rest else [])])


def _float(word: int) -> str:
    return f"{float(number(word)):.9g} ({word:08x})"
