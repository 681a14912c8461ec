"""Self-test of the floating-point environment, whose rounding mode another library may have changed.

Every bit of the package rests on rounding to nearest. Flushing of subnormals does not change fp16 work, but it does
change float32 work, so it is rejected as well.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from refemu.arith import casts
from refemu.arith.bits import f16_split

_CAUSE = "another library changed the floating-point control register; set it back or run in a fresh process"
_HARD_CODES = (0, 1, 2, 0x1FF, 0x3FE, 0x3FF, 0x400, 0x401, 0x7FF, 0x800, 0x3BFF, 0x3C00, 0x3C01, 0x6BFF, 0x7BFE, 0x7BFF)

_passed = False


def require_round_to_nearest() -> None:
    """`check`, once a process: called at the first use of float arithmetic. Raises ArithmeticError."""
    global _passed
    if not _passed:
        check()
        _passed = True


def check() -> None:
    """Raise ArithmeticError unless float32 and float64 round to nearest even, keep subnormals, and cast to fp16 right.

    Some tens of microseconds; not cached, for every run that writes or checks vectors.
    """
    for name, dtype, bits, smallest in (("float32", np.float32, 24, -126), ("float64", np.float64, 53, -1022)):
        unity, ulp = dtype(1), np.ldexp(dtype(1), 1 - bits)
        _require(name, f"1 + 2**-{bits}", unity + ulp / dtype(2), unity)
        _require(name, f"1 + 3*2**-{bits}", unity + dtype(1.5) * ulp, unity + ulp + ulp)
        _require(name, f"-1 - 2**-{bits}", -unity - ulp / dtype(2), -unity)
        _require(name, f"-1 - 3*2**-{bits}", -unity - dtype(1.5) * ulp, -unity - ulp - ulp)
        tiny = np.ldexp(unity, smallest) * dtype(0.5)
        if tiny.tobytes() == bytes(tiny.itemsize):  # not by ==, which would take a subnormal for 0
            raise ArithmeticError(f"refemu: {name} arithmetic flushes subnormals (2**{smallest}/2 gave 0): {_CAUSE}")
    _check_casts()


def _require(name: str, what: str, got: np.floating, want: np.floating) -> None:
    if got != want:
        raise ArithmeticError(f"refemu: {name} arithmetic does not round to nearest ({what} gave {got!s}): {_CAUSE}")


def _check_casts() -> None:
    """Eight casts to fp16: ties both ways, subnormals, both sides of the overflow."""
    ties = np.ldexp(np.array([2049.0, 2051.0, 1.0, 3.0, 2047.0]), [-11, -11, -25, -25, -25])
    inputs = np.array([*ties, 65_519.99, 65_520.0, -65_520.0])
    want = [0x3C00, 0x3C02, 0x0000, 0x0002, 0x0400, 0x7BFF, 0x7C00, 0xFC00]
    for dtype in (np.float32, np.float64):
        got = casts.narrow(inputs.astype(dtype)).view(np.uint16).tolist()
        if got != want:
            raise ArithmeticError(f"refemu: casts to float16 do not round to nearest (got {got}, not {want}): {_CAUSE}")


def hard_cases() -> tuple[np.ndarray, np.ndarray]:
    """64 hard inputs of a rounding to fp16, float32, and the fp16 words, uint16, that it must give.

    For each of 16 words its midpoint with the next word, the float32 numbers next to it, and the midpoint negated.
    """
    low = np.array(_HARD_CODES, np.int64)
    _, significand, exponent = f16_split(low)
    middle = np.ldexp((2 * significand + 1).astype(np.float32), (exponent - 26).astype(np.int32))
    below, above = (np.nextafter(middle, np.float32(end)) for end in (0, np.inf))
    even = low + (low & 1)
    words = np.concatenate([even, low, low + 1, even | 0x8000]).astype(np.uint16)
    return np.concatenate([middle, below, above, -middle]), words


def check_kernel(round16: Callable[[np.ndarray], np.ndarray], name: str) -> None:
    """Raise ArithmeticError unless `round16`, float32 (64,) to fp16-valued float32, answers `hard_cases` right.

    name: of the kernel, for the message.
    """
    inputs, words = hard_cases()
    want = words.view(np.float16).astype(np.float32)
    got = round16(inputs)
    bad = np.flatnonzero(got.view(np.uint32) != want.view(np.uint32))
    if bad.size:
        what = f"{inputs[bad[0]]!s} gave {got[bad[0]]!s}, not {want[bad[0]]!s}"
        raise ArithmeticError(f"refemu: {name} does not round to nearest ({what}): {_CAUSE}")


def kernel_path() -> dict[str, Any]:
    """The path that compiled kernels take on this machine, for bug reports; no bit of a result depends on it."""
    from refemu.arith import jit, threads

    return {
        "compiled": not jit.jit_is_off(),
        "rounding": jit.ROUND16,
        "fused": jit.FUSES,
        "vectors": next((name for name in ("avx512f", "avx2", "neon") if jit.has(name)), None),
        "threads": threads.from_environment(),
        "processors": threads.processors(),
    }
