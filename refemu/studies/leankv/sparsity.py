"""Sparsity in `refemu study leankv`: number of tokens that carry the attention of one query, layer by layer.

Paper: [leankv §3.2, Fig. 2, Fig. 3]. A sum over all queries of a prompt hides this: each query needs few tokens,
but different ones. Tokens are therefore counted query by query, for the last queries of a prompt, which see the most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.backend import Backend, find
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.runtime import Session
from refemu.models.schemes.leankv.cache import LayerCache
from refemu.models.schemes.leankv.layers import LeanKv
from refemu.models.schemes.leankv.pool import Prompt
from refemu.models.schemes.scheme import Progress, silent
from refemu.models.taps import Watch
from refemu.units.leankv.significance import critical_tokens

SHARE, QUERIES = 0.95, 64  #: share of a query's attention; number of last queries of a prompt


@dataclass(frozen=True)
class Sparsity:
    """One layer: share of the visible tokens that carries SHARE of a query's attention, 0 to 1."""

    layer: int
    mean: float  #: mean over queries, query heads and prompts
    least: float  #: least mean of a prompt
    most: float
    prompts: tuple[float, ...] = ()  #: mean of every prompt
    heads: tuple[tuple[float, ...], ...] = ()  #: mean of every KV head in every prompt


class Probe(LeanKv):
    """A decoder whose prompts also count the critical tokens of their last queries."""

    means: list[list[float]]  #: layer -> mean of every prompt
    heads: list[list[tuple[float, ...]]]  #: layer -> means of the KV heads of every prompt

    def prompted(self, layer: int, prompt: Prompt, cache: LayerCache, q: np.ndarray, watch: Watch) -> np.ndarray:
        """As in the scheme; counts the probabilities."""
        first = max(0, len(q) - QUERIES)
        p = self.units.probabilities(q, cache.key, self._scale, first, len(q))
        count = critical_tokens(p, SHARE) / np.arange(first + 1, len(q) + 1)[:, None]
        self.means[layer].append(fmean(count.ravel().tolist()))
        self.heads[layer].append(tuple(fmean(head.ravel().tolist()) for head in count))
        return super().prompted(layer, prompt, cache, q, watch)


def sparsity(
    model: Model,
    ids: Sequence[int],
    win: int = 768,
    prefill: int = 512,
    backend: "str | Backend" = "jit",
    progress: Progress = silent,
) -> list[Sparsity]:
    """A row per layer. ids: a text; the first `prefill` tokens of each whole window of `win` are a prompt.

    Raises Refused for an encoder, and for a text without a prompt.
    """
    if isinstance(model.config, EncoderConfig):
        raise Refused(f"study leankv: {model.name} is an encoder; name a decoder of `refemu models list`")
    prompts = [ids[first : first + prefill] for first in range(0, len(ids), win) if first + prefill <= len(ids)]
    if prefill < 1 or not prompts:
        raise Refused(f"sparsity: a prompt must have 1 to {len(ids)} tokens, got {prefill}")
    config = schemes.parse("leankv-k16v16")
    probe = Probe(model, config, find(backend), progress)  # type: ignore[arg-type]
    probe.means = [[] for _ in range(model.config.blocks)]
    probe.heads = [[] for _ in range(model.config.blocks)]
    for done, prompt in enumerate(prompts):
        progress("prompts", done, len(prompts))
        Session(probe).append(prompt, last=True)
    progress("prompts", len(prompts), len(prompts))
    return [
        Sparsity(layer, fmean(means), min(means), max(means), tuple(means), tuple(heads))
        for layer, (means, heads) in enumerate(zip(probe.means, probe.heads, strict=True))
    ]
