"""Orders of sums: their errors, and the programs of additions to which they are lowered."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import orders, sums
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.orders import ADD, PRODUCT, START, STEP, Chunks, Exact, Halves, Lanes, Sequential, Tree, lower
from tests.arith.strategies import described, is_fusable
from tests.oracles import sums as oracle

ORDERS: list[orders.Order] = [
    Sequential(),
    Tree(1),
    Tree(2),
    Tree(5),
    Tree(16),
    Halves(1),
    Halves(2),
    Halves(8),
    Lanes(3, "blocked", Sequential()),
    Lanes(4, "strided", Halves(2), first="product"),
    Lanes(4, "blocked", Tree(4), first="product"),  # a key dot of LeanKV
    Lanes(16, "strided", Chunks(8, Halves(8), Halves(2))),  # a probability sum of LeanKV, a sixteenth of it
    Lanes(2, "strided", Lanes(2, "blocked", Sequential(), first="product")),
    Chunks(4, Sequential(), Sequential()),
    Chunks(8, Sequential(), Tree(4)),
    Chunks(4, Tree(2), Halves(4)),
    Chunks(6, Lanes(4, "strided", Tree(3), first="product"), Sequential()),
    Chunks(9, Chunks(3, Halves(4), Sequential()), Lanes(2, "blocked", Tree(2))),
]


def with_named_lanes(terms: int) -> list[orders.Order]:
    """`ORDERS`, and two that name the lane of each of `terms` terms; the last lane stays empty."""
    if not terms:
        return ORDERS
    split = tuple((7 * k + k // 3) % 4 for k in range(terms))
    return [*ORDERS, Lanes(5, split, Halves(8)), Lanes(5, split, Sequential(), first="product")]


# An addition that is neither commutative nor associative, so that equal results mean equal orders.


def mixed(left: float, right: float) -> float:
    return (0.6180339887 * left + 0.4142135623 * right + 0.1) % 1


def step(left: float, term: float) -> float:
    return mixed(left, mixed(term, 0.7))


def leaf(term: float) -> float:
    return mixed(0.3, term)


def run(program: np.ndarray, slots: int, terms: list[float], start: float) -> float:
    """What a program of `lower` does, one row at a time."""
    values: list[Any] = [None] * slots
    for operation, slot, k in program.tolist():
        if operation == ADD:
            values[slot], values[k] = mixed(values[slot], values[k]), None
        elif operation == STEP:
            values[slot] = step(values[slot], terms[k])
        elif operation == PRODUCT:
            values[slot] = leaf(terms[k])
        else:
            values[slot] = start if operation == START else 0.0
    assert values[1:] == [None] * (slots - 1)  # every partial result has been added once
    return float(values[0])


@pytest.mark.parametrize("start", [0.0, 0.25])
@pytest.mark.parametrize("terms", range(40))
def test_program_and_readable_engine_add_as_oracle_does(terms: int, start: float) -> None:
    """D-arith-4, D-arith-5: each order is one shape of additions, from its start; no terms give the start."""
    values = [(k + 1) / 41 for k in range(terms)]

    for order in with_named_lanes(terms):
        want = oracle.reduce(described(order), values, mixed, step, leaf, start)
        program, slots = lower(order, terms, start == 0)

        assert want == sums.reduce(order, values, start, mixed, step, leaf), order
        assert want == run(program, slots, values, start), order


@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_every_term_enters_once(order: orders.Order) -> None:
    program, _ = lower(order, 77)

    assert sorted(k for operation, _, k in program.tolist() if operation in (PRODUCT, STEP)) == list(range(77))


@pytest.mark.parametrize(
    ("order", "slots"),
    [(Sequential(), 1), (Tree(16), 6), (Halves(16), 6), (Lanes(256, "strided", Sequential()), 2),
     (Chunks(8, Sequential(), Tree(4)), 4)],
    ids=repr,
)  # fmt: skip
def test_program_keeps_few_partial_results(order: orders.Order, slots: int) -> None:
    """A running sum, and one value per level of a tree: not one per term."""
    assert lower(order, 1000)[1] == slots


def test_program_is_made_once_and_frozen() -> None:
    program, _ = lower(Tree(4), 9)

    assert program.dtype == np.int64 and not program.flags.writeable
    assert program is lower(Tree(4), 9)[0]


def test_order_of_named_lanes_may_be_an_array() -> None:
    order = Lanes(4, np.array([0, 3, 1]), Sequential())

    assert order == Lanes(4, (0, 3, 1), Sequential()) and hash(order) == hash(Lanes(4, (0, 3, 1), Sequential()))
    assert [order.lane(k, 3) for k in range(3)] == [0, 3, 1]


def test_lanes_deal_strided_or_blocked() -> None:
    assert [Lanes(4, "strided", Sequential()).lane(k, 10) for k in range(10)] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert [Lanes(4, "blocked", Sequential()).lane(k, 10) for k in range(10)] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert [Lanes(4, "blocked", Sequential()).lane(k, 6) for k in range(6)] == [0, 0, 1, 1, 2, 2]  # lane 3 is empty


ONE = Sequential()
BAD_ORDERS = [
    pytest.param(lambda: Tree(0), Refused, "Tree: width must be at least 1, got 0", id="tree of 0"),
    pytest.param(lambda: Tree(2.0), RefusedType, r"Tree: width must be an integer, got 2\.0", id="tree of float"),
    pytest.param(lambda: Tree(True), RefusedType, "Tree: width must be an integer, got True", id="tree of bool"),
    pytest.param(lambda: Halves(6), Refused, "Halves: width must be a power of two, got 6", id="halves of 6"),
    pytest.param(lambda: Halves(0), Refused, "Halves: width must be at least 1", id="halves of 0"),
    pytest.param(lambda: Lanes(0, "strided", ONE), Refused, "Lanes: count must be at least 1", id="no lanes"),
    pytest.param(lambda: Lanes(2, "odd", ONE), Refused, "Lanes: split must be one of 'strided', 'blocked'", id="split"),
    pytest.param(lambda: Lanes(2, [0, 2], ONE), Refused, r"Lanes: split 2 at index \(1,\) .* \[0, 2\)", id="lane"),
    pytest.param(lambda: Lanes(2, [0.5], ONE), RefusedType, "Lanes: integers are needed", id="lane of float"),
    pytest.param(lambda: Lanes(2, "strided", Exact()), RefusedType, "Lanes: across must be one of .* got Exact",
                 id="exact across lanes"),
    pytest.param(lambda: Lanes(2, "strided", ONE, "one"), Refused, "Lanes: first must be .* got 'one'", id="first"),
    pytest.param(lambda: Chunks(0, ONE, ONE), Refused, "Chunks: width must be at least 1", id="chunks of 0"),
    pytest.param(lambda: Chunks(2, "tree", ONE), RefusedType, "Chunks: inner must be one of", id="inner"),
    pytest.param(lambda: Chunks(2, ONE, None), RefusedType, "Chunks: outer must be .* got None", id="outer"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), BAD_ORDERS)
def test_orders_rejects_order(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


TREE_INSIDE = Chunks(4, Chunks(2, Halves(2), ONE), ONE)
BAD_USES = [
    pytest.param("tree", "fp32", 4, RefusedType, "^dot: order must be one of Sequential, Tree, Halves, Lanes, Chunks, "
                 "got 'tree'$", id="a string"),
    pytest.param(Tree, "fp32", 4, RefusedType, "got <class", id="a class"),
    pytest.param(ONE, "exact", 4, Refused, 'acc="exact" and order=Exact.. go .*Sequential', id="sequential"),
    pytest.param(Exact(), "fp32", 4, Refused, 'go together only, got acc=.fp32., order=Exact', id="exact"),
    pytest.param(Tree(16), "fp16_fma", 4, Refused, "^dot: fp16_fma needs a sequential inner order, got "
                 r"Tree\(width=16\)$", id="fused tree"),
    pytest.param(Halves(2), "fp32_fma", 4, Refused, "fp32_fma needs a sequential inner order", id="fused halves"),
    pytest.param(TREE_INSIDE, "fp16_fma", 4, Refused, r"inner order, got Halves\(width=2\)", id="fused chunk"),
    pytest.param(Lanes(2, [0, 1], ONE), "fp32", 3, Refused, "split names lanes of 2 terms, got 3 terms", id="split"),
    pytest.param(Chunks(2, Lanes(2, [0, 1], ONE), ONE), "fp32", 5, Refused, "2 terms, got 1 terms", id="short chunk"),
    pytest.param(Chunks(2, ONE, Lanes(2, [0, 1], ONE)), "fp32", 5, Refused, "2 terms, got 3 terms", id="chunks"),
    pytest.param(Lanes(3, "strided", Lanes(2, [0, 1], ONE)), "fp32", 5, Refused, "2 terms, got 3", id="across"),
]  # fmt: skip


@pytest.mark.parametrize(("order", "acc", "terms", "error", "message"), BAD_USES)
def test_orders_rejects_order_that_does_not_fit(
    order: Any, acc: str, terms: int, error: type[Exception], message: str
) -> None:
    """D-arith-3: fused products under a tree have no accumulator to go into."""
    with pytest.raises(error, match=message):
        orders.require_order(order, acc, terms, "dot")


@pytest.mark.parametrize("acc", ["fp16_fma", "fp32_fma"])
def test_fused_products_combine_with_lanes_and_chunks(acc: str) -> None:
    for order in ORDERS:
        if is_fusable(order):
            orders.require_order(order, acc, 8, "dot")


def test_an_order_prints_as_its_constructor() -> None:
    assert repr(Lanes(4, "blocked", Tree(4), first="product")) == (
        "Lanes(count=4, split='blocked', across=Tree(width=4), first='product')"
    )
    assert all(eval(repr(order)) == order for order in [*with_named_lanes(9), Exact()])
