"""KLLM's chip on a token: Orizuru finds the outliers, the Clustering Unit assigns indices, the lanes multiply.

The Functional Unit then takes the outputs, if it has a function. Paper: [kllm §III-D, §IV-A, Fig. 5, Fig. 6, Table I].
Composed of orizuru_passes, clustering, pe_lane and functional. It claims nothing
about the authors' simulator.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from refemu.arith.checks import reject, require_int
from refemu.units import Result, RunFunction
from refemu.units.declaration import Changes, Combinational, DeclaredState, constant, decides
from refemu.units.kllm.clustering import Clustering
from refemu.units.kllm.functional import Functional, Softmax
from refemu.units.kllm.functional.functional import require_softmax
from refemu.units.kllm.kllm_chip.lanes import LaneArray
from refemu.units.kllm.kllm_chip.plan import Operands, passes
from refemu.units.kllm.kllm_chip.product import APPLIED, Function
from refemu.units.kllm.kllm_chip.sizes import CLUSTERING, Carry, ChipSizes
from refemu.units.kllm.orizuru_passes import OrizuruPasses
from refemu.units.kllm.pe_lane import UNIT as LANE
from refemu.units.kllm.pe_lane import LaneMapping, Merge
from refemu.units.ports import Lanes, Port, Ports
from refemu.units.unit import AnyUnit, Config, Flag, Unit

TABLE_1 = (16, 4096, 32, 16, 32)  #: lanes, Concat units, counters, counter inputs, MACs
ONE = 0x3C00
SUMMED = LANE.counters[1:]  #: summed counters of the lanes; their edges are those of the chip
SHOWN = {"z": "y", "top": "top", "terms": "terms", "total": "total"}  #: port of the chip -> that of the Functional Unit


class KllmChip(Combinational):
    """KLLM's chip: an operation is a token by n columns. `b_index` holds one column of B after the other."""

    name = "kllm_chip"
    events: ClassVar[tuple[str, ...]] = ("search", "cluster", "edge", "function_")
    counters: ClassVar[dict[str, str]] = {
        "cycles": "cycles of all tokens, one after the other: of search, clustering, lanes and function",
        "search_cycles": "cycles of Orizuru",
        "cluster_cycles": "cycles of the Clustering Unit, sixteen inliers each",
        "edges": "clock edges of the lanes, which work in parallel",
        "comparisons": "uses of a comparator in Orizuru",
        "distances": "distances to a centroid computed by the Clustering Unit, or comparisons with a midpoint",
        "count_cycles": "edges in which the counters of a lane count, summed over the lanes",
        "stalls": "edges in which the counters of a lane have positions to count and must wait, summed over the lanes",
        "merge_cycles": "edges in which a lane merges a histogram, summed over the lanes",
        "mac_cycles": "edges in which the MACs of a lane work, summed over the lanes",
        "tiles": "tiles begun by all lanes; a tile is the columns that a lane reduces in parallel",
        "concats": "Concat registers written, padding included",
        "indices": "positions counted, outliers and padding excluded",
        "lookups": "counts multiplied by an entry of the product codebook",
        "macs_reduce": "multiply-adds of a count and its codebook entry",
        "macs_sparse": "multiply-adds at outliers",
        "dequants": "centroids multiplied by a scale for the sparse path",
        "mults_scale": "products of the scales of the token and of a column",
        "adds_merge": "additions of the dense and the sparse sum of a column",
        "overflows": "outputs that are not finite",
        "function_cycles": "cycles of the Functional Unit",
        "exps": "exponentials computed by the Functional Unit",
        "roots": "square roots computed by the Functional Unit",
        "divides": "reciprocals and divisions computed by the Functional Unit",
    }
    registers: ClassVar[dict[str, str]] = {
        "clustered": "inliers of the token with an index so far",
        "waiting": "tiles of the token that the lanes have begun: the number of the waiting tile",
        "taken": "slabs of the token that each lane has taken so far",
        "begun": "tiles that each lane had begun before the token, since reset",
        "lanes": "States of the lanes, as of unit pe_lane",
        "functional": "State of the Functional Unit, as of unit functional; None without a function",
        "z": "function of the outputs, fp16 words; 0 without one",
        "top": "in softmax, the largest output so far, an fp16 word",
        "terms": "in softmax, the exponentials of the outputs so far, words",
        "total": "in softmax, the sum of the exponentials so far, a float32 word",
    }
    lane_array: ClassVar[type[LaneArray]] = LaneArray
    k: Annotated[int, 2, 1 << 16] = 8  #: values of a token, 2 to 2**16
    n: Annotated[int, 1, 1 << 16] = 6  #: columns of the product, 1 to 2**16
    a_bits: int = 4  #: width of an index of A, 1 to 4
    b_bits: int = 4  #: width of an index of B, 1 to 4
    pops: int = 1  #: outliers of each side, less than half of k
    sizes: tuple[int, ...] = TABLE_1  #: lanes, Concat units, counters, counter inputs and MACs of `ChipSizes`
    tree: int = 4096  #: inputs of Orizuru
    lane_mapping: LaneMapping = "column"  #: which columns the counters of a lane count (D-kllm-31)
    #: how partial histograms are added (D-kllm-42); no effect if each counter has its own column
    merge: Merge = "tree"
    carry: Carry = "counts"  #: what is carried from slab to slab of a long column (D-kllm-47)
    function: Function = "none"  #: function that the Functional Unit applies to the outputs of a token
    softmax: Softmax = "fp16"  #: steps of softmax that round to fp16 (D-kllm-20); for softmax only

    def check(self) -> None:
        """Check the parameters, including those of every part of the chip."""
        require_int(self.pops, 0, (self.k - 1) // 2, self.name, "pops")
        _ = self.orizuru, self.clustering
        entries = self.chip.lane(self.a_bits, self.b_bits, counter_bits=self._counter_bits).entries
        self.chip.rows_at_once(self.k, self.n, self.a_bits, entries)
        require_softmax(self.softmax, self.function, self.name, "function")

    @constant
    def chip(self) -> ChipSizes:
        """Sizes of the chip."""
        lane_count, concat, counters, inputs, macs = self.sizes
        options: dict[str, Any] = {"lane_mapping": self.lane_mapping, "merge": self.merge, "carry": self.carry}
        return ChipSizes(lane_count, concat, counters, inputs, macs, self.tree, **options)

    @constant
    def _counter_bits(self) -> int:
        return self.chip.counter_bits(self.k, self.a_bits)

    @constant
    def orizuru(self) -> OrizuruPasses:
        """Unit that finds the outliers."""
        return OrizuruPasses(self.k, self.pops, self.tree)

    @constant
    def clustering(self) -> Clustering:
        """Unit that assigns indices to inliers."""
        return Clustering(self.a_bits, lanes=CLUSTERING)

    @constant
    def array(self) -> LaneArray:
        """The lanes."""
        return self.lane_array(self.chip, self.a_bits, self.b_bits, counter_bits=self._counter_bits)

    @constant
    def functional(self) -> Functional | None:
        """The Functional Unit; None without a function."""
        return None if self.function == "none" else Functional(self.function, self.n, self.softmax)

    @constant
    def ports(self) -> Ports:
        """Ports of the function's results, and of the registers of softmax."""
        k, n, a_bits, b_bits = self.k, self.n, self.a_bits, self.b_bits

        def words(
            name: str, lanes: int | None, meaning: str, least: int | None = None, most: int | None = None
        ) -> Port:
            return Port(name, 16, lanes, encoding="f16", least=least, most=most, meaning=meaning)

        return Ports(
            inputs=(
                words("x", k, "values of the token"),
                words("a_codebook", 1 << a_bits, "centroids of A, ascending"),
                Port("b_index", b_bits, n * k, meaning="indices of B, column by column"),
                words("b_scale", n, "scale of every column of B", least=1, most=0x7BFF),
                words("b_codebook", 1 << b_bits, "centroids of B"),
                words("products", 1 << a_bits + b_bits, "product codebook"),
            ),
            outputs=(
                words("y", n, "outputs"),
                Port("overflow", 1, n, meaning="the output is not finite"),
                Port("a_index", a_bits, k, meaning="indices of the token; 0 at outliers"),
                Port("a_mask", 1, k, meaning="outliers of the token"),
                words("a_scale", None, "scale of the token"),
                Port(
                    "cycles_taken", 32, meaning="cycles of the token: search, clustering, edges of the lanes, function"
                ),
                *([words("z", n, "the function of the outputs")] if self.functional else []),
            ),
            state=self.functional.ports.state if self.functional else (),
        )

    @constant
    def initial(self) -> Mapping[str, Any]:
        """Reset values of ports: the least admitted values."""
        none = (0,) * len(self.array.lanes)
        lowest = {port.name: port.filled(max(port.limits[0], 0)) for port in self.ports.inputs}
        registers = {"taken": none, "begun": none, "lanes": tuple(lane.state for lane in self.array.lanes)}
        shown = self._functions(self.functional.state) if self.functional else {"functional": None}
        return {**lowest, **registers, **shown}

    @constant
    def _in_step(self) -> DeclaredState | None:
        """The State whose registers the lanes have now."""
        return None

    @property
    def busy(self) -> bool:
        """Whether events of the token remain."""
        return self._multiplies or self._applies

    @property
    def _multiplies(self) -> bool:
        """Whether events before the last edge of the lanes remain."""
        state = self.state
        if state.event in ("search", "cluster"):
            return True
        return state.event == "edge" and (state.waiting < self._tiles or any(lane.phase for lane in state.lanes))

    @property
    def _applies(self) -> bool:
        """Whether cycles of the Functional Unit, after the last edge, remain."""
        if self.functional is None:
            return False
        return self.state.event == "edge" or (self.state.event == "function" and self.functional.busy)

    @constant
    def _tiles(self) -> int:
        """Passes of a token."""
        slabs = -(-self.k // self.chip.positions) if self.carry == "sums" else 1
        return slabs * -(-self.n // self.chip.tile)

    def restore(self, state: DeclaredState) -> None:
        super().restore(state)
        if self.functional is not None:
            self.functional.restore(state.functional)

    def follows(self) -> str:
        if self.state.clustered < self.state.a_mask.count(0):
            return "cluster"
        return "edge" if self._multiplies else "function_"

    def _continue(self) -> DeclaredState:
        self._in_step = super()._continue()
        return self._in_step

    def search(self, x: Lanes, *others: int | Lanes) -> Changes:
        """Find the outliers of the token with Orizuru; the largest remaining magnitude is its scale."""
        before = self.orizuru.state.comparisons
        done = self.orizuru._open(x)
        zeros = (0,) * self.n
        return {
            "y": zeros,
            "overflow": zeros,
            "a_index": (0,) * self.k,
            "a_mask": tuple(map(int, done.outlier_mask)),
            "a_scale": self._scale(done),
            "clustered": 0,
            "waiting": 0,
            "cycles_taken": done.cycles_taken,
            "cycles": done.cycles_taken,
            "search_cycles": done.cycles_taken,
            "comparisons": done.comparisons - before,
        }

    @decides("D-kllm-9", "D-kllm-11")
    def _scale(self, done: DeclaredState) -> int:
        """The larger magnitude of the roots, or 1 where both are 0."""
        return max(done.root_max & 0x7FFF, done.root_min & 0x7FFF) or ONE

    def _cycle(self) -> dict[str, Any]:
        """Count a cycle of the token."""
        return {"cycles_taken": self.state.cycles_taken + 1, "cycles": 1}

    def cluster(self) -> Changes:
        """Assign the index of their centroid to sixteen inliers, in ascending order."""
        before = self.state
        places = [place for place, outlier in enumerate(before.a_mask) if not outlier]
        index, words, distances = list(before.a_index), before.x, 0
        for place in places[before.clustered :][:CLUSTERING]:
            done = self.clustering._open(words[place], before.a_scale, before.a_codebook)
            index[place] = done.index
            distances += len(done.compared)
        clustered = min(before.clustered + CLUSTERING, len(places))
        counted = {"cluster_cycles": 1, "distances": distances}
        return {**self._cycle(), "a_index": tuple(index), "clustered": clustered, **counted}

    def edge(self) -> Changes:
        """Advance a clock edge of all lanes."""
        before, array = self.state, self.array
        begun = before.begun
        if before.event != "edge":
            self._begin(before)
            begun = tuple(feeder.first for feeder in array.feeders)
        elif before is not self._in_step:
            self._begin(before)
            array.resume(before.lanes, before.taken, begun, before.waiting)
            array.y[0] = before.y
        states = tuple(array.edge())
        counts = dict.fromkeys(SUMMED, 0)
        for old, new in zip(before.lanes, states, strict=True):
            counts = {name: count + getattr(new, name) - getattr(old, name) for name, count in counts.items()}
        y = array.y[0].tolist()
        return {
            **self._cycle(),
            "y": tuple(y),
            "overflow": tuple([int(word & 0x7C00 == 0x7C00) for word in y]),
            "waiting": array.waiting,
            "taken": tuple(feeder.taken for feeder in array.feeders),
            "begun": begun,
            "lanes": states,
            "edges": 1,
            **counts,
        }

    @decides("D-kllm-62", "D-kllm-63")
    def function_(self) -> Changes:
        """Run a cycle of the Functional Unit on the outputs."""
        before, unit = self.state.functional, self.functional
        assert unit is not None, "`follows` looks"
        done = unit.step() if unit.busy else unit.step(self.state.y)  # the words of the Out Buffer (D-kllm-62)
        counted = {name: getattr(done, counter) - getattr(before, counter) for name, counter in APPLIED.items()}
        return {"event": "function", **self._cycle(), **self._functions(done), **counted}

    def _functions(self, done: DeclaredState) -> dict[str, Any]:
        """Fields of the State that are ports and registers of the Functional Unit."""
        return {"functional": done, **{name: getattr(done, port) for name, port in SHOWN.items()}}

    def _begin(self, state: DeclaredState) -> None:
        """Feed the token to the lanes."""
        for lane, registers in zip(self.array.lanes, state.lanes, strict=True):
            lane.restore(registers)
        token = {port.name: getattr(state, port.name) for port in self.ports.inputs}
        index, mask = (np.array(lane) for lane in (state.a_index, state.a_mask))
        words = self.operands(token, index, mask > 0, state.a_scale)
        self.array.begin(words, passes(words, self.chip))

    def operands(self, token: Mapping[str, Any], index: np.ndarray, mask: np.ndarray, scale: int) -> Operands:
        """Lay out a token and the columns for the lanes."""
        row = {name: np.array(value, np.int64) for name, value in token.items()}
        none = np.zeros((0, 0), np.uint8)
        factors = np.where(mask, row["x"], row["a_codebook"][index])
        columns = np.stack([row["b_scale"], *np.zeros((2, self.n), np.int64)])
        return Operands(
            index[None].astype(np.uint8),
            row["b_index"].reshape(self.n, self.k).astype(np.uint8),
            mask[None].astype(np.uint8),
            none,
            factors[None].astype(np.uint16),
            1 - mask[None].astype(np.uint8),
            none.astype(np.uint16),
            row["b_codebook"][None].astype(np.uint16),
            row["products"].astype(np.uint16),
            np.array([[scale], [0]]),
            columns,
            0,
            0,
            False,
            self.a_bits,
            self.b_bits,
            np.array([[self.k, self.n]]),
        )

    @decides("D-kllm-27")
    def _require(self, *inputs: np.ndarray) -> None:
        """Reject values that no format holds, with their index."""
        x, codebook = inputs[0], inputs[1]
        for name, words in (("x", x), ("a_codebook", codebook)):
            reject(words & 0x7C00 == 0x7C00, f"{self.name}: {name} must be finite", words, ", got word 0x{:04X}")


SMALL: dict[str, Any] = {
    "k": 20,
    "n": 10,
    "a_bits": 2,
    "b_bits": 2,
    "pops": 1,
    "sizes": (2, 16, 2, 4, 2),
    "tree": 16,
    "lane_mapping": "column",
    "merge": "tree",
    "carry": "counts",
    "function": "none",
    "softmax": "fp16",
}  #: sizes of the ready configurations: three tiles, two slabs a column, two passes of Orizuru

UNIT: AnyUnit = Unit(
    unit_class=KllmChip,
    paper="kllm §III-D, §IV-A, Fig. 6, Table I",
    meaning="a token through Orizuru, Clustering Unit, lanes and Functional Unit",
    configs={
        "column": Config(**SMALL),
        "counter": Config(**{**SMALL, "lane_mapping": "counter", "merge": "serial"}),
        "sums": Config(
            **{**SMALL, "k": 40, "n": 4, "a_bits": 1, "sizes": (2, 16, 2, 4, 3), "merge": "serial", "carry": "sums"}
        ),
        "softmax": Config(**{**SMALL, "k": 8, "n": 20, "sizes": (2, 16, 2, 4, 4), "function": "softmax"}),
    },
    flags={
        "OVERFLOW": Flag(0, "an output exceeded fp16"),
        "TIES": Flag(1, "the k-th largest or smallest value occurs twice"),
    },
)
State: type[DeclaredState] = KllmChip.State
run: RunFunction[Result] = UNIT.run
