"""Every registered scheme on every kind of decoder: it runs, the same bits however the tokens are cut and by either
backend. docs/your-model.md has the exceptions in a table; the tests of each paper's scheme look closer.
"""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
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
    learned = backend == "numpy" and "harmonia" in scheme and not refusal(scheme, name)
    given: Any = prepared(name, scheme).smoothing if learned else CALIBRATION
    return models.prepare(name, config, backend, given)


def logits(parts: Any, prompt: int) -> bytes:
    """Logits of a prompt, and of steps after it."""
    return stepped(parts, TEXT, prompt)


def stepped(parts: Any, text: list[int], prompt: int) -> bytes:
    """Logits of the first tokens of a text at once, and of the others one by one."""
    session = models.session(parts)
    first = session.append(text[:prompt]).tobytes()
    return first + b"".join(session.append([token]).tobytes() for token in text[prompt:])


#: decoders that a scheme rejects, with the error
REFUSED = {
    ("leankv", "tiny-gemma2"): r"pages lacks soft cap of the logits and scale of 1 / sqrt\(24.0\), which tiny-gemma2",
    (
        "leankv",
        "tiny-mistral",
    ): "no sliding window, so a text must have at most the 12 tokens of the model's window, got 13",
    ("leankv", "tiny-bloom"): "pages lacks ALiBi, which tiny-bloom needs",
    ("harmonia-kv4", "tiny-gemma2"): "offsets of K shift all logits of a query, .* use online=false",
}


def refusal(scheme: str, name: str) -> str | None:
    """Error of a scheme for a decoder that it rejects."""
    paper = "leankv" if scheme.startswith("leankv") else scheme
    return REFUSED.get((paper, name))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_a_scheme_runs_and_repeats_itself(scheme: str, name: str) -> None:
    """A scheme with one phase gives a prompt's bits token by token. Others reject a decoder."""
    message = refusal(scheme, name)
    if message:
        with pytest.raises(Refused, match=message):
            logits(prepared(name, scheme), PROMPT)
        return
    found = logits(prepared(name, scheme), PROMPT)

    assert len(found) == 4 * prepared(name, scheme).model.vocab * len(TEXT)
    assert found == logits(prepared(name, scheme), len(TEXT) if scheme in ONE_PHASE else PROMPT)


#: decoders that a scheme rejects with its defaults, and the parameters that it needs
RUNS = {("harmonia-kv4", "tiny-gemma2"): "harmonia-kv4:online=false"}
QUICK = ("fp16", "olive-4", "harmonia-kv8", "leankv-k8v4")  #: what runs on every decoder in a second or two


@cache
def small(name: str, scheme: str, backend: str) -> Any:
    """KLLM's schemes, whose readable form takes a second for a token, on windows that a text of four tokens passes."""
    model: Any = models.load(name)
    config = dataclasses.replace(model.config, windows=tuple(min(window, 2) for window in model.config.windows))
    return models.prepare(dataclasses.replace(model, config=config), scheme, backend, CALIBRATION)


def both(scheme: str, name: str) -> list[bytes]:
    """Logits of a decoder by either backend."""
    backends = ("jit", "numpy")
    if scheme.startswith("kllm"):
        return [stepped(small(name, scheme, backend), TEXT[:4], 3) for backend in backends]
    windowed = scheme.startswith("leankv") and name == "tiny-mistral"  # pages allow no text beyond a window
    most = PROMPT if windowed else len(TEXT)
    run = RUNS.get((scheme, name), scheme)
    return [stepped(prepared(name, run, backend), TEXT[:most], most - 5) for backend in backends]


def cell(scheme: str, name: str) -> Any:
    """Quick, long, or slow: the variants of kllm-a4 run `tiny` in long runs, and the other decoders in slow ones."""
    variant = scheme.startswith("kllm") and scheme != "kllm-a4" and name != "tiny"
    return pytest.param(
        scheme, name, marks=() if scheme in QUICK else pytest.mark.slow if variant else pytest.mark.long
    )


@pytest.mark.parametrize(("scheme", "name"), [cell(scheme, name) for scheme in schemes.SCHEMES for name in NAMES])
def test_matrix_backends_agree(scheme: str, name: str) -> None:
    """Every scheme on every decoder, a prompt and steps after it; or both backends raise the same error."""
    message = refusal(scheme, name)
    if message:
        for backend in ("jit", "numpy"):
            with pytest.raises(Refused, match=message):
                logits(prepared(name, scheme, backend), PROMPT)
        if name != "tiny-mistral" and (scheme, name) not in RUNS:
            return
    found, readable = both(scheme, name)

    assert found == readable and np.isfinite(np.frombuffer(found, np.float32)).all()
