"""Operations of binary64 as integers: equal to NumPy's, bit for bit, on numbers of all magnitudes."""

import random
import struct

import numpy as np
import pytest

from refemu.prove import terms
from refemu.prove.floats import ranges
from refemu.prove.floats.lowering import Lowering
from refemu.prove.terms import Term
from tests.prove.random_terms import random_rows, random_terms

ROWS = 400
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, float("inf"), float("-inf"), float("nan"), 5e-324, 1.7e308, 2.2e-308)


def words(seed: int, bits: int) -> np.ndarray:
    """Words of a format: special ones, near each other, of any magnitude."""
    draw = random.Random(seed)
    dtype = {16: np.float16, 32: np.float32, 64: np.float64}[bits]
    with np.errstate(all="ignore"):
        special = [int(np.array(each).astype(dtype).view(f"u{bits // 8}")) for each in SPECIAL]
    answer = []
    for _ in range(ROWS):
        kind, word = draw.random(), draw.getrandbits(bits)
        if kind < 0.3:
            word = draw.choice(special)
        elif kind < 0.7:
            with np.errstate(all="ignore"):
                near = struct.unpack(
                    "<d", struct.pack("<d", draw.choice((1, 3, -1, 7, 1e-3, 65520, 1e30)) * draw.random())
                )
                word = int(np.array(round(near[0], draw.randrange(20))).astype(dtype).view(f"u{bits // 8}"))
        elif kind < 0.8:
            word &= ~((1 << draw.randrange(bits // 2)) - 1)
        answer.append(word)
    return np.array(answer, np.uint64)


X = {bits: [terms.fp(f"value{bits}", terms.variable(f"{name}{bits}", bits)) for name in "abc"] for bits in (16, 32, 64)}
INTEGER = terms.fp("integer", terms.variable("n", 40))
WIDE = terms.fp("integer", terms.variable("w", 70))


def rows(seed: int) -> dict[str, np.ndarray]:
    """Values of all variables."""
    draw = random.Random(seed)
    answer = {f"{name}{bits}": words(seed * 9 + at, bits) for bits in X for at, name in enumerate("abc")}
    # exponents of b near those of a, so that terms meet
    for bits, shift in ((16, 10), (32, 23), (64, 52)):
        a, b = answer[f"a{bits}"], answer[f"b{bits}"]
        near = np.array([draw.random() < 0.5 for _ in a])
        low = np.uint64((1 << shift) - 1)
        high = (a >> np.uint64(shift)) ^ np.array([draw.getrandbits(2) for _ in a], np.uint64)
        answer[f"b{bits}"] = np.where(near, ((high << np.uint64(shift)) | (b & low)) & np.uint64((1 << bits) - 1), b)
    answer["n"] = np.array([draw.getrandbits(draw.randrange(1, 41)) for _ in range(ROWS)], np.uint64)
    answer["w"] = np.array([draw.getrandbits(draw.randrange(1, 71)) for _ in range(ROWS)], object)
    return answer


def made(op: str, bits: int) -> list[Term]:
    """Words of an operation on operands of a width."""
    a, b, c = X[bits]
    fp = terms.fp
    if op in ("fadd", "fsub", "fmul", "fdiv"):
        return [fp("pattern64", fp(op, a, b)), fp("pattern64", fp(op, fp(op, a, b), c))]
    if op in ("flt", "fle", "feq"):
        return [fp(op, a, b), fp(op, fp("fadd", a, b), c), fp(op, a, terms.real(0.5)), fp(op, terms.real(-0.0), b)]
    if op in ("isnan", "isinf"):
        return [fp(op, fp("fmul", a, b))]
    if op.startswith("pattern"):
        return [fp(op, a), fp(op, fp("fmul", a, b)), fp(op, fp("fadd", fp("fmul", a, b), c)), fp(op, INTEGER)]
    if op == "truncate":
        small = fp("fmul", a, terms.real(0.125))
        bounded = terms.ite(fp("flt", fp("fabs", small), terms.real(2.0**60)), small, terms.real(0.0))
        return [terms.truncated(bounded, width) for width in (64, 137)]
    if op == "ite":
        return [fp("pattern64", terms.ite(fp("flt", a, b), fp("fmul", a, c), fp("fneg", b)))]
    return [fp("pattern64", fp(op, a)), fp("pattern64", fp(op, fp("fmul", a, b)))]


OPERATIONS = (
    *("fadd", "fsub", "fmul", "fdiv", "fneg", "fabs", "frint", "ffloor", "f32", "flt", "fle", "feq", "isnan", "isinf"),
    *("pattern16", "pattern32", "pattern64", "truncate", "ite"),
)


@pytest.mark.long
@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("op", OPERATIONS)
def test_operation_as_integers_equals_numpy(op: str, bits: int) -> None:
    roots = made(op, bits)
    lowered = Lowering().of(roots)
    assert not any(each.op in terms.FP or each.width < 0 for each in terms.order(lowered))
    for seed in range(3):
        given = rows(seed)
        expected, got = (terms.evaluate(each, given, ROWS) for each in (roots, lowered))
        for one, other in zip(expected, got, strict=True):
            differs = np.flatnonzero(one.astype(object) != other.astype(object))
            assert not len(differs), (op, bits, {name: hex(int(v[differs[0]])) for name, v in given.items()})


def test_integers_of_any_width_are_rounded() -> None:
    for number in (INTEGER, WIDE, terms.fp("fadd", WIDE, INTEGER)):
        (root,) = [terms.fp("pattern64", number)]
        given = rows(7)
        (expected,), (got,) = (terms.evaluate(each, given, ROWS) for each in ([root], Lowering().of([root])))
        assert (expected == got).all()


def test_exact_operations_have_no_rounding() -> None:
    a, b, c = X[16]
    exact = Lowering()
    exact.of([terms.fp("pattern64", terms.fp("fmul", a, b))])
    (found,) = [each for each in exact.numbers.values() if each.width == 22]
    assert found.significand.op == "mul"
    assert found.low == -48
    exact.of([terms.fp("pattern16", terms.fp("fadd", a, c))])


@pytest.mark.long
def test_sums_of_one_format_rounded_once_equal_numpy() -> None:
    a, b, c = X[32]
    inner = terms.fp("f32", terms.fp("fadd", a, b))
    half = terms.fp("value16", terms.fp("pattern16", terms.fp("fmul", X[16][0], X[16][1])))
    packed = terms.fp("pattern32", terms.fp("fmul", half, X[16][2]))
    chosen = terms.ite(terms.variable("bit", 1), packed, terms.variable("c32", 32))
    roots = [
        *(terms.fp("pattern32", terms.fp(op, inner, c)) for op in ("fadd", "fsub")),
        terms.fp("pattern64", terms.fp("f32", terms.fp("fsub", a, b))),
        terms.fp("pattern32", terms.fp("fadd", a, terms.fp("value32", chosen))),
        terms.fp("pattern32", terms.fp("f32", terms.fp("fmul", a, b))),
    ]
    lowered = Lowering().of(roots)
    for seed in range(20):
        given = rows(seed) | {"bit": np.arange(ROWS, dtype=np.uint64) & np.uint64(1)}
        expected, got = (terms.evaluate(each, given, ROWS) for each in (roots, lowered))
        for at, (one, other) in enumerate(zip(expected, got, strict=True)):
            assert (one == other).all(), at


def test_product_with_a_power_of_two_has_no_product() -> None:
    places = terms.add(terms.sext(terms.variable("p", 7), 12), terms.const(1023, 12))
    power = terms.concat(terms.zext(terms.extract(places, 0, 11), 12), terms.const(0, 52))
    root = terms.fp("pattern64", terms.fp("fmul", X[16][0], terms.fp("value64", power)))
    (lowered,) = Lowering().of([root])
    assert not any(each.op == "mul" for each in terms.order([lowered]))
    given = rows(3) | {"p": np.arange(ROWS, dtype=np.uint64) & np.uint64(127)}
    (expected,), (got,) = (terms.evaluate(each, given, ROWS) for each in ([root], [lowered]))
    assert (expected == got).all()


def test_values_are_within_their_ranges() -> None:
    for seed in range(20):
        roots = random_terms(seed)
        given = {name: np.array(values, object) for name, values in random_rows(seed, 50).items()}
        for term, values in zip(roots, terms.evaluate(roots, given, 50), strict=True):
            (low, high), (least, most) = ranges.signed(term), ranges.unsigned(term)
            half = 1 << (term.width - 1)
            for value in map(int, values):
                assert low <= value - ((value & half) << 1) <= high and least <= value <= most
    short = terms.mul(terms.zext(terms.variable("x", 4), 20), terms.sext(terms.variable("y", 5), 20))
    assert ranges.signed(short) == (-240, 225)
    assert ranges.signed(terms.extract(short, 4, 6)) == (-15, 14)
    assert ranges.signed(terms.shl(short, terms.zext(terms.variable("z", 2), 20))) == (-1920, 1800)


def test_short_number_below_normal_ones_is_rounded() -> None:
    word = terms.fp("pattern16", terms.fp("fmul", X[16][0], terms.real(2.0**-12)))
    (lowered,) = Lowering().of([word])
    given = {"a16": rows(1)["a16"]}
    first, second = terms.evaluate([word, lowered], given, ROWS)
    assert (first == second).all()
