"""A study as steps: each is measured once, saved, and found by what it depends on.

The estimate multiplies multiply-accumulates by this machine's rate, which is measured briefly before. It is rough: a
scheme's factors include everything besides products. A test compares it with the times in docs/studies.md.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refemu import models
from refemu.models import schemes
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.schemes.scheme import Prepared, Progress, Scheme, silent
from refemu.models.scores.score import digest
from refemu.studies.results import ResultStore

PROBE = 48  #: tokens of the product that measures the rate
#: cost of a token's multiply-accumulate over one of the product, and multiply-accumulates that take as long as the
#: preparation of a weight with its calibration, by the first word of a scheme's name; measured on SmolLM2-135M
FACTORS = {
    "fp16": (1.4, 900.0),
    "olive-8": (2.7, 7_000.0),
    "olive": (1.6, 11_000.0),
    "harmonia": (1.9, 900.0),
    "leankv": (1.4, 900.0),
    "kllm": (3.2, 16_000.0),
}
OTHER = (1.9, 900.0)  #: for schemes not in FACTORS
DECODED = 8  #: cost of a decoded token relative to one of a prompt: each reads all weights


@dataclass(frozen=True)
class Step:
    """One measurement of a study."""

    name: str  #: name of its result; steps of equal names are one step
    depends: Mapping[str, Any]  #: everything that the result depends on, except model and sources; JSON values
    macs: float  #: equivalent multiply-accumulates, for the estimate
    compute: Callable[["Bench", Progress], Any]  #: measures; the result is a JSON value
    scheme: str = ""  #: scheme of the prepared model


class Bench:
    """A model under study, and the last scheme that it was prepared under."""

    def __init__(
        self, model: Model, backend: Backend, store: ResultStore, calibration: Sequence[int] | None = None
    ) -> None:
        """calibration: token ids for schemes that calibrate; None: the shipped text."""
        self.model: Model = model
        self.calibration: Sequence[int] | None = calibration
        self.backend: Backend = backend
        self.store: ResultStore = store
        self._last: tuple[str, Any] = ("", None)

    @property
    def depends(self) -> dict[str, str]:
        """What results depend on with a calibration of the user's: its digest."""
        return {} if self.calibration is None else {"calibration": digest(self.calibration)}

    def __repr__(self) -> str:
        return f"Bench({self.model.name!r}, {self._last[0]!r})"

    def prepared(self, scheme: Scheme, progress: Progress, calibration: Callable[[], Any] | None = None) -> Prepared:
        """The model under a scheme; only the last one stays in memory. calibration: makes that of `models.prepare`."""
        text = schemes.text(scheme)
        if self._last[0] != text:
            self._last = ("", None)  # frees the previous one
            source = calibration() if calibration else None
            source = self.calibration if source is None else source
            self._last = (text, models.prepare(self.model, scheme, self.backend, source, progress))
        prepared: Prepared = self._last[1]
        return prepared


@dataclass
class Run:
    """The results of steps by name."""

    results: dict[str, Any] = field(default_factory=dict)
    measured: int = 0  #: steps measured now
    found: int = 0  #: steps saved before


def missing(steps: Sequence[Step], bench: Bench) -> dict[str, Step]:
    """The steps that are not saved, by name."""
    return {step.name: step for step in steps if bench.store.get(_depends(step, bench)) is None}


def run(steps: Sequence[Step], bench: Bench, progress: Progress = silent, what: str = "study") -> Run:
    """Measure the steps that are not saved, in order, and save each at once.

    progress: also called with `what` for the whole run, in thousandths.
    """
    todo = missing(steps, bench)
    whole, done, state = estimate(list(todo.values()), bench.model), 0.0, Run()
    prepared: set[str] = set()
    for step in {step.name: step for step in steps}.values():
        value = bench.store.get(_depends(step, bench))
        if value is None:
            progress(what, round(1000 * done / max(whole, 1)), 1000)
            value = json.loads(json.dumps(step.compute(bench, progress)))  # as read from a file
            bench.store.put(_depends(step, bench), value)
            done += _macs(step, bench.model, prepared)
            state.measured += 1
        else:
            state.found += 1
        state.results[step.name] = value
    progress(what, 1000, 1000)
    return state


def _depends(step: Step, bench: Bench) -> dict[str, Any]:
    return {"model": bench.model.sha256, **bench.depends, **step.depends}


def estimate(steps: Sequence[Step], model: Model) -> float:
    """Multiply-accumulates of steps, each scheme prepared once."""
    prepared: set[str] = set()
    total = 0.0
    for step in steps:
        total += _macs(step, model, prepared)
    return total


def _macs(step: Step, model: Model, prepared: set[str]) -> float:
    new = step.scheme and step.scheme not in prepared
    prepared.add(step.scheme)
    return step.macs + (weights(model) * factors(step.scheme)[1] if new else 0.0)


def factors(scheme: str) -> tuple[float, float]:
    """The factors of a scheme's name; for a mix the largest of each."""
    pairs = [pair for part in scheme.split("+") for name, pair in FACTORS.items() if _first(part) == name] or [OTHER]
    return max(token for token, _ in pairs), max(weight for _, weight in pairs)


def _first(part: str) -> str:
    """The key of FACTORS that a scheme starts with, or ""."""
    return next((name for name in FACTORS if part.startswith(name)), "")


def weights(model: Model) -> int:
    """Weights of the linear layers of the blocks."""
    total = 0
    for name, shape in model.config.shapes.items():
        total += shape[0] * shape[1] if name.startswith("blk.") and len(shape) == 2 else 0
    return total


def seconds(macs: float, model: Model, backend: Backend) -> float:
    """Seconds for these multiply-accumulates here, from the time of a product of the model's size."""
    width, ffn = model.config.width, model.config.ffn
    x = np.zeros((PROBE, width), np.float32)
    held = backend.weights(np.zeros((ffn, width), np.float16))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        backend.matmul(x, held, "fp32")
        times.append(time.perf_counter() - start)
    return macs * min(times) / (PROBE * width * ffn)
