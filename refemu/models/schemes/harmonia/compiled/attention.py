"""Compiled form of `attention.attend`: all heads in one kernel, scores never leave the cache of the CPU.

Read attention.py first. [harmonia §III-A, §IV-A]. For the options of the paper; others, such as a model's soft cap,
ALiBi or window, and invalid values go to the readable form.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith.fp16_compiled import plain, ready
from refemu.arith.jit import quiet
from refemu.arith.jit.tiers import early
from refemu.arith.threads import share_out
from refemu.models.schemes.harmonia.cache import Falling, Held
from refemu.models.schemes.harmonia.codes import Codes
from refemu.models.schemes.harmonia.compiled.bfp_heads import bfp_heads
from refemu.models.schemes.harmonia.compiled.linear import is_plain, operand
from refemu.models.schemes.harmonia.steps import Scoring, Units

NEVER = (np.zeros((0, 0, 0), np.uint8), np.zeros((0, 0, 0), np.uint16)) * 2, (np.zeros(0, np.int64),) * 2


def attended(form: Callable[[], np.ndarray], units: Units, q: np.ndarray, held: Held, *others: Any) -> np.ndarray:
    """`attend`, or the readable form of the same call: where only it can, or no kernel is worth compiling."""
    context = early(bfp_heads, q.size * held.tokens, form, 1.5)
    context = attend(units, q, held, *others) if context is None else context
    return form() if context is None else context


def attend(
    units: Units, q: np.ndarray, held: Held, start: int, scoring: Scoring, falling: Falling | None = None
) -> np.ndarray | None:
    """`attention.attend` or `attend_falling`; None if only the readable form can compute it."""
    config, depth = units.config, q.shape[2]
    within = replace(scoring.rule, window=0) if start + len(q) <= scoring.rule.window else scoring.rule
    if (
        not within.plain
        or config.saturate
        or not is_plain(config)
        or not exact(config.group, config.act_mantissa, config.high)
    ):
        return None
    converted = operand(np.ascontiguousarray(q).reshape(-1, depth), config.group, config.act_mantissa)
    if converted is None:
        return None
    query, powers = (part.reshape(*q.shape[:2], -1) for part in converted)
    query = plain(query[..., :depth])  # without the padding of a last group
    scale = np.float32(1) if config.score_scale == "fold" else scoring.scale
    ready()
    out, status = np.empty(q.shape, np.float32), []
    keys, values, fields = operand_of(held.keys), operand_of(held.values), held.keys.layout.fields
    low, falls = NEVER if falling is None else (tuple(map(plain, falling.low)), falling.falls)
    settings = config.partial == "fp16", config.scores == "fp16"
    sizes = worth(config.high), config.group, config.act_mantissa, settings

    def run(first: int, last: int) -> None:
        with quiet():
            status.append(
                bfp_heads(query, powers, keys, values, fields, low, falls, *sizes, scale, start, out, first, last)
            )

    share_out(run, held.heads)
    return None if any(status) else out


def operand_of(codes: Codes) -> tuple[Any, ...]:
    """Keys or values for the kernel: packed tokens, unpacked ones, exponents."""
    packed = plain(codes.upper), plain(codes.rest), (codes.fallen.start, codes.fallen.stop)
    return packed, plain(codes.sign), plain(codes.mantissa), plain(codes.exponent)


def exact(group: int, width: int, other: int) -> bool:
    """Whether every sum of products of mantissas in a group is exact in float32."""
    return group * ((1 << width) - 1) * ((1 << other) - 1) < 1 << 24


@functools.cache
def worth(mantissa_bits: int) -> np.ndarray:
    """Value of a mantissa of 1 by shared exponent, float32."""
    return np.ldexp(np.float32(1), (np.maximum(np.arange(32), 1) - 14 - mantissa_bits).astype(np.int32))
