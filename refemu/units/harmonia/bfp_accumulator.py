"""The accumulator that the sub-PEs of a PE share: fuse nibbles, convert to floating point, scale, add in FP32.

Paper: [harmonia §IV-A (3), §IV-B, Fig. 13]. Decisions: D-harmonia-7 (a group's partial sum becomes FP16, or stays
exact), D-harmonia-8 (precision of the product with the weight factor), D-harmonia-10 (groups ascending, from +0, not
fused), D-harmonia-11 (nibbles meet as integers).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, at, first_index, require_choice
from refemu.units import bfp_accumulator_cases, unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit_events, choices, collect
from refemu.units.unit_cases import Seeds

M8W4, M8M4, M8M8 = range(3)  #: modes: INT4 weights; 8 by 4 bits of mantissa; 8 by 8
MODES = ("M8W4", "M8M4", "M8M8")
POINT = (-22, -40, -44)  #: what is added to the exponents of a partial sum, by mode: 14 + m for each BFP operand
FP16_OVERFLOW, FP16_UNDERFLOW, INVALID = 1, 2, 4  #: bits of `flags`
MOST = 122_400  #: largest magnitude of a sub-PE's sum, 32 * 255 * 15


@dataclass(frozen=True)
class State:
    """Ports and registers after one group, and what happened since reset."""

    event: str  #: "reset" or "accumulate"
    index: int  #: -1 for the reset
    mode: int
    clear: int
    psum: int
    low: int
    a_exp: int
    b_exp: int
    w_scale: int
    p: int
    value: int
    acc: int
    flags: int
    fusions: int
    fp_converts: int
    scale_mults: int
    fp32_adds: int


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the accumulator after every group."""

    p: np.ndarray  #: int32, (..., groups)
    value: np.ndarray  #: uint32, words of float32: what is added
    acc: np.ndarray  #: uint32, words of float32
    flags: np.ndarray  #: uint8, sticky since `clear`
    fusions: int
    fp_converts: int
    scale_mults: int
    fp32_adds: int


class Accumulator(Stepped):
    """The block of [harmonia Fig. 13]; one event takes the partial sums of one group."""

    name = "bfp_accumulator"

    def __init__(self, partial: str = "fp16", product: str = "fp32") -> None:
        """partial: what a group's sum is rounded to, "fp16" as the paper has it, or "fp32", which is exact.

        product: what the product with the weight factor is rounded to, "fp32" (exact beside FP16 partials) or "fp16".
        """
        require_choice(partial, ("fp16", "fp32"), self.name, "partial")
        require_choice(product, ("fp16", "fp32"), self.name, "product")
        self.partial, self.product = partial, product
        self.ports = ports({})
        self.state = State("reset", -1, *(0,) * 15)

    def step(self, mode: int, clear: int, psum: int, low: int, a_exp: int, b_exp: int, w_scale: int) -> State:
        """One group. psum: sum of a sub-PE (M8M8: of the high nibbles); low: of the low nibbles, 0 in other modes."""
        mode, clear, psum, low, a_exp, b_exp, w_scale = self.accept(mode, clear, psum, low, a_exp, b_exp, w_scale)
        require_legal(self.name, mode, w_scale, low=low, b_exp=b_exp)
        before = self.state
        p = fuse(psum, low) if mode == M8M8 else psum
        value, flags = self.convert(p, mode, a_exp, b_exp)
        value = self.scale(value, w_scale) if mode == M8W4 else value
        acc, invalid = add(0 if clear else before.acc, value)
        self.state = State(
            "accumulate",
            before.index + 1,
            mode,
            clear,
            psum,
            low,
            a_exp,
            b_exp,
            w_scale,
            p,
            value,
            acc,
            flags | invalid | (0 if clear else before.flags),
            before.fusions + (mode == M8M8),
            before.fp_converts + 1,
            before.scale_mults + (mode == M8W4),
            before.fp32_adds + 1,
        )
        return self.state

    def convert(self, p: int, mode: int, a_exp: int, b_exp: int) -> tuple[int, int]:
        """The integer p times its power of two as a word of float32, and the flags of that (D-harmonia-7)."""
        x = exponent(mode, a_exp, b_exp)
        exact = np.ldexp(float(p), x)
        if self.partial == "fp32":
            return word(exact), 0  # p has 22 bits
        half = float(fp16.from_scaled(p, x))
        small = p != 0 and abs(half) < fp16.MIN_NORMAL and half != exact
        return word(half), FP16_OVERFLOW * (abs(half) == float("inf")) | FP16_UNDERFLOW * small

    def scale(self, value: int, w_scale: int) -> int:
        """The word of float32 `value` times the weight factor, rounded once (D-harmonia-8)."""
        with np.errstate(invalid="ignore"):  # infinity times a factor of 0
            exact = np.float64(number(value)) * np.float64(fp16.values(w_scale))  # 24 and 11 bits
        return word(fp16.round16_of_f64(exact) if self.product == "fp16" else exact)

    def steps(
        self, mode: Any, clear: Any, psum: Any, low: Any, a_exp: Any, b_exp: Any, w_scale: Any
    ) -> Iterator[State]:
        """Yield the State after every group of one device; the arguments, (groups,) or scalars, broadcast."""
        arrays = admit_events(self.name, self.ports.inputs, (mode, clear, psum, low, a_exp, b_exp, w_scale))
        if arrays[0].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of groups, got shape {arrays[0].shape}")
        for event in zip(*(array.tolist() for array in arrays), strict=True):
            yield self.step(*event)

    def __repr__(self) -> str:
        return f"Accumulator(partial={self.partial!r}, product={self.product!r})"


def exponent(mode: Any, a_exp: Any, b_exp: Any) -> Any:
    """Of the power of two that a partial sum is counted in; ints, or arrays that broadcast. E' = max(E, 1)."""
    one = np.maximum(a_exp, 1) + np.take(POINT, mode)
    return one + np.where(np.equal(mode, M8W4), 0, np.maximum(b_exp, 1))


def fuse(high: int, low: int) -> int:
    """The sum of 8 by 8 bits from those of the nibbles: integers, before any conversion (D-harmonia-11)."""
    return (high << 4) + low


def add(acc: int, value: int) -> tuple[int, int]:
    """The float32 sum of two words, rounded once, and INVALID if it is NaN (D-harmonia-10)."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = number(acc) + number(value)
    return word(total), INVALID * bool(np.isnan(total))


def number(bits: int) -> np.float32:
    """The float32 of a word."""
    return np.uint32(bits).view(np.float32)


def word(x: Any) -> int:
    """The word of `x` rounded once to float32, NaN canonical."""
    with np.errstate(over="ignore"):
        return int(fp16.canonical(np.float32(x)).view(np.uint32))


def require_legal(name: str, mode: Any, w_scale: Any, **others: Any) -> None:
    """Refuse bits set in fields that the mode does not use, and a weight factor that is not finite.

    others: `low`, used in M8M8 alone, and fields `b_...`, not used in M8W4; lanes may follow the axes of `mode`.
    """
    modes = np.asarray(mode)
    _refuse(name, "w_scale", w_scale, modes, modes != M8W4, "must be 0")
    _refuse(name, "w_scale", w_scale, modes, (np.asarray(w_scale) & 0x7C00) == 0x7C00, "is not finite")
    for field, value in others.items():
        _refuse(name, field, value, modes, modes != M8M8 if field == "low" else modes == M8W4, "must be 0")


def _refuse(name: str, field: str, value: Any, modes: np.ndarray, where: np.ndarray, rule: str) -> None:
    values = np.asarray(value)
    if not (where.any() and values.any()):
        return
    axes = (1,) * (values.ndim - modes.ndim)  # lanes
    bad = np.broadcast_to(where.reshape(where.shape + axes), values.shape) & (values != 0)
    if bad.any():
        index = first_index(bad)
        mode = MODES[int(modes[index[: modes.ndim]])]
        raise Refused(f"{name}: {field} {int(values[index])}{at(index)} {rule} in mode {mode}")


def run(
    mode: Any,
    clear: Any,
    psum: Any,
    low: Any,
    a_exp: Any,
    b_exp: Any,
    w_scale: Any,
    *,
    partial: str = "fp16",
    product: str = "fp32",
) -> Result:
    """Every group of one device or of many.

    mode: 0 (M8W4), 1 (M8M4) or 2 (M8M8). clear: 1 to start an output with this group. psum, low: sums of sub-PEs, of at
    most 122,400 in magnitude; low is 0 but in M8M8. a_exp, b_exp: shared exponents E, below 32; b_exp 0 in M8W4.
    w_scale: a finite FP16 word, 0 but in M8W4. All (..., groups), and they broadcast; each device starts from reset.
    partial, product: as for Accumulator. Returns the Result, arrays of the common shape. Refuses a value outside its
    port or set where the mode has none. Paper: [harmonia §IV-B].
    """
    device = Accumulator(partial, product)
    arrays = admit_events(device.name, device.ports.inputs, (mode, clear, psum, low, a_exp, b_exp, w_scale))
    shape = arrays[0].shape
    require_legal(device.name, arrays[0], arrays[6], low=arrays[3], b_exp=arrays[5])
    reset, states = device.state, list[State]()
    counts: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
    for one in zip(*(array.reshape(prod(shape[:-1]), shape[-1]) for array in arrays), strict=True):
        device.state = reset
        states += list(device.steps(*one))
        counts = {name: count + getattr(device.state, name) for name, count in counts.items()}
    return Result(**collect(states, device.ports.outputs, shape), **counts)


COUNTERS = ("fusions", "fp_converts", "scale_mults", "fp32_adds")


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths; the same in every configuration."""
    return Ports(
        inputs=(
            Port("mode", 2, most=2, meaning="0 M8W4, 1 M8M4, 2 M8M8"),
            Port("clear", 1, meaning="this group starts an output: accumulator +0, flags 0"),
            Port("psum", 18, signed=True, least=-MOST, most=MOST, meaning="sum of a sub-PE; M8M8: high nibbles"),
            Port("low", 18, signed=True, least=-MOST, most=MOST, meaning="M8M8: sum of the low nibbles; else 0"),
            Port("a_exp", 5, meaning="shared exponent of a"),
            Port("b_exp", 5, meaning="shared exponent of b; 0 in M8W4"),
            Port("w_scale", 16, encoding="f16", meaning="weight factor, finite; 0 but in M8W4"),
        ),
        outputs=(
            Port("p", 22, signed=True, meaning="exact sum of the group"),
            Port("value", 32, encoding="f32", meaning="what is added"),
            Port("acc", 32, encoding="f32", meaning="sum of the groups"),
            Port("flags", 3, meaning="sticky: 1 FP16 overflow, 2 FP16 underflow, 4 NaN"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see bfp_accumulator_cases.py."""
    return bfp_accumulator_cases.cases(ports(config).inputs, kind, seed)


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with 0 where the mode has no field and with finite weight factors."""
    return bfp_accumulator_cases.legal(inputs)


FLAGS = {
    "FP16_OVERFLOW": Flag(0, "a partial sum is beyond FP16: infinity (D-harmonia-7)"),
    "FP16_UNDERFLOW": Flag(1, "a partial sum is subnormal or 0 in FP16, and not exact (D-harmonia-7)"),
    "INVALID": Flag(2, "the accumulator is NaN: infinities of both signs, or one times a factor of 0"),
}

UNIT = Unit(
    name="bfp_accumulator",
    paper="harmonia §IV-B, Fig. 13",
    meaning="shared accumulator of a PE: integer to FP16, weight factor, FP32 sum over groups",
    configs={"paper": Config(partial="fp16", product="fp32"), "exact": Config(partial="fp32", product="fp32")},
    ports=ports,
    run=run,
    twin="refemu.units.bfp_accumulator_jit:run",
    unit_class=Accumulator,
    cases=cases,
    timing="event",
    mark=bfp_accumulator_cases.mark,
    flags=FLAGS,
    legal=legal,
    alternatives=(
        *choices("D-harmonia-7", "partial", "fp16", "fp32"),
        *choices("D-harmonia-8", "product", "fp16", "fp32"),
    ),
)
