"""Facts that last: bits that no event changes, and none that an event changes."""

import pytest

from refemu import units
from refemu.golden.grade.invariants import lasting
from refemu.prove import terms
from refemu.prove.lift import lift

pytest.importorskip("bitwuzla")


@pytest.mark.parametrize(
    ("name", "config", "lasts"), [("bfp_accumulator", "exact", True), ("olive_mac", "wrap", False)]
)
def test_facts_of_registers(name: str, config: str, lasts: bool) -> None:
    """`flags` of the exact accumulator stay 0; every bit of the accumulator of `olive_mac` changes."""
    unit = units.find(name)
    lifted = lift(unit, unit.config(config))
    known = lasting(lifted, 120)

    assert (known is terms.TRUE) is not lasts
    if lasts:
        (flags,) = lifted.before["flags"]
        assert {each.name for each in terms.order([known]) if each.op == "var"} >= {"q_flags"}
        values = terms.evaluate([known], {"q_flags": [0, 4], "q_acc": [0, 0]}, 2)[0]
        assert values.tolist() == [1, 0] and flags.width == 3
