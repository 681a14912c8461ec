"""Compiled fp16: both rounding paths, conversions and the fused step equal the readable forms."""

import numpy as np
import pytest
from hypothesis import given

from refemu.arith import fp16, fp16_compiled, kernels, prng, selftest
from refemu.arith.checks import Refused, RefusedType
from tests.arith.interpreted import WAYS, needs_compiled
from tests.arith.strategies import halves, same

WORDS = np.arange(1 << 16, dtype=np.uint16)


def float32s(label, count):
    """Random words, and a lot near fp16: midpoints of neighbours and the float32 numbers next to them."""
    low = fp16.to_f32(WORDS[:0x7C00].view(np.float16))
    middle = (low.astype(np.float64) + fp16.to_f32((WORDS[:0x7C00] + 1).view(np.float16))) / 2
    middle[-1] = 65520
    near = middle.astype(np.float32)
    beside = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)]
    words = (prng.words(prng.stream(label, 0), 0, count) >> np.uint64(32)).astype(np.uint32).view(np.float32)
    return np.concatenate([low, near, *beside, -near, words])


@needs_compiled
def test_round16_is_the_readable_one():
    x = float32s("round16", 200_000)

    assert same(fp16.canonical(fp16.round16(x)), fp16_compiled.round16(x))


@pytest.mark.parametrize("path", ["round16", "_round16_portable"])
def test_both_paths_round_alike_in_a_kernel(path, monkeypatch):
    """The conversions of the CPU and the magic addition."""
    x = float32s("paths", 1000)[::31]
    scalar = getattr(kernels.scalars, path)
    with np.errstate(all="ignore"):
        got = fp16.canonical(np.array([scalar(v) for v in x], np.float32))

    assert same(fp16.canonical(fp16.round16(x)), got)


@pytest.mark.parametrize("path", ["round16", "_round16_portable"])
def test_both_paths_have_the_same_ends(path):
    """Overflow begins at 65520 and not at 65504; the quantum stays at 2**-24 below 2**-14."""
    small = [0, 2**-25, 2**-24, 3 * 2**-25, 2**-15, 2**-14 - 2**-25, 2**-14]
    low = np.array([*small, 65472, 65488, 65504, 65520, 65536, 1e38], np.float32)
    x = np.concatenate([low, np.nextafter(low, np.float32(0)), np.nextafter(low, np.float32(np.inf)), [np.inf, np.nan]])
    x = np.concatenate([x, -x]).astype(np.float32)
    with np.errstate(all="ignore"):
        got = fp16.canonical(np.array([getattr(kernels.scalars, path)(v) for v in x], np.float32))

    assert same(fp16.canonical(fp16.round16(x)), got)


@pytest.mark.parametrize("way", WAYS)
def test_round16_interpreted(way):
    x = float32s("interpreted", 300)[::97]
    with way():
        got = fp16_compiled.round16(x)

    assert same(fp16.canonical(fp16.round16(x)), got)


@pytest.mark.parametrize("way", WAYS)
def test_round16_of_f64_never_goes_through_float32(way):
    middle = float32s("f64", 300)[::197].astype(np.float64)
    x = np.concatenate([middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf), [1e300, -1e-300]])
    with way():
        got = fp16_compiled.round16_of_f64(x)

    assert same(fp16.canonical(fp16.round16_of_f64(x)), got)


@needs_compiled
def test_narrowing_is_the_readable_one():
    """Words of float32, one rounding; every fp16 value comes back, subnormals and both zeros too, and NaN is one."""
    x = np.concatenate([float32s("narrow", 200_000), WORDS.view(np.float16).astype(np.float32)])

    assert fp16.to_f16(x).tobytes() == fp16_compiled.to_f16(x).tobytes()


@pytest.mark.parametrize("way", WAYS)
def test_narrowing_interpreted(way):
    x = np.concatenate([float32s("narrow", 300)[::97], WORDS[::53].view(np.float16).astype(np.float32)])
    with way():
        got = fp16_compiled.to_f16(x)

    finite = np.isfinite(x)
    assert fp16.to_f16(x).tobytes() == got.tobytes()
    assert fp16_compiled.to_f16(x[finite].astype(np.float64)).tobytes() == got[finite].tobytes()


@needs_compiled
def test_round16_of_f64_next_to_every_midpoint():
    middle = float32s("f64", 0).astype(np.float64)
    for x in (middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)):
        assert same(fp16.canonical(fp16.round16_of_f64(x)), fp16_compiled.round16_of_f64(x))


def test_bounded_products_round_alike_except_zero_signs():
    """The short form inside the fp16 matmul: below 65520, where a sum from +0 does not see the sign of a zero."""
    x = float32s("bounded", 0)
    x = x[np.abs(x) < 65520]
    with np.errstate(all="ignore"):
        got = np.array([kernels.scalars.round16_product(v, True) for v in x[::17]], np.float32)

    assert np.array_equal(fp16.round16(x[::17]), got)  # -0 == +0


@pytest.mark.parametrize("way", WAYS)
def test_widening_is_exact_for_all_words(way):
    words = WORDS if way is WAYS[0] else WORDS[::257]
    with way():
        got = fp16_compiled.to_f32(words.view(np.float16))

    assert same(fp16.to_f32(words.view(np.float16)), got)


def test_the_portable_widening_equals_the_hardwares():
    with np.errstate(all="ignore"):
        got = fp16.canonical(np.array([kernels.scalars._widen_portable(u) for u in WORDS[::13]], np.float32))

    assert same(fp16.to_f32(WORDS[::13].view(np.float16)), got)


@pytest.mark.parametrize("way", WAYS)
@given(halves, halves, halves)
def test_fma16_rounds_once(way, a, b, c):
    """D-arith-3. Exact product, float32 sum rounded to odd: another derivation than the readable form's float64."""
    with way():
        got = fp16_compiled.fma16(a, b, c)

    assert same(fp16.canonical(fp16.fma16(a, b, c)), got)


@needs_compiled
def test_fma16_on_products_near_midpoints():
    """c is a midpoint's distance from a product, and one step next to it."""
    words = prng.words(prng.stream("fma16", 0), 0, 300_000).view(np.uint16).reshape(-1, 4)
    a, b, c = (fp16.to_f32(words[:, i].view(np.float16)) for i in range(3))
    near = fp16.to_f32(fp16.to_f16(-a.astype(np.float64) * b))
    tiny = np.ldexp(np.sign(c), (words[:, 3] % 40).astype(np.int32) - 24).astype(np.float32)
    for third in (c, near, tiny, fp16.to_f32(fp16.to_f16(np.nan_to_num(near) + tiny))):
        assert same(fp16.canonical(fp16.fma16(a, b, third)), fp16_compiled.fma16(a, b, third))


def test_the_case_that_a_float32_sum_gets_wrong():
    """0x39C0 * 0xC3FE + 0x07FE = 0xC1BF, not 0xC1BE."""
    a, b, c = (fp16.values(w) for w in ([0x39C0], [0xC3FE], [0x07FE]))

    assert fp16.bits(fp16.to_f16(fp16_compiled.fma16(a, b, c))).tolist() == [0xC1BF]


def test_scalars_and_views_are_welcome():
    x = np.arange(24, dtype=np.float32).reshape(4, 6) / 3

    assert same(fp16.round16(x.T), fp16_compiled.round16(x.T))
    assert same(fp16.round16(x[::2, 1:4]), fp16_compiled.round16(x[::2, 1:4]))
    assert fp16_compiled.round16(np.float32(0.1)).shape == ()
    frozen = x.copy()
    frozen.flags.writeable = False
    assert same(fp16.round16(x), fp16_compiled.round16(frozen))


def test_require_fp16_accepts_what_the_readable_one_accepts():
    good = fp16.to_f32(WORDS.view(np.float16))

    assert fp16_compiled.require_fp16(good, "thing", "x") is good
    assert same(good, fp16_compiled.require_fp16(WORDS.view(np.float16), "thing", "x"))
    with pytest.raises(Refused, match=r"thing: x must hold fp16 values, got 65536\.0 at index \(1,\)"):
        fp16_compiled.require_fp16(np.array([1, 65536], np.float32), "thing", "x")


def test_compiled_rounding_is_tried_before_it_is_used(monkeypatch):
    """A kernel that rounds otherwise is found before its first answer is given."""
    monkeypatch.setattr(kernels, "round16_all", lambda x, out: np.copyto(out, x))
    fp16_compiled.ready.cache_clear()
    with pytest.raises(ArithmeticError, match=r"round16 .* does not round to nearest"):
        fp16_compiled.round16(np.ones(1, np.float32))
    fp16_compiled.ready.cache_clear()
    selftest.require_round_to_nearest()


REFUSED = [
    pytest.param(
        lambda: fp16_compiled.round16(np.zeros(2)), "round16: float32 is needed, got dtype float64", id="round16"
    ),
    pytest.param(
        lambda: fp16_compiled.round16_of_f64(np.zeros(2, np.float32)), "float64 is needed", id="round16_of_f64"
    ),
    pytest.param(
        lambda: fp16_compiled.to_f32(np.zeros(2, np.uint16)), "float16 is needed, got dtype uint16", id="to_f32"
    ),
    pytest.param(lambda: fp16_compiled.fma16(np.zeros(2), 0, 0), "fma16: a must be float16 or float32", id="fma16"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_fp16_jit_rejects_invalid_inputs(call, message):
    with pytest.raises(RefusedType, match=message):
        call()
