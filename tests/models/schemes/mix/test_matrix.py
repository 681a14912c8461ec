"""Every linear part with every attention: it runs, with the same bits by both backends, and by both cuts of a text
where both parts promise that.
"""

from typing import Any

import numpy as np
import pytest

from refemu.models import schemes
from tests.models.schemes.mix.pairs import ATTENTION, LINEAR, TEXT, few_logits, logits, part, prepared

FAMILIES = ("fp16", "olive-4", "kllm-a4", "harmonia-kv4")
HELD = ("fp16", "kllm-a4", "harmonia-kv4", "leankv", "leankv-k8v4")


def _seconds(name: str, family: str) -> Any:
    """A parameter whose tests take seconds if it is of this family."""
    return pytest.param(name, marks=[pytest.mark.long] if name.startswith(family) else [])


def runs(linear: str, attention: str) -> None:
    """A prompt and steps; and where the attention promises it, the same text as one prompt."""
    mixed = prepared(f"{part(linear)}+{part(attention)}")
    found = logits(mixed)

    assert len(found) == 4 * mixed.model.vocab * len(TEXT)
    assert np.isfinite(np.frombuffer(found, np.float32)).all()
    if attention.startswith(("fp16", "kllm")):
        assert found == logits(mixed, len(TEXT))


@pytest.mark.parametrize("attention", HELD)
@pytest.mark.parametrize("linear", FAMILIES)
def test_a_pair_runs(linear: str, attention: str) -> None:
    runs(linear, attention)


@pytest.mark.long
@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("linear", LINEAR)
def test_every_pair_runs(linear: str, attention: str) -> None:
    runs(linear, attention)


@pytest.mark.parametrize("attention", [_seconds(each, "kllm") for each in HELD])
@pytest.mark.parametrize("linear", [_seconds(each, "kllm") for each in FAMILIES])
def test_matrix_backends_agree(linear: str, attention: str) -> None:
    text = f"{part(linear)}+{part(attention)}"
    logits_of = few_logits if "kllm-a4" in (linear, attention) else logits

    assert logits_of(prepared(text)) == logits_of(prepared(text, "numpy"))


def test_the_pairs_are_all_that_there_are() -> None:
    """Which scheme has which half: the lists of this test are those of the registry."""
    halves = {row["name"]: row["halves"].split() for row in schemes.describe()}

    assert [name for name, there in halves.items() if "linear" in there] == LINEAR
    assert [name for name, there in halves.items() if "attention" in there] == ATTENTION
