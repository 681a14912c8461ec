"""Compiled forms made of the text of declared units give the bits of the readable form; oracles are tried elsewhere."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu import units
from refemu.arith.checks import Refused
from refemu.units import compiled
from refemu.units.config import Config
from refemu.units.declaration import Changes, Declared, Sequential, constant
from refemu.units.ports import Port, Ports
from refemu.units.unit import Unit
from tests.units.compiled import toy

#: units whose compiled form is made of their text; oracles of their own are in tests/units
MADE = {
    "bfp_accumulator",
    "bfp_aligner",
    "bit_allocator",
    "clustering",
    "concat",
    "flint_decoder",
    "fp2half",
    "index_product",
    "olive_mac",
    "olive_pe8",
    "orizuru16",
    "outlier_decoder",
    "ovp_decoder",
    "ovp_encoder",
    "sub_pe",
}


def made() -> set[str]:
    """Declared units without a compiled form of their own."""
    declared = [unit for unit in map(units.find, units.names()) if issubclass(unit.unit_class, Declared)]
    return {unit.name for unit in declared if unit.run_compiled.__globals__["__name__"] == compiled.__name__}


def test_integer_events_compile_in_every_configuration() -> None:
    assert made() == MADE
    for unit in map(units.find, MADE):
        assert [compiled.refusal(unit.unit_class(**config)) for config in unit.configs.values()] == [""] * len(
            unit.configs
        )


@pytest.mark.parametrize("name", ["concat", "prefix_sum", "page_manager"])
def test_module_of_compiled_form_has_run(name: str) -> None:
    home = units.module(name, compiled=True)

    assert home.run is units.find(name).run_compiled
    assert home.__name__ == f"{units.module(name).__name__}.compiled"


def test_missing_stated_form_is_not_derived() -> None:
    with pytest.raises(Refused, match="toy: a compiled form must exist, got none in module no_such"):
        _ = dataclasses.replace(toy.UNIT, compiled_run="no_such:run").run_compiled


OPERATIONS = st.lists(
    st.tuples(st.integers(0, 2), st.tuples(*[st.integers(-128, 127)] * toy.LANES)), min_size=1, max_size=6
)


@given(st.lists(OPERATIONS, min_size=1, max_size=3), st.sampled_from(["wrap", "saturate"]))
def test_compiled_outputs_registers_and_counters_equal_readable_form(devices: Any, rule: str) -> None:
    events = min(map(len, devices))
    op = np.array([[each[0] for each in device[:events]] for device in devices])
    x = np.array([[each[1] for each in device[:events]] for device in devices])

    try:
        expected = toy.UNIT.run(op, x, rule=rule)
    except Refused as refused:
        with pytest.raises(Refused, match=str(refused)):
            toy.UNIT.run_compiled(op, x, rule=rule)
    else:
        assert toy.UNIT.run_compiled(op, x, rule=rule).equals(expected)


def test_raising_event_has_message_of_readable_form() -> None:
    x = [[1, 0, 0, 0], [1, -2, -4, 0], [0, 0, 0, 0]]
    with pytest.raises(Refused, match="toy: the total is 0"):
        toy.UNIT.run_compiled([0, 1, 0], x, weights=(0, 0, 0, 0))


def test_constants_of_other_lengths_and_words_compile_again() -> None:
    inputs = {"op": [[1, 2, 0]], "x": np.arange(12).reshape(1, 3, 4)}
    for weights in ((1, 2, 3, 4), (7, 6, 5, 4, 3, 2)):
        assert toy.UNIT.run_compiled(**inputs, weights=weights).equals(toy.UNIT.run(**inputs, weights=weights))


def test_configuration_beyond_64_bits_runs_readable_form() -> None:
    unit = units.find("olive_mac")
    wide = {"exponent_bits": 5, "int_bits": 8}
    inputs = {"load": [1, 0], "acc_in": 7, "a_exp": 31, "a_int": -128, "b_exp": 31, "b_int": 127}

    assert "product << shift may leave 64 bits" in compiled.refusal(unit.unit_class(**wide))
    result: Any = unit.run_compiled(**inputs, **wide)
    assert result.equals(unit.run(**inputs, **wide)) and result.overflow.tolist() == [False, True]


class Unlike(Sequential):
    """Base of units without a compiled form."""

    name = "unlike"
    events: ClassVar[tuple[str, ...]] = ("add",)
    counters: ClassVar[dict[str, str]] = {"adds": "additions"}

    @constant
    def ports(self) -> Ports:
        return Ports(inputs=(Port("x", 8),), outputs=(Port("y", 8),))


class Bytes(Unlike):
    """A constant that is not a number."""

    def add(self, x: int) -> Changes:
        """One of two."""
        return {"y": b"ab"[x]}


class Dividing(Unlike):
    """An operation that gives another type."""

    def add(self, x: int) -> Changes:
        """Half."""
        return {"y": int(x / 2)}


class Sorting(Unlike):
    """A Python function that numba would treat differently."""

    def add(self, x: int) -> Changes:
        """One of one."""
        return {"y": sorted([x])[0]}


class Counting(Unlike):
    """A counter that is read."""

    def add(self, x: int) -> Changes:
        """Additions so far."""
        return {"y": self.state.adds, "adds": 1}


class Waiting(Unlike):
    """A loop without an end that the text shows."""

    def add(self, x: int) -> Changes:
        """Down to 0."""
        while x:
            x -= 1
        return {"y": x}


class Uneven(Unlike):
    """A zip that ends with the shorter."""

    def add(self, x: int) -> Changes:
        """One of two."""
        total = 0
        for a, b in zip((x, x), (x, 1, 2), strict=False):
            total += a * b
        return {"y": total & 255}


class Rising(Unlike):
    """Another value where a loop is not left early."""

    def add(self, x: int) -> Changes:
        """0 or 1."""
        for value in (x, x >> 1):
            if value == 1:
                x = 1
        else:
            x = 0
        return {"y": x}


class Later(Unlike):
    """A State that another takes the place of."""

    def add(self, x: int) -> Changes:
        """The last value."""
        before = self.state
        before = x
        return {"y": before}


@pytest.mark.parametrize(
    ("unit_class", "message"),
    [
        (Bytes, "bytes has no compiled form"),
        (Dividing, "this operation has no compiled form: x / 2"),
        (Sorting, r"this call has no compiled form: sorted\(\[x\]\)"),
        (Counting, "events read self.state.adds, which is not a port or register"),
        (Waiting, "While has no compiled form"),
        (Uneven, "a zip of several lengths has no compiled form"),
        (Rising, "for and else has no compiled form"),
        (Later, "a State that is another later has no compiled form"),
    ],
)
def test_text_without_compiled_form_is_named_with_line(unit_class: Any, message: str) -> None:
    unit = Unit(unit_class=unit_class, paper="olive §4.4", meaning="", configs={"a": Config()}, cases=toy.cases)
    with pytest.raises(Refused, match=message) as refused:
        _ = unit.run_compiled

    assert unit_class is Counting or "test_compiled.py:" in str(refused.value)
