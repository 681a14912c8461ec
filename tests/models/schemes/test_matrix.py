"""Every registered scheme on every kind of decoder: it runs, the same bits however the tokens are cut and by either
backend. The table of docs/models.md is this one; the tests of each paper's scheme look closer.
"""

import dataclasses
from functools import cache
from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes

OLD = ("tiny", "tiny-gpt2", "tiny-opt")
NEW = ("tiny-mistral", "tiny-qwen2", "tiny-qwen3", "tiny-phi3", "tiny-gemma2", "tiny-bloom")
NAMES = OLD + NEW
TEXT, PROMPT = list(b"Sir Walter Elliot"), 12
CALIBRATION = list(b"It is a truth universally acknowledged. " * 2)
ONE_PHASE = [name for name in schemes.SCHEMES if name.startswith(("fp16", "olive", "kllm"))]


@cache
def prepared(name: str, scheme: str, backend: str = "jit") -> Any:
    config: Any = schemes.parse(scheme)
    if scheme in ("olive-4", "olive-8"):  # four candidates instead of 88: the search has its own tests
        config = dataclasses.replace(config, low=90, high=130, step=10)
    # What harmonia learns is the same by either backend, and slow to learn by the readable one.
    given: Any = prepared(name, scheme).smoothing if backend == "numpy" and "harmonia" in scheme else CALIBRATION
    return models.prepare(name, config, backend, given)


def logits(parts: Any, prompt: int) -> bytes:
    """Of a prompt, and of steps behind it."""
    session = models.session(parts)
    first = session.append(TEXT[:prompt]).tobytes()
    return first + b"".join(session.append([token]).tobytes() for token in TEXT[prompt:])


#: decoders that a scheme refuses, and what it says
REFUSED = {
    ("leankv", "tiny-gemma2"): r"pages has no soft cap of the logits, no scale of 1 / sqrt\(24.0\), as tiny-gemma2",
    ("leankv", "tiny-mistral"): "no sliding window, .* sees 12 keys: a text may have 12 tokens, got 13",
    ("leankv", "tiny-bloom"): "pages has no ALiBi, as tiny-bloom needs",
    ("harmonia-kv4", "tiny-gemma2"): "offsets of K shift all logits of a query, .* use online=false",
}


def refusal(scheme: str, name: str) -> str | None:
    """What a scheme says to a decoder that it refuses."""
    paper = "leankv" if scheme.startswith("leankv") else scheme
    return REFUSED.get((paper, name))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_a_scheme_runs_and_repeats_itself(scheme: str, name: str) -> None:
    """A scheme whose prompt and decode are one also gives a prompt's bits token by token. Others refuse a decoder."""
    message = refusal(scheme, name)
    if message:
        with pytest.raises(Refused, match=message):
            logits(prepared(name, scheme), PROMPT)
        return
    found = logits(prepared(name, scheme), PROMPT)

    assert len(found) == 4 * prepared(name, scheme).model.vocab * len(TEXT)
    assert found == logits(prepared(name, scheme), len(TEXT) if scheme in ONE_PHASE else PROMPT)


BOTH = ("fp16", "olive-4", "olive-8", "harmonia-kv8", "harmonia-kv4", "leankv", "leankv-k8v4")


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        *((scheme, name) for scheme in BOTH for name in OLD[1:]),
        *((scheme, name) for scheme in BOTH[:1] for name in NEW),
        pytest.param("kllm-a4", "tiny-gemma2", marks=pytest.mark.long),
        pytest.param("kllm-a4", "tiny-bloom", marks=pytest.mark.long),
        ("harmonia-kv8", "tiny-gemma2"),
        ("harmonia-kv4", "tiny-mistral"),
        ("olive-4", "tiny-qwen2"),
        ("leankv-k8v4", "tiny-qwen3"),
    ],
)
def test_backends_agree(scheme: str, name: str) -> None:
    """On the decoders unlike Llama; the KLLM schemes have tests of their own for GPT-2 and OPT."""
    assert logits(prepared(name, scheme), PROMPT) == logits(prepared(name, scheme, "numpy"), PROMPT)
