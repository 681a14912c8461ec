"""Simulated batches are compared with those of the paper."""

from types import SimpleNamespace
from typing import Any

import pytest

from refemu.studies.output import serving


def report(shape: str, scheme: str, mean: float, gpu: str = "l40", **more: Any) -> Any:
    setting = {"workers": 1, "quality": None, "high_share": None, "pruned_share": None} | more
    return SimpleNamespace(shape=shape, scheme=scheme, gpu=gpu, setting=setting, total={"batch": {"mean": mean}})


def test_batches_are_next_to_those_of_the_paper() -> None:
    """[leankv §7.4]: 22, 62, 177, and 51.5 for Llama3-8B."""
    cases = [
        report("llama-2-7b", "fp16", 25.0),
        report("llama-2-7b", "leankv", 90.7),
        report("llama-2-7b", "leankv", 161.9, quality="five-percent"),
        report("llama-3-8b", "fp16", 88.7),
        report("llama-3-8b", "leankv", 9.0),
    ]
    (figure,) = serving.batches(cases)
    simulated, stated = figure.panels[0].series

    assert simulated.x == stated.x and simulated.x[2] == "llama-2-7b leankv five-percent"
    assert (simulated.y, stated.y) == ((25.0, 90.7, 161.9, 88.7), (22.0, 62.0, 177.0, 51.5))
    assert (simulated.source, stated.source) == ("", "[leankv §7.4]")


@pytest.mark.parametrize("more", [{"gpu": "a100"}, {"workers": 2}, {"high_share": 0.1}, {"pruned_share": 0.1}])
def test_simulations_that_the_paper_lacks_are_not_compared(more: dict[str, Any]) -> None:
    assert serving.batches([report("llama-2-7b", "leankv", 1.0, **more)]) == []
