"""Orders and operands for tests of sums: hypothesis strategies, and the same orders as the oracle's tuples."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from refemu.arith import fp16
from refemu.arith.orders import Chunks, Halves, Lanes, Order, Sequential, Tree

#: zeros, ends of the subnormals, ties, ones, the largest; what cancels and what overflows
WORDS = [
    w | s
    for s in (0, 0x8000)
    for w in (
        0,
        1,
        2,
        3,
        0x1FF,
        0x3FF,
        0x400,
        0x401,
        0x1400,
        0x37FF,
        0x3BFF,
        0x3C00,
        0x3C01,
        0x3FFF,
        0x4200,
        0x6400,
        0x6401,
        0x7800,
        0x7BFF,
    )
]
PERIOD = 251  #: a prime: rows and columns of what repeats after it differ

words = st.one_of(st.sampled_from(WORDS), st.integers(0, 0x7BFF), st.integers(0x8000, 0xFBFF))
halves = words.map(lambda w: np.uint16(w).view(np.float16).astype(np.float32))
singles = st.floats(width=32, allow_nan=False, allow_infinity=False).map(np.float32)

_flat = st.one_of(st.just(Sequential()), st.integers(1, 9).map(Tree), st.sampled_from([1, 2, 4, 8]).map(Halves))


def _nested(inner: st.SearchStrategy[Order]) -> st.SearchStrategy[Order]:
    lanes = st.builds(
        Lanes, st.integers(1, 5), st.sampled_from(["strided", "blocked"]), inner, st.sampled_from(["zero", "product"])
    )
    return st.one_of(lanes, st.builds(Chunks, st.integers(1, 6), inner, inner))


orders = st.recursive(_flat, _nested, max_leaves=4)


def is_fusable(order: Order) -> bool:
    """Whether no tree is directly above products."""
    if isinstance(order, Chunks):
        return is_fusable(order.inner)
    return not isinstance(order, Tree | Halves)


def described(order: Order) -> tuple[Any, ...]:
    """`order` as `tests.oracles.sums` has it."""
    if isinstance(order, Sequential):
        return ("sequential",)
    if isinstance(order, Tree | Halves):
        return (type(order).__name__.lower(), order.width)
    if isinstance(order, Lanes):
        split = order.split if isinstance(order.split, str) else list(order.split)
        return ("lanes", order.count, split, described(order.across), order.first)
    assert isinstance(order, Chunks)
    return ("chunks", order.width, described(order.inner), described(order.outer))


def same(a: Any, b: Any) -> bool:
    """Equal dtype, shape and bits."""
    x, y = np.asarray(a), np.asarray(b)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def codes(shape: int | tuple[int, ...], bits: int) -> st.SearchStrategy[np.ndarray]:
    """int64 arrays of codes below 2**bits; `bits` at most 62; drawn as bytes, which shrink to zeros one by one."""
    size = 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8
    count = size * int(np.prod(shape))
    drawn = st.binary(min_size=count, max_size=count)
    return drawn.map(lambda raw: np.frombuffer(raw, f"<u{size}").astype(np.int64).reshape(shape) & (1 << bits) - 1)


def numbers(shape: int | tuple[int, ...], bits: int = 12) -> st.SearchStrategy[np.ndarray]:
    """float32 arrays of equally spaced values in [-4, 4), at 12 bits exact in fp16; they shrink to zeros."""
    half = 1 << (bits - 1)
    return codes(shape, bits).map(lambda drawn: ((drawn ^ half) - half).astype(np.float32) / np.float32(half / 4))


def repeating(
    draw: Callable[[int], st.SearchStrategy[np.ndarray]], shape: int | tuple[int, ...]
) -> st.SearchStrategy[np.ndarray]:
    """Arrays of `shape` that repeat PERIOD values of `draw`: hypothesis draws 8 KiB a case at most.

    The values do not depend on the shape, so that hypothesis can shrink it and keep them.
    """
    return draw(PERIOD).map(lambda row: np.resize(row, shape))


def fp16_values(shape, seed=0, scale=1.0):
    """Seeded normal draws, rounded to fp16, as float32."""
    values = np.random.default_rng(seed).normal(size=shape) * scale
    return fp16.to_f32(fp16.to_f16(values.astype(np.float32)))
