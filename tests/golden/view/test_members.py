"""Members of states: ports, other registers, counters."""

from refemu.golden.view.members import members, registers_of
from refemu.units import orizuru, paged_attention
from tests.draw.test_registry import states


def test_every_field_is_a_member() -> None:
    unit = orizuru.UNIT
    every = list(members(unit.ports(unit.config("n8")), states("orizuru", "n8")))

    assert {port.name for _, port, _ in every} == set(vars(states("orizuru", "n8")[0])) - {"event", "index"}
    assert {group for group, _, _ in every} == {"inputs", "outputs", "state", "counts"}


def test_registers_of_float_stages_are_floats() -> None:
    """AUD-leankv-9: logits, maxima, sums and accumulators of paged attention."""
    unit = paged_attention.UNIT
    config = unit.config("paper")
    registers = registers_of(unit.unit_class(**config))
    every = {port.name: port for _, port, _ in members(unit.ports(config), states(unit.name, "paper"), registers)}

    assert {every[name].kind for name in ("logits", "tops", "totals", "chances", "acc", "sums")} == {"f32"}
    assert registers_of(object()) == ()
