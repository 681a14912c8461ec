"""The multiply-accumulate unit against Python integers, at the ends of 32 bits and in any sequence."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.olive import olive_mac, ovp_decoder
from refemu.units.olive.olive_mac import OliveMac
from refemu.units.stepping import Result
from tests.oracles.olive import units

IMPLEMENTATIONS = [pytest.param(olive_mac.run, id="unit"), pytest.param(olive_mac.UNIT.run_compiled, id="compiled")]
OVERFLOWS = ["wrap", "saturate"]
HIGH, LOW = 2**31 - 1, -(2**31)
compiled_run = olive_mac.UNIT.run_compiled


def load(acc: int) -> units.Event:
    return 1, acc, 0, 0, 0, 0


def mac(a_exp: int, a_int: int, b_exp: int, b_int: int) -> units.Event:
    return 0, 0, a_exp, a_int, b_exp, b_int


def rows(result: Result) -> list[tuple[int, int, int, bool]]:
    arrays = result.shift, result.product, result.acc, result.overflow
    return list(zip(*(array.tolist() for array in arrays), strict=True))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_exponents_add_and_integers_multiply(run: Any) -> None:
    """[olive §4.4] <a, b> x <c, d> = <a + c, b d>: 48 as <4, 3> times 5 as <0, 5> is <4, 15> = 240."""
    assert rows(run(*zip(mac(4, 3, 0, 5), strict=True))) == [(4, 15, 240, False)]


@pytest.mark.parametrize(
    ("run", "step"),
    [
        pytest.param(olive_mac.run, 1, id="unit", marks=pytest.mark.slow),
        pytest.param(olive_mac.run, 7, id="unit, every seventh"),
        pytest.param(compiled_run, 1, id="compiled"),
    ],
)
def test_every_pair_of_operands_multiplies_as_integers(run: Any, step: int) -> None:
    """[olive §4.4] for all 2**16 operand pairs: low 32 bits of the exact product, from a cleared accumulator."""
    n = np.arange(0, 1 << 16, step)
    a_int, b_int, a_exp, b_exp = (n >> 4 & 15 ^ 8) - 8, (n >> 12 ^ 8) - 8, n & 15, n >> 8 & 15
    result = run(0, 0, a_exp[:, None], a_int[:, None], b_exp[:, None], b_int[:, None])
    exact = (a_int * b_int) << (a_exp + b_exp)

    assert np.array_equal(result.acc[:, 0], ((exact + 2**31) % 2**32 - 2**31))
    assert np.array_equal(result.overflow[:, 0], (exact > HIGH) | (exact < LOW))
    assert np.array_equal(result.shift[:, 0], a_exp + b_exp) and np.array_equal(result.product[:, 0], a_int * b_int)
    assert [getattr(result, name).dtype for name in ("shift", "product", "acc", "overflow")] == [
        np.uint8,
        np.int8,
        np.int32,
        np.bool_,
    ]


EVENTS = st.one_of(
    st.builds(load, st.sampled_from([0, 1, -1, HIGH, HIGH - 1, LOW, LOW + 1]) | st.integers(LOW, HIGH)),
    st.builds(mac, st.integers(0, 15), st.integers(-8, 7), st.integers(0, 15), st.integers(-8, 7)),
    st.builds(mac, st.integers(0, 3), st.integers(-8, 7), st.integers(0, 3), st.integers(-8, 7)),
)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("overflow", OVERFLOWS)
@settings(deadline=None)
@given(events=st.lists(EVENTS, min_size=1, max_size=12))
def test_sequences_equal_the_oracle(run: Any, overflow: str, events: list[units.Event]) -> None:
    result = run(*zip(*events, strict=True), overflow=overflow)
    expected = units.mac(events, overflow)

    assert rows(result) == expected
    assert result.macs == len([event for event in events if not event[0]])
    assert result.overflows == len([row for row in expected if row[3]])


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("start", "one", "wrapped", "saturated", "over"),
    [
        (HIGH, 1, LOW, HIGH, True),
        (HIGH, -1, HIGH - 1, HIGH - 1, False),
        (HIGH - 1, 1, HIGH, HIGH, False),
        (LOW, -1, HIGH, LOW, True),
        (LOW, 1, LOW + 1, LOW + 1, False),
        (LOW + 1, -1, LOW, LOW, False),
    ],
)
def test_ends_of_32_bits(run: Any, start: int, one: int, wrapped: int, saturated: int, over: bool) -> None:
    """D-olive-33: wrap or saturate, with the flag either way."""
    for overflow, acc in (("wrap", wrapped), ("saturate", saturated)):
        result = run(*zip(load(start), mac(0, one, 0, 1), strict=True), overflow=overflow)

        assert rows(result)[1] == (0, one, acc, over)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_two_largest_clipped_products_reach_2_31(run: Any) -> None:
    """[olive §4.5] 2**15 * 2**15 fits 32 bits; two of one sign do not: the text's claim is about one product only."""
    events = list(zip(mac(15, 1, 15, 1), mac(15, 1, 15, 1), strict=True))

    assert rows(run(*events)) == [(30, 1, 2**30, False), (30, 1, LOW, True)]
    assert rows(run(*events, overflow="saturate")) == [(30, 1, 2**30, False), (30, 1, HIGH, True)]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_load_makes_no_product_and_drops_the_sum(run: Any) -> None:
    result = run(*zip(mac(1, 3, 0, 5), (1, -7, 15, 7, 15, 7), mac(0, 1, 0, 1), strict=True))

    assert rows(result) == [(1, 15, 30, False), (0, 0, -7, False), (0, 1, -6, False)]
    assert result.macs == 2


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_devices_of_the_leading_axes_start_from_reset(run: Any, overflow: str) -> None:
    rng = np.random.default_rng(5)
    a_exp, b_exp = rng.integers(0, 16, (2, 3, 7)), rng.integers(0, 16, (3, 7))
    a_int, b_int = rng.integers(-8, 8, (2, 1, 7)), rng.integers(-8, 8, (2, 3, 7))
    result = run(0, 0, a_exp, a_int, b_exp, b_int, overflow=overflow)

    assert result.acc.shape == (2, 3, 7) and result.macs == 42
    for i, j in np.ndindex(2, 3):
        one = run(0, 0, a_exp[i, j], a_int[i, 0], b_exp[j], b_int[i, j], overflow=overflow)
        assert np.array_equal(result.acc[i, j], one.acc) and np.array_equal(result.overflow[i, j], one.overflow)


@pytest.mark.parametrize("overflow", OVERFLOWS)
@settings(deadline=None)
@given(events=st.lists(st.tuples(*[st.integers(0, 31), st.integers(-128, 127)] * 2), min_size=1, max_size=6))
def test_wide_operands_stay_exact(overflow: str, events: list[tuple[int, int, int, int]]) -> None:
    """5-bit exponents and 8-bit integers: shifts up to 62 in the compiled form's 64-bit arithmetic."""
    wide: dict[str, Any] = {"exponent_bits": 5, "int_bits": 8, "overflow": overflow}
    sequence = [mac(*event) for event in events]
    result = compiled_run(*zip(*sequence, strict=True), **wide)

    assert rows(result) == units.mac(sequence, overflow)
    assert result.equals(olive_mac.run(*zip(*sequence, strict=True), **wide)) and result.product.dtype == np.int16


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=1, max_size=10))
def test_decoded_pairs_give_the_integer_dot_product(pairs: list[tuple[int, int]]) -> None:
    """[olive §4.4] decoder and MAC together: the dot product of what the pairs mean."""
    a, b = (ovp_decoder.run([pair[side] for pair in pairs], 2) for side in (0, 1))
    result = olive_mac.run(0, 0, *(array.ravel() for array in (a.exponent, a.base_int, b.exponent, b.base_int)))
    values = [(side.base_int.astype(object) << side.exponent.astype(object)).ravel().tolist() for side in (a, b)]

    assert int(result.acc[-1]) == sum(x * y for x, y in zip(*values, strict=True))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"a_int": [8]}, Refused, r"olive_mac: a_int 8 at index \(0,\) is outside \[-8, 8\)", id="int"),
        pytest.param({"b_exp": [16]}, Refused, r"olive_mac: b_exp 16 at index \(0,\) is outside \[0, 16\)", id="exp"),
        pytest.param(
            {"acc_in": [2**31]}, Refused, r"olive_mac: acc_in 2147483648 at index \(0,\) is outside", id="acc"
        ),
        pytest.param({"load": [2]}, Refused, r"olive_mac: load 2 at index \(0,\) is outside \[0, 2\)", id="load"),
        pytest.param({}, RefusedType, "olive_mac: at least one port must have an axis", id="scalars"),
        pytest.param({"a_int": [1], "exponent_bits": 6}, Refused, r"must be in \[1, 5\], got 6", id="exponent"),
        pytest.param({"a_int": [1], "int_bits": 9}, Refused, r"int_bits must be in \[2, 8\], got 9", id="wide int"),
        pytest.param({"a_int": [1], "int_bits": 4.5}, RefusedType, "int_bits must be an int, got 4.5", id="fraction"),
        pytest.param(
            {"a_int": [1], "overflow": "refuse"},
            Refused,
            "overflow must be one of 'wrap', 'saturate', got 'refuse'",
            id="overflow",
        ),
    ],
)
def test_olive_mac_rejects_invalid_inputs(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    ports = {"load": 0, "acc_in": 0, "a_exp": 0, "a_int": 1, "b_exp": 0, "b_int": 1}
    with pytest.raises(error, match=message):
        run(**(ports | arguments))


def test_steps_take_one_device() -> None:
    with pytest.raises(Refused, match=r"olive_mac: inputs of steps must be one sequence of events, got shape \(2, 3\)"):
        list(OliveMac().steps(0, 0, 1, np.ones((2, 3), int), 1, 1))


def test_olive_mac_repr_evaluates_back() -> None:
    assert repr(OliveMac(overflow="saturate")) == "OliveMac(exponent_bits=4, int_bits=4, overflow='saturate')"
