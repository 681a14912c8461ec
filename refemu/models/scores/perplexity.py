"""Perplexity, to measure the effect of a scheme's parameters.

The token ids are cut into windows that do not overlap; each runs from position 0 with an empty cache. The result is
computed in float64 with the C library's exp and log; the logits are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from refemu.arith import dot
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.models.runtime import Session, require_tokens
from refemu.models.schemes.scheme import Prepared, Progress, Scheme, silent

ROWS = 64  #: rows of logits converted to float64 at a time


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a text under a scheme."""

    perplexity: float  #: exp of the mean negative log-likelihood of the scored tokens
    nll: float  #: that mean, in nats
    scored: int  #: scored tokens
    windows: tuple[float, ...]  #: mean nll of each window

    @property
    def of_windows(self) -> tuple[float, ...]:
        """The perplexity of each window."""
        return tuple(float(np.exp(nll)) for nll in self.windows)


def perplexity(
    prepared: Prepared,
    ids: Sequence[int] | np.ndarray,
    win: int = 512,
    prefill: int = 0,
    progress: Progress | None = None,
) -> Perplexity:
    """Perplexity of `ids` in windows of `win` tokens; a last window shorter than 2 is dropped.

    prefill: 0 scores every token of a window but the first, and reads the window as one prompt. P > 0 reads the first P
    tokens of a window as a prompt without scoring them, and the rest token by token: needed if prompt and decode
    differ. Windows of P tokens or fewer are dropped.
    """
    cut = windows(prepared.model.context, ids, win, prefill)
    losses = []
    for index, window in enumerate(cut):
        (progress or silent)("perplexity", index, len(cut))
        losses.append(window_losses(prepared, window, prefill))
    (progress or silent)("perplexity", len(cut), len(cut))
    return summary(losses)


def require_decoding(config: Scheme, prefill: int) -> None:
    """Raise Refused for a window read as one prompt under a scheme whose cache is read in steps only."""
    if prefill == 0 and config.two_phases:
        raise Refused(
            "perplexity: this scheme's attention reads its KV cache in decode steps only; make the first N tokens of a "
            "window a prompt, and score the others step by step: --prefill N, with N below --win"
        )


def windows(context: int, ids: Sequence[int] | np.ndarray, win: int, prefill: int) -> list[np.ndarray]:
    """The windows that `perplexity` scores; context: of the model. Raises Refused if there are none."""
    if not 2 <= win <= context:
        raise Refused(f"perplexity: win must be in [2, {context}], the context of the model, got {win}")
    if not 0 <= prefill < win:
        raise Refused(
            f"perplexity: prefill must be in [0, {win}), got {prefill}; give a smaller prefill or a larger win"
        )
    tokens, shortest = np.asarray(ids), max(2, prefill + 1)
    cut = [tokens[at : at + win] for at in range(0, len(tokens), win)]
    scored = [window for window in cut if len(window) >= shortest]
    if not scored:
        raise Refused(f"perplexity: the text must have at least {shortest} tokens, got {len(tokens)}")
    return scored


def window_losses(prepared: Prepared, ids: np.ndarray, prefill: int = 0) -> np.ndarray:
    """Negative log-likelihood of every scored token of one window, float64; ids, prefill: as for `perplexity`."""
    return run_window(prepared, ids, prefill)[0]


def run_window(prepared: Prepared, ids: np.ndarray, prefill: int = 0) -> tuple[np.ndarray, Session]:
    """The losses of one window, and the session that read it."""
    rows, session = window_logits(prepared, ids, prefill)
    return surprise(rows, following(ids, prefill)), session


def following(ids: np.ndarray, prefill: int) -> np.ndarray:
    """The scored tokens of a window."""
    return np.asarray(ids)[max(prefill, 1) :]


def window_logits(prepared: Prepared, ids: np.ndarray, prefill: int = 0) -> tuple[np.ndarray, Session]:
    """The logits that predict each scored token of one window, and the session that read it."""
    require_decoding(prepared.config, prefill)
    tokens = require_tokens(ids, prepared)
    session = Session(prepared)
    if prefill == 0:
        return session.append(tokens[:-1]), session
    rows = [session.append(tokens[:prefill], last=True)]
    rows += [session.append([token]) for token in tokens[prefill:-1].tolist()]
    return np.concatenate(rows), session


def surprise(logits: np.ndarray, following: np.ndarray) -> np.ndarray:
    """log(sum(exp(l - max))) + max - l[next] of every row, float64; logits: (tokens, vocabulary)."""
    parts = []
    for at in range(0, len(following), ROWS):
        rows, chosen = logits[at : at + ROWS].astype(np.float64), following[at : at + ROWS]
        largest = rows.max(axis=1)
        spread = np.exp(rows - largest[:, None])
        scores = np.take_along_axis(rows, chosen[:, None], axis=1)[:, 0]
        parts.append(np.log(dot.total64(spread, order=Sequential())) + largest - scores)
    return np.concatenate(parts)


def summary(losses: Sequence[np.ndarray]) -> Perplexity:
    """The perplexity from windows, each the negative log-likelihoods of its scored tokens."""
    means = tuple(float(dot.total64(nll, order=Sequential())) / nll.size for nll in losses)
    every = np.concatenate(losses)
    mean = float(dot.total64(every, order=Sequential())) / every.size
    return Perplexity(float(np.exp(mean)), mean, int(every.size), means)
