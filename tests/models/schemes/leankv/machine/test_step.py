"""A generation step on the machine: a wrong unit is noticed, and its cost is that of the step alone."""

import pytest

from refemu.models import machine
from tests.models.machine import wrong
from tests.models.schemes.leankv.machine.small import SMALL


@pytest.mark.parametrize("port", ["choice", "victim", "low_slot", "out"])
def test_a_wrong_lane_is_noticed(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong.answers(monkeypatch, "layer_step", port)

    assert machine.run("tiny", SMALL, 0, 24, "decode").differing == 1


def test_the_cost_is_that_of_one_token() -> None:
    """D-leankv-65: two products per stored token and query head; records and words of this step only."""
    (operation,) = machine.run("tiny", SMALL, 0, 24, "decode").operations
    stored = operation.counts["high"] + operation.counts["low"]

    assert operation.cost.macs == {"attention": 2 * stored * 2 * 16}
    assert operation.cost.conversions == 2 + operation.counts["moved"]
    assert operation.words["score"] == 2 * stored
