"""Work of the core as costs and shares."""

import numpy as np
import pytest

from refemu.models.schemes.harmonia.machine import work
from refemu.units.harmonia.harmonia_core import HarmoniaCore, Timeline
from tests.oracles.harmonia import units


@pytest.mark.parametrize("force", [1, 2])
def test_loads_are_those_of_the_dataflow(force: int) -> None:
    """[harmonia §IV-D] A again for every tile of columns, or B for every tile of rows."""
    core = HarmoniaCore("linear", 100, 40, 200, force=force)
    a, b = work.loads(core)

    assert a + b == units.ema(100, 40, 200, dataflow=force)
    assert (a, b) == ((4 * 4000, 8000) if force == 1 else (4000, 2 * 8000))


def test_modes_are_those_of_the_operands() -> None:
    counters = {"macs": 96, "wide_macs": 32}

    assert work.modes(HarmoniaCore("linear", 1, 32, 1), counters) == {"M8W4": 96}
    mixed = HarmoniaCore("score", 1, 32, 3, b_type="mixed")
    assert work.modes(mixed, counters) == {"M8M8": 32, "M8M4": 64}
    assert work.modes(mixed, {"macs": 96, "wide_macs": 96}) == {"M8M8": 96}


def test_products_follow_each_other() -> None:
    """D-harmonia-49: two products take less than twice one, for parts of both overlap."""
    core = HarmoniaCore("linear", 8, 64, 64)
    one, two = (work.timeline(core, np.zeros((8, 0), np.uint8), count) for count in (1, 2))

    assert two.busy["array"] == 2 * one.busy["array"]
    assert one.clock < two.clock < 2 * one.clock


def test_shares_are_of_the_whole_timeline() -> None:
    core = HarmoniaCore("linear", 8, 64, 64)
    line = work.timeline(core, np.zeros((8, 0), np.uint8), 1)
    shares = work.use({"macs": 8 * 64 * 64, "wide_macs": 0}, line)

    assert shares["PEs"] == 8 * 64 * 2 / 128 / line.clock
    assert shares["aligner"] == 64 / line.clock and "vector unit" not in shares
    assert all(0 < share <= 1 for share in shares.values())
    assert Timeline().clock == 0


def test_the_head_stays_in_fp16() -> None:
    class Sizes:
        vocab = 10

    cost = work.head(Sizes(), np.zeros((3, 4), np.float32))

    assert cost.macs == {"fp16": 120} and cost.words == {"weights": 40, "activations": 12} and not cost.cycles
