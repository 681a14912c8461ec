"""LeanKV's machine: no element differs from the scheme; what stays in fp16 is named."""

import pytest

from refemu.models import machine
from refemu.models.machine import Phase
from tests.models.schemes.leankv.machine.small import PAGES, SMALL

PROMPT = ["significance", "classes", "high.key", "high.value", "low.key", "low.value", "pages", "allocation"]


@pytest.mark.parametrize("layer", [0, 2])
def test_a_prompt_of_tiny_is_equal(layer: int) -> None:
    report = machine.run("tiny", SMALL, layer, 24)

    assert [operation.name for operation in report.operations] == [f"blk.{layer}.{name}" for name in PROMPT]
    assert report.differing == 0 and all(operation.elements for operation in report.operations)
    counts = report.operations[1].counts
    assert counts["high"] and counts["low"] and counts["high"] + counts["low"] + counts["pruned"] == 2 * 24


@pytest.mark.parametrize("layer", [0, 2])
def test_a_step_of_tiny_is_equal(layer: int) -> None:
    report = machine.run("tiny", SMALL, layer, 24, "decode")

    (operation,) = report.operations
    assert (operation.unit, report.differing) == ("layer_step", 0) and operation.elements > 100
    assert sum(count for name, count in operation.counts.items() if name.startswith("choice ")) == 2


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize(
    "scheme",
    [
        "leankv-k8v4",
        "leankv-k16v16",
        f"leankv:{PAGES},preset=diffkv",
        f"{SMALL},workers=2",
        f"{SMALL},gqa=mean,score_rule=cumulative,scrub=true",
        f"{SMALL},order=sequential,fma=false,softmax_div=recip_mul",
        f"leankv-k8v4:{PAGES},policy=static,keep_percent=50",
    ],
)
def test_options_of_scheme_are_those_of_units(scheme: str, phase: Phase) -> None:
    assert machine.run("tiny", scheme, 0, 20, phase).differing == 0


def test_what_stays_in_fp16_is_named() -> None:
    """D-leankv-64: everything but the cache and the attention of a step; a prompt's attention too (D-leankv-49)."""
    for phase, first in (("prompt", ["attention"]), ("decode", [])):
        for model, rotary in (("tiny", ["rotate"]), ("tiny-gpt2", [])):
            report = machine.run(model, SMALL, 0, 6, phase)  # type: ignore[arg-type]
            names = [entry.name.removeprefix("blk.0.") for entry in report.not_on_the_machine]
            assert names == [*first, "norm", "linear", *rotary, "activation", "add"]
            assert all("D-leankv-" in entry.reason for entry in report.not_on_the_machine)


@pytest.mark.long
@pytest.mark.model
@pytest.mark.parametrize("layer", [0, 15])
@pytest.mark.parametrize("scheme", ["leankv", "leankv-k8v4"])
def test_smollm2_is_equal(scheme: str, layer: int) -> None:
    """Tokens of every precision that the scheme has, and a choice of Algorithm 1 for each of three heads."""
    precisions = {"high", "low"} if scheme == "leankv" else {"high"}
    for phase in machine.PHASES:
        report = machine.run("smollm2-135m", scheme, layer, 192, phase)
        counted = {name: count for operation in report.operations for name, count in operation.counts.items()}

        assert report.differing == 0
        assert {name for name in ("high", "low") if counted[name]} == precisions
        assert counted["high"] + counted["low"] == 3 * (193 if phase == "decode" else 192)
        choices = [count for name, count in counted.items() if name.startswith("choice ")]
        assert all(choices) and sum(choices) == 3 * (phase == "decode")
