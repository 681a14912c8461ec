"""Costs of Harmonia's accelerator: known sizes, and when keys and values fall."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from refemu.models import machine
from refemu.models.machine import Phase
from refemu.models.schemes.harmonia import cost
from refemu.units.harmonia.bit_allocator import Allocation, BitAllocator
from tests.oracles.costs import TINY, outside
from tests.oracles.harmonia import cost as oracle
from tests.oracles.harmonia import units


def counted(cost: machine.Cost) -> dict[str, Any]:
    """The counts of a cost, without its records of work."""
    counts = asdict(cost)
    del counts["works"]
    return counts


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize(("tokens", "n_initial", "n_local"), [(16, 32, 64), (40, 0, 0), (40, 4, 5)])
def test_every_count_is_that_of_the_oracle(tokens: int, n_initial: int, n_local: int, phase: Phase) -> None:
    """[harmonia §III, §IV] MACs by mode, comparisons, words and clocks, of keys and values in one or in both widths."""
    spec = f"harmonia-kv4:n_initial={n_initial},n_local={n_local}"
    report = machine.cost(
        "tiny", spec, tokens, phase, options="future=compute" if phase == "prompt" and tokens > 16 else ""
    )
    rows = report.layers
    some = (tokens, 0) if phase == "prompt" else (1, tokens)

    block = {row.kind: counted(row.cost) for row in rows if 1 in row.blocks}
    assert block == oracle.block(TINY, *some, n_initial=n_initial, n_local=n_local)
    (head,) = (counted(row.cost) for row in rows if row.layer < 0)
    assert head == outside(1, TINY.vocab, TINY.width)


@pytest.mark.parametrize("sizes", [{}, {"n_initial": 40, "n_local": 7}, {"n_initial": 0, "n_local": 0}, {"low": 8}])
def test_falls_are_those_of_the_oracle(sizes: dict[str, int]) -> None:
    """[harmonia §III-B] The first cache in which a key, or a group of values, has fewer bits."""
    rule = Allocation(**sizes)
    k, v = cost.falls(rule, 170)

    for tokens in (1, 33, 96, 97, 128, 129, 170):
        bits = rule.bits(tokens)
        fallen = ((k[:tokens] > 0) & (k[:tokens] <= tokens), (v[: len(bits[1])] > 0) & (v[: len(bits[1])] <= tokens))
        for found, each in zip(fallen, bits, strict=True):
            assert found.tolist() == [rule.low < rule.high and bit == rule.low for bit in each.tolist()]


def test_falls_are_those_of_the_allocator() -> None:
    allocator = BitAllocator()
    keys, groups = np.zeros(200, int), np.zeros(7, int)
    for tokens in range(1, 201):
        state = allocator.step(0)
        if state.demote_k:
            keys[state.k_token] = tokens
        if state.demote_v:
            groups[state.v_group] = tokens
    k, v = cost.falls(allocator, 200)

    assert k.tolist() == keys.tolist() and v.tolist() == groups.tolist()


def test_known_sizes() -> None:
    """Block 0 of `tiny`, 16 tokens: seven layers of INT4 weights, four heads of 16 channels, everything in 8 bits."""
    rows = {row.kind: row.cost for row in machine.cost("tiny", "harmonia-kv4", 16).layers if row.layer == 0}

    outputs = [(64, 64), (32, 64), (32, 64), (64, 64), (96, 64), (96, 64), (64, 96)]
    weights = int(np.prod(outputs, axis=1).sum())
    assert rows["linear"].macs == {"M8W4": 16 * weights}
    assert rows["linear"].words["weights"] == weights
    assert rows["attention"].macs == {"M8M8": 4 * 16 * 16 * 32 + 4 * 16 * 16 * 32}
    assert rows["attention"].conversions == 4 * 16 * 16
    assert rows["quantize"].conversions == 16 * (64 + 64 + 64 + 96)
    assert rows["offset"].comparisons == 16 * 32 + 31
    assert rows["grouping"].conversions == 0
    cycles = [units.converter_cycles([32] * (2 * width // 32)) for width in (64, 64, 64, 96)]
    assert rows["quantize"].cycles == int(np.array(cycles).sum())


def test_a_step_converts_its_group_of_values_again() -> None:
    """[harmonia Fig. 6b] Token 40 is the ninth of its group."""
    rows = {row.kind: row.cost for row in machine.cost("tiny", "harmonia-kv4", 40, "decode").layers if row.layer == 0}

    assert rows["grouping"].conversions == 9 * 32 and "offset" not in rows
