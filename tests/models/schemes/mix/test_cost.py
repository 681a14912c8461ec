"""Costs of a mix: those of the scheme alone for the work of a part, and errors that name the part."""

from dataclasses import replace

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import machine, text
from refemu.models.machine import Phase
from refemu.models.machine.cost import LayerCost
from tests.models.schemes.mix.pairs import part

ATTENDING = ("attention", "prompt attention", "significance", "compress", "pages")


def rows(scheme: str, phase: Phase = "prompt") -> list[LayerCost]:
    """A row for every layer, with counts alone: a mix has no accelerator and so no records of work."""
    return [
        replace(row, layer=layer, cost=replace(row.cost, works=()), count=1)
        for row in machine.cost("tiny", scheme, 9, phase).layers
        for layer in row.blocks
    ]


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize(
    ("mix", "single"),
    [
        (f"{part('olive-4')}+fp16", part("olive-4")),
        ("fp16+leankv-k8v4", "leankv-k8v4"),
        (f"{part('kllm-a4')}+{part('kllm-a4')}", part("kllm-a4")),
    ],
)
def test_mix_of_one_scheme_costs_the_same(mix: str, single: str, phase: Phase) -> None:
    assert rows(mix, phase) == rows(single, phase)


def counts(row: LayerCost) -> tuple[object, ...]:
    """Counts that depend on sizes: a type of OliVe's operands depends on the layers before it."""
    return row.layer, row.kind, sum(row.cost.macs.values()), dict(row.cost.words), row.cost.cycles


def test_every_part_costs_what_its_scheme_does() -> None:
    mixed = rows(f"{part('olive-8', '1')}+{part('olive-4')}+leankv-k8v4")
    alone = {name: [counts(row) for row in rows(part(name))] for name in ("olive-8", "olive-4", "leankv-k8v4")}

    for row in mixed:
        wanted = "leankv-k8v4" if row.kind in ATTENDING else "olive-8" if row.layer == 1 else "olive-4"
        if row.kind != "quantize":  # of linear inputs, and of tokens stored in pages
            assert counts(row) in alone[wanted]
    assert {row.kind for row in mixed} == {"linear", "requant", *ATTENDING, "quantize"} - {"attention"}


def test_a_run_counts_the_costs() -> None:
    model = models.load("tiny")
    ids = model.tokenizer.encode(text.default())[:9]
    found = models.run(model, ids, f"{part('olive-4')}+leankv-k8v4", costs=True)

    assert found.counters["blk.1.linear.cycles"] > 0 and found.counters["blk.1.pages.words.kv"] > 0
    assert "overflowed_outputs" in found.counters and "tokens_written" in found.counters


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        (
            "olive-4+harmonia-kv4",
            "cost: each part must have its own cost, got part 2, 'harmonia-kv4': Harmonia's accel",
        ),
        (
            "olive-study+fp16",
            "cost: each part must have its own cost, got part 1, 'olive-study': no accelerator computes it",
        ),
    ],
)
def test_a_part_without_costs_is_named(scheme: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        machine.cost("tiny", scheme)


def test_block_of_mix_has_no_accelerator() -> None:
    with pytest.raises(Refused, match=r"must be one scheme, got the mix olive-4\+fp16; use one of its parts: olive-4"):
        machine.run("tiny", "olive-4+fp16")
