"""KLLM's chip on a token: Orizuru finds the outliers, the Clustering Unit gives indices, the lanes multiply.

The Functional Unit then takes the outputs, if it has a function. Paper: [kllm §III-D, §IV-A, Fig. 5, Fig. 6, Table I].
Composed of orizuru_passes, clustering, pe_lane and functional. Decisions: D-kllm-9 (the scale is the larger magnitude
of Orizuru's roots), D-kllm-11 (1 where both are 0), D-kllm-20 (sums of softmax), D-kllm-31 (columns go to the lanes in
turn), D-kllm-47 (what is carried from slab to slab of a long column), D-kllm-48 (all lanes begin a tile in the same
edge), D-kllm-62 (when the Functional Unit begins), D-kllm-63 (outputs that it does not take). No claim about the
authors' simulator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from refemu.arith.checks import Refused, at, first_index, plain, require_choice, require_int
from refemu.units.declared import DeclaredState
from refemu.units.kllm.cases import kllm_chip as kllm_chip_cases
from refemu.units.kllm.clustering import Clustering
from refemu.units.kllm.functional import Functional, Softmax, require_softmax
from refemu.units.kllm.kllm_chip.lanes import LaneArray
from refemu.units.kllm.kllm_chip.plan import Operands, passes
from refemu.units.kllm.kllm_chip.sizes import CLUSTERING, Carry, ChipSizes
from refemu.units.kllm.kllm_chip.state import COUNTERS, SUMMED, Function, State, ports
from refemu.units.kllm.orizuru_passes import OrizuruPasses
from refemu.units.kllm.pe_lane import LaneMapping, Merge
from refemu.units.ports import Lanes, Ports, fields, lanes
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

TABLE_1 = (16, 4096, 32, 16, 32)  #: lanes, Concat units, counters, counter inputs, MACs
ONE = 0x3C00


class KllmChip(Stepped[State]):
    """KLLM's chip: an operation is a token by n columns.

    References
    ----------
    [kllm §IV-A, Fig. 6, Table I]
    """

    name = "kllm_chip"
    lane_array: type[LaneArray] = LaneArray
    sizes: tuple[int, ...]

    def __init__(
        self,
        k: int = 8,
        n: int = 6,
        a_bits: int = 4,
        b_bits: int = 4,
        pops: int = 1,
        sizes: tuple[int, ...] = TABLE_1,
        tree: int = 4096,
        lane_mapping: LaneMapping = "column",
        merge: Merge = "tree",
        carry: Carry = "counts",
        function: Function = "none",
        softmax: Softmax = "fp16",
    ) -> None:
        """Configure the chip and the product.

        Parameters
        ----------
        k, n : int
            Values of a token, 2 to 2**16, and columns of the product, 1 to 2**16.
        a_bits, b_bits : int
            Widths of the indices, 1 to 4.
        pops : int
            Outliers of each side; two times as many are fewer than k.
        sizes : tuple of 5 int
            Lanes, Concat units, counters, counter inputs and MACs of `ChipSizes`.
        tree : int
            Inputs of Orizuru.
        lane_mapping : {"column", "counter"}
            Which columns the counters of a lane count (D-kllm-31).
        merge : {"tree", "serial"}
            How partial histograms are added (D-kllm-42); without effect where each counter has a column of its own.
        carry : {"counts", "sums"}
            What goes from slab to slab of a long column (D-kllm-47).
        function : {"none", "exp", "sqrt", "recip", "softmax"}
            What the Functional Unit makes of the outputs of a token.
        softmax : {"fp16", "softmax32"}
            Which steps of softmax round to fp16 (D-kllm-20); of no other function.

        Raises
        ------
        Refused
            A parameter is out of range, an option unknown, or a buffer too small.
        """
        self.k: int = require_int(k, 2, 1 << 16, self.name, "k")
        self.n: int = require_int(n, 1, 1 << 16, self.name, "n")
        self.pops: int = require_int(pops, 0, (self.k - 1) // 2, self.name, "pops")
        self.sizes = plain(tuple(sizes))
        lane_count, concat, counters, inputs, macs = self.sizes
        self.chip: ChipSizes = ChipSizes(
            lane_count, concat, counters, inputs, macs, tree, lane_mapping=lane_mapping, merge=merge, carry=carry
        )
        self.tree: int = self.chip.tree
        self.lane_mapping: LaneMapping = self.chip.lane_mapping
        self.merge: Merge = self.chip.merge
        self.carry: Carry = self.chip.carry
        self.search: OrizuruPasses = OrizuruPasses(self.k, self.pops, self.tree)
        self.clustering: Clustering = Clustering(a_bits, lanes=CLUSTERING)
        bits = self.chip.counter_bits(self.k, a_bits)
        self.array: LaneArray = self.lane_array(self.chip, a_bits, b_bits, counter_bits=bits)
        self.a_bits: int = self.array.lanes[0].a_bits
        self.b_bits: int = self.array.lanes[0].b_bits
        self.chip.rows_at_once(self.k, self.n, self.a_bits, self.array.lanes[0].entries)
        self.function: Function = require_choice(function, get_args(Function), self.name, "function")
        self.softmax: Softmax = require_softmax(softmax, self.function, self.name, "function")
        self.functional: Functional | None = (
            None if self.function == "none" else Functional(self.function, self.n, self.softmax)
        )
        config = {name: getattr(self, name) for name in ("k", "n", "a_bits", "b_bits", "function", "softmax")}
        self.ports: Ports = ports(config)
        none = (0,) * lane_count
        registers: dict[str, Any] = {"taken": none, "begun": none}
        registers["lanes"] = tuple(lane.state for lane in self.array.lanes)
        registers |= self._functions(self.functional.state) if self.functional else {"functional": None}
        lowest = {port.name: lanes([max(port.limits[0], 0)] * port.lanes) for port in self.ports.inputs}
        self.state: State = self.reset(State, **lowest, **registers)
        self._in_step = self.state  # the State that the registers of the sub-units belong to

    @property
    def busy(self) -> bool:
        """Whether events of the token are left."""
        return self._multiplies or self._applies

    @property
    def _multiplies(self) -> bool:
        """Whether events before the last edge of the lanes are left."""
        state = self.state
        if state.event in ("search", "cluster"):
            return True
        return state.event == "edge" and (state.waiting < self._tiles or any(lane.phase for lane in state.lanes))

    @property
    def _applies(self) -> bool:
        """Whether the Functional Unit has cycles left, behind the last edge."""
        if self.functional is None or self.state.functional is None:
            return False
        here = self.state.event == "function" and self.state.functional.cycle < self.functional.last
        return here or self.state.event == "edge"

    @property
    def _tiles(self) -> int:
        """Passes of a token."""
        slabs = -(-self.k // self.chip.positions) if self.carry == "sums" else 1
        return slabs * -(-self.n // self.chip.tile)

    def step(
        self,
        x: Sequence[int] | int | None = None,
        a_codebook: Sequence[int] | None = None,
        b_index: Sequence[int] | int | None = None,
        b_scale: Sequence[int] | int | None = None,
        b_codebook: Sequence[int] | None = None,
        products: Sequence[int] | None = None,
    ) -> State:
        """Execute the first event of a token; without inputs, the next one.

        Columns of B follow each other in `b_index`; all others are fp16 words.
        """
        return self._stepped(
            x=x, a_codebook=a_codebook, b_index=b_index, b_scale=b_scale, b_codebook=b_codebook, products=products
        )

    def _open(self, *inputs: Any) -> State:
        """Outliers and scale of the token."""
        before, comparisons = self.latched(*inputs), self.search.state.comparisons
        done = self.search._open(before.x)
        zeros = lanes([0] * self.n)
        self.state = replace(
            before,
            event="search",
            y=zeros,
            overflow=zeros,
            a_index=lanes([0] * self.k),
            a_mask=lanes(tuple(map(int, fields(done.outlier_mask)))),
            a_scale=self._scale(done),
            clustered=0,
            waiting=0,
            cycles_taken=done.cycles_taken,
            cycles=before.cycles + done.cycles_taken,
            search_cycles=before.search_cycles + done.cycles_taken,
            comparisons=before.comparisons + done.comparisons - comparisons,
        )
        return self.state

    def _scale(self, done: DeclaredState) -> int:
        """The larger magnitude of the roots (D-kllm-9), or 1 where both are 0 (D-kllm-11)."""
        return max(done.root_max & 0x7FFF, done.root_min & 0x7FFF) or ONE

    def _continue(self) -> State:
        if self.state.clustered < fields(self.state.a_mask).count(0):
            self.state = self._cluster()
        else:
            self.state = self._edge() if self._multiplies else self._function()
        return self.state

    def _cluster(self) -> State:
        """Sixteen inliers get their indices, ascending."""
        before = self.state
        places = [place for place, outlier in enumerate(fields(before.a_mask)) if not outlier]
        index, words, distances = list(fields(before.a_index)), fields(before.x), before.distances
        for place in places[before.clustered :][:CLUSTERING]:
            done = self.clustering._open(words[place], before.a_scale, before.a_codebook)
            index[place] = done.index
            distances += len(fields(done.compared))
        return replace(
            before,
            event="cluster",
            index=before.index + 1,
            a_index=lanes(index),
            clustered=min(before.clustered + CLUSTERING, len(places)),
            cycles_taken=before.cycles_taken + 1,
            cycles=before.cycles + 1,
            cluster_cycles=before.cluster_cycles + 1,
            distances=distances,
        )

    def _edge(self) -> State:
        """An edge of all lanes."""
        before, array = self.state, self.array
        if before.event != "edge":
            self._begin(before)
            before = replace(before, begun=tuple(feeder.first for feeder in array.feeders))
        elif before is not self._in_step:
            self._begin(before)
            array.resume(before.lanes, before.taken, before.begun, before.waiting)
            array.y[0] = fields(before.y)
        states = tuple(array.edge())
        y = array.y[0].tolist()
        now: dict[str, Any] = {name: getattr(before, name) for name in SUMMED}
        for old, new in zip(before.lanes, states, strict=True):
            now = {name: count + getattr(new, name) - getattr(old, name) for name, count in now.items()}
        self._in_step = replace(
            before,
            event="edge",
            index=before.index + 1,
            y=lanes(y),
            overflow=lanes([int(word & 0x7C00 == 0x7C00) for word in y]),
            waiting=array.waiting,
            taken=tuple(feeder.taken for feeder in array.feeders),
            lanes=states,
            cycles_taken=before.cycles_taken + 1,
            cycles=before.cycles + 1,
            edges=before.edges + 1,
            **now,
        )
        return self._in_step

    def _function(self) -> State:
        """A cycle of the Functional Unit, on the words of the Out Buffer (D-kllm-62)."""
        before, unit = self.state, self.functional
        assert unit is not None and before.functional is not None
        unit.restore(before.functional)
        done = unit.step() if unit.busy else unit.step(before.y)
        return replace(
            before,
            event="function",
            index=before.index + 1,
            cycles_taken=before.cycles_taken + 1,
            cycles=before.cycles + 1,
            function_cycles=done.cycles,
            **self._functions(done),
        )

    def _functions(self, done: DeclaredState) -> dict[str, Any]:
        """Fields of the State that are ports, registers and counters of the Functional Unit."""
        shown = {name: getattr(done, name) for name in ("top", "terms", "total", "exps", "roots", "divides")}
        return {"functional": done, "z": done.y, **shown}

    def _begin(self, state: State) -> None:
        """Feed the token to the lanes."""
        for lane, registers in zip(self.array.lanes, state.lanes, strict=True):
            lane.restore(registers)
        token = {port.name: getattr(state, port.name) for port in self.ports.inputs}
        index, mask = (np.array(fields(lane)) for lane in (state.a_index, state.a_mask))
        words = self.operands(token, index, mask > 0, state.a_scale)
        self.array.begin(words, passes(words, self.chip))

    def operands(self, token: Mapping[str, Lanes], index: np.ndarray, mask: np.ndarray, scale: int) -> Operands:
        """Lay out a token and the columns as the lanes are fed.

        Parameters
        ----------
        token : mapping of str to tuple of int
            Values of the input ports.
        index, mask : ndarray (k,)
            Indices, and which values are outliers.
        scale : int
            Word of the scale.

        Returns
        -------
        Operands
            A product of one row.
        """
        row = {name: np.array(fields(value), np.int64) for name, value in token.items()}
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

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse values that no format holds, with their index (D-kllm-27)."""
        x, codebook = inputs[0], inputs[1]
        for name, words in (("x", x), ("a_codebook", codebook)):
            bad = words & 0x7C00 == 0x7C00
            if bad.any():
                raise Refused(
                    f"{self.name}: {name} must be finite, got word 0x{int(words[bad][0]):04X}{at(first_index(bad))}"
                )


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
}  #: three tiles, two slabs a column, two passes of Orizuru

UNIT: Unit[State, Result] = Unit(
    name="kllm_chip",
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
    ports=ports,
    unit_class=KllmChip,
    cases=kllm_chip_cases.cases,
    counters=COUNTERS,
    mark=kllm_chip_cases.mark,
    legal=kllm_chip_cases.legal,
    flags={
        "OVERFLOW": Flag(0, "some output left fp16"),
        "TIES": Flag(1, "the k-th largest or smallest value is there twice"),
    },
)
run: RunFunction[Result] = UNIT.run
