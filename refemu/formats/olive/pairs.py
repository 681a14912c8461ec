"""Elements of an array as pairs of neighbours, and back.

Paper: [olive §3.1]. Decision: D-olive-24 (which elements are a pair; odd lengths).
"""

import numpy as np

from refemu.arith.checks import Refused


def to_pairs(array: np.ndarray, axis: int | None) -> np.ndarray:
    """Elements as pairs, left first: shape (..., n / 2, 2) with `axis` moved last; (size / 2, 2) for axis None.

    An odd length along the axis gets one zero at its end (D-olive-24); flat pairs reject an odd size.
    """
    if axis is None:
        if array.size % 2:
            raise Refused(f"Ovp: flat pairs need an even number of elements, got {array.size}")
        return array.reshape(-1, 2)
    moved = np.moveaxis(array, axis, -1)
    if moved.shape[-1] % 2:
        moved = np.concatenate([moved, np.zeros((*moved.shape[:-1], 1), array.dtype)], axis=-1)
    return moved.reshape(*moved.shape[:-1], moved.shape[-1] // 2, 2)


def from_pairs(pairs: np.ndarray, shape: tuple[int, ...], axis: int | None) -> np.ndarray:
    """The inverse of `to_pairs`: elements in `shape`, whose length along `axis` is even."""
    if axis is None:
        return pairs.reshape(shape)
    return np.moveaxis(pairs.reshape(*without(shape, axis), shape[axis]), -1, axis)


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """`shape` less the length along `axis`."""
    return tuple(n for i, n in enumerate(shape) if i != axis % len(shape))


def padded(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """`shape` with the length along `axis` rounded up to even."""
    if axis is None:
        return shape
    return tuple(n + n % 2 if i == axis % len(shape) else n for i, n in enumerate(shape))
