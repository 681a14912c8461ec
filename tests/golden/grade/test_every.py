"""All inputs of small units: legal ones once, and orders in which every value of a port follows another."""

from itertools import product

import numpy as np
import pytest

from refemu import units
from refemu.golden.faults import order, use
from refemu.golden.grade import every
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.every import Every
from tests.golden import fakes


def of(name: str) -> Every:
    unit, config = units.choose(name, None)
    return Every(unit, unit.config(config))


def test_each_input_occurs_once() -> None:
    rows = Every(fakes.BLENDER, fakes.BLENDER.configs["wrap"]).rows()
    inputs = rows.blocks[0].cases.inputs

    assert rows.inputs == rows.rows == 256
    pairs = set(zip(inputs["first"].tolist(), inputs["second"].tolist(), strict=True))
    assert pairs == set(product(range(16), range(-8, 8)))


def test_lanes_are_inputs_of_their_own() -> None:
    """`outlier_decoder` has one port; the words of `ovp_decoder` have 12 bits in several ports."""
    assert of("outlier_decoder:e2m1").count == 256 and of("ovp_decoder:int4").count == 4096


@pytest.mark.long
def test_inputs_that_the_unit_rejects_are_left_out() -> None:
    """exp takes all fp16 but NaN and +Inf: 65,536 less 2 * 1,023 NaNs and one infinity."""
    assert of("functional:exp").count == 65_536 - 2 * 1_023 - 1


def test_registers_and_wide_inputs_have_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of("olive_mac").count == 0 and of("fp16_mac").count == 0
    monkeypatch.setattr(every, "MOST", 15)
    assert of("flint_decoder").count == 0


def test_search_for_legal_inputs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every, "TRIES", 1)
    assert of("functional:exp").count == 0


def constant_but_for(port: str, bit: int) -> Answers:
    """Orders of the blender's inputs, with outputs that depend on one bit of one port."""
    pool = Every(fakes.BLENDER, fakes.BLENDER.configs["wrap"]).sequences()
    for block in pool.blocks:
        for name in ("both", "ratio", "odd"):
            array = block.arrays[f"out.{name}"]
            value = block.cases.inputs[port].reshape(array.shape[0], *[1] * (array.ndim - 1))
            block.arrays[f"out.{name}"] = np.broadcast_to(value >> bit & 1, array.shape).astype(array.dtype)  # type: ignore[index]
        block.care.clear()  # type: ignore[attr-defined]
    return pool


@pytest.mark.parametrize("bit", [0, 1, 3])
@pytest.mark.parametrize("port", ["first", "second"])
def test_neighbours_differ_in_each_port(port: str, bit: int) -> None:
    """Faults that exchange rows show wherever an output changes at all, between rows of two pairs too."""
    pool = constant_but_for(port, bit)
    late = [fault for fault in order.faults(pool) if not fault.id.startswith("early")]

    assert late and all(fault.remembers and fault.wrong(pool).any() for fault in late)


def test_late_inputs_are_seen_with_the_others_constant() -> None:
    rows = Every(fakes.BLENDER, fakes.BLENDER.configs["wrap"]).sequences()
    for number, port in enumerate(("first", "second")):
        inputs = rows.blocks[number].cases.inputs
        other = inputs["second" if port == "first" else "first"]
        same = other[1:] == other[:-1]
        assert np.count_nonzero(same) == 256 - 16 and (inputs[port][1:] != inputs[port][:-1])[same].all()
    late = [fault for fault in use.faults(rows) if fault.remembers]
    assert [fault.id for fault in late] == ["late/in.first", "late/in.second"]
