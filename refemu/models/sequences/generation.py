"""Text that a model continues: greedy decoding, or sampling from a seed, bit-exact.

A sampled token depends on the logits, the parameters and the seed only. Probabilities are integers: the correctly
rounded float32 exponential of (logit - largest) / temperature, times 2**40 and rounded. The word of the seed's
stream for the position, uniform in [0, 2**64), chooses a token by exact integer arithmetic.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refemu.arguments import checked
from refemu.arith import fp32, integers, prng
from refemu.arith.checks import Refused, require_int
from refemu.models import schemes
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.runtime import Session, require_tokens
from refemu.models.schemes.scheme import CalibrationTokens, Prepared, Progress, Scheme
from refemu.models.scores.score import decoder, prepared_under, token_ids

UNIT = np.float64(1 << 40)  #: the weight of the likeliest token; 2**23 tokens fit in an int64
COLDEST, HOTTEST = (
    float.fromhex("0x1p-126"),
    float.fromhex("0x1p127"),
)  #: temperatures above 0, normal numbers of float32
STREAM = "models/generation"  #: label of the stream of random words


@dataclass(frozen=True)
class Generated:
    """Tokens that a model generated."""

    model: str  #: name of the model
    scheme: str  #: text of the scheme
    prompt: tuple[int, ...]  #: token ids that were continued
    ids: tuple[int, ...]  #: token ids that follow
    text: str  #: their text; "" for a model without a tokenizer
    seconds: float  #: time of prompt and tokens, without preparation

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens per second."""
        return len(self.ids) / self.seconds


@checked
def generate_text(
    model: Model | str,
    prompt: str | Path | None = None,
    ids: Sequence[int] | np.ndarray | None = None,
    scheme: str | Scheme | Prepared = "fp16",
    tokens: int = 64,
    temperature: float = 0.0,
    top_k: int = 0,
    seed: int = 0,
    backend: str | Backend = "jit",
    calibration: CalibrationTokens | str | Path | None = None,
    progress: Progress | None = None,
    shown: Callable[[int], bool] | None = None,
) -> Generated:
    """Continue a text, token by token, greedily or by sampling from a seed. The same arguments give the same tokens.

    Parameters
    ----------
    model : Model or str
        Decoder, or a name that `load` knows.
    prompt : str or Path, optional
        A text, or the path of a file or folder of texts; by default the start of the novel that refemu ships.
    ids : sequence of int or ndarray, optional
        Token ids in place of a prompt.
    scheme : str, Scheme or Prepared
        As for `prepare`, or its result.
    tokens : int
        Number of tokens to generate, at least 1.
    temperature : float
        0: the likeliest token, or the lowest id of equal ones. In [2**-126, 2**127]: sample from the logits divided by
        it, rounded to float32.
    top_k : int
        Sample from the likeliest tokens only, with lower ids first among equal ones; 0, or the size of the vocabulary
        and above: from all.
    seed : int
        Seed of the sampling, in [0, 2**64).
    backend : str or Backend
        As for `prepare`.
    calibration : sequence of int, str or Path, optional
        As for `prepare`.
    progress : callable, optional
        Called as progress(what, done, total).
    shown : callable, optional
        Called with each token id as it is generated; generation ends when it returns True.

    Returns
    -------
    Generated
        Token ids and their text.

    Raises
    ------
    Refused
        An encoder, a parameter out of range, more tokens than the context holds, or logits that are not finite.
    """
    loaded = decoder(model)
    chooser = Chooser(temperature, top_k, seed)
    start_ids = token_ids(loaded, prompt, ids)
    if prompt is None and ids is None:
        start_ids = start_ids[:DEFAULT_PROMPT]
    count = require_int(tokens, 1, 1 << 32, "generate_text", "tokens")
    context = loaded.config.context
    if len(start_ids) + count - 1 > context:
        raise Refused(
            f"generate_text: prompt and tokens must fit in the context of {context}, got {len(start_ids)} + {count}"
        )
    ready = prepared_under(loaded, scheme, backend, calibration, progress)
    require_tokens(start_ids, ready)
    Session(ready).append(start_ids[:1])  # loads the kernels, so that the time below is that of the tokens
    start = time.perf_counter()
    chosen = follow(Session(ready), start_ids, count, chooser, shown)
    seconds = time.perf_counter() - start
    return Generated(
        model=loaded.name,
        scheme=schemes.text(ready.config),
        prompt=tuple(np.asarray(start_ids).tolist()),
        ids=tuple(chosen),
        text=_text(loaded, chosen, ids is not None),
        seconds=seconds,
    )


DEFAULT_PROMPT = 32  #: tokens of the shipped text that are continued by default


def follow(
    session: Session,
    prompt: np.ndarray,
    count: int,
    chooser: "Chooser",
    shown: Callable[[int], bool] | None = None,
) -> list[int]:
    """Append a prompt to a session and choose `count` tokens after it, fewer if `shown` returns True."""
    chosen: list[int] = []
    logits = session.append(prompt, last=True)[-1]
    while True:
        chosen.append(chooser.choose(logits, len(chosen)))
        if (shown is not None and shown(chosen[-1])) or len(chosen) == count:
            return chosen
        logits = session.append(chosen[-1:])[-1]


class Chooser:
    """Chooses a token from logits, by temperature, number of candidates and seed."""

    def __init__(self, temperature: float = 0.0, top_k: int = 0, seed: int = 0) -> None:
        """Raise Refused for a parameter out of range."""
        if not (temperature == 0 or COLDEST <= temperature <= HOTTEST):
            raise Refused(f"generate_text: temperature must be 0, or in [{COLDEST:g}, {HOTTEST:g}], got {temperature}")
        self.top_k: int = require_int(top_k, 0, 1 << 32, "generate_text", "top_k")
        require_int(seed, 0, (1 << 64) - 1, "generate_text", "seed")
        if temperature == 0 and top_k:
            raise Refused(f"generate_text: top_k needs a temperature above 0, got top_k {top_k}")
        self.temperature: np.float32 = np.float32(temperature)
        self._seed = prng.stream(STREAM, seed)

    def __repr__(self) -> str:
        return f"Chooser(temperature={self.temperature}, top_k={self.top_k})"

    def choose(self, logits: np.ndarray, number: int) -> int:
        """The token for logits, float32 (vocabulary,). number: how many were chosen before."""
        if not np.isfinite(logits).all():
            raise Refused("generate_text: logits must be finite to choose a token, got NaN or infinity")
        if self.temperature == 0:
            return int(np.argmax(logits))
        weights = self.weights(logits)
        ends = np.cumsum(weights)
        word = int(prng.words(self._seed, number, 1)[0])
        return int(np.searchsorted(ends, word * int(ends[-1]) >> 64, side="right"))

    def weights(self, logits: np.ndarray) -> np.ndarray:
        """int64 weight of each token; 0 outside the candidates."""
        order = np.argsort(-logits, kind="stable")
        with np.errstate(over="ignore"):  # a small temperature: every other token has weight 0
            scaled = (logits - logits[order[0]]) / self.temperature
        weights = integers.from_float(np.rint(fp32.exp32(scaled).astype(np.float64) * UNIT))
        if self.top_k:
            weights[order[self.top_k :]] = 0
        return weights


def _text(model: Model, ids: Sequence[int], bare: bool) -> str:
    """The text of tokens; "" where the prompt was token ids and the model has no tokenizer."""
    try:
        return model.tokenizer.decode(ids)
    except Refused:
        if bare:
            return ""
        raise
