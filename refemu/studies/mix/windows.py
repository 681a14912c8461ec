"""Mixes side by side: perplexity by windows, and the bits of the KV cache.

A window is a prompt and then decode steps, which alone are scored: attention in pages attends to full precision in a
prompt.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.backend import Backend, find
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.runtime import Session
from refemu.models.schemes.scheme import Prepared, Progress, silent
from refemu.studies import uncertainty
from refemu.studies.perplexity import summary, surprise, windows
from refemu.studies.uncertainty import Change

LINEAR = ("fp16", "olive-4", "kllm-a4", "harmonia-kv4")
ATTENTION = ("fp16", "kllm-a4", "harmonia-kv4", "leankv-k8v4")
PAIRS = tuple(f"{linear}+{attention}" for linear in LINEAR for attention in ATTENTION)


@dataclass(frozen=True)
class Row:
    """One scheme on the text."""

    scheme: str
    perplexity: float
    error: float | None  #: its standard error over the windows
    windows: tuple[float, ...]  #: perplexity of each
    losses: tuple[float, ...]  #: mean negative log-likelihood of each
    kv_bits: float  #: of a value in the cache, with scales and the like: the mean at the ends of the windows
    change: Change | None  #: of the perplexity against the first row, by window; None for that row


def study(
    model: Model,
    ids: Sequence[int],
    win: int = 192,
    prefill: int = 128,
    names: Sequence[str] | None = None,
    backend: "str | Backend" = "jit",
    progress: Progress = silent,
) -> Iterator[Row]:
    """A row per scheme of `names` (PAIRS), in that order.

    ids: the text. win: tokens of a window, of which the first `prefill` enter as a prompt and are not scored. Refuses
    an encoder, and no prompt.
    """
    if isinstance(model.config, EncoderConfig):
        raise Refused(f"study mix: {model.name} is an encoder; name a decoder of `refemu models list`")
    require_prompt(prefill)
    cut = windows(model.config.context, ids, win, prefill)
    engine, first = find(backend), list[Row]()
    for name in PAIRS if names is None else names:
        row = _row(name, models.prepare(model, name, engine, progress=progress), cut, prefill, first, progress)
        first = first or [row]
        yield row


def require_prompt(prefill: int) -> None:
    """Refuse windows without a prompt."""
    if prefill < 1:
        raise Refused(f"study mix: prefill must be at least 1, got {prefill}")


def _row(
    name: str, prepared: Prepared, cut: Sequence[np.ndarray], prefill: int, first: Sequence[Row], progress: Progress
) -> Row:
    """Run the windows of a scheme."""
    losses, bits = list[np.ndarray](), list[float]()
    for index, window in enumerate(cut):
        progress(name, index, len(cut))
        lost, held = measure(prepared, window, prefill)
        losses.append(lost)
        bits.append(held)
    progress(name, len(cut), len(cut))
    score = summary(losses)
    error = uncertainty.spread(score.windows).error
    return Row(
        name,
        score.perplexity,
        None if error is None else score.perplexity * error,
        score.of_windows,
        score.windows,
        uncertainty.spread(bits).mean,
        uncertainty.change(first[0].scheme, score.windows, first[0].losses) if first else None,
    )


def measure(prepared: Prepared, window: np.ndarray, prefill: int) -> tuple[np.ndarray, float]:
    """Negative log-likelihoods of the tokens behind a prompt, float64, and bits of a value in the cache at the end."""
    session = Session(prepared)
    rows = [session.append(window[:prefill], last=True)]
    rows += [session.append([token]) for token in window[prefill:-1].tolist()]
    return surprise(np.concatenate(rows), window[prefill:]), session.storage_bits / values(prepared, len(session))


def values(prepared: Prepared, tokens: int) -> int:
    """Values that the keys and values of so many tokens are."""
    sizes = prepared.model
    return 2 * tokens * sizes.blocks * sizes.kv_heads * sizes.head_dim
