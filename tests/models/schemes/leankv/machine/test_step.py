"""A generation step on the machine: a wrong unit is noticed, and its cost is that of the step alone."""

import pytest

from refemu.models import machine
from refemu.units.leankv.layer_step import UNIT
from tests.models.machine import wrong
from tests.models.schemes.leankv.machine.small import SMALL


@pytest.mark.parametrize(("unit", "port"), wrong.outputs("layer_step"))
def test_a_wrong_output_is_noticed_in_every_lane(unit: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lane of each KV head is compared with a value that layer_step did not make."""
    wrong.everywhere(monkeypatch, unit, port)
    (operation,) = machine.run("tiny", SMALL, 2, 24, "decode").operations

    assert operation.counts["moved"] and not operation.unchecked
    (lanes,) = (each.lanes for each in UNIT.ports(operation.parameters).outputs if each.name == port)
    assert operation.differing == lanes


def test_the_cost_is_that_of_one_token() -> None:
    """D-leankv-65: two products per stored token and query head; records and words of this step only."""
    (operation,) = machine.run("tiny", SMALL, 0, 24, "decode").operations
    stored = operation.counts["high"] + operation.counts["low"]

    assert operation.cost.macs == {"attention": 2 * stored * 2 * 16}
    assert operation.cost.conversions == 2 + operation.counts["moved"]
    assert operation.words["score"] == 2 * stored


def test_blocks_have_the_sectors_of_the_unit() -> None:
    """Sectors, pages and exponentials by head and warp add up to the counters of layer_step.

    These pages begin with a sector, so no count depends on their ids.
    """
    (operation,) = machine.run("tiny", "leankv", 0, 96, "decode").operations
    counts, blocks = operation.counts, operation.blocks
    sectors = sum(count for name, count in counts.items() if name.endswith("_sectors"))

    assert [block["head"] for block in blocks] == [0, 1]
    assert sum(block["sectors"] for block in blocks) == sectors
    assert sum(warp["sectors"] for block in blocks for warp in block["warps"]) == sectors
    assert sum(block["pages"] for block in blocks) == counts["pages_read"]
    assert sum(block["exponentials"] for block in blocks) == counts["exps"]
    assert sum(block["tokens"] for block in blocks) == counts["high"] + counts["low"]
    assert counts["levels"] > 0 and counts["tokens_written"] == 2
