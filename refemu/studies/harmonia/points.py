"""Measurements of `refemu study harmonia`: perplexity by mantissa bits, by bits of the cache, by smoothing.

Paper: [harmonia §II-C, Fig. 4, Fig. 5], [harmonia §III-B, Fig. 8], [harmonia §III-C, Fig. 10], [harmonia Table I]. One
command runs every point; a point is a configuration, so that any other can be named.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.backend import Backend, find
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.scheme import Progress, silent
from refemu.studies import perplexity as scoring
from refemu.studies import uncertainty
from refemu.studies.uncertainty import Change

MANTISSAS = (8, 6, 5, 4)
EVERYTHING = "harmonia-kv8:act_mantissa={m},high={m},low={m},weights=fp16"
POINTS = {
    "scheme fp16": "fp16",
    **{f"all activations at {m} bits, FP16 weights [Fig. 4]": EVERYTHING.format(m=m) for m in MANTISSAS},
    **{
        f"keys and values at {m} bits, FP16 weights [Fig. 5]": f"harmonia-kv8:high={m},low={m},weights=fp16"
        for m in MANTISSAS[1:]
    },
    "INT4 weights, keys and values at 8 bits [Table I]": "harmonia-kv8",
    "at 4 bits, naive [Table II]": "harmonia-kv4-naive",
    "at 4 bits, first and latest tokens at 8 [Fig. 8]": "harmonia-kv4:offline=false,online=false",
    "and offline smoothing [Fig. 10]": "harmonia-kv4:online=false",
    "and online smoothing [Fig. 10]": "harmonia-kv4:offline=false",
    "and both [Table I]": "harmonia-kv4",
}  #: what a point is -> its scheme
#: what the points behind them are held against: FP16 [Fig. 4, 5], 8 bits [Table I], no smoothing [Fig. 10]
REFERENCES = ("fp16", "harmonia-kv8", "harmonia-kv4:offline=false,online=false")


@dataclass(frozen=True)
class Point:
    """One scheme on the text."""

    meaning: str
    scheme: str
    perplexity: float
    nll: float
    windows: tuple[float, ...]  #: perplexity of every window
    losses: tuple[float, ...]  #: mean negative log-likelihood of every window
    error: float | None  #: standard error of the perplexity over the windows
    changes: tuple[Change, ...]  #: against each of REFERENCES that stands before it, by window


def study(
    model: Model,
    ids: Sequence[int],
    win: int = 512,
    names: Sequence[str] | None = None,
    prefill: int = 0,
    calibration_tokens: int | None = None,
    backend: "str | Backend" = "jit",
    progress: Progress = silent,
) -> Iterator[Point]:
    """A point per scheme of `names` (POINTS), in that order; equal factors of offline smoothing are learned once.

    ids: token ids to judge on. win: tokens of a window; a window is one prompt, or with `prefill` that many tokens and
    then decode steps. calibration_tokens: to learn offline smoothing on, by default as the schemes say. A point is held
    against those of REFERENCES before it, or where `names` has none against the first. Refuses an encoder.
    """
    if isinstance(model.config, EncoderConfig):
        raise Refused(f"study harmonia: {model.name} is an encoder; name a decoder of `refemu models list`")
    engine, learned, held = find(backend), dict[str, Any](), dict[str, Sequence[float]]()
    listed = [("", name) for name in names] if names else list(POINTS.items())
    references = _references([name for _, name in listed])
    for meaning, name in listed:
        config: Any = schemes.parse(name)
        if calibration_tokens is not None and isinstance(config, HarmoniaConfig):
            config = replace(config, calib_tokens=calibration_tokens)
        prepared: Any = models.prepare(model, config, engine, learned.get(_key(model, config)), progress)
        if getattr(config, "offline", False):
            learned[_key(model, config)] = prepared.smoothing
        score = scoring.perplexity(prepared, ids, win=win, prefill=prefill, progress=progress)
        yield Point(
            meaning,
            name,
            score.perplexity,
            score.nll,
            score.of_windows,
            score.windows,
            _error(score),
            tuple(uncertainty.change(other, score.windows, losses) for other, losses in held.items()),
        )
        if name in references:
            held[name] = score.windows


def _references(names: Sequence[str]) -> list[str]:
    """Which of `names` later ones are held against."""
    known = [schemes.parse(name) for name in REFERENCES]
    return [name for name in names if schemes.parse(name) in known] or list(names[:1])


def _error(score: scoring.Perplexity) -> float | None:
    """The standard error of the perplexity: that of the windows' logarithms, times it."""
    error = uncertainty.spread(score.windows).error
    return None if error is None else score.perplexity * error


def _key(model: Model, config: Any) -> str:
    """What decides the factors of a configuration; of others their text, under which nothing is learned."""
    from refemu.models.schemes.harmonia import search

    if not isinstance(config, HarmoniaConfig) or not config.offline:
        return ""
    return str(search.described(model, config) | {"smoothing": config.smoothing})
