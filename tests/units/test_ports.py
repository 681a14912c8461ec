"""Ports: what they admit, broadcast and reject."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.units.ports import OutsidePort, Port, collect, validate, validate_events


@dataclass(frozen=True)
class State:
    value: int
    pair: tuple[int, int]


NIBBLE, SIGNED, LANES = Port("nibble", 4), Port("signed", 4, signed=True), Port("lanes", 12, lanes=3)


def test_port_limits_and_dtype_follow_its_bits() -> None:
    assert [NIBBLE.limits, SIGNED.limits, Port("one", 1).limits, Port("wide", 64).limits] == [
        (0, 15),
        (-8, 7),
        (0, 1),
        (0, 2**64 - 1),
    ]
    assert [Port("x", bits).dtype.name for bits in (1, 8, 9, 16, 17, 32, 33, 64)] == [
        "uint8",
        "uint8",
        "uint16",
        "uint16",
        "uint32",
        "uint32",
        "uint64",
        "uint64",
    ]
    assert [Port("x", bits, signed=True).dtype.name for bits in (4, 12, 32, 33)] == ["int8", "int16", "int32", "int64"]
    assert [Port("x", bits).result_dtype.name for bits in (1, 2)] == ["bool", "uint8"]


def test_port_kind_is_spelled_out() -> None:
    assert [NIBBLE.kind, SIGNED.kind, Port("x", 16, encoding="f16").kind] == ["uint", "int", "f16"]


@pytest.mark.parametrize(("bits", "lanes"), [(0, 1), (65, 1), (4, 0)])
def test_impossible_port_is_rejected(bits: int, lanes: int) -> None:
    with pytest.raises(Refused, match=rf"Port x: bits must be in \[1, 64\] and lanes at least 1, got {bits}, {lanes}"):
        Port("x", bits, lanes)


def test_port_evaluates_back() -> None:
    assert eval(repr(LANES)) == LANES


def test_ports_broadcast_before_their_lanes() -> None:
    nibble, lanes = validate("thing", (NIBBLE, LANES), (5, np.arange(6).reshape(2, 3)))

    assert (nibble.dtype, nibble.tolist()) == (np.uint8, [5, 5])
    assert (lanes.dtype, lanes.tolist()) == (np.uint16, [[0, 1, 2], [3, 4, 5]])


def test_zero_events_have_a_shape() -> None:
    arrays = validate("thing", (NIBBLE, LANES), (np.zeros(0, np.uint8), np.zeros(3, np.uint8)))

    assert [array.shape for array in arrays] == [(0,), (0, 3)]


BAD_VALUES: list[Any] = [
    pytest.param((16, [0, 0, 0]), Refused, r"thing: nibble 16 is outside \[0, 16\)", id="large scalar"),
    pytest.param(([1, -1], [0, 0, 0]), Refused, r"thing: nibble -1 at index \(1,\) is outside", id="negative"),
    pytest.param((1, [0, 4096, 0]), Refused, r"thing: lanes 4096 at index \(1,\) is outside \[0, 4096\)", id="lane"),
    pytest.param((1, [0, 0]), RefusedType, r"thing\.lanes: the last axis must hold 3 lanes, got shape", id="two"),
    pytest.param((1, 0), RefusedType, r"thing\.lanes: the last axis must hold 3 lanes, got shape \(\)", id="no lanes"),
    pytest.param((0.5, [0, 0, 0]), RefusedType, r"thing\.nibble: integers are needed, got dtype float64", id="float"),
    pytest.param((True, [0, 0, 0]), RefusedType, r"thing\.nibble: integers are needed, got dtype bool", id="bool"),
    pytest.param(
        (np.zeros(2, int), np.zeros((5, 3), int)),
        Refused,
        r"thing: shapes of the ports must broadcast, got nibble \(2,\), lanes \(5,\)",
        id="shapes",
    ),
]


FLOATS: list[Any] = [
    pytest.param(
        Port("p", 32, 2, encoding="f32", least=0, most=0x3F800000),
        [0, 0x3FA00000],
        r"thing: p 1067450368 at index \(1,\) is outside \[0, 1065353217\): 1.25 is not from 0.0 to 1.0$",
        id="f32",
    ),
    pytest.param(
        Port("s", 16, encoding="f16", least=1, most=0x7BFF),
        0x7C00,
        r"s 31744 is outside \[1, 31744\): inf is not from 5.96.*e-08 to 65504.0$",
        id="f16",
    ),
    pytest.param(Port("s", 16, encoding="f16"), 1 << 16, r"s 65536 is outside \[0, 65536\)$", id="no pattern"),
]


@pytest.mark.parametrize(("port", "value", "message"), FLOATS)
def test_rejected_float_pattern_is_decoded(port: Port, value: Any, message: str) -> None:
    with pytest.raises(Refused, match=message):
        validate("thing", (port,), (value,))


@pytest.mark.parametrize(("values", "error", "message"), BAD_VALUES)
def test_values_that_do_not_fit_are_rejected(values: tuple[Any, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        validate("thing", (NIBBLE, LANES), values)


def test_events_need_an_axis() -> None:
    assert validate_events("thing", (NIBBLE, SIGNED), ([1], -1))[1].tolist() == [-1]
    with pytest.raises(RefusedType, match="thing: at least one port must have an axis, the sequence of events"):
        validate_events("thing", (NIBBLE, SIGNED), (1, -1))


def test_one_event_is_python_int_or_tuple() -> None:
    assert [NIBBLE.validate_one(value, "thing") for value in (3, np.uint8(3), np.array(3))] == [3, 3, 3]
    assert type(NIBBLE.validate_one(np.uint8(3), "thing")) is int
    assert LANES.validate_one(np.array([1, 2, 3]), "thing") == LANES.validate_one([1, 2, 3], "thing") == (1, 2, 3)
    assert LANES.validate_one((1, True, 3), "thing") == (1, 1, 3)  # an array, as other types are
    with pytest.raises(Refused, match=r"4096 at index \(2,\)"):
        LANES.validate_one((1, 2, 4096), "thing")
    with pytest.raises(RefusedType, match=r"thing\.nibble: must be one event, got shape \(2,\)"):
        NIBBLE.validate_one([1, 2], "thing")


def test_small_and_large_words_of_64_bits_mix() -> None:
    """NumPy makes float64 of a list of both."""
    words = [0, 1 << 63, (1 << 64) - 1]
    wide = Port("wide", 64, 3)
    assert wide.validate_one(words, "thing") == tuple(words)
    assert wide.validate([words, words[::-1]], "thing").tolist() == [words, words[::-1]]
    for wrong in ([0, 1 << 63, 0.5], [0, 1 << 63, -1], [0, 1 << 63, 1 << 64]):
        with pytest.raises((Refused, RefusedType), match=r"thing\.wide"):
            wide.validate_one(wrong, "thing")


def test_value_beyond_64_bits_is_rejected() -> None:
    with pytest.raises((Refused, RefusedType), match="thing"):
        NIBBLE.validate_one(1 << 70, "thing")


@pytest.mark.parametrize("value", [2, -1, 1.5, (1,), None])
def test_collect_rejects_values_outside_a_port(value: object) -> None:
    ports = (Port("flag", 1), Port("pair", 4, 2, signed=True))
    states = [SimpleNamespace(flag=0, pair=(1, -8)), SimpleNamespace(flag=value, pair=(7, 8))]
    with pytest.raises(OutsidePort) as raised:
        collect(states, ports, (2,))

    assert str(raised.value).startswith(f"flag: a State must have integers in [0, 1], got {value!r} at index 1; ")
    assert list(raised.value.outside) == ["flag", "pair"]
    assert all(rows.tolist() == [False, True] for rows in raised.value.outside.values())
    assert raised.value.arrays["pair"].tolist() == [[1, -8], [0, 0]]


def test_collect_gathers_states_by_port() -> None:
    ports = (Port("value", 1), Port("pair", 4, 2, signed=True))
    arrays = collect([State(0, (1, -1)), State(1, (2, -2))], ports, (2, 1))

    assert (arrays["value"].dtype, arrays["value"].tolist()) == (np.bool_, [[False], [True]])
    assert (arrays["pair"].dtype, arrays["pair"].tolist()) == (np.int8, [[[1, -1]], [[2, -2]]])
    assert collect([], ports, (0,))["pair"].shape == (0, 2)


def test_one_lane_is_vector_and_no_lanes_scalar() -> None:
    one, scalar = Port("one", 4, 1), Port("scalar", 4)

    assert (one.shape, one.count, one.filled(3), one.validate_one([3], "u")) == ((1,), 1, (3,), (3,))
    assert (scalar.shape, scalar.count, scalar.filled(3), scalar.validate_one(3, "u")) == ((), 1, 3, 3)
    assert [array.shape for array in validate("u", (one, scalar), ([[1], [2]], 3))] == [(2, 1), (2,)]
    for port, value in ((one, 3), (scalar, (3,))):
        with pytest.raises(RefusedType, match=r"must be one event|must hold 1 lane"):
            port.validate_one(value, "u")
