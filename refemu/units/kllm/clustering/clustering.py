"""The Clustering Unit: the index of the centroid nearest to a value divided by its scale.

Paper: [kllm §IV-A, Fig. 6, Table I].
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, at, first_index, reject
from refemu.arith.scalar32 import div32, pattern16, value16
from refemu.formats.kllm.codebook import CLUSTER_BITS
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Unit, constant, decides
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["UNIT", "Clustering", "State", "run"]

LARGEST = 0x7BFF  #: pattern of the largest finite fp16 value


class Clustering(Combinational):
    """Clustering Unit: one step gives one inlier the index of its nearest centroid."""

    name = "clustering"
    number: ClassVar[str] = "element"  # `index` is the output port
    events: ClassVar[tuple[str, ...]] = ("cluster",)
    counters: ClassVar[dict[str, str]] = {
        "distances": "distances to a centroid computed, or comparisons with a midpoint between two, as configured",
        "cycles": "cycles since reset, each of which takes `lanes` values in parallel",
    }
    initial: ClassVar[Mapping[str, Any]] = {"element": -1, "index": 0, "scale": 1}
    bits: Annotated[int, 1, CLUSTER_BITS] = 4  #: width of an index, 1 to 4
    preset: Preset | KllmArith = "paper"  #: preset of KLLM's arithmetic, or its `normalize`, `distance` and `tie`
    lanes: Annotated[int, 1, 1 << 16] = 16  #: elements per cycle, 1 to 65536 (D-kllm-31)

    @constant
    def arith(self) -> KllmArith:
        return KllmArith.preset(self.preset)

    @constant
    def ports(self) -> Ports:
        if self.arith.distance == "fp16":
            compared = Port("compared", 16, 1 << self.bits, encoding="f16", meaning="distances to the centroids")
        else:
            says = "the midpoint between two centroids is below x^"
            compared = Port("compared", 1, (1 << self.bits) - 1, meaning=says)
        return Ports(
            inputs=(
                Port("x", 16, encoding="f16", meaning="value to cluster, finite"),
                Port("scale", 16, encoding="f16", least=1, most=LARGEST, meaning="scale of its vector, positive"),
                Port("codebook", 16, 1 << self.bits, encoding="f16", meaning="centroids, ascending"),
            ),
            outputs=(
                Port("index", self.bits, meaning="index of the nearest centroid"),
                Port("overflow", 1, meaning="an intermediate fp16 result became infinite"),
            ),
            state=(Port("x_hat", 16, encoding="f16", meaning="x^, or x if nothing is normalized"), compared),
        )

    def cluster(self, x: int, scale: int, codebook: tuple[int, ...]) -> Changes:
        """Find the index of the centroid nearest to a value."""
        x_hat, overflow = self.normalize(x, scale)
        compared = self.compare(x_hat, scale, codebook)
        return {
            "index": self.first_alike(self.choose(compared), codebook),
            "overflow": overflow,
            "x_hat": x_hat,
            "compared": tuple(compared),
            "distances": len(compared),
            "cycles": int((self.state.element + 1) % self.lanes == 0),
        }

    @decides("D-kllm-8")
    def normalize(self, x: int, scale: int) -> tuple[int, int]:
        """x divided by its scale as in the preset, or x; 1 if an fp16 result became infinite."""
        if self.arith.normalize == "none":
            return x, 0
        inverse = pattern16(div32(1.0, value16(scale)))
        if self.arith.normalize == "reciprocal":
            x_hat = pattern16(value16(x) * value16(inverse))
            return x_hat, int(inverse & 0x7FFF > LARGEST or x_hat & 0x7FFF > LARGEST)
        x_hat = pattern16(div32(value16(x), value16(scale)))
        return x_hat, int(x_hat & 0x7FFF > LARGEST)

    def compare(self, x_hat: int, scale: int, codebook: tuple[int, ...]) -> tuple[int, ...]:
        """fp16 patterns of the distances, or 1 for every midpoint passed; with tie "high" also for an equal one."""
        value = value16(x_hat)
        if self.arith.distance == "fp16":
            return tuple(pattern16(abs(value - value16(word))) for word in codebook)
        return tuple(self._passed(2 * value, self._border(i, codebook, scale)) for i in range(len(codebook) - 1))

    def _border(self, i: int, codebook: tuple[int, ...], scale: int) -> float:
        """Twice the midpoint between two centroids, times the scale where x is not normalized: 53 bits, exact."""
        twice = value16(codebook[i]) + value16(codebook[i + 1])
        if self.arith.distance == "midpoint16":
            return 2 * value16(pattern16(0.5 * twice))
        return value16(scale) * twice if self.arith.normalize == "none" else twice

    def _passed(self, twice: float, border: float) -> int:
        return int(twice > border or (twice == border and self.arith.tie == "high"))

    @decides("D-kllm-7")
    def choose(self, compared: tuple[int, ...]) -> int:
        """The index of the least distance (ties: D-kllm-7), or the number of midpoints passed."""
        if self.arith.distance != "fp16":
            return compared.count(1)
        best = 0
        for i, distance in enumerate(compared):
            if distance < compared[best] or (distance == compared[best] and self.arith.tie == "high"):
                best = i
        return best

    def first_alike(self, nearest: int, codebook: tuple[int, ...]) -> int:
        """The index of the first of equal centroids."""
        for i, word in enumerate(codebook):
            if value16(word) == value16(codebook[nearest]):
                return i
        return nearest

    @decides("D-kllm-27")
    def _require(self, *inputs: np.ndarray) -> None:
        """Reject NaN, infinity, and centroids that do not ascend."""
        for port, array in zip(self.ports.inputs, inputs, strict=True):
            reject(array & 0x7FFF > LARGEST, f"{self.name}: {port.name} must be finite", fp16.values(array))
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
    flags={
        "TIE": Flag(0, "two centroids are equally near; the lower one is taken (D-kllm-7)"),
        "OVERFLOW": Flag(1, "x^ became infinite, and so did every distance: index 0"),
    },
)
State: type[DeclaredState] = Clustering.State
run: RunFunction[Result] = UNIT.run
