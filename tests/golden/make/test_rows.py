"""Cases become rows of bit patterns, flags and masks."""

import dataclasses

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.make import rows
from refemu.units.unit import Cases, Unit
from tests.golden import fakes

WRAP = fakes.BLENDER.configs["wrap"]


def blend(first: object, second: object, **fields: str) -> rows.Block:
    return rows.evaluate(fakes.BLENDER, WRAP, Cases("paper", "a reason", {"first": first, "second": second}, **fields))


def test_signed_ports_are_masked_and_floats_are_bits() -> None:
    block = blend(np.array([5, 3]), np.array([-3, 0]))

    assert block.arrays["in.first"].tolist() == [[0b0101], [0b0011]]
    assert block.arrays["in.second"].tolist() == [[0b1101], [0b0000]]
    assert block.arrays["out.both"].tolist() == [[[2, 8]], [[3, 3]]]
    assert [[np.float16(np.float32(5) / np.float32(-3)).view(np.uint16)], [0x7C00]] == block.arrays[
        "out.ratio"
    ].tolist()
    assert {name: array.dtype.str[1:] for name, array in block.arrays.items()} == {
        "in.first": "u1",
        "in.second": "u1",
        "out.both": "u1",
        "out.ratio": "u2",
        "out.odd": "u1",
    }


def test_flags_and_masks_are_bit_patterns() -> None:
    block = blend(np.array([15, 5]), np.array([7, 0]))

    assert block.flags.tolist() == [[1], [0]]
    assert np.uint8 == block.flags.dtype
    assert block.care["out.ratio"].tolist() == [[0xFFFF], [0]]


def test_rows_of_a_decision_are_unspecified() -> None:
    assert blend(np.array([1, 15]), np.array([1, 7]), decision="D-fake-1").flags.tolist() == [[0b1000], [0b1001]]


def test_event_units_have_cases_of_rows() -> None:
    inputs = {"add": np.array([[1, 2, 3], [4, 4, 7]]), "clear": np.array([[0, 0, 0], [0, 1, 0]])}
    block = rows.evaluate(fakes.METER, fakes.METER.configs["w4"], Cases("paper", "a reason", inputs))

    assert block.shape == (2, 3)
    assert block.arrays["st.total"].tolist() == [[1, 3, 6], [4, 0, 7]]
    assert block.arrays["out.wide"].shape == (2, 3, 3)
    assert block.arrays["out.wide"][0, 2].tolist() == [6, 6 << 30, (1 << 40) - 7]


def test_large_blocks_use_the_compiled_form(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def evaluate(self: Unit, config: object, inputs: dict[str, np.ndarray], jit: bool = True) -> object:
        asked.append((inputs["first"].size, jit))
        return fakes.blend(inputs["first"], inputs["second"], overflow="wrap")

    monkeypatch.setattr(Unit, "evaluate", evaluate)
    for size in (rows.COMPILED_FROM - 1, rows.COMPILED_FROM):
        blend(np.ones(size, np.uint8), np.ones(size, np.int8))

    assert asked == [(rows.COMPILED_FROM - 1, False), (rows.COMPILED_FROM, True)]


def test_pick_selects_cases_of_every_array() -> None:
    block = blend(np.arange(4), np.array([1, 0, 1, 7])).pick(np.array([3, 1]))

    assert block.arrays["in.first"].tolist() == [[3], [1]]
    assert block.care["out.ratio"].tolist() == [[0xFFFF], [0]]
    assert block.shape == (2, 1)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        pytest.param({"first": np.ones(2, int)}, "inputs must be first, second, got first", id="missing"),
        pytest.param(
            {"first": np.ones(2, int), "second": np.ones(3, int)}, "the same number of cases and rows", id="lengths"
        ),
        pytest.param({"first": np.ones(0, int), "second": np.ones(0, int)}, "at least one", id="none"),
        pytest.param({"first": np.array([1, 16]), "second": np.ones(2, int)}, r"first: 16 at index \(1,\)", id="range"),
        pytest.param(
            {"first": np.ones((2, 2), int), "second": np.ones((2, 2), int)}, r"must have shape \(cases\)", id="rank"
        ),
    ],
)
def test_invalid_inputs_are_rejected(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(Refused, match=message):
        rows.evaluate(fakes.BLENDER, WRAP, Cases("edge", "a reason", inputs))


def test_unit_exceeding_its_port_is_rejected() -> None:
    broken = dataclasses.replace(
        fakes.BLENDER, run=lambda **ports: dataclasses.replace(fakes.blend(**ports), odd=np.array([2]))
    )

    with pytest.raises(Refused, match=r"blender: out.odd: 2 at index"):
        rows.evaluate(broken, WRAP, Cases("edge", "a reason", {"first": np.array([1]), "second": np.array([1])}))


@pytest.mark.parametrize("name", ["ovp_decoder", "olive_mac"])
def test_compiled_form_gives_the_same_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = units.find(name)
    config = next(iter(unit.configs.values()))
    for kind in ("paper", "edge", "random"):
        for cases in unit.cases(config, kind, 0):
            monkeypatch.setattr(rows, "COMPILED_FROM", 1 << 62)
            readable = rows.evaluate(unit, config, cases)
            monkeypatch.setattr(rows, "COMPILED_FROM", 0)
            compiled = rows.evaluate(unit, config, cases)

            assert compiled.flags.tolist() == readable.flags.tolist()
            for array, other in zip(compiled.arrays.values(), readable.arrays.values(), strict=True):
                assert (array.dtype, array.tolist()) == (other.dtype, other.tolist())
