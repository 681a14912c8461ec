"""The transformer runtime: models, the schemes that compute them, sessions, and what is measured on them.

    model = models.load("smollm2-135m")
    run = models.run(model, ids, scheme="olive-4")          # run.logits: float32 (tokens, vocabulary)
    prepared = models.prepare(model, "olive-4")             # once; then
    session = models.session(prepared); session.append(ids) # token by token, the same bits
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.models import backend as backends
from refemu.models import schemes
from refemu.models.backend import Backend
from refemu.models.model import Model, load
from refemu.models.runtime import Session, greedy
from refemu.models.schemes.scheme import Prepared, Progress, Scheme, silent
from refemu.models.taps import Tap

__all__ = ["Model", "Prepared", "Run", "Session", "greedy", "load", "prepare", "run", "session"]


@dataclass(frozen=True, eq=False)
class Run:
    """What a model said about a list of tokens."""

    logits: np.ndarray  #: float32 (tokens, vocabulary): row t is what follows token t
    counters: dict[str, int]  #: what the scheme counted, by name
    scheme: Scheme  #: the configuration that computed it


def prepare(
    model: Model | str,
    scheme: str | Scheme = "fp16",
    backend: str | Backend = "jit",
    calibration: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """A model under a scheme, ready to run: weights in the scheme's formats, scales searched.

    model: a `Model` or a name that `load` knows. scheme: `name:field=value,...` or a configuration.
    backend: "jit", "numpy", or one made by hand (`Jit(threads=2)`); no bit depends on it.
    calibration: token ids for schemes that calibrate; by default the shipped calibration text.
    progress: called as progress(what, done, total).
    """
    found, engine = schemes.find(scheme), backends.find(backend)
    loaded = load(model) if isinstance(model, str) else model
    return found.prepare(loaded, engine, calibration, progress or silent)


def session(prepared: Prepared, taps: Tap | None = None) -> Session:
    """An empty sequence; its `append` takes tokens and returns logits."""
    return Session(prepared, taps)


def run(
    model: Model | str,
    token_ids: Sequence[int] | np.ndarray,
    scheme: str | Scheme | Prepared = "fp16",
    backend: str | Backend = "jit",
    taps: Tap | None = None,
    calibration: Sequence[int] | None = None,
) -> Run:
    """Logits of every position of `token_ids`, read from position 0.

    scheme: as for `prepare`, or what `prepare` returned; then `backend` and `calibration` are its own.
    taps: called as taps(layer, unit, case) with what crosses the ports of the scheme's units.
    Refuses an empty list, an id outside the vocabulary, more tokens than the context.
    """
    prepared = _prepared(model, scheme, backend, calibration)
    one = Session(prepared, taps)
    logits = one.append(token_ids)
    return Run(logits, one.counters, prepared.config)


def _prepared(model: Model | str, scheme: Any, backend: str | Backend, calibration: Sequence[int] | None) -> Prepared:
    if not hasattr(scheme, "embed"):
        return prepare(model, scheme, backend, calibration)
    name = model if isinstance(model, str) else model.name
    if scheme.name != name:
        raise Refused(f"run: the scheme was prepared for model {scheme.name!r}, got {name!r}")
    return scheme
