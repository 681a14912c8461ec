"""Parts of bfp_pe: what a sub-PE reads, which one it is, refusals, and the drawing. [harmonia §IV-B, Fig. 13]"""

from typing import Any

import numpy as np

from refemu.arith.checks import Refused, at, first_index, require_choice
from refemu.units.bfp_accumulator import (
    FP16_OVERFLOW,
    FP16_UNDERFLOW,
    INVALID,
    M8M4,
    M8M8,
    M8W4,
    MODES,
    number,
    require_legal,
)
from refemu.units.sub_pe import LANES
from refemu.units.unit import Ports, admit_events

SLOTS = 4  #: of a pass: cycles of the accumulator, which the wrappers share [harmonia §IV-B]
WRAPPERS = 2  #: with as many sub-PEs each
NIBBLES = (1, 1, 2)  #: slots of a group, by mode


def operand(mode: int, b: tuple[int, ...], b_sign: tuple[int, ...], shift: int) -> tuple[tuple[int, ...], ...]:
    """Signs and 4-bit magnitudes that a sub-PE reads: INT4, 4-bit mantissas, or the nibbles at `shift`."""
    if mode == M8W4:
        return tuple(code >> 3 for code in b), tuple(16 - code if code >> 3 else code for code in b)
    return b_sign, b if mode == M8M4 else tuple(mantissa >> shift & 15 for mantissa in b)


def seat(mode: int, slot: int) -> int:
    """Sub-PE of a slot, 2 * wrapper + number: in M8M8 wrapper 0 has the high nibbles, wrapper 1 the low ones."""
    return WRAPPERS * (slot % 2) + slot // 2 if mode == M8M8 else slot


def require_fields(name: str, mode: Any, b: Any, b_sign: Any, b_exp: Any, w_scale: Any) -> None:
    """Refuse bits set where the mode has none, with port, index, value and mode."""
    modes, codes = np.asarray(mode), np.asarray(b)
    narrow = modes != M8M8
    wide = narrow[..., None] & (codes > 15) if narrow.any() else narrow
    if wide.any():
        index = first_index(wide)
        told = MODES[int(modes[index[:-1]])]
        raise Refused(f"{name}: b {int(codes[index])}{at(index)} has more than 4 bits in mode {told}")
    require_legal(name, mode, w_scale, b_sign=b_sign, b_exp=b_exp)


def admitted(
    name: str,
    device_ports: Ports,
    mode: Any,
    clear: Any,
    a_sign: Any,
    a_mag: Any,
    a_exp: Any,
    b: Any,
    b_sign: Any,
    b_exp: Any,
    w_scale: Any,
) -> list[np.ndarray]:
    """The arguments of `run` as arrays of the ports, in their order."""
    number = MODES.index(require_choice(mode, MODES, name, "mode")) if isinstance(mode, str) else mode
    signs = np.zeros(LANES, np.uint8) if b_sign is None else b_sign
    arrays = admit_events(name, device_ports.inputs, (number, clear, a_sign, a_mag, a_exp, b, signs, b_exp, w_scale))
    if arrays[0].shape[-1] == 0:
        raise Refused(f"{name}: at least one group is needed, got none")
    require_fields(name, arrays[0], *arrays[5:])
    return arrays


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
    flags = [
        name
        for bit, name in ((FP16_OVERFLOW, "FP16 overflow"), (FP16_UNDERFLOW, "FP16 underflow"), (INVALID, "NaN"))
        if state.flags & bit
    ]
    factor = f", factor {np.uint16(state.w_scale).view(np.float16)!s}" if state.mode == M8W4 else f", E {state.b_exp}"
    return "\n".join(
        [
            f"{MODES[state.mode]}, group {state.group}, slot {state.slot}, cycle {state.cycles}",
            f"next       {_file(state.next)}",
            f"current    {_file(state.current)}",
            f"b          {_values(b)}{factor}",
            *wrappers,
            f"sum {state.psum}, value {_float(state.value)}, acc {_float(state.acc)}, flags {', '.join(flags) or 'none'}",
        ]
    )


def _signed(signs: Any, magnitudes: Any) -> list[int]:
    return [-magnitude if sign else magnitude for sign, magnitude in zip(signs, magnitudes, strict=True)]


def _file(activations: Any) -> str:
    """A register file: 32 elements and their exponent."""
    return f"{_values(_signed(*activations[:2]))}, E {activations[2]}"


def _values(values: list[int]) -> str:
    """Elements up to the last that is not 0."""
    used = max((place + 1 for place, value in enumerate(values) if value), default=0)
    rest = len(values) - used
    return " ".join([*map(str, values[:used]), *([f"{rest} x 0"] if rest else [])])


def _float(word: int) -> str:
    return f"{float(number(word)):.9g} ({word:08x})"
