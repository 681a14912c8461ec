"""Operations of binary64 as integers: equal to NumPy's, bit for bit, on numbers of all magnitudes."""

import random
import struct

import numpy as np
import pytest

from refemu.prove import terms
from refemu.prove.floats.lowering import Lowering
from refemu.prove.terms import Term

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
