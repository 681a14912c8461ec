"""What the golden cases of fp16_mac must hold."""

import itertools

import numpy as np
import pytest

from refemu.units.kllm.fp16_mac import UNIT
from refemu.units.unit import Cases

IEEE = ["ieee", "ieee_separate"]
NV, OF, UF, NX = 16, 4, 2, 1


def test_edge_distinguishes_one_rounding_from_two() -> None:
    """D-kllm-3."""
    answers = [
        [UNIT.evaluate(config, block.inputs).y for block in UNIT.cases(config, "edge", 0)]
        for config in (UNIT.configs["paper"], UNIT.configs["fma"])
    ]

    assert any(not np.array_equal(a, b) for a, b in zip(*answers, strict=True))


def edge(name: str, start: str) -> Cases:
    """The edge block whose reason starts so."""
    (block,) = (block for block in UNIT.cases(UNIT.configs[name], "edge", 0) if block.why.startswith(start))
    return block


@pytest.mark.parametrize("name", IEEE)
def test_edges_raise_every_flag_in_every_direction(name: str) -> None:
    """Of two roundings each may raise its own."""
    config = UNIT.configs[name]
    met = set()
    for block in UNIT.cases(config, "edge", 0):
        result = UNIT.evaluate(config, block.inputs)
        met |= set(zip(block.inputs["rm"].tolist(), result.fflags.tolist(), strict=True))

    wanted = {0, NV, NX, OF | NX, UF | NX}
    assert met >= set(itertools.product(range(5), wanted))
    both = {NV | NX, NV | UF | NX, NV | OF | NX, OF | UF | NX}
    assert {flags for _, flags in met} - wanted == (both if name == "ieee_separate" else set())


@pytest.mark.parametrize("name", IEEE)
@pytest.mark.parametrize(
    "start", ["a quarter", "results near the smallest", "results near the largest", "signed zeros"]
)
def test_edge_rows_are_one_step_per_direction(name: str, start: str) -> None:
    """No two directions agree in all of them, but for zeros, where all agree except "floor"."""
    block = edge(name, start)
    result = UNIT.evaluate(UNIT.configs[name], block.inputs)
    steps = {port: array.reshape(-1, 5) for port, array in block.inputs.items()}
    assert (steps["rm"] == np.arange(5)).all()
    assert all((steps[port] == steps[port][:, :1]).all() for port in ("a", "b", "acc"))

    answers = result.y.reshape(-1, 5).T
    pairs = [(i, j) for i, j in itertools.combinations(range(5), 2) if start != "signed zeros" or 2 in (i, j)]
    equal = [pair for pair in pairs if np.array_equal(answers[pair[0]], answers[pair[1]])]
    assert equal == []


@pytest.mark.parametrize("name", IEEE)
def test_tininess_shows_in_directions_that_round_up(name: str) -> None:
    """D-arith-24: in flags of the edge only, where the magnitude is rounded up to the smallest normal one."""
    block, config = edge(name, "results near the smallest"), UNIT.configs[name]
    after, before = (UNIT.evaluate({**config, "tininess": value}, block.inputs) for value in ("after", "before"))
    rows = after.fflags != before.fflags

    assert np.array_equal(after.y, before.y) and set(after.fflags[rows].tolist()) == {NX}
    assert set(block.inputs["rm"][rows].tolist()) == {0, 2, 3, 4} and rows.sum() >= 20


@pytest.mark.parametrize("name", IEEE)
def test_a_signalling_nan_in_each_operand_alone(name: str) -> None:
    block = edge(name, "NaN, quiet and signalling")
    words = np.stack([block.inputs[port] for port in ("a", "b", "acc")])
    signalling = (words & 0x7FFF > 0x7C00) & (words & 0x200 == 0)
    flags = UNIT.evaluate(UNIT.configs[name], block.inputs).fflags
    for operand in signalling:
        alone = operand & (signalling.sum(axis=0) == 1)
        assert alone.sum() >= 10 and (flags[alone] == NV).all()


def test_other_directions_and_flags_have_cases_too() -> None:
    """Not ready configurations: without the port `rm` a row stands for one step."""
    for text in ("direction=ceil", "rounding=fp16_fma,ieee_flags=true", "direction=dynamic"):
        config = UNIT.config(text)
        blocks = [block for kind in ("paper", "edge", "random") for block in UNIT.stimuli(config, kind, 0)]
        assert len(blocks) > 10 and all(("rm" in block.inputs) == ("dynamic" in text) for block in blocks)
