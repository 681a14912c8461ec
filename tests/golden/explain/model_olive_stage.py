"""An independent model of OliVe's output stage in NumPy, with optional mistakes."""

from typing import Any

import numpy as np

from refemu.golden.files.sets import Golden
from tests.golden.explain.collection import Arrays, outputs
from tests.golden.explain.hands import stimulus
from tests.golden.explain.model_olive import encoded


def stage(
    golden: Golden,
    sums: str = "even",
    order: str = "together",
    direct: bool = False,
    bias: str = "before",
    cut: bool = False,
    infinite: bool = True,
    source: str = "half",
    reciprocal: bool = False,
    **mistakes: Any,
) -> Arrays:
    """An olive_requant of int4, in NumPy.

    sums: rounding of the 32-bit sums to float32. order: of both scales. direct: one rounding to fp16. bias: its place.
    cut: fp16 words are truncated. infinite: beyond fp16. source: of the pair, "half" or "single". mistakes: of
    `encoder`.
    """
    inputs = stimulus(golden)
    a, w, following = (inputs[name].astype(np.uint32).view(np.float32) for name in ("scale_a", "scale_w", "scale_next"))
    b = inputs["bias"].astype(np.uint16).view(np.float16).astype(np.float32)
    acc = inputs["acc"].astype(np.int64)
    with np.errstate(all="ignore"):
        real = truncated32(acc) if sums == "cut" else acc.astype(np.float32)
        scaled = real * (a[:, None] * w) if order == "together" else real * a[:, None] * w
        if direct:
            total = real.astype(np.float64) * (a[:, None] * w) + b
        elif bias == "behind":
            total = scaled.astype(np.float16).astype(np.float32) + b
        else:
            total = scaled + b if bias == "before" else scaled
        y = truncated16(total.astype(np.float32)) if cut else total.astype(np.float16)
        overflow = np.isinf(y) if infinite else np.zeros(y.shape, np.bool_)
        y = y if infinite else np.clip(y, -65504, 65504)
        real = y.astype(np.float32) if source == "half" else total.astype(np.float32)
        step = following[:, None]
        grid = real * (np.float32(1) / step) if reciprocal else real / step
    top = np.finfo(np.float32).max
    pairs = encoded(np.clip(grid, -top, top).astype(float), outputs(golden), **mistakes)
    return {**pairs, "out.y": y.view(np.uint16), "out.overflow": overflow.astype(np.uint8)}


def truncated32(acc: np.ndarray) -> np.ndarray:
    """Integers with their 24 upper bits."""
    size = np.abs(acc)
    drop = np.maximum(np.frexp(size.astype(float))[1] - 24, 0)
    return (np.sign(acc) * (size >> drop << drop)).astype(np.float32)


def truncated16(values: np.ndarray) -> np.ndarray:
    """fp16 values next to float32 ones in the direction of 0."""
    near = values.astype(np.float16)
    beyond = np.abs(near.astype(np.float32)) > np.abs(values)
    return np.where(beyond & np.isfinite(values), np.nextafter(near, np.float16(0)), near)
