"""Work of the core as costs and shares."""

from dataclasses import replace

import numpy as np
import pytest

from refemu.models.schemes.harmonia.machine import work
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from refemu.models.schemes.harmonia.machine.sizes import BFP4, BFP8, INT4, Product, moved, packed
from tests.oracles.harmonia import units

MACHINE = HarmoniaMachine()
ONE = Product("linear", 8, 64, 64, b=INT4)


@pytest.mark.parametrize("force", [1, 2])
def test_loads_are_those_of_the_dataflow(force: int) -> None:
    """[harmonia §IV-D] A again for every tile of columns, or B for every tile of rows."""
    a, b = moved(Product("linear", 100, 40, 200, b=INT4, dataflow=force)).elements

    assert a + b == units.ema(100, 40, 200, dataflow=force)
    assert (a, b) == ((4 * 4000, 8000) if force == 1 else (4000, 2 * 8000))


def test_modes_are_those_of_the_operands() -> None:
    """Half of 64 keys are demoted before the query comes."""
    assert work.cost("q", "linear", ONE, "weights", MACHINE).macs == {"M8W4": 8 * 64 * 64}
    keys = Product("score", 1, 32, 64, b=BFP8, slots=2)
    assert work.cost("", "attention", keys, "keys", MACHINE).macs == {"M8M8": 64 * 32}
    falls = np.where(np.arange(64) < 32, 1, 0)
    mixed = replace(keys, low=BFP4, falls=packed(falls), seen=packed(np.array([64])))
    assert work.cost("", "attention", mixed, "keys", MACHINE).macs == {"M8M8": 32 * 32, "M8M4": 32 * 32}


def test_products_follow_each_other() -> None:
    """D-harmonia-49: two products take less than twice one, for parts of both overlap."""
    one, two = (work.cost("q", "linear", ONE, "weights", MACHINE, count).works[0] for count in (1, 2))

    assert two.busy["array"] == 2 * one.busy["array"]
    assert one.cycles is not None and two.cycles is not None
    assert one.cycles < two.cycles < 2 * one.cycles


def test_shares_are_of_the_whole_timeline() -> None:
    shares = work.use(ONE, MACHINE)
    line = work._flow(ONE, MACHINE, 1, True)

    assert shares["PEs"] == 8 * 64 * 2 / 128 / line.clock
    assert shares["aligner"] == 64 / line.clock and "vector unit" not in shares
    assert all(0 < share <= 1 for share in shares.values())


def test_the_head_stays_in_fp16() -> None:
    cost = work.head(3, 4, 10)

    assert cost.macs == {"fp16": 120} and cost.words == {"weights": 40, "activations": 12} and not cost.cycles
    assert cost.works[0].cycles is None
