"""Orders of a sum: the shapes in which hardware adds K terms, and their lowering to a list of additions.

A float sum without an order is not a specification (D-arith-4), so every sum of the package takes one of these. K = 0
gives the start; otherwise the start enters where the outermost order begins (D-arith-5).
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from refemu.arith.checks import Refused, RefusedType, require_choice, require_range
from refemu.arith.records import parameters, plain_fields

__all__ = ["Chunks", "Exact", "Halves", "LaneStart", "Lanes", "Order", "Sequential", "Split", "Tree", "require_order"]


Split: TypeAlias = Literal["strided", "blocked"]  #: Lane of term k: k mod count, or k // ceil(K / count)
LaneStart: TypeAlias = Literal["zero", "product"]  #: a lane begins with +0, or with its first product


@dataclass(frozen=True)
class Sequential:
    """Terms one after the other, ascending, onto the start."""


@dataclass(frozen=True)
class Exact:
    """No order: nothing is rounded before the end. Goes with acc="exact" only."""


@parameters
class Tree:
    """Blocks of `width` consecutive terms, each added pairwise: neighbours (0, 1), (2, 3), ... level by level.

    An odd last term moves up unchanged. Block results are added to the start in sequence; a single block on a zero
    start is the result.
    """

    width: int  #: terms of a block, at least 1; the last block may be short

    def __post_init__(self) -> None:
        plain_fields(self)
        _require_count(self.width, "Tree", "width")


@parameters
class Halves:
    """As `Tree`, but term i is added to term i + width/2, halving (an xor butterfly); missing terms are +0."""

    width: int  #: a power of two

    def __post_init__(self) -> None:
        plain_fields(self)
        _require_count(self.width, "Halves", "width")
        if self.width & (self.width - 1):
            raise Refused(f"Halves: width must be a power of two, got {self.width}")


@parameters
class Lanes:
    """Terms dealt to `count` lanes, each summed in ascending order, an empty one +0; `across` combines the lanes."""

    count: int  #: number of lanes
    split: Split | tuple[int, ...]  #: "strided": k mod count; "blocked": k // ceil(K/count); or the lane of each term
    across: "Order"  #: order over the results of the lanes
    first: LaneStart = "zero"  #: a lane starts from +0, or from its first "product"

    def __post_init__(self) -> None:
        plain_fields(self)
        _require_count(self.count, "Lanes", "count")
        require_choice(self.first, get_args(LaneStart), "Lanes", "first")
        _require_order(self.across, "Lanes", "across")
        if isinstance(self.split, str):
            require_choice(self.split, get_args(Split), "Lanes", "split")
            return
        split = np.asarray(self.split) if np.size(self.split) else np.empty(0, np.int64)
        lanes = require_range(split, 0, self.count, "Lanes", "split")
        object.__setattr__(self, "split", tuple(lanes.ravel().tolist()))

    def lane(self, k: int, terms: int) -> int:
        """Lane of a term.

        Parameters
        ----------
        k : int
            Number of the term.
        terms : int
            Number of terms.

        Returns
        -------
        int
            Lane.
        """
        if self.split == "strided":
            return k % self.count
        if self.split == "blocked":
            return k // -(-terms // self.count)
        return int(self.split[k])


@parameters
class Chunks:
    """`inner` inside each chunk of `width` consecutive terms, from +0; `outer` over the results of the chunks."""

    width: int  #: terms of a chunk, at least 1
    inner: "Order"  #: order inside a chunk
    outer: "Order"  #: order over the results of the chunks

    def __post_init__(self) -> None:
        plain_fields(self)
        _require_count(self.width, "Chunks", "width")
        _require_order(self.inner, "Chunks", "inner")
        _require_order(self.outer, "Chunks", "outer")


Order: TypeAlias = Sequential | Tree | Halves | Lanes | Chunks | Exact  #: Order of a sum
_ORDERS = (Sequential, Tree, Halves, Lanes, Chunks)


def _require_count(value: int, thing: str, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise RefusedType(f"{thing}: {name} must be an integer, got {value!r}")
    if value < 1:
        raise Refused(f"{thing}: {name} must be at least 1, got {value}")


def _require_order(order: object, thing: str, name: str = "order") -> None:
    if not isinstance(order, _ORDERS):
        raise RefusedType(f"{thing}: {name} must be one of {', '.join(o.__name__ for o in _ORDERS)}, got {order!r}")


def require_order(order: object, acc: str, terms: int, thing: str) -> None:
    """Check that an order suits an accumulator and a number of terms.

    Parameters
    ----------
    order : Order
        Order.
    acc : str
        Accumulator, as for `dot`.
    terms : int
        Number of terms.
    thing : str
        Start of the error message.

    Raises
    ------
    Refused
        The order does not go with `acc`, or a `split` is not `terms` long.
    RefusedType
        `order` is not an order.
    """
    if (acc == "exact") != isinstance(order, Exact):
        raise Refused(f'{thing}: acc="exact" and order=Exact() go together only, got acc={acc!r}, order={order!r}')
    if acc == "exact":
        return
    _require_order(order, thing)
    if acc.endswith("_fma"):
        _require_sequential(order, acc, thing)
    _require_splits(order, terms, thing)


def _require_sequential(order: object, acc: str, thing: str) -> None:
    """A fused step needs an accumulator under every product: a tree has none."""
    if isinstance(order, Tree | Halves):
        raise Refused(f"{thing}: {acc} needs a sequential inner order, got {order!r}")
    if isinstance(order, Chunks):
        _require_sequential(order.inner, acc, thing)


def _require_splits(order: object, terms: int, thing: str) -> None:
    if isinstance(order, Chunks):
        if terms:
            _require_splits(order.inner, min(order.width, terms), thing)
            if terms > order.width and terms % order.width:
                _require_splits(order.inner, terms % order.width, thing)
        _require_splits(order.outer, -(-terms // order.width), thing)
    if isinstance(order, Lanes):
        if isinstance(order.split, tuple) and len(order.split) != terms:
            raise Refused(f"{thing}: split names lanes of {len(order.split)} terms, got {terms} terms")
        _require_splits(order.across, order.count, thing)


# Lowering. A program works on numbered slots; one row is (operation, slot, operand).
ZERO, START, PRODUCT, STEP, ADD = range(5)  #: slot <- +0; <- start; <- product k; <- step with term k; += slot


class _Program:
    """Rows being written, and the slots that are free again."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int]] = []
        self.free: list[int] = []
        self.slots = 0

    def slot(self) -> int:
        if self.free:
            return self.free.pop()
        self.slots += 1
        return self.slots - 1

    def add(self, slot: int, other: int) -> None:
        """Add slot `other`, which is free afterwards."""
        self.rows.append((ADD, slot, other))
        self.free.append(other)


class _Terms:
    """Lazy products of a dot product."""

    def __init__(self, program: _Program, ks: Sequence[int]) -> None:
        self.program, self.ks = program, ks

    def __len__(self) -> int:
        return len(self.ks)

    def cut(self, low: int, high: int) -> "_Terms":
        return _Terms(self.program, self.ks[low:high])

    def pick(self, indices: Sequence[int]) -> "_Terms":
        return _Terms(self.program, [self.ks[i] for i in indices])

    def load(self, i: int) -> int:
        slot = self.program.slot()
        self.program.rows.append((PRODUCT, slot, self.ks[i]))
        return slot

    def step(self, slot: int, i: int) -> None:
        self.program.rows.append((STEP, slot, self.ks[i]))


class _Results(_Terms):
    """Partial results, each made when it is asked for, so that few slots are in use at a time."""

    def __init__(self, program: _Program, makers: Sequence[Callable[[], int]]) -> None:
        self.program, self.makers = program, makers

    def __len__(self) -> int:
        return len(self.makers)

    def cut(self, low: int, high: int) -> "_Results":
        return _Results(self.program, self.makers[low:high])

    def pick(self, indices: Sequence[int]) -> "_Results":
        return _Results(self.program, [self.makers[i] for i in indices])

    def load(self, i: int) -> int:
        return self.makers[i]()

    def step(self, slot: int, i: int) -> None:
        self.program.add(slot, self.makers[i]())


@functools.lru_cache(maxsize=64)
def lower(order: Order, terms: int, start_is_zero: bool = True) -> tuple[np.ndarray, int]:
    """`order` over `terms` terms: int64 rows (operation, slot, operand) and how many slots; slot 0 is the sum."""
    program = _Program()
    if terms:
        result = _sum(program, order, _Terms(program, range(terms)), outermost=True, zero=start_is_zero)
    else:
        result = _start(program, outermost=True)
    assert result == 0, "the slot that is made first is the one that lasts"
    rows = np.array(program.rows, np.int64)
    rows.flags.writeable = False
    return rows, program.slots


def _start(program: _Program, outermost: bool) -> int:
    slot = program.slot()
    program.rows.append((START if outermost else ZERO, slot, 0))
    return slot


def _sum(program: _Program, order: Order, terms: _Terms, outermost: bool, zero: bool) -> int:
    """Slot of the sum of `terms`; `zero` says that its start is a zero."""
    if isinstance(order, Tree | Halves):
        return _blocks(program, order, terms, outermost, zero)
    if isinstance(order, Lanes):
        return _sum(program, order.across, _lanes(program, order, terms), outermost, zero)
    if isinstance(order, Chunks):
        chunks = [terms.cut(low, low + order.width) for low in range(0, len(terms), order.width)]
        makers = [_later(program, order.inner, chunk) for chunk in chunks]
        return _sum(program, order.outer, _Results(program, makers), outermost, zero)
    slot = _start(program, outermost)
    for i in range(len(terms)):
        terms.step(slot, i)
    return slot


def _later(program: _Program, order: Order, terms: _Terms) -> Callable[[], int]:
    return lambda: _sum(program, order, terms, outermost=False, zero=True)


def _blocks(program: _Program, order: Tree | Halves, terms: _Terms, outermost: bool, zero: bool) -> int:
    blocks = [terms.cut(low, low + order.width) for low in range(0, len(terms), order.width)]
    makers = [_fold(program, order, block) for block in blocks]
    if len(blocks) == 1 and zero:
        return makers[0]()
    return _sum(program, Sequential(), _Results(program, makers), outermost, zero)


def _fold(program: _Program, order: Tree | Halves, block: _Terms) -> Callable[[], int]:
    if isinstance(order, Tree):
        return lambda: _tree(program, block)
    return lambda: _halves(program, block, 0, 1, order.width)


def _tree(program: _Program, block: _Terms) -> int:
    """Neighbours level by level, as a recursion: the left part is the largest power of two below the length."""
    if len(block) == 1:
        return block.load(0)
    half = 1 << ((len(block) - 1).bit_length() - 1)
    left = _tree(program, block.cut(0, half))
    program.add(left, _tree(program, block.cut(half, len(block))))
    return left


def _halves(program: _Program, block: _Terms, low: int, stride: int, width: int) -> int:
    """Terms low, low + stride, ... below `width`: the last addition joins the even and the odd ones of them."""
    if stride == width:
        return block.load(low) if low < len(block) else _start(program, outermost=False)
    left = _halves(program, block, low, 2 * stride, width)
    program.add(left, _halves(program, block, low + stride, 2 * stride, width))
    return left


def _lanes(program: _Program, order: Lanes, terms: _Terms) -> _Results:
    members: list[list[int]] = [[] for _ in range(order.count)]
    for k in range(len(terms)):
        members[order.lane(k, len(terms))].append(k)
    return _Results(program, [_lane(program, order, terms.pick(ks)) for ks in members])


def _lane(program: _Program, order: Lanes, terms: _Terms) -> Callable[[], int]:
    def make() -> int:
        if order.first == "zero" or not len(terms):
            return _sum(program, Sequential(), terms, outermost=False, zero=True)
        slot = terms.load(0)
        for i in range(1, len(terms)):
            terms.step(slot, i)
        return slot

    return make
