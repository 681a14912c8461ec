"""Variants of the decisions of fp16_mac."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.units.config import Config
from refemu.units.kllm.fp16_mac import DYNAMIC, ONE, ROUNDINGS, UNIT
from refemu.units.variant import Variant, choices

_MODES = {
    "results saturate": fp16.Fp16Mode(overflow="saturate"),
    "subnormals are zeros": fp16.Fp16Mode(subnormals="flush"),
}
OF, UF, NX = 4, 2, 1
Inputs = Mapping[str, np.ndarray]


def _operands(inputs: Any) -> list[np.ndarray]:
    return [fp16.to_f32(fp16.values(np.asarray(inputs[name], np.uint16))) for name in ("a", "b", "acc")]


def _in_mode(mode: fp16.Fp16Mode, config: Config, inputs: Any, result: Any) -> Any:
    """Outputs of a unit whose product and sum are rounded in another mode."""
    PLAIN(config)
    x, y, s = _operands(inputs)
    separate = config["rounding"] == "fp16"
    total = fp16.add16(s, fp16.mul16(x, y, mode), mode) if separate else fp16.fma16(x, y, s, mode)
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(s)
    return {"y": fp16.bits(fp16.to_f16(total)), "overflow": finite & ~np.isfinite(total)}


def _product_overflows(config: Config, inputs: Any, result: Any) -> Any:
    """`overflow` also where finite factors overflow and meet an infinity or a NaN."""
    PLAIN(config)
    x, y, _ = _operands(inputs)
    lost = np.isfinite(x) & np.isfinite(y) & ~np.isfinite(fp16.mul16(x, y))
    return {"overflow": np.asarray(result.overflow, np.bool_) | lost}


def _any_infinity(config: Config, inputs: Any, result: Any) -> Any:
    return {"overflow": result.y & 0x7FFF == 0x7C00}


def _only(refuses: Callable[[Config], bool], config: Config) -> Config:
    if refuses(config):
        raise Refused(f"fp16_mac: no device for this variant, got {config!r}")
    return config


def _has_flags(config: Config) -> bool:
    return bool(config.get("ieee_flags", False))


def _is_nearest_even(config: Config) -> bool:
    return config.get("direction", "half_even") == "half_even"


#: devices without directions and flags, with flags, with the port `rm` and flags, with those and two roundings
PLAIN = partial(_only, lambda config: _has_flags(config) or not _is_nearest_even(config))
FLAGS = partial(_only, lambda config: not _has_flags(config))
CORE = partial(_only, lambda config: not _has_flags(config) or config.get("direction") != DYNAMIC)
SEPARATE = partial(_only, lambda config: not _has_flags(config) or config["rounding"] != "fp16")


def _fixed(direction: str, config: Config) -> Config:
    """The configuration in another direction, where it has no port `rm`."""
    if config.get("direction", "half_even") == DYNAMIC:
        raise Refused(f"fp16_mac: direction must not be 'dynamic' for this variant, got {direction!r}")
    return Config(**{**config, "direction": direction})


def _answers(config: Config, inputs: Inputs, **changed: Any) -> Any:
    """Outputs of the unit for other inputs."""
    return UNIT.run_compiled(**{**inputs, **changed}, **config)


def _coded(codes: tuple[int, ...], config: Config, inputs: Inputs, result: Any) -> Any:
    """Outputs if code i of `rm` means what refemu's code codes[i] does."""
    other = _answers(config, inputs, rm=np.array(codes)[inputs["rm"]])
    return {"y": other.y, "fflags": other.fflags, "product": other.product}


def _infinite_overflow(config: Config, inputs: Inputs, result: Any) -> Any:
    sign = result.y & 0x8000
    return {"y": np.where(result.fflags & OF != 0, sign | 0x7C00, result.y).astype(np.uint16)}


def _positive_zero(config: Config, inputs: Inputs, result: Any) -> Any:
    other = _answers(config, inputs, rm=np.where(inputs["rm"] == 2, 1, inputs["rm"]))
    cancelled = (result.y == 0x8000) & (other.y == 0)
    return {"y": np.where(cancelled & (result.fflags & NX == 0), np.uint16(0), result.y)}


def _saturated(config: Config, inputs: Inputs, result: Any) -> Any:
    largest = result.y & 0x8000 | 0x7BFF
    return {"y": np.where(result.fflags & OF != 0, largest, result.y).astype(np.uint16)}


def _flushed(config: Config, inputs: Inputs, result: Any) -> Any:
    words = {port: _without_subnormals(np.asarray(inputs[port], np.uint16)) for port in ("a", "b", "acc")}
    other = _answers(config, inputs, **words)
    y = _without_subnormals(other.y)
    return {"y": y, "fflags": np.where(y != other.y, other.fflags | UF | NX, other.fflags).astype(np.uint8)}


def _without_subnormals(words: np.ndarray) -> np.ndarray:
    return np.where(words & 0x7C00 == 0, words & 0x8000, words).astype(np.uint16)


def _arms_order(config: Config, inputs: Inputs, result: Any) -> Any:
    """Flags in reverse order: IOC, DZC, OFC, UFC, IXC from bit 0 up."""
    bits = [result.fflags >> place & 1 for place in range(5)]
    return {"fflags": bits[0] << 4 | bits[1] << 3 | bits[2] << 2 | bits[3] << 1 | bits[4]}


def _exact_underflow(config: Config, inputs: Inputs, result: Any) -> Any:
    subnormal = (result.y & 0x7C00 == 0) & (result.y & 0x3FF != 0)
    return {"fflags": np.where(subnormal, result.fflags | UF, result.fflags).astype(np.uint8)}


def _of_the_sum(config: Config, inputs: Inputs, result: Any) -> Any:
    ones = np.full_like(result.product, ONE)
    return {"fflags": _answers(config, inputs, a=result.product, b=ones).fflags}


VARIANTS: tuple[Variant, ...] = (
    *choices("D-kllm-3", "rounding", *ROUNDINGS),
    *(  # before those that need the default direction
        Variant("D-arith-2", f"direction is {direction!r}", apply=partial(_fixed, direction))
        for direction in ("truncate", "floor", "ceil", "half_away")
    ),
    *(Variant("D-arith-2", says, PLAIN, answer=partial(_in_mode, mode)) for says, mode in _MODES.items()),
    Variant("D-arith-2", "overflows are the largest number in every direction", FLAGS, answer=_saturated),
    Variant("D-arith-2", "overflows are infinite in every direction", FLAGS, answer=_infinite_overflow),
    Variant("D-arith-2", "subnormal operands and results are zeros", FLAGS, answer=_flushed),
    Variant("D-arith-18", "overflow shows an overflowing product too", apply=PLAIN, answer=_product_overflows),
    Variant("D-arith-18", "overflow shows every infinity", apply=PLAIN, answer=_any_infinity),
    *(
        Variant("D-arith-22", says, CORE, answer=partial(_coded, codes))
        for says, codes in (
            ("rm counts as in x86: nearest, down, up, zero", (0, 2, 3, 1, 4)),
            ("rm counts as in Arm: nearest, up, down, zero", (0, 3, 2, 1, 4)),
            ("rm 4 is nearest even too", (0, 1, 2, 3, 0)),
        )
    ),
    Variant("D-arith-2", "terms that cancel leave +0 in every direction", CORE, answer=_positive_zero),
    Variant("D-arith-23", "flags in Arm's order, NV at bit 0", FLAGS, answer=_arms_order),
    Variant("D-arith-23", "UF wherever the result is subnormal", FLAGS, answer=_exact_underflow),
    *choices("D-arith-24", "tininess", "before", "after"),
    *choices("D-arith-25", "inf_zero_nan", "quiet", "invalid"),
    Variant("D-arith-26", "flags are those of the sum alone", apply=SEPARATE, answer=_of_the_sum),
)
#: Decisions that no committed row shows
UNOBSERVABLE = {
    "D-arith-1": "Sets have one NaN, which replaces every NaN of a device; other payloads are in class `words`."
}
