"""Sums in one order are equal terms, and have the values of the sums that they replace."""

import random

import numpy as np

from refemu.prove import terms
from refemu.prove.inner.sums import equal, long, ordered
from refemu.prove.terms import Term
from tests.prove.random_terms import INPUTS, random_rows, random_terms

WORDS = [terms.variable(f"w{at}", 12) for at in range(6)]


def total(order: list[int], width: int) -> Term:
    """A sum of sign-extended words in an order."""
    answer = terms.sext(WORDS[order[0]], width)
    for at in order[1:]:
        answer = terms.add(answer, terms.sext(WORDS[at], width))
    return answer


def test_sums_in_other_orders_and_widths_are_one_term() -> None:
    draw = random.Random(1)
    order = [*range(6)]
    first = terms.extract(total(order, 20), 0, 16)
    for _ in range(5):
        draw.shuffle(order)
        second = terms.extract(total(order, draw.choice((16, 18, 24))), 0, 16)
        one, other = ordered([first, second])
        assert one is other


def test_wrapped_sum_is_its_low_bits() -> None:
    exact = total([0, 1, 2, 3], 20)
    mask, half = terms.const(0xFFF, 20), terms.const(0x800, 20)
    wrapped = terms.sub(terms.and_(terms.add(exact, half), mask), half)
    fits = terms.slt(exact, half)
    one, other = ordered([terms.extract(terms.ite(fits, exact, wrapped), 0, 12), terms.extract(exact, 0, 12)])
    assert one is other


def test_sum_of_high_and_low_words_is_one_of_two_sums() -> None:
    """The words of each factor are one sum, as short as its range, wherever it occurs."""
    low, high, wide = terms.add(total([0, 1, 2], 20), terms.const(-5, 20)), total([3, 4, 5], 20), terms.const(-5, 40)
    for at in range(3):
        shifted = terms.concat(terms.sext(WORDS[at + 3], 28), terms.const(0, 12))
        wide = terms.add(wide, terms.add(terms.sext(WORDS[at], 40), shifted))
    roots = [wide, low, high]
    whole, *parts = ordered(roots)
    assert set(long([whole])) == set(long(parts)) != set(long([wide]))
    rows = {each.name: np.array(random.Random(at).choices(range(4096), k=40)) for at, each in enumerate(WORDS)}
    assert np.array_equal(terms.evaluate(roots, rows, 40), terms.evaluate([whole, *parts], rows, 40))


def test_sum_without_a_word_is_another_term() -> None:
    one, other = ordered([total([0, 1, 2, 3], 16), total([0, 1, 2, 2], 16)])
    assert one is not other


def test_values_are_unchanged() -> None:
    for seed in range(20):
        roots = random_terms(seed)
        rows = {name: np.array(values, object) for name, values in random_rows(seed, 50).items()}
        assert set(rows) == set(INPUTS)
        for old, new in zip(terms.evaluate(roots, rows, 50), terms.evaluate(ordered(roots), rows, 50), strict=True):
            assert (old == new).all()
    rows = {each.name: np.array(random.Random(3).choices(range(4096), k=40), np.uint64) for each in WORDS}
    roots = [terms.sub(total([0, 1], 16), total([2, 3, 3], 16)), terms.extract(total([4, 4, 5], 30), 0, 9)]
    for old, new in zip(terms.evaluate(roots, rows, 40), terms.evaluate(ordered(roots), rows, 40), strict=True):
        assert (old == new).all()


def gated(bits: int) -> tuple[Term, Term]:
    """Four products with signs, added as one text of Python does, and as a loop of Verilog does."""
    python, verilog = terms.const(0, bits), terms.const(0, 18)
    for at in range(4):
        x, y, sign = terms.variable(f"x{at}", 8), terms.variable(f"y{at}", 4), terms.variable(f"s{at}", 1)
        wide = terms.zext(y, 14)
        minus = terms.mul(terms.sext(terms.sub(terms.const(0, 9), terms.zext(x, 9)), 14), wide)
        python = terms.add(python, terms.sext(terms.ite(sign, minus, terms.mul(terms.zext(x, 14), wide)), bits))
        product = terms.zext(terms.mul(terms.zext(x, 12), terms.zext(y, 12)), 18)
        verilog = terms.ite(sign, terms.sub(verilog, product), terms.add(verilog, product))
    return python, verilog


def test_sums_of_either_sign_are_equal() -> None:
    python, verilog = gated(17)
    assert equal(terms.sext(python, 18), verilog)
    assert equal(terms.sext(python, 24), terms.sext(verilog, 24))


def test_sum_with_another_sign_or_overflow_is_not_equal() -> None:
    python, verilog = gated(17)
    assert not equal(terms.sext(python, 18), terms.sub(terms.const(0, 18), verilog))
    short = terms.extract(verilog, 0, 14)  # four products may need more
    assert not equal(terms.sext(short, 24), terms.sext(python, 24))


def counted(bits: int) -> Term:
    """How many of eight bits are 1, in a number of bits."""
    answer = terms.zext(terms.variable("s0", 1), bits)
    for at in range(1, 8):
        answer = terms.ite(terms.variable(f"s{at}", 1), terms.add(answer, terms.const(1, bits)), answer)
    return answer


def test_sum_without_sign_is_equal_if_it_does_not_overflow() -> None:
    start = terms.variable("w0", 12)
    both = [terms.add(start, terms.zext(counted(bits), 12)) for bits in (9, 4, 3)]
    assert equal(both[0], both[1])
    assert not equal(both[0], both[2])  # 8 has four bits


def test_words_that_are_called_equal_have_equal_values() -> None:
    found = 0
    for seed in range(60):
        roots = random_terms(seed, 40)
        rows = {name: np.array(values, object) for name, values in random_rows(seed, 30).items()}
        values = terms.evaluate(roots, rows, 30)
        for at, a in enumerate(roots):
            for b, other in zip(roots[:at], values[:at], strict=True):
                if a.width == b.width and a is not b and equal(a, b):
                    found += 1
                    assert (values[at] == other).all()
    assert found


def test_ranges_of_variables_order_short_sums() -> None:
    """Three words of 4 bits fit 5 bits if each is from -4 to 4: then the sums are one, else they may wrap."""
    x, y, z = (terms.variable(f"v{at}", 4) for at in range(3))
    short = terms.add(terms.add(terms.sext(x, 5), terms.sext(y, 5)), terms.sext(z, 5))
    long = terms.add(terms.add(terms.sext(z, 8), terms.sext(x, 8)), terms.sext(y, 8))
    differ = terms.not_(terms.eq(terms.sext(short, 8), long))

    assert ordered([differ], {each.number: (-4, 4) for each in (x, y, z)}) == [terms.FALSE]
    assert ordered([differ]) != [terms.FALSE]
