"""Compiled twin of `harmonia_attention.attend`: all heads in one kernel, scores never leave the cache of the CPU.

Read harmonia_attention.py first. [harmonia §III-A, §IV-A]. It computes what the paper computes; options that the kernel
does not have, and what must be refused, take the readable form.
"""

import numpy as np

from refemu.arith import float_jit
from refemu.arith.fp16_jit import plain, ready
from refemu.models.schemes.harmonia_cache import Held
from refemu.models.schemes.harmonia_units import Units


def attend(units: Units, q: np.ndarray, held: Held, start: int, name: str = "") -> np.ndarray | None:
    """`harmonia_attention.attend`, or None where the readable form must do it."""
    config, depth = units.config, q.shape[2]
    options = config.rounding, config.special, config.subnormals, config.saturate
    if options != ("truncate", "error", "keep", False) or not exact(config.group, config.act_mantissa, config.high):
        return None
    codes = units.encode(config.format(config.act_mantissa), units.words(q), name=f"{name}.q")
    scale = np.float32(1) if config.score_scale == "fold" else np.float32(1 / np.sqrt(np.float64(depth)))
    ready()
    out = np.empty(q.shape, np.float32)
    with np.errstate(all="ignore"):
        status = float_jit.bfp_heads(
            signed(codes.sign, codes.mantissa), plain(worth(config.act_mantissa)[codes.exponent]),
            tuple(map(plain, held.k)), tuple(map(plain, held.v)), worth(config.high), config.group, config.act_mantissa,
            (config.partial == "fp16", config.scores == "fp16"), scale, start, out, 0, held.k[0].shape[1])
    return None if status else out


def exact(group: int, width: int, other: int) -> bool:
    """Whether float32 holds every sum of a group of products of mantissas."""
    return group * ((1 << width) - 1) * ((1 << other) - 1) < 1 << 24


def worth(mantissa_bits: int) -> np.ndarray:
    """What a mantissa of 1 is worth by shared exponent, float32."""
    return np.ldexp(np.float32(1), (np.maximum(np.arange(32), 1) - 14 - mantissa_bits).astype(np.int32))


def signed(sign: np.ndarray, mantissa: np.ndarray) -> np.ndarray:
    """Mantissas with their signs, float32."""
    return np.where(sign == 1, -mantissa.astype(np.float32), mantissa.astype(np.float32))
