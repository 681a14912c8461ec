"""The perplexity of a text under a scheme, with its standard error, and the paired comparison of two scores."""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refemu.arguments import checked
from refemu.arith.checks import Refused
from refemu.models import schemes, text
from refemu.models.backend import Backend
from refemu.models.encoder.config import EncoderConfig
from refemu.models.entry import load, prepare, words
from refemu.models.model import Model
from refemu.models.schemes.scheme import CalibrationTokens, Prepared, Progress, Scheme, silent
from refemu.models.scores import perplexity as windowed
from refemu.models.scores.uncertainty import Change, change, spread

FEW = 100  #: scored tokens below which a perplexity says little
FIRST = 8  #: scored tokens that are first compared with scheme fp16


@dataclass(frozen=True)
class TextScore:
    """The perplexity of a text under a scheme."""

    model: str  #: name of the model
    scheme: str  #: text of the scheme
    perplexity: float  #: exp of the mean negative log-likelihood of the scored tokens
    error: float | None  #: standard error of the perplexity over the windows; None for one window
    scored: int  #: scored tokens
    tokens: int  #: token ids of the text, those of a last window too short to score included
    win: int  #: tokens of a window
    prefill: int  #: first tokens of a window that are its prompt and not scored
    losses: tuple[float, ...]  #: mean negative log-likelihood of each window, in nats
    ids_sha256: str  #: sha256 of the token ids as int64
    equals_fp16: bool  #: whether all logits equal those of scheme fp16 in all bits
    notes: tuple[str, ...] = ()  #: sentences that a reader of the number should know

    @property
    def windows(self) -> tuple[float, ...]:
        """The perplexity of each window."""
        return tuple(float(np.exp(loss)) for loss in self.losses)


@checked
def perplexity(
    model: Model | str,
    text: str | Path | None = None,
    ids: Sequence[int] | np.ndarray | None = None,
    scheme: str | Scheme | Prepared = "fp16",
    win: int = 512,
    windows: int | None = None,
    prefill: int | None = None,
    backend: str | Backend = "jit",
    calibration: CalibrationTokens | str | Path | None = None,
    progress: Progress | None = None,
) -> TextScore:
    """Measure the perplexity of a text under a scheme, as `refemu ppl` does.

    The text is cut into windows of `win` tokens that do not overlap; each starts at position 0 with an empty cache.

    Parameters
    ----------
    model : Model or str
        Decoder, or a name that `load` knows.
    text : str or Path, optional
        A text, or the path of a file or folder of texts; by default the novel that refemu ships.
    ids : sequence of int or ndarray, optional
        Token ids in place of a text.
    scheme : str, Scheme or Prepared
        As for `prepare`, or its result; then `backend` and `calibration` are its own.
    win : int
        Tokens of a window, from 2 to the context of the model.
    windows : int, optional
        Score only the first windows.
    prefill : int, optional
        First tokens of a window that are its prompt and not scored; the others follow one by one. By default 0, and
        half a window for schemes that change only the tokens after a prompt, such as `leankv`.
    backend : str or Backend
        As for `prepare`.
    calibration : sequence of int, str or Path, optional
        As for `prepare`.
    progress : callable, optional
        Called as progress(what, done, total).

    Returns
    -------
    TextScore
        Perplexity, standard error and notes.

    Raises
    ------
    Refused
        An encoder, both a text and token ids, no window of the text, an id outside the vocabulary, or as for `prepare`.
    """
    loaded = decoder(model)
    config = scheme.config if is_prepared(scheme) else schemes.find(scheme)  # type: ignore[union-attr, arg-type]
    tokens = token_ids(loaded, text, ids)
    prompt = default_prefill(config, win) if prefill is None else prefill
    windowed.require_decoding(config, prompt)
    if windows is not None and windows < 1:
        raise Refused(f"perplexity: windows must be at least 1, got {windows}")
    tokens = tokens if windows is None else tokens[: windows * win]
    cut = windowed.windows(loaded.config.context, tokens, win, prompt)
    ready = prepared_under(loaded, scheme, backend, calibration, progress)
    score = _measured(loaded, ready, cut, tokens, win, prompt, progress or silent)
    unused = calibration is not None and schemes.ignores_calibration(config)
    return dataclasses.replace(score, notes=(*score.notes, unused_calibration(score.scheme))) if unused else score


@checked
def compare(score: TextScore, reference: TextScore) -> Change:
    """Compare two scores window by window: what makes a window hard for both cancels.

    Parameters
    ----------
    score, reference : TextScore
        Results of `perplexity` on the same token ids and windows.

    Returns
    -------
    Change
        Change of the perplexity from `reference` to `score` in percent, with its standard error.

    Raises
    ------
    Refused
        Scores of different texts, windows or prefills.
    RefusedType
        An argument is not a TextScore.
    """
    for name in ("ids_sha256", "win", "prefill"):
        ours, theirs = getattr(score, name), getattr(reference, name)
        if ours != theirs:
            raise Refused(
                f"compare: both scores must have the same {name}, got {ours} and {theirs}; measure both alike"
            )
    return change(reference.scheme, score.losses, reference.losses)


def unused_calibration(scheme: str) -> str:
    """The note for a calibration text under a scheme that does not calibrate."""
    return f"scheme {scheme} does not calibrate: the calibration text changed nothing"


def decoder(model: Model | str) -> Model:
    """The model, loaded; raises Refused for an encoder."""
    loaded = load(model) if isinstance(model, str) else model
    if isinstance(loaded.config, EncoderConfig):
        raise Refused(
            f"{loaded.name}: an encoder reads a text at once and predicts no next token; "
            "name a decoder of `refemu models list`"
        )
    return loaded


def is_prepared(scheme: Any) -> bool:
    """Whether a scheme is a result of `prepare`."""
    return isinstance(getattr(scheme, "config", None), Scheme)


def prepared_under(
    model: Model,
    scheme: str | Scheme | Prepared,
    backend: str | Backend,
    calibration: CalibrationTokens | str | Path | None,
    progress: Progress | None,
) -> Prepared:
    """The model under a scheme; raises Refused for one that was prepared for another model."""
    if not is_prepared(scheme):
        return prepare(model, scheme, backend, calibration, progress)  # type: ignore[arg-type]
    ready: Any = scheme
    if (ready.name, ready.sha256) != (model.name, model.sha256):
        raise Refused(f"perplexity: the scheme was prepared for model {ready.name!r}, got {model.name!r}")
    return ready  # type: ignore[no-any-return]


def token_ids(model: Model, tokens: str | Path | None, ids: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """Token ids of a text, the ids themselves, or those of the shipped text."""
    if tokens is not None and ids is not None:
        raise Refused("perplexity: ids replace the text, got both; leave one out")
    if ids is not None:
        return np.asarray(ids)
    return np.asarray(model.tokenizer.encode(text.default() if tokens is None else words(tokens)), np.int64)


def default_prefill(config: Scheme, win: int) -> int:
    """Half a window for a scheme that changes only the tokens after a prompt, else 0."""
    return max(win // 2, 1) if config.two_phases else 0


def digest(ids: Sequence[int] | np.ndarray) -> str:
    """sha256 of token ids as little-endian int64."""
    return hashlib.sha256(np.asarray(ids, "<i8").tobytes()).hexdigest()


def _measured(
    model: Model, prepared: Prepared, cut: list[np.ndarray], ids: np.ndarray, win: int, prefill: int, progress: Progress
) -> TextScore:
    losses, twin = [], Fp16Twin(model, prepared)
    for index, window in enumerate(cut):
        progress("perplexity", index, len(cut))
        rows, _ = windowed.window_logits(prepared, window, prefill)
        losses.append(windowed.surprise(rows, windowed.following(window, prefill)))
        twin.see(window, prefill, rows)
    progress("perplexity", len(cut), len(cut))
    measured = windowed.summary(losses)
    error = spread(measured.windows).error
    return TextScore(
        model=model.name,
        scheme=schemes.text(prepared.config),
        perplexity=measured.perplexity,
        error=None if error is None else measured.perplexity * error,
        scored=measured.scored,
        tokens=len(ids),
        win=win,
        prefill=prefill,
        losses=measured.windows,
        ids_sha256=digest(ids),
        equals_fp16=twin.equal,
        notes=tuple(_notes(cut, win, measured, twin)),
    )


def _notes(cut: list[np.ndarray], win: int, measured: windowed.Perplexity, twin: "Fp16Twin") -> list[str]:
    """What a reader of the number should know."""
    notes, scored = [], measured.scored
    lost = np.flatnonzero(~np.isfinite(measured.windows))
    if lost.size:
        notes.append(
            f"logits of window {lost[0]} are NaN or infinite, so the perplexity says nothing: a value overflowed fp16"
        )
    if len(cut[0]) < win:
        notes.append(f"the text has {len(cut[0])} tokens, less than one window of {win}: a shorter window was scored")
    if scored < FEW:
        counted = f"{scored} token{'s' if scored > 1 else ''}"
        notes.append(f"only {counted} scored, and below {FEW} a perplexity says little; give a longer text")
    if twin.equal and not twin.same:
        notes.append(
            "the logits of all scored tokens equal those of scheme fp16 in all bits: the scheme changed nothing"
        )
    return notes


class Fp16Twin:
    """Compares logits with those of scheme `fp16` until they differ."""

    def __init__(self, model: Model, prepared: Prepared) -> None:
        from refemu.models.schemes.fp16.config import Fp16Config  # here: importing models loads no scheme

        self.same: bool = prepared.config == Fp16Config()  #: whether the scheme is fp16 itself
        self.equal: bool = True  #: whether all logits so far are equal in all bits
        self._model, self._backend = model, prepared.backend
        self._fp16: Any = None

    def __repr__(self) -> str:
        return f"Fp16Twin({self._model.name!r}, {self.equal})"

    def see(self, window: np.ndarray, prefill: int, rows: np.ndarray) -> None:
        """Compare the logits of a window: first of a few tokens, then of all."""
        if self.same or not self.equal:
            return
        self._fp16 = self._fp16 or prepare(self._model, "fp16", self._backend)
        for tokens in dict.fromkeys((min(max(prefill, 1) + FIRST, len(window)), len(window))):
            expected, _ = windowed.window_logits(self._fp16, window[:tokens], prefill)
            self.equal = bool(np.array_equal(_bits(rows[: len(expected)]), _bits(expected)))
            if not self.equal:
                return


def _bits(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows, np.float32).view(np.uint32)
