"""Terms: values of every operation, and substitution, against integers of Python."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from refemu.prove import terms

ONES = {width: (1 << width) - 1 for width in (1, 5, 63, 64, 65, 100)}


def _signed(value: int, width: int) -> int:
    return value - ((value >> (width - 1)) << width)


EXPECTED: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, w: (a + b) & ONES[w],
    "sub": lambda a, b, w: (a - b) & ONES[w],
    "mul": lambda a, b, w: a * b & ONES[w],
    "shl": lambda a, b, w: a << b & ONES[w] if b < w else 0,
    "lshr": lambda a, b, w: a >> b if b < w else 0,
    "ashr": lambda a, b, w: _signed(a, w) >> min(b, w) & ONES[w],
    "udiv": lambda a, b, w: a // b if b else ONES[w],
    "urem": lambda a, b, w: a % b if b else a,
    "eq": lambda a, b, w: int(a == b),
    "ult": lambda a, b, w: int(a < b),
    "slt": lambda a, b, w: int(_signed(a, w) < _signed(b, w)),
    "and_": lambda a, b, w: a & b,
    "or_": lambda a, b, w: a | b,
    "xor": lambda a, b, w: a ^ b,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_operation_has_the_value_of_integers(name: str) -> None:
    draw = random.Random(name)
    operation = getattr(terms, name)
    for width in ONES:
        left = [draw.getrandbits(width) for _ in range(40)]
        right = [draw.choice([draw.getrandbits(width), draw.randrange(min(1 << width, width + 3))]) for _ in left]
        rows = {"a": np.array(left, object), "b": np.array(right, object)}
        want = [EXPECTED[name](a, b, width) for a, b in zip(left, right, strict=True)]
        term = operation(terms.variable("a", width), terms.variable("b", width))
        assert [int(value) for value in terms.evaluate([term], rows, 40)[0]] == want
        assert operation(terms.const(left[0], width), terms.const(right[0], width)).name == want[0]
        half = operation(terms.variable("a", width), terms.const(right[0], width))
        again = [EXPECTED[name](a, right[0], width) for a in left]
        assert [int(value) for value in terms.evaluate([half], rows, 40)[0]] == again


def test_equal_nodes_are_one_object() -> None:
    a, b = terms.variable("a", 8), terms.variable("b", 8)
    assert terms.add(a, b) is terms.add(b, a)
    assert terms.ite(terms.eq(a, b), a, a) is a
    assert terms.extract(terms.concat(a, b), 8, 8) is a


def test_substitution_replaces_variables() -> None:
    a, b = terms.variable("a", 8), terms.variable("b", 8)
    (found,) = terms.substitute([terms.add(a, b)], {a.number: terms.const(3, 8), b.number: terms.const(4, 8)})
    assert found is terms.const(7, 8)


def test_simplified_choices_have_the_values_of_plain_ones() -> None:
    a, b, bit, other = (terms.variable(name, width) for name, width in (("a", 5), ("b", 5), ("t", 1), ("u", 1)))
    larger, zero = terms.ite(terms.slt(a, b), b, a), terms.const(0, 9)
    chosen = terms.ite(other, terms.zext(a, 9), zero)
    limits = [terms.const(each, 5) for each in (0, 3, -4)]
    pairs = [(terms.slt(each, larger), terms.node("slt", 1, each, larger)) for each in limits]
    pairs += [
        (terms.ite(bit, chosen, zero), terms.node("ite", 9, bit, chosen, zero)),
        (terms.ite(bit, terms.zext(b, 9), zero), terms.node("ite", 9, bit, terms.zext(b, 9), zero)),
        (terms.mul(terms.sext(a, 9), terms.zext(bit, 9)), terms.node("mul", 9, terms.sext(a, 9), terms.zext(bit, 9))),
        (terms.extract(chosen, 2, 5), terms.node("extract", 5, chosen, name=2)),
    ]
    draw = random.Random(1)
    rows = {each.name: np.array(draw.choices(range(1 << each.width), k=500)) for each in (a, b, bit, other)}
    for simple, plain in pairs:
        assert simple is not plain
        first, second = terms.evaluate([simple, plain], rows, 500)
        assert (first == second).all()
    assert not any(each.op == "ite" for each in terms.order([pairs[0][0]]))
