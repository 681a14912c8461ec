"""Costs of LeanKV's machine: those that its units count, and fp16 elsewhere."""

import pytest

from refemu.models import machine
from refemu.models.machine import Phase
from tests.models.schemes.leankv.machine.small import PAGES, SMALL


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize("spec", [SMALL, f"leankv:{PAGES},preset=diffkv", "leankv-k16v16"])
def test_costs_are_those_of_the_machine(spec: str, phase: Phase) -> None:
    """D-leankv-65."""
    costs = {row.kind: row.cost for row in machine.cost("tiny", spec, 20, phase).layers if row.layer == 1}
    for kind, cost in machine.run("tiny", spec, 1, 20, phase).costs.items():
        if kind != "allocate":
            assert costs[kind] == cost, kind
    assert set(costs) - {"linear", "prompt attention"} <= {*machine.run("tiny", spec, 1, 20, phase).costs}


def test_linear_layers_and_prompts_are_fp16() -> None:
    rows = machine.cost("tiny", SMALL, 4).layers

    for kind in ("linear", "prompt attention"):
        assert {tuple(row.cost.macs) for row in rows if row.kind == kind} == {("fp16",)}
    (attention,) = (row.cost for row in rows if (row.layer, row.kind) == (0, "prompt attention"))
    assert attention.macs["fp16"] == 2 * 10 * 4 * 16
