"""The Clustering Unit: the index of the centroid nearest to a value divided by its scale.

Paper: [kllm §IV-A, Fig. 6, Table I]. Decisions: D-kllm-7 (ties), D-kllm-8 (what is rounded), D-kllm-27 (NaN and
infinity are refused), D-kllm-31 (elements per cycle).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, at, first_index, require_int
from refemu.formats.codebook import CLUSTER_BITS
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_nearest import normalized
from refemu.units import clustering_cases, unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, collect
from refemu.units.unit_cases import Seeds

LARGEST = 0x7BFF  #: pattern of the largest finite fp16 value


@dataclass(frozen=True)
class State:
    """Ports after one element, what led to the index, and what happened since reset."""

    event: str  #: "reset" or "cluster"
    element: int  #: number of the event, -1 for the reset; `index` is the port
    x: int
    scale: int
    codebook: tuple[int, ...]
    index: int
    overflow: int
    x_hat: int  #: fp16 pattern of x^; that of x where nothing is normalized
    compared: tuple[int, ...]  #: fp16 patterns of all distances; or 1 for every midpoint that lies below
    distances: int  #: distances, or comparisons with midpoints
    cycles: int  #: of `lanes` elements each


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one value per element."""

    index: np.ndarray  #: uint8
    overflow: np.ndarray  #: bool: x^, or the reciprocal of the scale, became infinite
    distances: int
    cycles: int


class Clustering(Stepped):
    """The block of [kllm §IV-A]: one step is one inlier."""

    name = "clustering"

    def __init__(self, bits: int = 4, preset: str | KllmArith = "paper", lanes: int = 16) -> None:
        """bits: of an index, 1 to 4. preset: of KLLM, or its choices one by one. lanes: elements per cycle."""
        require_int(bits, 1, CLUSTER_BITS, self.name, "bits")
        require_int(lanes, 1, 1 << 16, self.name, "lanes")
        self.bits, self.preset, self.lanes = bits, preset, lanes
        self.arith = KllmArith.preset(preset)
        self.ports = ports({"bits": bits})
        self.state = State("reset", -1, 0, 1, (0,) * (1 << bits), 0, 0, 0, (), 0, 0)

    def step(self, x: int, scale: int, codebook: Any) -> State:
        """Cluster one element; returns the State after it."""
        words, scales, books = self.admitted(*self.accept(x, scale, codebook))
        return self._event(int(words), int(scales), tuple(books.tolist()))

    def _event(self, x: int, scale: int, codebook: tuple[int, ...]) -> State:
        before, centroids = self.state, fp16.to_f32(fp16.values(np.array(codebook)))
        x_hat, overflow = self.normalize(x, scale)
        compared = self.compare(x_hat, scale, centroids)
        found = self.choose(compared)
        while found and centroids[found - 1] == centroids[found]:
            found -= 1  # of equal centroids the first is the answer
        element = before.element + 1
        self.state = State(
            "cluster",
            element,
            x,
            scale,
            codebook,
            found,
            overflow,
            x_hat,
            compared,
            before.distances + len(compared),
            element // self.lanes + 1,
        )
        return self.state

    def normalize(self, x: int, scale: int) -> tuple[int, int]:
        """Pattern of x^, and 1 if an fp16 result on the way became infinite; x itself if nothing is normalized."""
        if self.arith.normalize == "none":
            return x, 0
        value, divisor = (fp16.to_f32(fp16.values(np.array([word]))) for word in (x, scale))
        with np.errstate(all="ignore"):
            x_hat = int(fp16.bits(fp16.to_f16(normalized(value, divisor, self.arith)))[0])
        lost = self.arith.normalize == "reciprocal" and not np.isfinite(fp16.div16(np.float32(1), divisor)).all()
        return x_hat, int(lost or x_hat & 0x7FFF > LARGEST)

    def compare(self, x_hat: int, scale: int, centroids: np.ndarray) -> tuple[int, ...]:
        """Patterns of the distances; or whether the value lies above (tie "high": not below) each midpoint."""
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
        """The least distance, a later one only if it is strictly smaller (D-kllm-7); or the midpoints passed."""
        if self.arith.distance != "fp16":
            return compared.count(1)
        best = 0
        for i, distance in enumerate(compared):
            if distance < compared[best] or (distance == compared[best] and self.arith.tie == "high"):
                best = i
        return best

    def steps(self, x: Any, scale: Any, codebook: Any) -> Iterator[State]:
        """Yield the State after every element, in C order; the arguments broadcast."""
        words, scales, books = self.admitted(x, scale, codebook)
        for one in zip(
            words.ravel().tolist(), scales.ravel().tolist(), books.reshape(-1, books.shape[-1]).tolist(), strict=True
        ):
            yield self._event(one[0], one[1], tuple(one[2]))

    def admitted(self, x: Any, scale: Any, codebook: Any) -> list[np.ndarray]:
        """The inputs as arrays of one shape. Refuses NaN, infinity, and centroids that do not ascend."""
        arrays = admit(self.name, self.ports.inputs, (x, scale, codebook))
        for port, array in zip(self.ports.inputs, arrays, strict=True):
            bad = array & 0x7FFF > LARGEST
            if bad.any():
                place = first_index(bad)
                raise Refused(f"{self.name}: {port.name} must be finite, got {fp16.values(array[place])!s}{at(place)}")
        keys = fp16.order_key(arrays[2])
        down = keys[..., 1:] < keys[..., :-1]
        if down.any():
            place = first_index(down)
            raise Refused(
                f"{self.name}: codebook must ascend, got a smaller centroid after lane {place[-1]}{at(place[:-1])}"
            )
        return arrays

    def __repr__(self) -> str:
        return f"Clustering(bits={self.bits}, preset={self.preset!r}, lanes={self.lanes})"


def run(
    x: Any, scale: Any, codebook: Any, *, bits: int = 4, preset: str | KllmArith = "paper", lanes: int = 16
) -> Result:
    """Cluster elements of any shape.

    x, scale: fp16 patterns; scale positive. codebook: fp16 patterns (..., 2**bits), ascending. They broadcast without
    that last axis. bits, preset, lanes: as for Clustering. Returns the Result, arrays of the common shape.
    Refuses NaN, infinity, a scale that is not positive, centroids that do not ascend. Paper: [kllm §IV-A].
    """
    device = Clustering(bits, preset, lanes)
    words, scales, books = device.admitted(x, scale, codebook)
    outputs = collect(list(device.steps(words, scales, books)), device.ports.outputs, words.shape)
    return Result(**outputs, distances=device.state.distances, cycles=device.state.cycles)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    bits = config.get("bits", 4)
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
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see clustering_cases.py."""
    return clustering_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="clustering",
    paper="kllm §IV-A, Fig. 6, Table I",
    meaning="index of the centroid nearest to a scaled value",
    configs={
        "paper": Config(bits=4, preset="paper"),
        "exact": Config(bits=4, preset="exact"),
        "paper_3": Config(bits=3, preset="paper"),
    },
    ports=ports,
    run=run,
    twin="refemu.units.clustering_jit:run",
    unit_class=Clustering,
    cases=cases,
    mark=clustering_cases.mark,
    legal=clustering_cases.legal,
    flags={
        "TIE": Flag(0, "two centroids are equally near; the lower one is the answer (D-kllm-7)"),
        "OVERFLOW": Flag(1, "x^ became infinite, so every distance did: index 0"),
    },
)
