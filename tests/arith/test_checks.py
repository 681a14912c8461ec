"""Refusals: what is checked, in which words, and as which exception."""

from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.arith import checks, fp16, fp32
from refemu.arith.checks import Refused, RefusedType


def test_exceptions_are_value_or_type_errors():
    assert issubclass(Refused, ValueError)
    assert issubclass(RefusedType, TypeError)


@pytest.mark.parametrize(
    ("bad", "index"),
    [
        pytest.param(np.array(True), (), id="scalar"),
        pytest.param(np.array([False, True, True]), (1,), id="vector"),
        pytest.param(np.array([[False, False], [False, True]]), (1, 1), id="matrix"),
    ],
)
def test_first_index_is_the_first_in_c_order(bad, index):
    assert index == checks.first_index(bad)
    assert all(type(i) is int for i in checks.first_index(bad))


def test_at_names_index_and_is_silent_for_scalar():
    assert checks.at((0, 3)) == " at index (0, 3)"
    assert checks.at(()) == ""


@pytest.mark.parametrize("values", [3, [1, 2], np.int8(-1), np.zeros(2, np.uint64), np.zeros((0, 2), np.int16)])
def test_integers_pass_unchanged(values):
    array = checks.require_integers(values, "x")

    assert np.asarray(values).dtype == array.dtype
    assert np.array_equal(array, values)


@pytest.mark.parametrize("values", [1.0, [True], np.zeros(1, np.float16), "1", [None]], ids=repr)
def test_other_dtypes_are_rejected(values):
    with pytest.raises(RefusedType, match=r"^port: integers are needed, got dtype "):
        checks.require_integers(values, "port")


def test_a_range_is_half_open():
    assert checks.require_range([0, 15], 0, 16, "INT4", "code").tolist() == [0, 15]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param([3, 16, 99], r"^INT4: code 16 at index \(1,\) is outside \[0, 16\)$", id="above"),
        pytest.param([[0], [-1]], r"^INT4: code -1 at index \(1, 0\) is outside \[0, 16\)$", id="below"),
        pytest.param(16, r"^INT4: code 16 is outside \[0, 16\)$", id="scalar"),
    ],
)
def test_the_first_value_outside_a_range_is_named(values, message):
    with pytest.raises(Refused, match=message):
        checks.require_range(values, 0, 16, "INT4", "code")


def test_the_first_bad_value_is_named_in_its_form():
    checks.require_none(np.zeros(2, bool), "unit: x must be even", [2, 4])
    with pytest.raises(Refused, match=r"^unit: x must be even, got 0x3 at index \(1,\)$"):
        checks.require_none(np.array([False, True, True]), "unit: x must be even", [2, 3, 5], "#x")


def test_unknown_choice_is_rejected_with_known_ones():
    assert checks.require_choice("a", ["a", "b"], "unit", "mode") == "a"
    with pytest.raises(Refused, match=r"^unit: mode must be one of 'a', 'b', got 'c'$"):
        checks.require_choice("c", ["a", "b"], "unit", "mode")


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_flag_becomes_pythons_own(value):
    assert type(checks.require_bool(value, "thing", "flag")) is bool
    assert checks.require_bool(value, "thing", "flag") == value


@pytest.mark.parametrize("value", [1, 0.0, "yes", None, np.int64(1), np.array([True])])
def test_non_bool_flag_is_rejected(value):
    with pytest.raises(RefusedType, match="thing: flag must be a bool, got"):
        checks.require_bool(value, "thing", "flag")


def test_lookup_finds_by_name():
    assert checks.lookup("unit", "mac", {"mac": 1}) == 1


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        pytest.param(
            "mca", {"mac": 1, "abc": 2}, r"^unknown unit 'mca'; did you mean 'mac'\? Known: abc, mac$", id="near"
        ),
        pytest.param("n1", {f"n1{i}": i for i in range(13)}, r"; did you mean 'n17' or 'n18' or 'n19'\?$", id="many"),
        pytest.param("zzz", {"mac": 1}, r"^unknown unit 'zzz'\. Known: mac$", id="far"),
        pytest.param("mac", {}, r"^unknown unit 'mac'\. Known: none$", id="empty"),
    ],
)
def test_lookup_error_names_nearest_and_known_names(name, table, message):
    with pytest.raises(Refused, match=message):
        checks.lookup("unit", name, table)


def test_lookup_of_a_number_is_rejected() -> None:
    name: Any = 64
    with pytest.raises(checks.RefusedType, match=r"^preset: must be a name, got 64$"):
        checks.lookup("preset", name, {"paper": 1})


def test_failed_lookup_names_the_listing_command() -> None:
    table = dict.fromkeys(map(str, range(13)))
    with pytest.raises(Refused, match=r"^unknown unit 'x'\. `refemu list units` lists all 13$"):
        checks.lookup("unit", "x", table, "refemu list units")


def test_suggested_names_are_equally_near() -> None:
    assert checks.nearest("olive-5", ["olive-8", "olive-4", "fp16"]) == ["olive-4", "olive-8"]
    assert checks.nearest("bits", ["weight_bits", "act_bits", "scale"]) == ["act_bits", "weight_bits"]
    assert checks.nearest("zzz", ["mac"]) == []


def test_rejection_by_the_compiled_form_alone_raises() -> None:
    def readable(value: int, *, least: int = 0) -> int:
        checks.require_int(value, least, 8, "readable", "value")
        return value

    with pytest.raises(Refused, match=r"readable: value must be in \[5, 8\], got 4"):
        checks.refuse_as(readable, 4, least=5)
    with pytest.raises(AssertionError, match="readable takes what its compiled form rejects"):
        checks.refuse_as(readable, 4)


def test_masked_arrays_are_rejected_by_operations_and_units() -> None:
    masked = np.ma.masked_equal(np.ones(4, np.float16), 1)
    calls = [lambda: fp16.add16(masked, masked), lambda: fp16.to_f16(masked), lambda: fp32.exp32(masked.astype("f4"))]
    calls += [lambda: units.find("flint_decoder").run(masked.astype(np.uint8))]
    for call in calls:
        with pytest.raises(RefusedType, match="masked array"):
            call()
