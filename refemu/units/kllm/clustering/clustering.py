"""The Clustering Unit: the index of the centroid nearest to a value divided by its scale.

Paper: [kllm §IV-A, Fig. 6, Table I].
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, at, first_index, require_int
from refemu.formats.kllm.codebook import CLUSTER_BITS
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_nearest import normalized
from refemu.units.declared import Changes, Combinational, DeclaredState, constant, decides
from refemu.units.kllm.clustering import cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result
from refemu.units.unit import AnyUnit, Config, Flag, RunFunction, Unit

__all__ = ["UNIT", "Clustering", "State", "run"]


LARGEST = 0x7BFF  #: pattern of the largest finite fp16 value


class Clustering(Combinational):
    """Clustering Unit: one step gives one inlier the index of its nearest centroid."""

    name = "clustering"
    number: ClassVar[str] = "element"  # `index` is the output port
    events: ClassVar[tuple[str, ...]] = ("cluster",)
    counters: ClassVar[dict[str, str]] = {
        "distances": "distances to a centroid computed, or comparisons with a midpoint between two, as configured",
        "cycles": "cycles since reset, each of which takes `lanes` values side by side",
    }
    initial: ClassVar[Mapping[str, Any]] = {"element": -1, "index": 0, "scale": 1}
    bits: int = 4  #: width of an index, 1 to 4
    preset: Preset | KllmArith = "paper"  #: preset of KLLM's arithmetic, or its `normalize`, `distance` and `tie`
    lanes: int = 16  #: elements per cycle, 1 to 65536 (D-kllm-31)

    def check(self) -> None:
        require_int(self.bits, 1, CLUSTER_BITS, self.name, "bits")
        require_int(self.lanes, 1, 1 << 16, self.name, "lanes")

    @constant
    def arith(self) -> KllmArith:
        return KllmArith.preset(self.preset)

    @constant
    def ports(self) -> Ports:
        if self.arith.distance == "fp16":
            compared = Port("compared", 16, 1 << self.bits, encoding="f16", meaning="distances to the centroids")
        else:
            says = "the midpoint between two centroids lies below x^"
            compared = Port("compared", 1, (1 << self.bits) - 1, meaning=says)
        return Ports(
            inputs=(
                Port("x", 16, encoding="f16", meaning="value to cluster, finite"),
                Port("scale", 16, encoding="f16", least=1, most=LARGEST, meaning="scale of its vector, positive"),
                Port("codebook", 16, 1 << self.bits, encoding="f16", meaning="centroids, ascending"),
            ),
            outputs=(
                Port("index", self.bits, meaning="index of the nearest centroid"),
                Port("overflow", 1, meaning="an fp16 result on the way became infinite"),
            ),
            state=(Port("x_hat", 16, encoding="f16", meaning="x^, or x where nothing is normalized"), compared),
        )

    def cluster(self, x: int, scale: int, codebook: tuple[int, ...]) -> Changes:
        """One value gets the index of its nearest centroid."""
        centroids = fp16.to_f32(fp16.values(np.array(codebook)))
        x_hat, overflow = self.normalize(x, scale)
        compared = self.compare(x_hat, scale, centroids)
        nearest = self.choose(compared)
        while nearest and centroids[nearest - 1] == centroids[nearest]:
            nearest -= 1  # of equal centroids the first is the answer
        return {
            "index": nearest,
            "overflow": overflow,
            "x_hat": x_hat,
            "compared": tuple(compared),
            "distances": len(compared),
            "cycles": int((self.state.element + 1) % self.lanes == 0),
        }

    @decides("D-kllm-8")
    def normalize(self, x: int, scale: int) -> tuple[int, int]:
        """x divided by its scale as the preset says, or x; 1 if an fp16 result became infinite."""
        if self.arith.normalize == "none":
            return x, 0
        value, divisor = (fp16.to_f32(fp16.values(np.array([word]))) for word in (x, scale))
        with np.errstate(all="ignore"):
            x_hat = int(fp16.bits(fp16.to_f16(normalized(value, divisor, self.arith)))[0])
        lost = self.arith.normalize == "reciprocal" and not np.isfinite(fp16.div16(np.float32(1), divisor)).all()
        return x_hat, int(lost or x_hat & 0x7FFF > LARGEST)

    def compare(self, x_hat: int, scale: int, centroids: np.ndarray) -> tuple[int, ...]:
        """fp16 patterns of the distances, or 1 for every midpoint that is passed; with tie "high" one met is, too."""
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

    @decides("D-kllm-7")
    def choose(self, compared: tuple[int, ...]) -> int:
        """Index of the least distance (ties: D-kllm-7), or the number of midpoints passed."""
        if self.arith.distance != "fp16":
            return compared.count(1)
        best = 0
        for i, distance in enumerate(compared):
            if distance < compared[best] or (distance == compared[best] and self.arith.tie == "high"):
                best = i
        return best

    @decides("D-kllm-27")
    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse NaN, infinity, and centroids that do not ascend."""
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


UNIT: AnyUnit = Unit(
    unit_class=Clustering,
    paper="kllm §IV-A, Fig. 6, Table I",
    meaning="index of the centroid nearest to a scaled value",
    configs={
        "paper": Config(bits=4, preset="paper"),
        "exact": Config(bits=4, preset="exact"),
        "paper_3": Config(bits=3, preset="paper"),
    },
    cases=cases.cases,
    mark=cases.mark,
    legal=cases.legal,
    flags={
        "TIE": Flag(0, "two centroids are equally near; the lower one is the answer (D-kllm-7)"),
        "OVERFLOW": Flag(1, "x^ became infinite, so every distance did: index 0"),
    },
)
State: type[DeclaredState] = Clustering.State
run: RunFunction[Result] = UNIT.run
