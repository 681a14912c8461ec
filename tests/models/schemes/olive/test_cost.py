"""Costs of OliVe's machine: what is not on it is fp16 without cycles."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from refemu.models import machine
from refemu.models.machine import Phase
from tests.oracles.costs import TINY, outside
from tests.oracles.olive import cost as oracle

MIXED = ("flint4 x flint4", "int4 x flint4", "int4 x flint4", "flint4 x flint4")


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize("tokens", [1, 70, 130])
@pytest.mark.parametrize(("spec", "bits", "modes"), [("olive-4", 4, MIXED), ("olive-8", 8, ("int8 x int8",) * 4)])
def test_every_count_is_that_of_the_oracle(
    spec: str, bits: int, modes: tuple[str, ...], tokens: int, phase: Phase
) -> None:
    """Several tile rows, full ones and one of a few tokens: weights are read once in each."""
    rows = machine.cost("tiny", spec, tokens, phase).layers
    block = oracle.block(TINY, *((tokens, 0) if phase == "prompt" else (1, tokens)), bits, modes)

    assert {row.kind: _counts(row.cost) for row in rows if 1 in row.blocks} == block
    (head,) = (_counts(row.cost) for row in rows if row.layer < 0)
    assert head == outside(1, TINY.vocab, TINY.width)


@pytest.mark.parametrize("spec", ["olive-4:act_bits=none", "olive-4:skip=down+lm_head"])
def test_layers_outside_machine_have_macs_and_no_cycles(spec: str) -> None:
    plain = machine.cost("tiny", spec, 4).layers
    usual = machine.cost("tiny", "olive-4", 4).layers

    linear = {row.layer: row.cost for row in plain if row.kind == "linear"}
    whole = {row.layer: row.cost for row in usual if row.kind == "linear"}
    for layer, cost in linear.items():
        assert "fp16" in cost.macs
        assert cost.cycles < whole[layer].cycles or layer < 0
        assert _total(cost.macs) == _total(whole[layer].macs)


def test_layers_outside_are_listed_with_their_reason() -> None:
    report = machine.cost("tiny", "olive-4:skip=down+lm_head", 4)

    assert {"blk.0.down", "blk.2.down", "head", "attention"} <= {entry.name for entry in report.not_on_the_machine}
    assert {"down", "head", "blk.0.q"}.isdisjoint(
        work.name for line in report.lines for work in [each.work for each in line]
    )


def test_head_is_on_machine_where_it_is_quantized() -> None:
    rows = machine.cost("tiny", "olive-4:skip=none", 4).layers

    head = {row.kind: row.cost for row in rows if row.layer < 0}
    assert head["linear"].cycles > 0 and "fp16" not in head["linear"].macs
    assert head["quantize"].conversions == 64


def test_every_sum_becomes_an_output() -> None:
    """64 + 32 + 32 + 64 + 96 + 96 + 64 outputs of block 0 of `tiny`, 4 tokens; none of a layer in fp16."""
    for spec, outputs in (("olive-4", 448), ("olive-4:skip=down", 384)):
        rows = machine.cost("tiny", spec, 4).layers
        assert [row.cost.conversions for row in rows if (row.layer, row.kind) == (0, "requant")] == [4 * outputs]


def _total(macs: object) -> int:
    assert isinstance(macs, dict)
    return int(sum(macs.values()))


def _counts(cost: Any) -> dict[str, Any]:
    """A cost without its records."""
    counts = asdict(replace(cost, works=()))
    del counts["works"]
    return counts
