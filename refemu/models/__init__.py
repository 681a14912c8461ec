"""The transformer runtime: models, the schemes that compute them, sessions, and measurements.

model = models.load("smollm2-135m")
run = models.run(model, ids, scheme="olive-4")          # run.logits: float32 (tokens, vocabulary)
prepared = models.prepare(model, "olive-4")             # once; then
session = models.session(prepared); session.append(ids) # token by token, the same bits

score = models.perplexity(model, scheme="olive-4")      # score.perplexity, score.error
change = models.compare(score, models.perplexity(model))  # paired by window, in percent

hidden = models.encode("all-minilm-l6-v2", ids)         # of an encoder: float32 (tokens, width)
vector = models.embedding("all-minilm-l6-v2", ids)      # of the whole text: float32 (width,)

mix = models.compose(linear="olive-4", attention="harmonia-kv4", layers={"olive-8": [0, 1, 29]})
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arguments import checked
from refemu.arith.checks import Refused, RefusedType
from refemu.models import schemes
from refemu.models.backend import Backend
from refemu.models.config import ModelConfig
from refemu.models.encoder.config import EncoderConfig
from refemu.models.entry import load, prepare
from refemu.models.model import Model
from refemu.models.plugin_models import register
from refemu.models.runtime import Session, greedy
from refemu.models.schemes import registry
from refemu.models.schemes.kind import SchemeKind
from refemu.models.schemes.linear_scheme import LinearScheme
from refemu.models.schemes.scheme import CalibrationTokens, Prepared, Progress, Scheme
from refemu.models.scores.score import TextScore, compare, perplexity
from refemu.models.scores.uncertainty import Change
from refemu.models.sequences.generation import Generated, generate_text
from refemu.models.taps import Tap

__all__ = [
    "Change",
    "Generated",
    "LinearScheme",
    "Model",
    "Prepared",
    "Progress",
    "Run",
    "Scheme",
    "SchemeKind",
    "Session",
    "TextScore",
    "compare",
    "compose",
    "embedding",
    "encode",
    "generate_text",
    "greedy",
    "load",
    "perplexity",
    "prepare",
    "quantized",
    "register",
    "run",
    "session",
]


@dataclass(frozen=True, eq=False)
class Run:
    """Logits of a model for a list of tokens, with the counters of the run."""

    logits: np.ndarray  #: float32 (tokens, vocabulary): row t predicts the token after t
    counters: dict[str, int]  #: counters of the scheme, by name
    scheme: Scheme  #: configuration of the scheme

    @property
    def next_token(self) -> int:
        """Id of the likeliest token after the last one; the lowest of several equal ones."""
        return int(np.argmax(self.logits[-1]))

    def __repr__(self) -> str:
        tokens, vocabulary = self.logits.shape
        return f"Run({tokens} tokens, logits of {vocabulary}, next token {self.next_token})"


@checked
def compose(
    linear: str | Scheme, attention: str | Scheme, layers: Mapping[str | Scheme, Sequence[int]] | None = None
) -> Scheme:
    """Compose a scheme from the linear layers of some schemes and the attention of another.

    Parameters
    ----------
    linear : str or Scheme
        Scheme of the linear layers that `layers` does not name: `fp16`, `olive-*`, `kllm-*` or `harmonia-*`. It also
        computes the embedding, residual sums, the last norm and the output matrix.
    attention : str or Scheme
        Scheme of the attention and the KV cache of all blocks: `fp16`, `kllm-*`, `harmonia-*` or `leankv*`.
    layers : mapping of str or Scheme to sequence of int, optional
        Blocks, counted from 0, whose linear layers are computed by another scheme.

    Returns
    -------
    Scheme
        Configuration for `prepare` and `run`; `schemes.text` writes it as `olive-8@0-1;29+olive-4+harmonia-kv4`.

    Raises
    ------
    Refused
        A scheme without the half it is given for, a block named twice, a parameter that its part does not use.
    RefusedType
        `layers` is not a mapping, or the blocks of a scheme are not a sequence.
    """
    named = {} if layers is None else layers
    for blocks in named.values():
        if not isinstance(blocks, Iterable):
            raise RefusedType(f"mix: layers of a scheme must be a sequence of blocks, got {blocks!r:.60}")
    parts = [*named.items(), (linear, None), (attention, None)]
    return registry.compose([(schemes.find(scheme), blocks) for scheme, blocks in parts])


@checked
def session(prepared: Prepared, taps: Tap | None = None) -> Session:
    """Open an empty sequence.

    Parameters
    ----------
    prepared : Prepared
        Result of `prepare`, of a decoder.
    taps : callable, optional
        Called as taps(layer, unit, case) with the values at the ports of the scheme's units.

    Returns
    -------
    Session
        Its `append` takes tokens and returns logits.

    Raises
    ------
    Refused
        The model is an encoder.
    """
    return Session(prepared, taps)


def quantized(
    model: Model,
    config: Scheme,
    backend: Backend,
    progress: Progress,
    weight: Callable[[str, np.ndarray], np.ndarray],
    activation: Callable[[np.ndarray], np.ndarray],
) -> Prepared:
    """Prepare a decoder whose linear layers multiply quantized values; scheme `fp16` computes the rest.

    For `prepare` of your own `SchemeKind`; a part of a mix is prepared the same way. The output matrix stays FP16.

    Parameters
    ----------
    model : Model
        Model, or the part of a model that `prepare` was given.
    config : Scheme
        Configuration of the scheme.
    backend : Backend
        Backend that computes the steps.
    progress : callable
        Passed on from `prepare`.
    weight : callable
        weight(name, rows): quantized float32 values for the fp16 weights `rows` (outputs, inputs) of the linear layer
        `name`, such as "blk.3.q".
    activation : callable
        activation(x): quantized float32 values for the inputs x, float32 (tokens, inputs), of a linear layer.

    Returns
    -------
    Prepared
        Model under the scheme.

    Raises
    ------
    Refused
        A function returns another shape, or the scheme does not compute a layer of the model.
    RefusedType
        A function does not return float32.
    """
    from refemu.models.schemes.quantized import Quantized

    return Quantized(model, config, backend, progress, weight, activation)


@checked
def run(
    model: Model | str,
    token_ids: Sequence[int] | np.ndarray,
    scheme: str | Scheme | Prepared = "fp16",
    backend: str | Backend = "jit",
    taps: Tap | None = None,
    calibration: CalibrationTokens | None = None,
    costs: bool = False,
) -> Run:
    """Compute the logits of every position of a list of tokens, read from position 0.

    Parameters
    ----------
    model : Model or str
        Model, or a name that `load` knows.
    token_ids : sequence of int or ndarray
        At least one id, at most as many as the context holds.
    scheme : str, Scheme or Prepared
        As for `prepare`, or its result; then `backend` and `calibration` are its own.
    backend : str or Backend
        As for `prepare`.
    taps : callable, optional
        Called as taps(layer, unit, case) with the values at the ports of the scheme's units.
    calibration : sequence of int, optional
        As for `prepare`.
    costs : bool
        Also count the work of the scheme's accelerator, as `refemu cost` does ("blk.3.linear.cycles", ...).

    Returns
    -------
    Run
        Logits and counters.

    Raises
    ------
    Refused
        An empty list, an id outside the vocabulary, more tokens than the context holds, an encoder, or `costs` for a
        scheme without an accelerator.
    """
    prepared = _prepared(model, scheme, backend, calibration, EncoderConfig, "is an encoder; use models.encode")
    if not costs:
        current = Session(prepared, taps)
        return Run(current.append(token_ids), current.counters, prepared.config)
    from refemu.models.machine.cost import Meter

    meter = Meter(prepared)
    current = Session(meter.watched(), taps)
    logits = current.append(token_ids)
    return Run(logits, {**current.counters, **meter.counters}, prepared.config)


@checked
def encode(
    model: Model | str,
    token_ids: Sequence[int] | np.ndarray,
    scheme: str | Scheme | Prepared = "fp16",
    backend: str | Backend = "jit",
    taps: Tap | None = None,
    calibration: CalibrationTokens | None = None,
) -> np.ndarray:
    """Compute the hidden states of an encoder after its last block.

    Parameters
    ----------
    model : Model or str
        Model, or a name that `load` knows.
    token_ids : sequence of int or ndarray
        Text as the model was trained to read it, [CLS] and [SEP] included (`model.tokenizer.sentence`).
    scheme : str, Scheme or Prepared
        As for `run`.
    backend : str or Backend
        As for `prepare`.
    taps : callable, optional
        As for `run`.
    calibration : sequence of int, or of sequences, optional
        Token ids of one text, or of several.

    Returns
    -------
    ndarray of float32 (tokens, width)
        Hidden states.

    Raises
    ------
    Refused
        An empty list, an id outside the vocabulary, more tokens than the context holds, or a decoder.
    """
    prepared: Any = _prepared(model, scheme, backend, calibration, ModelConfig, "is a decoder; use models.run")
    from refemu.models.encoder import runtime as encoder_runtime

    return encoder_runtime.encode(prepared, [token_ids], taps)


@checked
def embedding(
    model: Model | str,
    token_ids: Sequence[int] | np.ndarray,
    scheme: str | Scheme | Prepared = "fp16",
    backend: str | Backend = "jit",
    calibration: CalibrationTokens | None = None,
) -> np.ndarray:
    """Compute the embedding of a text: mean of the hidden states over the tokens, divided by its L2 norm.

    Sums are float32 in ascending order.

    Parameters
    ----------
    model : Model or str
        Model, or a name that `load` knows.
    token_ids : sequence of int or ndarray
        As for `encode`.
    scheme : str, Scheme or Prepared
        As for `run`.
    backend : str or Backend
        As for `prepare`.
    calibration : sequence of int, or of sequences, optional
        As for `encode`.

    Returns
    -------
    ndarray of float32 (width,)
        Embedding.

    Raises
    ------
    Refused
        As for `encode`; a hidden state that is not finite.
    """
    from refemu.models.encoder import runtime as encoder_runtime

    return encoder_runtime.pool(encode(model, token_ids, scheme, backend, None, calibration))


def _prepared(
    model: Model | str,
    scheme: Any,
    backend: str | Backend,
    calibration: CalibrationTokens | None,
    wrong: type,
    use: str,
) -> Prepared:
    """Prepare the model unless it is; raise Refused for a config of type `wrong` before any preparation."""
    ready = isinstance(getattr(scheme, "config", None), Scheme)  # a `Prepared` of a decoder or an encoder
    name = model if isinstance(model, str) else model.name
    if ready and scheme.name != name:
        raise Refused(f"run: the scheme was prepared for model {scheme.name!r}, got {name!r}")
    loaded: Any = model if ready or not isinstance(model, str) else load(model)
    if isinstance(scheme.model if ready else loaded.config, wrong):
        raise Refused(f"{name} {use}")
    return scheme if ready else prepare(loaded, scheme, backend, calibration)
