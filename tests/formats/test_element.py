"""Properties of every element format, compared with an oracle in exact arithmetic."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu import formats
from refemu.arith.checks import Refused, RefusedType
from refemu.formats import AbFloat, Element, Flint, IntFormat
from refemu.formats.nearest import TIES
from tests.formats.names import PUBLIC
from tests.oracles.olive import ovp

CONSTANTS = {name: fmt for name, fmt in formats.constants().items() if isinstance(fmt, Element)}
ALL = [
    IntFormat(2),
    IntFormat(5, symmetric=True),
    IntFormat(12),
    Flint(3),
    Flint(5),
    Flint(8),
    AbFloat(0, 3, 1),
    AbFloat(1, 2, 0),
    AbFloat(3, 0, 4),
    AbFloat(5, 2, 15),
    *CONSTANTS.values(),
]
FORMATS = [pytest.param(fmt, id=fmt.name) for fmt in ALL]


def magnitudes(fmt: Element) -> np.ndarray:
    return np.unique(np.abs(fmt.decode(fmt.codes())))


def interesting(fmt: Element) -> np.ndarray:
    """Every value, every midpoint, and their float32 neighbours, with both signs."""
    values = magnitudes(fmt)
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2, [0, 0.3, 0.49, 2.0**-149, 1e30]])
    points = points.astype(np.float32)
    near = [points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(np.inf))]
    return np.concatenate([*near, *(-p for p in near)])


@pytest.mark.parametrize("name", CONSTANTS)
def test_every_code_decodes_as_the_oracle_says(name: str) -> None:
    fmt = CONSTANTS[name]
    expected = {code: ovp.element_decode(name, code) for code in range(1 << fmt.width)}

    assert {
        int(code): int(value) for code, value in zip(fmt.codes(), fmt.decode(fmt.codes()), strict=True)
    }.items() <= expected.items()
    assert [code for code, value in expected.items() if value is None] == ([fmt.identifier] if name[0] in "IF" else [])


@pytest.mark.parametrize("rounding", TIES)
@pytest.mark.parametrize("name", CONSTANTS)
def test_values_midpoints_and_neighbours_encode_as_oracle_says(name: str, rounding: str) -> None:
    values = interesting(CONSTANTS[name])
    expected = [ovp.element_encode(name, float(value), rounding) for value in values]

    assert CONSTANTS[name].encode(values, rounding).tolist() == expected


@pytest.mark.parametrize("name", CONSTANTS)
@given(value=st.floats(-70000, 70000) | st.integers(-(2**63), 2**63 - 1))
def test_any_value_encodes_as_the_oracle_says(name: str, value: Any) -> None:
    assert CONSTANTS[name].encode(value) == ovp.element_encode(name, value)


@pytest.mark.parametrize("fmt", FORMATS)
def test_decoded_codes_encode_to_themselves(fmt: Element) -> None:
    codes, values = fmt.codes(), fmt.decode(fmt.codes())
    within = np.abs(values) <= (fmt.largest if isinstance(fmt, AbFloat) else np.inf)

    for rounding in TIES:
        assert np.array_equal(fmt.encode(values[within], rounding), codes[within])
    assert len(np.unique(values)) == len(codes)


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.data())
def test_round_gives_a_nearest_value(fmt: Element, data: st.DataObject) -> None:
    value = data.draw(st.floats(-2e5, 2e5, width=32))
    rounded, known = int(fmt.round(value)), fmt.decode(fmt.codes())
    if isinstance(fmt, AbFloat):  # has no 0 between its signs, and the encoder may have a limit
        known = known[((known < 0) == (value < 0)) & (np.abs(known) <= fmt.largest)]

    assert abs(rounded - value) == np.abs(known - value).min()


@pytest.mark.parametrize("rounding", ["half_even", "half_away"])
@pytest.mark.parametrize("fmt", [fmt for fmt in ALL if getattr(fmt, "symmetric", True)], ids=lambda fmt: fmt.name)
def test_rounding_that_ignores_the_sign_is_odd(fmt: Element, rounding: str) -> None:
    values = interesting(fmt)
    values = values[values != 0]  # an abfloat has no 0: both zeros round to the smallest positive value

    assert np.array_equal(fmt.round(values, rounding), -fmt.round(-values, rounding))


@pytest.mark.parametrize("fmt", FORMATS)
def test_all_rules_agree_off_midpoints(fmt: Element) -> None:
    values = magnitudes(fmt)
    between = np.concatenate([values, values[:-1] + (values[1:] - values[:-1]) / 4])

    assert len({fmt.encode(between, rounding).tobytes() for rounding in TIES}) == 1
    assert len({fmt.encode(-between, rounding).tobytes() for rounding in TIES}) == 1


@pytest.mark.parametrize("fmt", FORMATS)
def test_normals_avoid_identifier_and_outliers_avoid_zero(fmt: Element) -> None:
    codes = np.concatenate([fmt.encode(interesting(fmt), rounding) for rounding in TIES])

    assert set(codes.tolist()) <= set(fmt.codes().tolist())
    assert codes.dtype == fmt.codes().dtype == (np.uint8 if fmt.width <= 8 else np.uint16)


@pytest.mark.parametrize("fmt", FORMATS)
def test_shapes_are_preserved_and_scalars_accepted(fmt: Element) -> None:
    assert fmt.encode(np.ones((2, 0, 3))).shape == (2, 0, 3)
    assert fmt.decode(fmt.encode(np.ones((2, 3)))).shape == (2, 3)
    assert fmt.encode(1).shape == fmt.round(1.0).shape == ()
    assert fmt.decode(int(fmt.codes()[-1])).dtype == np.int64


@pytest.mark.parametrize("fmt", FORMATS)
def test_repr_evaluates_back_and_names_differ(fmt: Element) -> None:
    assert eval(repr(fmt), PUBLIC) == fmt  # the text is ours
    assert all(a == b or a.name != b.name for a, b in itertools.product(ALL, ALL))


@pytest.mark.parametrize("fmt", FORMATS)
def test_description_has_bits_and_value(fmt: Element) -> None:
    for code in fmt.codes().tolist():
        text = fmt.describe(code)
        assert text.split(" = ")[0].replace(" ", "") == f"{code:0{fmt.width}b}"
        assert text.endswith(f"= {int(fmt.decode(code))}")


INT4 = formats.INT4
BAD_CALLS = [
    pytest.param(lambda: INT4.decode([[0, 16]]), Refused, r"code 16 at index \(0, 1\) is outside \[0, 16\)", id="code"),
    pytest.param(lambda: INT4.decode([-1]), Refused, r"code -1 at index \(0,\) is outside", id="negative code"),
    pytest.param(lambda: INT4.decode([1.0]), RefusedType, "integers are needed, got dtype float64", id="float code"),
    pytest.param(lambda: INT4.decode([1, 8]), Refused, r"1000 at index \(1,\) is the outlier identifier", id="int id"),
    pytest.param(lambda: formats.FLINT4.decode(8), Refused, "code 1000 is the outlier identifier", id="flint id"),
    pytest.param(lambda: INT4.encode([0, np.nan]), Refused, r"values\[1\] is nan; values must be finite", id="nan"),
    pytest.param(lambda: INT4.encode("1"), RefusedType, "got dtype <U1", id="text"),
    pytest.param(lambda: INT4.encode(1, "half_odd"), Refused, "rounding must be one of 'half_even'", id="rounding"),
    pytest.param(lambda: INT4.encode(1, "floor"), Refused, "rounding must be one of 'half_even'", id="directed"),
    pytest.param(lambda: INT4.describe(16), Refused, r"code 16 is outside \[0, 16\)", id="describe"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD_CALLS)
def test_element_rejects_invalid_inputs(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("fmt", [formats.INT4, formats.FLINT4, formats.E2M1_BIAS2], ids=lambda fmt: fmt.name)
def test_one_code_decodes_to_an_array_without_axes(fmt: Element) -> None:
    """Every family returns the same kind of object for a scalar."""
    value = fmt.decode(3)

    assert isinstance(value, np.ndarray)
    assert value.shape == ()


@pytest.mark.parametrize("rounding", TIES)
@pytest.mark.parametrize("fmt", FORMATS)
def test_many_fp16_values_encode_as_few_do(fmt: Element, rounding: str) -> None:
    """Every finite word, by a table and by the rule itself; on both sides of the size that chooses."""
    words = np.arange(1 << 16).astype(np.uint16)
    x = words[(words & 0x7C00) < 0x7C00].view(np.float16)
    some = x[:: len(x) // 1000]

    assert np.array_equal(fmt.encode(np.tile(x, 2).reshape(2, -1), rounding)[1], fmt.encode(x, rounding))
    assert np.array_equal(fmt.encode(x.astype(np.float64), rounding), fmt.encode(x, rounding))
    assert fmt.encode(some, rounding).dtype == fmt.encode(x, rounding).dtype


@pytest.mark.parametrize(
    "fmt",
    [Flint(4), IntFormat(8), IntFormat(8, symmetric=True), IntFormat(16), AbFloat(4, 3, 0)],
    ids=lambda fmt: fmt.name,
)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_non_finite_among_fp16_values_is_rejected(value: float, fmt: Element) -> None:
    """The table's mark for these words is a value's code in formats of 8 and 16 bits."""
    x = np.full((2, 1 << 16), -65504, np.float16)
    x[1, 7] = value

    with pytest.raises(Refused, match=r"values\[1, 7\] is"):
        fmt.encode(x)
