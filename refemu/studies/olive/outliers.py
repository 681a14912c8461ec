"""Measurements of `refemu study olive` on a model: positions of its outliers, and the loss without them.

Paper: [olive §2.1 Fig. 2; §2.3 Tbl. 2, Fig. 3; §3.3 Fig. 5]. Figures for people from exact bits: `formats.ovp_study`
measures tensors, and the runs are those of schemes `fp16` and `olive-study`.
"""

import copy
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu import models
from refemu.arith import dot
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.formats.integer import INT4
from refemu.formats.olive import ovp_study
from refemu.formats.olive.abfloat import (
    E0M3_BIAS0,
    E0M3_BIAS1,
    E1M2_BIAS1,
    E1M2_BIAS2,
    E2M1_BIAS2,
    E2M1_BIAS3,
    E3M0_BIAS2,
    E3M0_BIAS4,
)
from refemu.formats.olive.flint import FLINT4
from refemu.models.encoder import runtime
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.schemes.scheme import Progress, silent
from refemu.models.scores.uncertainty import spread

CONTENDERS = {
    "int4": (INT4.largest, (E0M3_BIAS0, E1M2_BIAS1, E2M1_BIAS2, E3M0_BIAS2)),
    "flint4": (FLINT4.largest, (E0M3_BIAS1, E1M2_BIAS2, E2M1_BIAS3, E3M0_BIAS4)),
}  #: the outlier formats of [olive Fig. 5] for each normal type with its largest value (D-olive-45)


@dataclass(frozen=True)
class Measured:
    """One tensor."""

    name: str  #: "blk.3.down", or "blk.3.down.input" for the layer's input
    tensor: ovp_study.TensorStatistics
    pairs: ovp_study.PairStatistics

    @property
    def kind(self) -> str:
        """The name without its block: "down", "down.input"."""
        return self.name.split(".", 2)[-1]


@dataclass(frozen=True)
class Summary:
    """Means over the tensors of a kind; shares are 0 to 1."""

    kind: str
    tensors: int
    beyond_three: float
    beyond_six: float
    normal_normal: float
    outlier_normal: float
    outlier_outlier: float
    independent: float  #: outlier-outlier pairs if outliers were independent
    max_sigma_median: float
    max_sigma_largest: float


def measure(name: str, x: np.ndarray) -> Measured:
    """The statistics of one tensor, pairs along the last axis."""
    return Measured(name, ovp_study.tensor_statistics(x), ovp_study.pair_statistics(x))


def weights(model: Model, progress: Progress = silent) -> list[Measured]:
    """The weights of all linear layers of the blocks, in model order."""
    names = [name for name, shape in model.config.shapes.items() if name.startswith("blk.") and len(shape) == 2]
    return [measure(name, model.tensor(name)) for name in _counted("weights", names, progress)]


def inputs(model: Model, read: Sequence[Sequence[int]], progress: Progress = silent) -> list[Measured]:
    """The inputs of the linear layers under scheme `fp16`; a tensor has all tokens of the texts `read`.

    Layers that read the same input are one: `blk.0.q.input` is also that of k and v. A decoder takes one text.
    """
    recorder = Recorder(models.prepare(model, "fp16", progress=progress), progress)
    if isinstance(model.config, EncoderConfig):
        runtime.encode(recorder.watched, read)
    elif len(read) != 1:
        raise Refused(f"study: {model.name} is a decoder, so there must be one text, got {len(read)}")
    else:
        models.session(recorder.watched).append(read[0], last=True)
    return recorder.measured


class Recorder:
    """Measures the inputs of the linear layers of a prepared model when `watched` runs."""

    def __init__(self, prepared: Any, progress: Progress) -> None:
        self._prepared, self._progress = prepared, progress
        self.watched = copy.copy(prepared)
        self.watched.linear = self._look
        self.measured: list[Measured] = []

    def __repr__(self) -> str:
        return f"Recorder({self._prepared!r}, {len(self.measured)} inputs)"

    def _look(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Any) -> Any:
        self.measured.append(measure(f"blk.{layer}.{names[0]}.input", x))
        self._progress("statistics", layer, self._prepared.model.blocks)
        return self._prepared.linear(layer, names, x, watch)


def by_kind(measured: Sequence[Measured], name: str) -> dict[str, list[Measured]]:
    """The tensors of each kind in order of appearance, and all of them as `name`."""
    kinds = dict.fromkeys(tensor.kind for tensor in measured)
    return {**{kind: [tensor for tensor in measured if tensor.kind == kind] for kind in kinds}, name: list(measured)}


def rounding_errors(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """Mean error in sigma of the tensors' maxima in every format of [olive Fig. 5], and its standard error.

    `least` marks the smallest for each normal type.
    """
    rows: list[dict[str, Any]] = []
    for normal, (largest, formats) in CONTENDERS.items():
        errors = [
            spread([ovp_study.outlier_rounding_error([each.tensor.max_sigma], outlier, largest) for each in measured])
            for outlier in formats
        ]
        least = min(each.mean for each in errors)
        rows += [
            {
                "normal": normal,
                "outlier": outlier.name,
                "error": each.mean,
                "spread": each.error,
                "least": "least" if each.mean == least else "",
            }
            for outlier, each in zip(formats, errors, strict=True)
        ]
    return rows


def summary(kind: str, measured: Sequence[Measured]) -> Summary:
    """The means over some tensors."""
    if not measured:
        raise Refused(f"study: {kind}: at least one tensor is needed, got none")
    none, some, both = (_mean(measure.pairs.shares[place] for measure in measured) for place in range(3))
    maxima = [measure.tensor.max_sigma for measure in measured]
    return Summary(
        kind,
        len(measured),
        beyond_three=_mean(measure.tensor.beyond_three for measure in measured),
        beyond_six=_mean(measure.tensor.beyond_six for measure in measured),
        normal_normal=none,
        outlier_normal=some,
        outlier_outlier=both,
        independent=_mean(measure.pairs.independent for measure in measured),
        max_sigma_median=statistics.median(maxima),
        max_sigma_largest=max(maxima),
    )


def distance(vector: np.ndarray, other: np.ndarray) -> float:
    """1 - cosine of two vectors of length 1: half the square of their difference."""
    off = vector - other
    return float(dot.total64(off * off, order=Sequential())) / 2


def _mean(values: Iterable[float]) -> float:
    array = np.array(list(values), np.float64)
    return float(dot.total64(array, order=Sequential())) / array.size


def _counted(what: str, names: Sequence[str], progress: Progress) -> Iterator[str]:
    for done, name in enumerate(names):
        progress(what, done, len(names))
        yield name
    progress(what, len(names), len(names))
