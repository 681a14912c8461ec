"""Costs of LeanKV's machine: those that its units count, and fp16 elsewhere."""

from dataclasses import asdict

import pytest

from refemu import models
from refemu.models import machine, text
from refemu.models.machine import Phase, runner
from refemu.models.schemes.leankv.taps import CHOICES
from tests.models.schemes.leankv.machine.small import PAGES, SMALL
from tests.oracles.costs import TINY
from tests.oracles.leankv import cost as oracle

PAIRS = (8, 4), (4, 2)


def planned(layer: int, tokens: int) -> list[oracle.Head]:
    """What the scheme decides for the token after a prompt."""
    model = models.load("tiny")
    calls = runner.recorded(
        models.prepare(model, SMALL), layer, model.tokenizer.encode(text.default()), tokens, "decode"
    )
    *_, attention = [call for call in calls if call.part == "attention"]
    (plan,) = attention.inputs[1].held.current.plans
    names = [CHOICES[choice] for choice in plan.decided.choice[0, layer].tolist()]
    parts = [
        names,
        plan.before.lengths[0, layer].tolist(),
        plan.lengths[0, layer].tolist(),
        plan.moves[0, layer].tolist(),
    ]
    return [oracle.Head(*head) for head in zip(*parts, strict=True)]


@pytest.mark.parametrize(("layer", "tokens"), [(0, 5), (0, 24), (1, 24), (2, 33)])
def test_every_count_is_that_of_the_oracle(layer: int, tokens: int) -> None:
    """D-leankv-65: stored and moved tokens are the scheme's; counts that follow from them are checked separately."""
    heads = planned(layer, tokens)
    kept = tuple(sum(column) for column in zip(*(head.before for head in heads), strict=True))
    due = {"prompt": oracle.prompt(TINY, tokens, PAIRS, kept), "decode": oracle.step(TINY, PAIRS, heads, 4)}

    for phase in machine.PHASES:
        rows = machine.cost("tiny", SMALL, tokens, phase).layers
        counts = {row.kind: asdict(row.cost) for row in rows if layer in row.blocks}
        assert [each.pop("works") for each in counts.values()] == [()] * len(counts)
        assert counts == due[phase]


def test_comparators_of_the_sorting_network() -> None:
    rows = machine.cost("tiny", f"{SMALL},sort=bitonic", 24).layers

    (compress,) = (row.cost for row in rows if (row.layer, row.kind) == (0, "compress"))
    assert compress.comparisons == TINY.kv_heads * oracle.network(24)


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize("spec", [SMALL, f"leankv:{PAGES},preset=diffkv", "leankv-k16v16"])
def test_costs_are_those_of_the_machine(spec: str, phase: Phase) -> None:
    """D-leankv-65."""
    costs = {row.kind: row.cost for row in machine.cost("tiny", spec, 20, phase).layers if 1 in row.blocks}
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
