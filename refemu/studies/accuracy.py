"""Measurements of `refemu study accuracy`: effect of number formats on an encoder's embeddings and a probe on them.

Paper: [olive Tbl. 6-9], for whose tasks and models this is a substitute: sentences of film reviews, good or bad. The
probe is a ridge regression on float32 embeddings, fitted once; every scheme is then scored with the same probe. These
are figures for people, like `plain_float`: last digits may differ between machines.
"""

import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refemu import models
from refemu.arith import dot, prng
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.models import text
from refemu.models.backend import Backend
from refemu.models.encoder import runtime
from refemu.models.encoder.config import EncoderConfig
from refemu.models.encoder.plain_float import FloatEncoder
from refemu.models.model import Model
from refemu.models.schemes.scheme import Progress, silent
from refemu.studies.steps import Bench, Step, factors
from refemu.studies.steps import weights as weights_of

SCHEMES = {
    "fp16": "fp16",
    "olive-8": "olive-8",
    "int8 without outliers": "olive-8:outliers=false",
    "olive-4": "olive-4",
    "int4 or flint4 without outliers": "olive-4:outliers=false",
    "int4 without outliers": "olive-4:outliers=false,types=int",
}  #: row -> scheme; those without outliers saturate
TRAINING = 2  #: training sentences per test sentence
CLEAR = 0.5  #: least |rating| of a sentence that is good or bad
RIDGE = 1.0  #: penalty on the square of every weight of the probe
ORDER = prng.stream("study/accuracy/sentences", 0)  #: stream of the random words that select sentences
BATCH = 32  #: texts computed at once; no bit of a scheme depends on it


@dataclass(frozen=True)
class Rated:
    """A sentence and its rating by readers."""

    rating: float  #: good above 0
    text: str


@dataclass(frozen=True)
class Row:
    """One scheme over the test sentences; shares are 0 to 1."""

    name: str
    scheme: str  #: for `models.prepare`; "" for fp32
    accuracy: float  #: share of sentences that the probe classifies correctly
    agreement: float  #: share with the same class as the fp32 embedding
    error: float  #: mean relative L2 error of the embeddings against fp32


def read(path: str | Path) -> list[Rated]:
    """Rated sentences from a UTF-8 file, one per line: number, rating, sentence, separated by tabs.

    Raises Refused, with the line, for another form, a rating that is not a finite number, and an empty sentence.
    """
    lines = [(number, line.removesuffix("\r")) for number, line in enumerate(text.read(path).split("\n"), start=1)]
    return [_rated(line, f"{path}: line {number}") for number, line in lines if line]


def split(rated: Sequence[Rated], sentences: int) -> tuple[list[Rated], list[Rated]]:
    """Test sentences, and `TRAINING` times as many for training, drawn by `ORDER` from the clear ones.

    The test sentences of a smaller number are the first of those of a larger one.
    """
    clear = [sentence for sentence in rated if abs(sentence.rating) >= CLEAR]
    need = sentences * (1 + TRAINING)
    if sentences < 1 or need > len(clear):
        raise Refused(
            f"accuracy: sentences must be in [1, {len(clear) // (1 + TRAINING)}] for {len(clear)} sentences "
            f"rated at least {CLEAR} off 0, got {sentences}"
        )
    chosen = [clear[i] for i in np.argsort(prng.words(ORDER, 0, len(clear)), kind="stable")[:need].tolist()]
    return chosen[:sentences], chosen[sentences:]


def steps(model: Model, rated: Sequence[Rated], sentences: int) -> list[Step]:
    """A step for fp32, then one for each of `SCHEMES`; results are the fields of a Row. Raises Refused for a decoder.

    sentences: number of test sentences; twice as many others train the probe. Schemes calibrate on the shipped text.
    """
    probe = Probe(model, rated, sentences)
    lines = "\n".join(f"{each.rating}\t{each.text}" for each in rated)
    data = hashlib.sha256(lines.encode()).hexdigest()

    def compute(name: str, scheme: str) -> Callable[[Bench, Progress], Any]:
        return lambda bench, progress: dataclasses.asdict(probe.row(name, scheme, bench.backend, progress))

    macs = 30.0 * sentences * weights_of(model)  # a sentence has about 25 tokens
    return [
        Step(
            name,
            {"what": "accuracy", "scheme": scheme, "data": data, "sentences": sentences},
            macs * (factors(scheme)[0] if scheme else 3),
            compute(name, scheme),
            scheme,
        )
        for name, scheme in {"fp32": "", **SCHEMES}.items()
    ]


class Probe:
    """A probe on float32 embeddings, fitted when the first scheme is scored."""

    def __init__(self, model: Model, rated: Sequence[Rated], sentences: int) -> None:
        if not isinstance(model.config, EncoderConfig):
            raise Refused(f"accuracy: {model.name} is a decoder; name an encoder of `refemu models list`")
        self._model = model
        self._test, self._train = split(rated, sentences)
        self._fitted: tuple[np.ndarray, np.ndarray] | None = None

    def __repr__(self) -> str:
        return f"Probe({self._model.name!r}, {len(self._test)} sentences)"

    def row(self, name: str, scheme: str, backend: str | Backend, progress: Progress) -> Row:
        """The row of a scheme, or of plain float32 if `scheme` is ""."""
        weights, exact = self._fit(progress)
        vectors = exact
        if scheme:
            prepared = models.prepare(self._model, scheme, backend=backend, progress=progress)
            vectors = embeddings(prepared, self._model, self._test, name, progress)
        return _row(name, scheme, weights, vectors, exact, np.array([each.rating > 0 for each in self._test]))

    def _fit(self, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the probe, and the float32 embeddings of the test sentences."""
        if self._fitted is None:
            plain, good = FloatEncoder(self._model), np.array([each.rating > 0 for each in self._train])
            weights = fit(embeddings(plain, self._model, self._train, "fp32, training", progress), good)
            self._fitted = weights, embeddings(plain, self._model, self._test, "fp32", progress)
        return self._fitted


def embeddings(
    prepared: Any, model: Model, rated: Sequence[Rated], what: str = "", progress: Progress = silent
) -> np.ndarray:
    """The embedding of every sentence, float32 (sentences, width); long ones are truncated to the context."""
    ids = [model.tokenizer.sentence(sentence.text, model.config.context) for sentence in rated]
    rows: list[np.ndarray] = []
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        hidden = runtime.encode(prepared, batch)
        rows += [runtime.pool(part) for part in np.split(hidden, np.cumsum([len(sentence) for sentence in batch[:-1]]))]
        progress(what, len(rows), len(ids))
    return np.array(rows)


def fit(vectors: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Weights w (width + 1,) of least |x w - y|^2 + `RIDGE` |w|^2; x ends in 1, y is 1 for good and -1 for bad."""
    x = _with_one(vectors)
    square = x.T @ x + RIDGE * np.eye(x.shape[1])
    return np.linalg.solve(square, x.T @ np.where(good, 1.0, -1.0))


def predict(weights: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Whether the probe classifies each sentence as good: bool (sentences,)."""
    return dot.total64(_with_one(vectors) * weights, order=Sequential()) > 0


def _rated(line: str, where: str) -> Rated:
    number, rating, sentence = (*line.split("\t", 2), "", "")[:3]
    try:
        value = float(rating)
    except ValueError:
        value = math.nan
    if not number or not math.isfinite(value) or not sentence.strip():
        raise Refused(f"{where}: must be number, rating and sentence separated by tabs, got {line[:60]!r}")
    return Rated(value, sentence.strip())


def _with_one(vectors: np.ndarray) -> np.ndarray:
    return np.concatenate([vectors.astype(np.float64), np.ones((len(vectors), 1))], axis=1)


def _row(name: str, scheme: str, weights: np.ndarray, vectors: np.ndarray, exact: np.ndarray, good: np.ndarray) -> Row:
    said, plain = predict(weights, vectors), predict(weights, exact)
    return Row(name, scheme, _share(said == good), _share(said == plain), error(vectors, exact))


def _share(hits: np.ndarray) -> float:
    return int(np.count_nonzero(hits)) / hits.size


def error(vectors: np.ndarray, exact: np.ndarray) -> float:
    """Mean of |found - exact| / |exact|, row by row."""
    off, length = (
        np.sqrt(dot.total64(part * part, order=Sequential()))
        for part in (vectors.astype(np.float64) - exact, exact.astype(np.float64))
    )
    return float(dot.total64(off / length, order=Sequential())) / len(off)
