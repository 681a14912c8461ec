"""Measurements of `refemu study leankv`: memory share and perplexity of a decoder with its KV cache in pages.

Paper: [leankv §7.2, Table 1, Fig. 7, Fig. 8]. Windows of a text run as requests of one engine: the first tokens of each
are its prompt, the others follow one by one, whatever the model would choose. All scored tokens attend to the pages.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.backend import Backend, find
from refemu.models.model import Model
from refemu.models.runtime import Session
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.models.schemes.leankv.engine import Engine
from refemu.models.schemes.leankv.layers import LeanKv
from refemu.models.schemes.leankv.pool import Prompt
from refemu.models.schemes.mix.config import Mix
from refemu.models.schemes.scheme import Prepared, Progress, silent
from refemu.models.scores import uncertainty
from refemu.models.scores.perplexity import Perplexity, summary, surprise, windows
from refemu.units.leankv.page_manager import Memory

MATCHED = "leankv-k16v16:policy=static"  #: its budget is the mean share of tokens in the row before
PAIRS = (
    "leankv-k16v16",
    "leankv-k8v8",
    "leankv-k8v4",
    "leankv-k4v8",
    "leankv-k4v4",
    "leankv-k4v2",
    "leankv-k2v4:k_group=2",
)  #: [leankv Fig. 7]
MIXED = (
    "leankv:t_low=0.0",
    "leankv",
    "leankv:score_rule=cumulative,t_low=0.01,t_high=0.1",
    "leankv:score_rule=cumulative,t_low=0.05,t_high=0.2",
    "leankv-k8v8:score_rule=cumulative,t_low=0.02",
)  #: [leankv Table 1, Fig. 4]
BUDGETS = tuple(
    name
    for share in ("0.02", "0.05", "0.1")
    for name in (f"leankv-k16v16:score_rule=cumulative,t_low={share}", MATCHED)
)  #: [leankv Fig. 8]
T_HIGH = (0.005, 0.01, 0.05, 0.1, 0.2)  #: grid of `profile` [leankv §7.2]
T_LOW = (0.0, 0.001, 0.005, 0.01)


Shares: TypeAlias = tuple[float, float, float, float, float, float]  #: fields of a Row, from `kept` to `read`


@dataclass(frozen=True)
class Row:
    """One scheme on the text. Memory counts the end of all windows; shares are of fp16 keys and values, 0 to 1."""

    scheme: str
    kept: float  #: stored tokens
    low: float  #: tokens stored at the low precision
    payload: float  #: codes only, as in the paper
    tokens: float  #: with scales, scores and positions
    pages: float  #: whole pages
    read: float  #: bytes that the steps read
    perplexity: float
    nll: float
    windows: tuple[float, ...]  #: perplexity of each window
    losses: tuple[float, ...]  #: mean negative log-likelihood of each window
    payloads: tuple[float, ...]  #: codes of each window, at its own end
    payload_error: float | None  #: standard error of their mean


def matched(name: str, kept: float) -> Any:
    """The configuration of a scheme; MATCHED stores a given share of the tokens, 0 to 1."""
    config: Any = schemes.parse(name)
    return dataclasses.replace(config, keep_percent=round(100 * kept)) if name == MATCHED else config


def require_row(name: str, config: Any) -> None:
    """Raise Refused for a scheme without pages other than `fp16`."""
    paged = config.attention.scheme if isinstance(config, Mix) else config
    if not isinstance(paged, LeanKvConfig) and not isinstance(config, Fp16Config):
        raise Refused(f"study leankv: schemes must be fp16, leankv* or mixes with leankv* attention, got {name!r}")


def plain_row(name: str, parts: Prepared, ids: Sequence[int], win: int, prefill: int) -> Row:
    """Scheme `fp16`: its prompt has the bits of its steps."""
    losses = []
    for window in windows(parts.model.context, ids, win, prefill):
        logits = Session(parts).append(window[:-1])
        losses.append(surprise(logits[max(prefill, 1) - 1 :], window[max(prefill, 1) :]))
    score = summary(losses)
    return _row(name, score, (1.0, 0.0, 1.0, 1.0, 1.0, 1.0), [1.0] * len(losses))


def _row(name: str, score: Perplexity, shares: Shares, payloads: Sequence[float]) -> Row:
    """A row with the statistics of its windows."""
    return Row(
        name,
        *shares,
        score.perplexity,
        score.nll,
        score.of_windows,
        score.windows,
        tuple(payloads),
        uncertainty.spread(payloads).error,
    )


def measure(
    name: str,
    parts: Any,
    ids: Sequence[int],
    win: int,
    prefill: int,
    progress: Progress = silent,
    prompts: "Prompts | None" = None,
) -> Row:
    """The row of a LeanKV scheme, or of a mix with the attention of one. prompts: computed for other rows."""
    run = evaluate(parts, windows(parts.model.context, ids, win, prefill), prefill, progress, prompts)
    memory, counters = run.memory, run.counters
    stored = memory.high_tokens + memory.low_tokens
    payload, tokens, pages = (
        part / whole for part, whole in (memory.payload_ratio, memory.token_ratio, memory.page_ratio)
    )
    read = counters.get("bytes_read", 0) / max(counters.get("bytes_read_fp16", 0), 1)
    shares = stored / memory.seen_tokens, memory.low_tokens / memory.seen_tokens, payload, tokens, pages, read
    payloads = [codes / whole for codes, whole in (each.payload_ratio for each in run.memories)]
    return _row(name, summary(run.losses), shares, payloads)


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Windows that run together."""

    losses: list[np.ndarray]  #: losses of each window
    memory: Memory  #: memory of all windows at the end
    memories: list[Memory]  #: memory of each window at its own end
    counters: dict[str, int]


Prompts: TypeAlias = dict[tuple[Any, ...], tuple[np.ndarray, Prompt]]  #: last logits and arrays of a prompt
#: parameters of the compressor, which do not change the attention and the scores of a prompt
STORED = {
    *("high", "low", "policy", "rule", "window", "t_low", "t_high", "alpha_prune", "alpha_quant", "keep_percent"),
    *("sort", "low_cumsum", "score_rule", "k_vec", "k_group", "v_vec", "v_group", "align", "page_bytes"),
}


class Recalling(Engine):
    """An engine that reuses prompts that another engine computed on the same weights.

    A prompt attends to its unquantized keys and values [leankv §6.1], so it does not depend on their storage.
    """

    prompts: Prompts

    def _prompt(self, name: int) -> tuple[np.ndarray, Prompt]:
        key = (self.prepared.sha256, *self._decides(), self.requests[name].prompt.tobytes())
        if key not in self.prompts:
            self.prompts[key] = super()._prompt(name)
        return self.prompts[key]

    def _decides(self) -> tuple[Any, ...]:
        """The parameters that a prompt depends on; the whole mix, because its linear parts calibrate."""
        if isinstance(self.prepared.config, Mix):
            return (self.prepared.config.text,)
        settings = {field.name: getattr(self.paged.lean, field.name) for field in dataclasses.fields(LeanKvConfig)}
        return tuple(sorted((field, str(value)) for field, value in settings.items() if field not in STORED))


def evaluate(
    parts: Any,
    cut: Sequence[np.ndarray],
    prefill: int,
    progress: Progress = silent,
    prompts: Prompts | None = None,
) -> Evaluated:
    """Run windows together, each a request of one engine. prompts: computed before; new ones are added."""
    if prefill < 1:
        raise Refused("study leankv: prefill must be at least 1, got 0")
    engine = Recalling(parts, slots=len(cut))
    engine.prompts = {} if prompts is None else prompts
    names = [engine.submit(window[:prefill], following=window[prefill:].tolist()) for window in cut]
    losses: dict[int, list[np.ndarray]] = {name: [] for name in names}
    memories: dict[int, Memory] = {}
    longest, done, memory = max(len(window) for window in cut) - prefill, 0, engine.pools.memory()
    while any(not engine.requests[name].ended for name in names):
        progress("steps", done, longest)
        step = engine.step()
        assert step is not None
        for name in step.names:
            at = prefill + len(losses[name])
            losses[name].append(surprise(engine.requests[name].rows.pop()[None], cut[name][at : at + 1]))
            memories[name] = engine.pools.memory_of(name)
        memory, done = _largest(memory, step.memory), done + 1
    progress("steps", longest, longest)
    return Evaluated(
        [np.concatenate(losses[name]) for name in names], memory, [memories[name] for name in names], engine.counters
    )


def _largest(first: Memory, other: Memory) -> Memory:
    """The memory with more tokens: windows that end early free their pages."""
    return other if other.seen_tokens >= first.seen_tokens else first


@dataclass(frozen=True)
class Profile:
    """Thresholds that a search tried, and its choice."""

    reference: float  #: perplexity of the high precision without pruning
    rows: tuple[Row, ...]
    best: Row | None  #: None: no thresholds are within the tolerance


def profile(
    model: Model,
    ids: Sequence[int],
    config: LeanKvConfig,
    tolerance: float,
    win: int = 768,
    prefill: int = 512,
    t_high: Sequence[float] = T_HIGH,
    t_low: Sequence[float] = T_LOW,
    backend: "str | Backend" = "jit",
    progress: Progress = silent,
) -> Profile:
    """The pair t_low <= t_high of least memory (codes only; the first of equal ones) whose loss is within `tolerance`.

    ids: a calibration text. tolerance: of perplexity / reference - 1, where the reference is `fp16` (D-leankv-51).
    """
    if not tolerance >= 0:
        raise Refused(f"profile: tolerance must be at least 0, got {tolerance}")
    parts = LeanKv(model, config, find(backend), progress)
    plain = models.prepare(model, "fp16", parts.backend, progress=progress)
    reference = plain_row("fp16", plain, ids, win, prefill)
    rows = []
    for high in t_high:
        for low in (threshold for threshold in t_low if threshold <= high):
            tried = dataclasses.replace(config, t_low=low, t_high=high)
            rows.append(measure(schemes.text(tried), parts.under(tried), ids, win, prefill, progress))
    good = [row for row in rows if row.perplexity <= reference.perplexity * (1 + tolerance)]
    return Profile(reference.perplexity, tuple(rows), min(good, key=lambda row: row.payload, default=None))
