"""Runs of consecutive elements along one axis, which share an exponent or a scale.

Paper: [harmonia §II-B, Fig. 3], [harmonia §III-A, Fig. 6a]. A group never leaves its row; the last one may be short.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.checks import Refused, RefusedType, require_int


def require_axis(axis: int, shape: tuple[int, ...], thing: str) -> int:
    """`axis` counted from the front; raises unless `shape` has it, not empty. thing: start of the error message."""
    if not isinstance(axis, int | np.integer) or isinstance(axis, bool):
        raise RefusedType(f"{thing}: axis must be an int, got {axis!r}")
    if not -len(shape) <= axis < len(shape):
        raise Refused(f"{thing}: axis must be in [{-len(shape)}, {len(shape)}), got {axis}")
    if shape[axis] == 0:
        raise Refused(f"{thing}: axis {axis} must hold at least one element, got shape {shape}")
    return int(axis) % len(shape)


def require_shape(shape: Sequence[int], thing: str) -> tuple[int, ...]:
    """`shape` as a tuple; raises unless it has at least one extent, all integers of at least 0."""
    if not isinstance(shape, Sequence) or isinstance(shape, str | bytes):
        raise RefusedType(f"{thing}: shape must be a tuple of integers, got {shape!r}")
    if not shape:
        raise Refused(f"{thing}: shape must have at least one axis, got ()")
    return tuple(
        require_int(each, 0, 1 << 62, f"{thing}: shape", f"extent of axis {i}") for i, each in enumerate(shape)
    )


def count(length: int, group: int) -> int:
    """Groups that `length` elements make, the short one included."""
    return -(-length // group)


def split(x: np.ndarray, group: int, axis: int) -> np.ndarray:
    """The groups of `x` along `axis`, moved last: (..., groups, group). The last one is filled up with zeros."""
    moved = np.moveaxis(x, axis, -1)
    groups = count(moved.shape[-1], group)
    missing = groups * group - moved.shape[-1]
    if missing:
        moved = np.concatenate([moved, np.zeros((*moved.shape[:-1], missing), moved.dtype)], axis=-1)
    return moved.reshape(*moved.shape[:-1], groups, group)


def join(groups: np.ndarray, length: int, axis: int) -> np.ndarray:
    """The inverse of `split`: `length` elements along `axis`, without the padding of the last group."""
    flat = groups.reshape(*groups.shape[:-2], groups.shape[-2] * groups.shape[-1])
    return np.moveaxis(flat[..., :length], -1, axis)


def spread(per_group: np.ndarray, group: int, length: int, axis: int) -> np.ndarray:
    """One value per group, in the axis' place, as one value per element."""
    return np.repeat(per_group, group, axis)[(slice(None),) * (axis % per_group.ndim) + (slice(length),)]
