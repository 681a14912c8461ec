"""The Clustering Unit: the index of the centroid nearest to a value divided by its scale.

Paper: [kllm §IV-A, Fig. 6, Table I]. Decisions: D-kllm-7 (ties), D-kllm-8 (what is rounded), D-kllm-27 (NaN and
infinity are refused), D-kllm-31 (elements per cycle).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, at, first_index, plain, require_int
from refemu.formats.kllm.codebook import CLUSTER_BITS
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_nearest import normalized
from refemu.units.kllm.cases import clustering as clustering_cases
from refemu.units.ports import Lanes, Port, Ports
from refemu.units.ports import lanes as value_of
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["UNIT", "Clustering", "State", "run"]


LARGEST = 0x7BFF  #: pattern of the largest finite fp16 value


@dataclass(frozen=True)
class State:
    """Ports after one element, what led to the index, and what happened since reset."""

    event: str  #: "reset": no value yet; "cluster": one value gets the index of its nearest centroid
    element: int  #: number of the event since reset, from 0; -1 at reset (`index` is the output port)
    x: int
    scale: int
    codebook: tuple[int, ...]
    index: int
    overflow: int
    x_hat: int  #: fp16 pattern of x^; that of x where nothing is normalized
    compared: Lanes  #: fp16 patterns of all distances; or 1 for every midpoint that lies below
    distances: int  #: distances to a centroid computed, or comparisons with a midpoint between two, as configured
    cycles: int  #: cycles since reset, each of which takes `lanes` values side by side


class Clustering(Stepped[State]):
    """Clustering Unit: one step gives one inlier the index of its nearest centroid.

    References
    ----------
    [kllm §IV-A, Fig. 6]
    """

    name = "clustering"

    def __init__(self, bits: int = 4, preset: Preset | KllmArith = "paper", lanes: int = 16) -> None:
        """Configure the unit.

        Parameters
        ----------
        bits : int
            Width of an index, 1 to 4.
        preset : str or KllmArith
            Preset of KLLM's arithmetic, or its choices one by one; `normalize`, `distance` and `tie` matter.
        lanes : int
            Elements per cycle, 1 to 65536 (D-kllm-31).

        Raises
        ------
        Refused
            A parameter is out of range or the preset unknown.
        """
        self.bits: int = require_int(bits, 1, CLUSTER_BITS, self.name, "bits")
        self.lanes: int = require_int(lanes, 1, 1 << 16, self.name, "lanes")
        self.preset: Preset | KllmArith = plain(preset)
        self.arith: KllmArith = KllmArith.preset(self.preset)
        self.ports: Ports = ports({"bits": self.bits, "preset": self.preset})
        self.state: State = self.reset(State, element=-1, index=0, scale=1)

    def step(self, x: int, scale: int, codebook: Sequence[int]) -> State:
        """Cluster one element; all inputs are fp16 patterns."""
        return self._open(*self.accept(x, scale, codebook))

    def _open(self, x: int, scale: int, codebook: tuple[int, ...]) -> State:
        before, centroids = self.state, fp16.to_f32(fp16.values(np.array(codebook)))
        x_hat, overflow = self.normalize(x, scale)
        compared = self.compare(x_hat, scale, centroids)
        nearest = self.choose(compared)
        while nearest and centroids[nearest - 1] == centroids[nearest]:
            nearest -= 1  # of equal centroids the first is the answer
        element = before.element + 1
        self.state = replace(
            before,
            event="cluster",
            element=element,
            x=x,
            scale=scale,
            codebook=codebook,
            index=nearest,
            overflow=overflow,
            x_hat=x_hat,
            compared=value_of(compared),
            distances=before.distances + len(compared),
            cycles=element // self.lanes + 1,
        )
        return self.state

    def normalize(self, x: int, scale: int) -> tuple[int, int]:
        """Divide a value by its scale as the preset says (D-kllm-8).

        Parameters
        ----------
        x, scale : int
            fp16 patterns.

        Returns
        -------
        pattern, overflow : int
            Pattern of the quotient, or `x` where nothing is normalized; 1 if an fp16 result on the way became infinite.
        """
        if self.arith.normalize == "none":
            return x, 0
        value, divisor = (fp16.to_f32(fp16.values(np.array([word]))) for word in (x, scale))
        with np.errstate(all="ignore"):
            x_hat = int(fp16.bits(fp16.to_f16(normalized(value, divisor, self.arith)))[0])
        lost = self.arith.normalize == "reciprocal" and not np.isfinite(fp16.div16(np.float32(1), divisor)).all()
        return x_hat, int(lost or x_hat & 0x7FFF > LARGEST)

    def compare(self, x_hat: int, scale: int, centroids: np.ndarray) -> tuple[int, ...]:
        """Compare a normalized value with the centroids, or with the midpoints between them.

        Parameters
        ----------
        x_hat : int
            fp16 pattern of the normalized value.
        scale : int
            fp16 pattern; multiplies the midpoints where nothing is normalized.
        centroids : ndarray of float32 (2**bits,)
            Ascending.

        Returns
        -------
        tuple of int
            fp16 patterns of the distances; or 1 for every midpoint that is passed. A value on a midpoint passes it with
            tie "high" only.
        """
        value = fp16.to_f32(fp16.values(np.array(x_hat)))
        if self.arith.distance == "fp16":
            with np.errstate(invalid="ignore"):
                distances = fp16.to_f16(np.abs(fp16.round16(value - centroids)))
            return tuple(fp16.bits(distances).tolist())
        wide, twice = centroids.astype(np.float64), 2 * value.astype(np.float64)
        borders = wide[:-1] + wide[1:]
        if self.arith.distance == "midpoint16":
            borders = 2 * fp16.round16_of_f64(borders / 2).astype(np.float64)
        elif self.arith.normalize == "none":
            borders = fp16.values(np.array(scale)).astype(np.float64) * borders  # 53 bits: exact
        above = twice > borders if self.arith.tie == "low" else twice >= borders
        return tuple(above.astype(np.int64).tolist())

    def choose(self, compared: tuple[int, ...]) -> int:
        """Choose the index: the least distance (ties: D-kllm-7), or the number of midpoints passed.

        Parameters
        ----------
        compared : tuple of int
            Answer of `compare`.

        Returns
        -------
        int
            Index of the centroid.
        """
        if self.arith.distance != "fp16":
            return compared.count(1)
        best = 0
        for i, distance in enumerate(compared):
            if distance < compared[best] or (distance == compared[best] and self.arith.tie == "high"):
                best = i
        return best

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse NaN, infinity, and centroids that do not ascend (D-kllm-27)."""
        for port, array in zip(self.ports.inputs, inputs, strict=True):
            bad = array & 0x7FFF > LARGEST
            if bad.any():
                place = first_index(bad)
                raise Refused(f"{self.name}: {port.name} must be finite, got {fp16.values(array[place])!s}{at(place)}")
        keys = fp16.order_key(inputs[2])
        down = keys[..., 1:] < keys[..., :-1]
        if down.any():
            place = first_index(down)
            raise Refused(
                f"{self.name}: codebook must ascend, got a smaller centroid after lane {place[-1]}{at(place[:-1])}"
            )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    bits = config.get("bits", 4)
    arith = KllmArith.preset(config.get("preset", "paper"))
    if arith.distance == "fp16":
        compared = Port("compared", 16, 1 << bits, encoding="f16", meaning="distances to the centroids")
    else:
        compared = Port("compared", 1, (1 << bits) - 1, meaning="the midpoint between two centroids lies below x^")
    return Ports(
        inputs=(
            Port("x", 16, encoding="f16", meaning="value to cluster, finite"),
            Port("scale", 16, encoding="f16", least=1, most=LARGEST, meaning="scale of its vector, positive"),
            Port("codebook", 16, 1 << bits, encoding="f16", meaning="centroids, ascending"),
        ),
        outputs=(
            Port("index", bits, meaning="index of the nearest centroid"),
            Port("overflow", 1, meaning="an fp16 result on the way became infinite"),
        ),
        state=(Port("x_hat", 16, encoding="f16", meaning="x^, or x where nothing is normalized"), compared),
    )


UNIT: Unit[State, Result] = Unit(
    name="clustering",
    paper="kllm §IV-A, Fig. 6, Table I",
    meaning="index of the centroid nearest to a scaled value",
    configs={
        "paper": Config(bits=4, preset="paper"),
        "exact": Config(bits=4, preset="exact"),
        "paper_3": Config(bits=3, preset="paper"),
    },
    ports=ports,
    unit_class=Clustering,
    cases=clustering_cases.cases,
    counters=("distances", "cycles"),
    mark=clustering_cases.mark,
    legal=clustering_cases.legal,
    flags={
        "TIE": Flag(0, "two centroids are equally near; the lower one is the answer (D-kllm-7)"),
        "OVERFLOW": Flag(1, "x^ became infinite, so every distance did: index 0"),
    },
)
run: RunFunction[Result] = UNIT.run
