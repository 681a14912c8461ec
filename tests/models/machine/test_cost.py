"""Costs: those of the machine where both run, sums of their parts, and the same in `run.counters`."""

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import machine, text
from refemu.models.machine import Cost, Phase
from refemu.models.machine.cost import LayerCost, Meter, counters

SCHEMES = [
    "olive-4",
    "olive-8",
    "olive-4:eight_bit=down",
    "kllm-a4",
    "kllm-a3",
    "kllm-a4-s",
    "kllm-a4:outlier_percent=5",
    "harmonia-kv4",
    "harmonia-kv8",
    "harmonia-kv4-naive",
    "harmonia-kv4:n_initial=4,n_local=5",
]


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize(
    "scheme", [pytest.param(each, marks=[pytest.mark.long] * each.startswith("kllm")) for each in SCHEMES]
)
def test_costs_are_those_of_the_machine(scheme: str, phase: Phase) -> None:
    """What the units count at their ports is what sizes and masks give, in every block and kind of work."""
    tokens = 5 if scheme.startswith("kllm") else 13
    rows = machine.cost("tiny", scheme, tokens, phase).layers

    for layer in range(models.load("tiny").config.blocks):
        costs = {row.kind: row.cost for row in rows if layer in row.blocks}
        measured = machine.run("tiny", scheme, layer, tokens, phase).costs
        assert {kind: costs[kind] for kind in measured} == measured
        assert set(costs) - set(measured) <= {"attention"}  # OliVe's is in fp16, outside its machine


@pytest.mark.long
@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-opt"])
def test_costs_of_layernorm_and_biases_match_the_accelerator(model: str) -> None:
    rows = machine.cost(model, "kllm-a4", 7).layers

    for layer in (0, 1):
        costs = {row.kind: row.cost for row in rows if layer in row.blocks}
        assert costs == machine.run(model, "kllm-a4", layer, 7).costs


@pytest.mark.parametrize("scheme", ["olive-4", pytest.param("kllm-a4", marks=pytest.mark.long), "harmonia-kv4"])
def test_run_has_the_costs_among_its_counters(scheme: str) -> None:
    model = models.load("tiny")
    ids = model.tokenizer.encode(text.default())[:9]

    plain, counted = (models.run(model, ids, scheme, costs=costs) for costs in (False, True))

    assert counted.logits.tobytes() == plain.logits.tobytes()
    costs = counters(machine.cost("tiny", scheme, 9).layers)
    blocks = {name: count for name, count in costs.items() if name.startswith("blk.")}
    assert blocks and blocks.items() <= counted.counters.items()
    assert plain.counters.items() <= counted.counters.items()
    assert counted.counters["head.linear.macs.fp16"] == 9 * costs["head.linear.macs.fp16"]  # every row, not the last


@pytest.mark.parametrize("scheme", ["olive-4", pytest.param("kllm-a4", marks=pytest.mark.long)])
def test_a_prompt_costs_its_steps(scheme: str) -> None:
    """MACs, index operations and conversions of a prompt are those of its tokens one by one."""
    model = models.load("tiny")
    ids = model.tokenizer.encode(text.default())[:6]
    prepared = models.prepare(model, scheme)
    whole, steps = Meter(prepared), Meter(prepared)
    models.session(whole.watched()).append(ids)
    session = models.session(steps.watched())
    for token in ids:
        session.append([token])

    for left, right in zip(whole.layers(), steps.layers(), strict=True):
        assert (left.layer, left.kind) == (right.layer, right.kind)
        for name in ("macs", "index_operations", "comparisons", "conversions"):
            assert getattr(left.cost, name) == getattr(right.cost, name)


def test_olive_of_known_sizes() -> None:
    """Block 0 of `tiny`, 16 tokens: 30,720 weights; two tiles of gate and up, one of the others [D-olive-39]."""
    rows = {row.kind: row.cost for row in machine.cost("tiny", "olive-8", 16).layers if row.layer == 0}

    sizes = [(64, 64), (32, 64), (32, 64), (64, 64), (96, 64), (96, 64), (64, 96)]
    weights = int(np.array([n * k for n, k in sizes]).sum())
    assert rows["linear"].macs == {"int8 x int8": 16 * weights}
    assert rows["linear"].words["weights"] == weights // 2
    assert rows["linear"].cycles == int(np.array([-(-n // 32) * (k + 32 + 32 - 2 + 32) for n, k in sizes]).sum())
    assert rows["attention"].macs == {"fp16": 2 * (16 * 17 // 2) * 4 * 16}


def test_costs_add_up() -> None:
    left = Cost({"a": 1}, 1, 2, 3, {"kv": 4}, 5)

    assert left + Cost() == left
    assert left + Cost({"a": 1, "b": 2}, words={"weights": 1}) == Cost(
        {"a": 2, "b": 2}, 1, 2, 3, {"kv": 4, "weights": 1}, 5
    )
    assert counters([LayerCost(-1, "linear", left)])["head.linear.macs.a"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"scheme": "fp16"}, "scheme fp16 has no accelerator"),
        ({"tokens": 0}, "tokens must be"),
        ({"model": "tiny-encoder"}, "is an encoder"),
    ],
)
def test_invalid_requests_are_rejected(words: dict[str, object], message: str) -> None:
    with pytest.raises(Refused, match=message):
        machine.cost(**{"model": "tiny", "scheme": "olive-4", **words})  # type: ignore[arg-type]


def test_costs_need_a_scheme_with_accelerator() -> None:
    with pytest.raises(Refused, match="scheme fp16 has no accelerator"):
        models.run("tiny", [1, 2], "fp16", costs=True)
