"""Other answers to the decisions of fp16_mac."""

from functools import partial
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units.alternative import Alternative, choices
from refemu.units.config import Config
from refemu.units.kllm.fp16_mac import ROUNDINGS

_MODES = {
    "results are truncated": fp16.Fp16Mode(rounding="truncate"),
    "results saturate": fp16.Fp16Mode(overflow="saturate"),
    "subnormals are zeros": fp16.Fp16Mode(subnormals="flush"),
}


def _operands(inputs: Any) -> list[np.ndarray]:
    return [fp16.to_f32(fp16.values(np.asarray(inputs[name], np.uint16))) for name in ("a", "b", "acc")]


def _in_mode(mode: fp16.Fp16Mode, config: Config, inputs: Any, result: Any) -> Any:
    """Answers of a unit whose product and sum are rounded in another mode."""
    x, y, s = _operands(inputs)
    separate = config["rounding"] == "fp16"
    total = fp16.add16(s, fp16.mul16(x, y, mode), mode) if separate else fp16.fma16(x, y, s, mode)
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(s)
    return {"y": fp16.bits(fp16.to_f16(total)), "overflow": finite & ~np.isfinite(total)}


def _product_overflows(config: Config, inputs: Any, result: Any) -> Any:
    """`overflow` also where finite factors overflow and meet an infinity or a NaN."""
    x, y, _ = _operands(inputs)
    lost = np.isfinite(x) & np.isfinite(y) & ~np.isfinite(fp16.mul16(x, y))
    return {"overflow": np.asarray(result.overflow, np.bool_) | lost}


def _any_infinity(config: Config, inputs: Any, result: Any) -> Any:
    """`overflow` wherever y is infinite."""
    return {"overflow": result.y & 0x7FFF == 0x7C00}


ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-kllm-3", "rounding", *ROUNDINGS),
    *(Alternative("D-arith-2", says, answer=partial(_in_mode, mode)) for says, mode in _MODES.items()),
    Alternative("D-arith-18", "overflow shows an overflowing product too", answer=_product_overflows),
    Alternative("D-arith-18", "overflow shows every infinity", answer=_any_infinity),
)
