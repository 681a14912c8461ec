"""fp16 function tables: the pinned bytes, their limits, and entries against 60-digit arithmetic."""

import inspect
import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest

from refemu.arith import fp16, kernels, tables, tables_compiled
from refemu.arith.checks import Refused, RefusedType
from tests.arith.interpreted import needs_compiled
from tests.arith.strategies import same
from tests.oracles import fp16 as oracle

WORDS = np.arange(1 << 16)
NAMES = sorted(tables.SHA256)
EXACT = Context(prec=60, Emin=-999999, Emax=999999)


def entry(name, x):
    """The value of the table at a float."""
    return oracle.to_float(int(tables.table16(name)[oracle.from_float(x)]))


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_the_pinned_ones(name):
    """D-arith-7. The sha256 is compared when a table is built; building it is the test."""
    table = tables.table16(name)

    assert table.shape == (65536,) and table.dtype == np.uint16 and not table.flags.writeable
    assert tables.table16(name) is table


@pytest.mark.parametrize("name", NAMES)
def test_nan_is_one_word(name):
    table = tables.table16(name)
    is_nan = (WORDS & 0x7FFF) > 0x7C00

    assert set(table[is_nan].tolist()) == {0x7E00}
    assert ((table & 0x7FFF) > 0x7C00).sum() == is_nan.sum() + (31744 if name in ("log", "rsqrt", "sqrt") else 0)


INF = math.inf
LIMITS = [
    ("exp", -INF, 0.0),
    ("exp", INF, INF),
    ("exp", 0.0, 1.0),
    ("exp2", -24.0, 2.0**-24),
    ("exp2", 15.0, 32768.0),
    ("log", 0.0, -INF),
    ("log", -0.0, -INF),
    ("log", 1.0, 0.0),
    ("tanh", -0.0, -0.0),
    ("tanh", INF, 1.0),
    ("sigmoid", -INF, 0.0),
    ("sigmoid", 0.0, 0.5),
    ("silu", -INF, -0.0),
    ("silu", -0.0, -0.0),
    ("silu", INF, INF),
    ("gelu_erf", -INF, -0.0),
    ("gelu_erf", INF, INF),
    ("gelu_tanh", -INF, -0.0),
    ("gelu_tanh", INF, INF),
    ("rsqrt", 0.0, INF),
    ("rsqrt", -0.0, -INF),
    ("rsqrt", 4.0, 0.5),
    ("recip", 0.0, INF),
    ("recip", -0.0, -INF),
    ("recip", -INF, -0.0),
    ("sqrt", -0.0, -0.0),
    ("sqrt", 9.0, 3.0),
]


@pytest.mark.parametrize(("name", "x", "want"), LIMITS)
def test_limits(name, x, want):
    """D-arith-9 among them."""
    got = entry(name, x)

    assert got == want and math.copysign(1, got) == math.copysign(1, want)


def nearest(x):
    return oracle.from_fraction(Fraction(x))


@pytest.mark.parametrize("name", ["sqrt", "recip", "rsqrt", "exp", "log"])
def test_entries_are_nearest(name):
    """One word in 31 against decimals of 60 digits."""
    exact = {
        "sqrt": EXACT.sqrt,
        "recip": lambda x: EXACT.divide(1, x),
        "exp": EXACT.exp,
        "log": EXACT.ln,
        "rsqrt": lambda x: EXACT.divide(1, EXACT.sqrt(x)),
    }[name]
    table = tables.table16(name)
    for word in range(1, 0x7C00, 31):
        x = Decimal(oracle.to_float(word))
        assert nearest(exact(x)) == int(table[word]), word


def test_sigmoid_and_tanh_are_nearest():
    for word in [*range(1, 0x4C00, 31), *range(0x8001, 0xCC00, 31)]:
        x = Decimal(oracle.to_float(word))
        sigmoid = EXACT.divide(1, EXACT.add(1, EXACT.exp(-x)))
        assert nearest(sigmoid) == int(tables.table16("sigmoid")[word])
        assert nearest(EXACT.multiply(x, sigmoid)) == int(tables.table16("silu")[word]), word
        tanh = EXACT.subtract(1, EXACT.divide(2, EXACT.add(EXACT.exp(2 * x), 1)))
        assert nearest(tanh) == int(tables.table16("tanh")[word]), word


def erfc(x):
    """By the series of erf, whose terms cancel: right to more than 30 digits for |x| below 6."""
    total = term = x
    for n in range(1, 250):
        term = EXACT.divide(EXACT.multiply(term, EXACT.multiply(-x, x)), n)
        total = EXACT.add(total, EXACT.divide(term, 2 * n + 1))
    return EXACT.subtract(1, EXACT.divide(2 * total, EXACT.sqrt(PI)))


PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def test_gelus_and_powers_of_two_are_nearest():
    """Below -7 both gelus are nearer to -0 than to anything, above 7 nearest to x."""
    slope = EXACT.multiply(2, EXACT.sqrt(EXACT.divide(2, PI)))
    for word in [*range(1, 0x4700, 97), *range(0x8001, 0xC700, 97)]:
        x = Decimal(oracle.to_float(word))
        erf_part = EXACT.multiply(EXACT.divide(x, 2), erfc(EXACT.divide(-x, EXACT.sqrt(2))))
        assert nearest(erf_part) == int(tables.table16("gelu_erf")[word]), word
        inner = EXACT.add(x, EXACT.multiply(Decimal("0.044715"), EXACT.multiply(x, EXACT.multiply(x, x))))
        inverse = EXACT.add(1, EXACT.exp(EXACT.multiply(-slope, inner)))
        assert nearest(EXACT.divide(x, inverse)) == int(tables.table16("gelu_tanh")[word]), word
        assert nearest(EXACT.exp(EXACT.multiply(x, EXACT.ln(2)))) == int(tables.table16("exp2")[word]), word
    for name in ("gelu_erf", "gelu_tanh"):
        assert set(tables.table16(name)[0xC700:0xFC01].tolist()) == {0x8000}
        assert np.array_equal(tables.table16(name)[0x4700:0x7C01], WORDS[0x4700:0x7C01])


def test_apply16_looks_words_up():
    codes = WORDS.reshape(256, 256)

    assert np.array_equal(tables.table16("silu").reshape(256, 256), tables.apply16("silu", codes))
    assert tables.apply16("exp", 0x3C00).tolist() == int(tables.table16("exp")[0x3C00])


@pytest.mark.parametrize(("name", "differ"), [("sigmoid", 11078), ("silu", 11830), ("rsqrt", 8402)])
def test_composed_functions_are_distinct_units(name, differ):
    """D-arith-7: step by step in fp16, with a rounding after each, thousands of words differ."""
    composed = tables.apply16(name, WORDS, mode="composed")

    assert composed.dtype == np.uint16
    assert (composed != tables.table16(name)).sum() == differ


def test_composed_sigmoid_by_hand():
    x = fp16.to_f16(np.float32([1.5]))
    e = fp16.values(tables.apply16("exp", fp16.bits(fp16.to_f16(-x.astype(np.float32)))))
    want = fp16.div16(np.float16(1), fp16.add16(np.float16(1), e).astype(np.float16))

    assert fp16.bits(fp16.to_f16(want)).tolist() == tables.apply16("sigmoid", fp16.bits(x), mode="composed").tolist()


def test_table_with_another_hash_is_rejected(monkeypatch):
    monkeypatch.setitem(tables.SHA256, "exp", "0" * 64)
    with pytest.raises(ArithmeticError, match=r'^table16\("exp"\): sha256 608c213c.* is not the pinned 0000'):
        inspect.unwrap(tables.table16)("exp")


REFUSED = [
    pytest.param(
        lambda: tables.table16("expo"), Refused, "unknown fp16 function 'expo'; did you mean 'exp'", id="name"
    ),
    pytest.param(
        lambda: tables.apply16("exp", [65536]), Refused, r"apply16: code 65536 at index \(0,\) is outside", id="code"
    ),
    pytest.param(lambda: tables.apply16("exp", [1.0]), RefusedType, "apply16: integers are needed", id="floats"),
    pytest.param(
        lambda: tables.apply16("exp", [0], mode="fast"), Refused, "unknown mode 'fast' of an fp16 function", id="mode"
    ),
    pytest.param(
        lambda: tables.apply16("tanh", [0], mode="composed"), Refused, "Known: rsqrt, sigmoid, silu", id="composed"
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_tables_rejects_invalid_inputs(call, error, message):
    with pytest.raises(error, match=message):
        call()


@needs_compiled
@pytest.mark.parametrize("name", NAMES)
def test_the_compiled_compiled_form_looks_up_every_word(name):
    codes = WORDS.astype(np.uint16)

    assert np.array_equal(tables.apply16(name, codes), tables_compiled.apply16(name, codes))


@pytest.mark.parametrize(
    "codes",
    [
        np.arange(23)[1:].astype(np.uint16)[::-1],
        np.arange(70).astype(np.uint16)[1:],
        np.arange(66).astype(np.uint16).reshape(2, 3, 11)[:, :, :5],
        np.uint16(7),
        np.zeros((3, 0), np.uint16),
        [1, 65535],
    ],
    ids=np.shape,
)
def test_the_compiled_form_takes_any_shape_and_alignment(codes):
    want = tables.apply16("silu", codes)
    got = tables_compiled.apply16("silu", codes)

    assert np.array_equal(want, got) and got.dtype == np.uint16 and got.shape == np.shape(codes)


def test_compiled_tables_have_same_modes_and_errors():
    codes = np.arange(40).astype(np.uint16)

    assert np.array_equal(tables.apply16("silu", codes, "composed"), tables_compiled.apply16("silu", codes, "composed"))
    with pytest.raises(Refused, match=r"apply16: code 65536 at index \(1,\) is outside"):
        tables_compiled.apply16("exp", [1, 65536])


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 3000])
def test_values_are_rounded_looked_up_and_widened(count):
    words = WORDS[::21][:count].astype(np.uint16)
    x = fp16.to_f32(fp16.values(words)) * np.float32(1 + 2**-20)  # not fp16 values, but these are the nearest
    want = fp16.to_f32(fp16.values(tables.apply16("silu", fp16.bits(fp16.canonical(fp16.values(words))))))

    assert same(want, tables_compiled.values16("silu", x))
    with pytest.raises(RefusedType, match="values16: float32 is needed, got dtype float64"):
        tables_compiled.values16("silu", x.astype(np.float64))


@needs_compiled
def test_kernel_of_compiled_form_is_compiled_once():
    for codes in (np.arange(9).astype(np.uint16), np.arange(9).astype(np.uint16)[1:]):
        tables_compiled.apply16("exp", codes)

    assert len(kernels.take_fours.signatures) == 1
