"""float32 functions: readable = compiled = interpreted = oracle; the exponential on every float32."""

import inspect
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import fp32, fp32_compiled, kernels
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.orders import Lanes, Sequential, Tree
from tests.arith.interpreted import WAYS, needs_compiled
from tests.arith.strategies import same, singles
from tests.oracles import exp, fp16, sums

ORDERS = [Sequential(), Tree(4), Lanes(3, "strided", Sequential())]
EDGES = np.array(
    [
        0,
        -0.0,
        1,
        -1,
        0.5,
        2**-24,
        -(2**-25),
        2**-149,
        -(2**-149),
        2**-126,
        88.72283,
        88.722839,
        88.72284,
        90,
        91,
        -87.3,
        -87.4,
        -103.2,
        -103.9,
        -103.97208,
        -103.97209,
        -104,
        -110,
        -111,
        3e38,
        -3e38,
        np.inf,
        -np.inf,
        np.nan,
    ],
    np.float32,
)
any_single = st.integers(0, 2**32 - 1).map(lambda u: np.uint32(u).view(np.float32))


def words(x):
    return np.asarray(x).view(np.uint32)


# Fused multiply-add


@pytest.mark.parametrize("way", WAYS)
@given(any_single, any_single, any_single)
def test_fma32_rounds_once(way, a, b, c):
    want = fp16.f32_bits(fp16.fma32(float(a), float(b), float(c)))
    with way():
        got = fp32_compiled.fma32(a, b, c)

    assert want == int(words(fp32.fma32(a, b, c))) == int(words(got))


@pytest.mark.parametrize("fma", [fp32.fma32, fp32_compiled.fma32])
@given(singles, st.integers(-148, -100), st.booleans())
def test_fma32_rounds_once_where_results_are_subnormal(fma, a, exponent, negative):
    """float64 alone is wrong there: its sum rounds at another place than float32's subnormals do."""
    b, c = np.float32(math.ldexp(1 + 2**-20, exponent // 2)), np.float32(math.ldexp(-1 if negative else 1, exponent))
    a = np.float32(math.ldexp(math.frexp(float(a))[0], exponent // 2))

    assert fp16.f32_bits(fp16.fma32(float(a), float(b), float(c))) == int(words(fma(a, b, c)))


def _ties_that_float64_does_not_see():
    """Triples whose exact sum is nearer to a midpoint of float32 than float64 resolves."""
    rng = np.random.default_rng(1)
    a, b = (2.0 * rng.integers(2049, 2895, 1500) + 1 for _ in range(2))  # products of 25 bits: midpoints
    c = np.ldexp(rng.choice([-1.0, 1.0], 1500), rng.integers(-100, -30, 1500))
    left = np.arange((1 << 23) + 1, 1 << 24, 2)
    right = ((1 << 47) + left // 2) // left
    rest = left * right - (1 << 47)
    near = np.flatnonzero((rest != 0) & (np.abs(rest) <= 64))  # scaled products very near 2**-150
    pick = near[rng.integers(0, near.size, 1500)]
    third = np.ldexp(rng.integers(1 << 17, 1 << 23, 1500), -149)
    subnormal = np.ldexp(left[pick], -98), np.ldexp(right[pick], -99), third
    return [np.concatenate(pair).astype(np.float32) for pair in zip((a, b, c), subnormal, strict=True)]


@pytest.mark.parametrize("fma", [fp32.fma32, fp32_compiled.fma32])
def test_fma32_sees_what_float64_does_not(fma):
    """The sum is rounded to odd; float64's own sum, rounded again, is wrong in half of these cases."""
    a, b, c = _ties_that_float64_does_not_see()
    want = [fp16.f32_bits(fp16.fma32(*row)) for row in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    wrong = words((a.astype(np.float64) * b + c).astype(np.float32)) != np.array(want, np.uint32)

    assert want == words(fma(a, b, c)).tolist()
    assert wrong[:1500].sum() > 500 and wrong[1500:].sum() > 500


# Exponential


@pytest.mark.parametrize("way", WAYS)
def test_exp32_at_the_edges(way):
    want = [fp16.f32_bits(exp.exp32(float(x))) for x in EDGES]
    with way():
        got = fp32_compiled.exp32(EDGES)

    assert want == words(fp32.exp32(EDGES)).tolist() == words(got).tolist()


@given(st.one_of(st.floats(-110, 90, width=32), any_single))
def test_exp32_is_the_oracles(x):
    assert fp16.f32_bits(exp.exp32(float(x))) == int(words(fp32.exp32(np.float32(x))))


#: of the 543 million arguments with a normal result, some whose exponential comes nearest to a midpoint
HARDEST = [
    0xC16912CD, 0xBBF0EDF1, 0x377EFF81, 0x38E69CC1, 0x39C6BE5B, 0xB3000000, 0xBAE0E25C, 0x383A3EF1, 0x3D1A274E,
    0x4001B249, 0x40315B33, 0x36FDFFC1, 0x39E5BB1D, 0x337FFFFF, 0x4288942B, 0x3FE67199, 0xBC2A461A, 0xC0781533,
    0x38AD9E29, 0x41CBF87B, 0xBBB70EE8, 0xC13D6631, 0x4034D02B, 0x3A7BCD08, 0x3C608A0E, 0x3C971AAA, 0x3CAFFE2E,
    0xBCB8F40F, 0x3B18F346, 0x40DD70CB, 0xBFBFA14B, 0x3F5BC24C, 0xB7C9C09F, 0x3B8C972E, 0xBF81EADF, 0x4178966E,
    0xBA7242A6, 0xBF76FD92, 0x38643E69, 0x4283070F, 0xBDB393EB, 0x3DFB09D6, 0xC0382E72, 0xC159FA1E, 0x3D7010DE,
    0xBEE0E6CD, 0x37FE7F03, 0xC236E4B4, 0xBCE017BB, 0xBE67B559, 0x408B904B, 0x40A470E2, 0x3A7AF53D, 0x3B00BA9D,
    0x37FF7F01, 0x3E777FEC, 0xBDF128EB, 0xBB9CBB8E, 0xBFAB7CE4, 0xBEED01AF,
]  # fmt: skip


@pytest.mark.parametrize("exp32", [fp32.exp32, fp32_compiled.exp32])
def test_the_hardest_arguments_of_exp32(exp32):
    """Nothing normal comes nearer to a midpoint than e**0xC16912CD, by 1.27 ulp64 (D-arith-6)."""
    x = np.array(HARDEST, np.uint32).view(np.float32)

    assert [fp16.f32_bits(exp.exp32(v)) for v in x.tolist()] == words(exp32(x)).tolist()


def _differences(start, step):
    """Inputs of a stretch of words at which compiled and readable exp32 differ, or differ from float64's exp."""
    x = np.arange(start, start + (1 << 22), step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    compiled = fp32_compiled.exp32(x)
    with np.errstate(all="ignore"):
        library = np.exp(np.where(np.isnan(x), 0, x).astype(np.float64)).astype(np.float32)
    library[np.isnan(x)] = np.uint32(0x7FC00000).view(np.float32)
    return (words(compiled) != words(library)).sum() + (words(compiled) != words(fp32.exp32(x))).sum()


@needs_compiled
def test_exp32_on_one_in_4093_of_every_float32():
    """D-arith-6. Against the C library's float64 exponential, which equals the exact one for every float32 input."""
    assert sum(_differences(start, 4093) for start in range(0, 1 << 32, 1 << 22)) == 0


@needs_compiled
@pytest.mark.slow
def test_exp32_on_every_float32():
    assert sum(_differences(start, 1) for start in range(0, 1 << 32, 1 << 22)) == 0


def test_the_table_of_powers():
    assert fp32.exp_table()[1] == float.fromhex("0x1.02c9a3e778061p+0")
    assert fp32.exp_table()[32] == math.sqrt(2)
    assert not fp32.exp_table().flags.writeable
    assert np.float64(fp32.SHIFT).view(np.int64) == kernels.scalars.EXP_SHIFT_BITS


def test_table_that_is_not_pinned_one_is_rejected(monkeypatch):
    monkeypatch.setattr(fp32, "EXP_TABLE_SHA256", "0" * 64)
    with pytest.raises(ArithmeticError, match="does not have its sha256"):
        inspect.unwrap(fp32.exp_table)()


KERNELS = ["exp_all", "block_fp32", "row_fp32", "rmsnorm_rows", "rotate_pairs"]
COMPILE = """
import json, sys
import numpy as np
from refemu.arith import dot_compiled, kernels, fp32_compiled
from refemu.arith.orders import Sequential
x = np.full((8, 16), 0.1, np.float32)  # products of fp16 values are exact, fused or not
fp32_compiled.exp32(x)
for rows in (x, x[:1]):
    dot_compiled.matmul(rows, dot_compiled.panels(x), order=Sequential(), acc="fp32")
fp32_compiled.rmsnorm(x, x[0], 1e-5, Sequential())
fp32_compiled.rotate(np.ones((1, 2, 4), np.float32), np.ones((1, 2), np.float32), np.ones((1, 2), np.float32), True)
found = {name: getattr(module, name) for module in kernels.MODULES for name in sys.argv[1:] if hasattr(module, name)}
print(json.dumps({name: "".join(kernel.inspect_asm().values()) for name, kernel in found.items()}))
"""


@pytest.fixture(scope="module")
def assembly() -> dict[str, str]:
    """Of each kernel, from a process without a cache: code that was loaded cannot be inspected."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, *KERNELS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "REFEMU_CACHE": "0"},
    )
    return json.loads(done.stdout)


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_is_fused_by_the_compiler(kernel, assembly):
    """A multiplication and an addition stay two instructions unless they are asked to be one."""
    code = assembly[kernel]

    assert "mulps" in code or "mulpd" in code or "mulss" in code or "mulsd" in code
    assert "vfmadd" not in code and "vfmsub" not in code and "vfnmadd" not in code


# Functions of it


def test_sigmoid_and_silu_step_by_step():
    x = np.array([0, -0.0, 1, -1, 20, -20, 200, -200, np.inf, -np.inf, np.nan], np.float32)
    e = [fp16.f32(exp.exp32(-float(v))) for v in x]
    sigmoid = [fp16.f32(1 / fp16.f32(1 + v)) for v in e]
    silu = [-0.0 if v == -np.inf else fp16.f32(float(v) * s) for v, s in zip(x, sigmoid, strict=True)]

    assert [fp16.f32_bits(v) for v in sigmoid] == words(fp32.sigmoid32(x)).tolist()
    assert [fp16.f32_bits(v) for v in silu] == words(fp32.silu32(x)).tolist()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_softmax_is_exponentials_over_their_ordered_sum(way, order):
    rows = (np.random.default_rng(1).normal(size=(5, 11)) * 8).astype(np.float32)
    rows[1, 3:] = -np.inf
    rows[2] = [0.0, -0.0] * 5 + [-0.0]
    rows[3] = -np.abs(rows[3])  # the largest has the smallest word
    want = []
    for row in rows.tolist():
        e = [exp.exp32(fp16.f32(v - max(row))) for v in row]
        total = sums.total32(e, _tuple(order))
        want.append([fp16.f32(v / total) for v in e])
    with way():
        got = fp32_compiled.softmax32(rows, order)

    assert same(np.array(want, np.float32), fp32.softmax32(rows, order))
    assert same(fp32.softmax32(rows, order), got)


def _tuple(order):
    if isinstance(order, Lanes):
        return ("lanes", order.count, order.split, _tuple(order.across), order.first)
    return ("tree", order.width) if isinstance(order, Tree) else ("sequential",)


@pytest.mark.parametrize("softmax", [fp32.softmax32, fp32_compiled.softmax32])
def test_softmax_of_nan_or_infinity_is_nan(softmax):
    """D-arith-17: an overflow upstream stays visible and raises nothing."""
    rows = np.array(
        [[1, np.nan, 2], [1, np.inf, 2], [1, np.uint32(0xFFC00000).view(np.float32), 2], [1, 1, 1]], np.float32
    )
    got = softmax(rows, Sequential())

    assert set(words(got[:3]).ravel().tolist()) == {0x7FC00000}
    assert got[3].tolist() == [np.float32(1) / np.float32(3)] * 3


def test_rsqrt32_of_zeros():
    """D-arith-9."""
    assert fp32.rsqrt32(np.array([4, 0, -0.0, -1], np.float32)).tolist()[:3] == [0.5, math.inf, -math.inf]
    assert int(words(fp32.rsqrt32(np.float32(-1)))) == 0x7FC00000


# Norms and rotation


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_rmsnorm_step_by_step(way, order):
    rng = np.random.default_rng(2)
    x, gain = rng.normal(size=(3, 9)).astype(np.float32), rng.normal(size=9).astype(np.float32)
    f32 = fp16.f32
    want = []
    for row in x.tolist():
        ss = sums.total32([f32(v * v) for v in row], _tuple(order))
        root = f32(math.sqrt(f32(f32(ss / 9) + f32(1e-5))))
        want.append([f32(f32(v * f32(1 / root)) * g) for v, g in zip(row, gain.tolist(), strict=True)])
    with way():
        got = fp32_compiled.rmsnorm(x, gain, 1e-5, order)

    assert same(np.array(want, np.float32), fp32.rmsnorm(x, gain, 1e-5, order))
    assert same(fp32.rmsnorm(x, gain, 1e-5, order), got)


@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_layernorm_is_rmsnorm_of_what_deviates_from_mean(order):
    rng = np.random.default_rng(3)
    x, gain, offset = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 2, 9), 9, 9))
    mean = fp32.total32(x, order=order) / np.float32(9)
    want = fp32.rmsnorm(x - mean[..., None], gain, 1e-6, order) + offset

    assert same(want, fp32.layernorm(x, gain, offset, 1e-6, order))
    assert same(want, fp32_compiled.layernorm(x, gain, offset, 1e-6, order))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("interleaved", [True, False])
def test_rotation_of_pairs(way, interleaved):
    rng = np.random.default_rng(4)
    x, c, s = (rng.normal(size=shape).astype(np.float32) for shape in ((3, 2, 6), (3, 3), (3, 3)))
    want = np.empty_like(x)
    for t, h, i in np.ndindex(3, 2, 3):
        first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + 3)
        a, b = x[t, h, first], x[t, h, second]
        want[t, h, first], want[t, h, second] = a * c[t, i] - b * s[t, i], a * s[t, i] + b * c[t, i]
    with way():
        got = fp32_compiled.rotate(x, c, s, interleaved)

    assert same(want, fp32.rotate(x, c, s, interleaved)) and same(want, got)


X = np.ones((2, 3, 4), np.float32)
NO_ROW = np.array([[0, 1], [-np.inf, -np.inf]], np.float32)
REFUSED = [
    pytest.param(
        lambda m: m.exp32(np.zeros(2)), RefusedType, "exp32: x must be float32, got dtype float64", id="float64"
    ),
    pytest.param(lambda m: m.fma32(X, X, np.zeros(4)), RefusedType, "fma32: c must be float32", id="fma32"),
    pytest.param(
        lambda m: m.softmax32(NO_ROW, Sequential()),
        Refused,
        r"softmax32: a row without a finite value at index \(1,\)",
        id="masked row",
    ),
    pytest.param(
        lambda m: m.softmax32(NO_ROW[:, :0], Sequential()), RefusedType, "rows of at least one value", id="no row"
    ),
    pytest.param(
        lambda m: m.rmsnorm(X, X[0, 0, :3], 0, Sequential()),
        RefusedType,
        r"rmsnorm: gamma of shape \(3,\) does not fit x of shape \(2, 3, 4\)",
        id="gamma",
    ),
    pytest.param(
        lambda m: m.layernorm(X, X[0, 0], X[0], 0, Sequential()), RefusedType, "layernorm: beta of shape", id="beta"
    ),
    pytest.param(
        lambda m: m.rotate(X, X[0], X[0], True),
        RefusedType,
        r"rotate: x \(T, H, D\) needs tables \(T, D/2\), got \(2, 3, 4\), \(3, 4\), \(3, 4\)",
        id="rotate",
    ),
]


@pytest.mark.parametrize("module", [fp32, fp32_compiled])
@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_fp32_rejects_invalid_inputs(module, call, error, message):
    with pytest.raises(error, match=message):
        call(module)
