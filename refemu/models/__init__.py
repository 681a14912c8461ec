"""The transformer runtime: models, the schemes that compute them, sessions, and what is measured on them.

model = models.load("smollm2-135m")
run = models.run(model, ids, scheme="olive-4")          # run.logits: float32 (tokens, vocabulary)
prepared = models.prepare(model, "olive-4")             # once; then
session = models.session(prepared); session.append(ids) # token by token, the same bits

hidden = models.encode("all-minilm-l6-v2", ids)         # of an encoder: float32 (tokens, width)
vector = models.embedding("all-minilm-l6-v2", ids)      # of the whole text: float32 (width,)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.models import backend as backends
from refemu.models import encoder, schemes
from refemu.models.backend import Backend
from refemu.models.config import ModelConfig
from refemu.models.encoder_config import EncoderConfig
from refemu.models.model import Model, load
from refemu.models.runtime import Session, greedy
from refemu.models.schemes.scheme import Prepared, Progress, Scheme, require_layers, silent
from refemu.models.taps import Tap

__all__ = ["Model", "Prepared", "Run", "Session", "embedding", "encode", "greedy", "load", "prepare", "run", "session"]


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
    if isinstance(loaded.config, EncoderConfig) and not getattr(found, "encoders", False):
        raise Refused(f"{type(found).__name__} computes decoders, and {loaded.name} is an encoder")
    require_layers(found, loaded)
    with backends.on_threads(engine):
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
    Refuses an empty list, an id outside the vocabulary, more tokens than the context, an encoder.
    """
    prepared = _prepared(model, scheme, backend, calibration, EncoderConfig, "is an encoder; use models.encode")
    one = Session(prepared, taps)
    logits = one.append(token_ids)
    return Run(logits, one.counters, prepared.config)


def encode(
    model: Model | str,
    token_ids: Sequence[int] | np.ndarray,
    scheme: str | Scheme | Prepared = "fp16",
    backend: str | Backend = "jit",
    taps: Tap | None = None,
    calibration: Any = None,
) -> np.ndarray:
    """Hidden states of an encoder behind its last block, float32 (tokens, width).

    token_ids: a text as the model was trained to read it, [CLS] and [SEP] included (`model.tokenizer.sentence`).
    calibration: token ids of one text, or of several; the other arguments are those of `run`.
    Refuses an empty list, an id outside the vocabulary, more tokens than the context, a decoder.
    """
    prepared: Any = _prepared(model, scheme, backend, calibration, ModelConfig, "is a decoder; use models.run")
    return encoder.encode(prepared, [token_ids], taps)


def embedding(
    model: Model | str,
    token_ids: Sequence[int] | np.ndarray,
    scheme: str | Scheme | Prepared = "fp16",
    backend: str | Backend = "jit",
    calibration: Any = None,
) -> np.ndarray:
    """The embedding of a text: mean of the hidden states over the tokens, divided by its L2 norm; float32 (width,).

    token_ids, calibration: as for `encode`. The sums are float32 in ascending order; what is not finite is refused.
    """
    return encoder.pool(encode(model, token_ids, scheme, backend, None, calibration))


def _prepared(
    model: Model | str, scheme: Any, backend: str | Backend, calibration: Any, wrong: type, use: str
) -> Prepared:
    """The prepared model; refuses one whose sizes are of the `wrong` kind, before anything is prepared."""
    ready, name = hasattr(scheme, "embed"), model if isinstance(model, str) else model.name
    if ready and scheme.name != name:
        raise Refused(f"run: the scheme was prepared for model {scheme.name!r}, got {name!r}")
    found: Any = model if ready or not isinstance(model, str) else load(model)
    if isinstance(scheme.model if ready else found.config, wrong):
        raise Refused(f"{name} {use}")
    return scheme if ready else prepare(found, scheme, backend, calibration)
