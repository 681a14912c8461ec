"""Model and windows of a study, the steps that score a scheme on them, and the statistics of the scores."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from refemu.arith import dot
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.models import schemes
from refemu.models.encoder.config import EncoderConfig
from refemu.models.fetch import catalog
from refemu.models.model import Model
from refemu.models.schemes.scheme import Progress, Scheme
from refemu.models.scores import perplexity
from refemu.models.scores.score import digest as digest
from refemu.models.scores.uncertainty import Change, change, spread
from refemu.studies.steps import Bench, Step, factors

OF_WINDOW = re.compile(r"(.*), ((?:decoded )?window [0-9]+)")  #: name of a step that scores a scheme on a window
Calibrate = Callable[[Bench, Scheme, Progress], Any]  #: makes the calibration for `models.prepare`


@dataclass(frozen=True)
class Setting:
    """A model, a text in token ids, and its windows."""

    model: Model
    ids: tuple[int, ...]  #: token ids of the text; an encoder's texts are concatenated
    win: int  #: tokens of a window
    prefill: int = 0  #: first tokens of a window that are a prompt, not scored
    texts: tuple[tuple[int, ...], ...] = ()  #: texts of an encoder

    @property
    def is_encoder(self) -> bool:
        """Whether the model is an encoder."""
        return isinstance(self.model.config, EncoderConfig)

    @cached_property
    def windows(self) -> list[np.ndarray]:
        """Token ids of every window."""
        return perplexity.windows(self.model.config.context, self.ids, self.win, self.prefill)

    @property
    def label(self) -> str:
        """The name of the model, marked if it is untrained."""
        return label(self.model)

    def require_decoder(self, study: str) -> None:
        """Raise Refused for an encoder."""
        if self.is_encoder:
            raise Refused(f"study {study}: {self.model.name} is an encoder; name a decoder of `refemu models list`")


@dataclass(frozen=True)
class Score:
    """A scheme on the windows of a text, which have equal weights."""

    scheme: str
    perplexity: float
    error: float | None  #: standard error over the windows; None for one window
    losses: tuple[float, ...]  #: mean negative log-likelihood of every window

    def over(self, other: "Score") -> Change:
        """The change of the perplexity over that of another scheme, window by window."""
        return change(other.scheme, self.losses, other.losses)


def paragraphs(model: Model, words: str, tokens: int, win: int) -> tuple[tuple[int, ...], ...]:
    """The first paragraphs of a text for an encoder: at most `tokens` token ids, and `win` per paragraph."""
    most, left = min(win, model.config.context), tokens
    parts = []
    for paragraph in words.split("\n\n"):
        ids = model.tokenizer.sentence(paragraph, most) if paragraph.strip() else []
        if len(ids) > left:
            break
        parts += [tuple(ids)] if ids else []
        left -= len(ids)
    return tuple(parts)


def seeded(model: Model) -> bool:
    """Whether a model is a built-in one with untrained random weights."""
    entry = catalog.MODELS.get(model.name)
    if entry is None or entry.package is not None:
        return False
    from refemu import models

    return models.load(model.name).sha256 == model.sha256


def label(model: Model) -> str:
    """The name of a model, with a warning for untrained random weights."""
    return f"{model.name} (untrained random weights)" if seeded(model) else model.name


def token_macs(model: Model, tokens: int) -> float:
    """Multiply-accumulates of a prompt."""
    if isinstance(model.config, EncoderConfig):
        from refemu.studies.steps import weights

        return float(weights(model) * tokens)
    return float(model.config.macs(tokens))


def score_steps(setting: Setting, scheme: str, calibrate: Calibrate | None = None) -> list[Step]:
    """A step for every window of a scheme, with the result {"nll", "scored"}.

    calibrate: makes the calibration of the scheme; by default it calibrates itself.
    """
    config = schemes.parse(scheme)
    text = schemes.text(config)
    macs = factors(text)[0] * token_macs(setting.model, setting.win)

    def compute(window: np.ndarray) -> Callable[[Bench, Progress], Mapping[str, Any]]:
        def measure(bench: Bench, progress: Progress) -> Mapping[str, Any]:
            source = (lambda: calibrate(bench, config, progress)) if calibrate else None
            losses = perplexity.window_losses(bench.prepared(config, progress, source), window, setting.prefill)
            return {"nll": mean_of(losses.tolist()), "scored": int(losses.size)}

        return measure

    return [
        Step(
            f"{text}, window {index}",
            {"what": "losses", "scheme": text, "ids": digest(window), "prefill": setting.prefill},
            macs,
            compute(window),
            text,
        )
        for index, window in enumerate(setting.windows)
    ]


def score(setting: Setting, results: Mapping[str, Any], scheme: str) -> Score:
    """The score of a scheme from the results of its steps."""
    text = schemes.text(schemes.parse(scheme))
    return score_of(scheme, [results[f"{text}, window {index}"]["nll"] for index in range(len(setting.windows))])


def score_of(scheme: str, losses: Sequence[float]) -> Score:
    """The score of the mean losses of windows."""
    each = spread(losses)
    value = float(np.exp(each.mean))
    return Score(scheme, value, None if each.error is None else value * each.error, tuple(losses))


def unchanged(results: Mapping[str, Any]) -> list[str]:
    """Schemes whose loss equals that of `fp16` in all bits in every window, from the results of a study."""
    losses: dict[str, dict[str, float]] = {}
    for name, result in results.items():
        match = OF_WINDOW.fullmatch(name)
        if match and isinstance(result, Mapping) and "nll" in result:
            losses.setdefault(match[1], {})[match[2]] = result["nll"]
    plain = losses.pop("fp16", None)
    return [] if plain is None else [scheme for scheme, each in losses.items() if each == plain]


def mean_of(values: Sequence[float]) -> float:
    """Mean of at least one value, summed in float64 in order."""
    array = np.array(values, np.float64)
    return float(dot.total64(array, order=Sequential())) / array.size
