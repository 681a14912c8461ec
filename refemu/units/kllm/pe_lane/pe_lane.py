"""A lane of KLLM's chip, cycle-accurate: Concat units, index counters, merged histograms, MACs.

Paper: [kllm §III-B, §III-D, §IV-A, §IV-B, Fig. 6, Table I]. Composed of concat, index_counter and fp16_mac. Two stages
work in parallel: the counters count the columns of a tile, while the MACs reduce the previous tile, MAC j column j. The
source (`kllm_chip`) streams slabs, the codebook's entries and the operands of the sparse path.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from refemu.arith.checks import Refused, require_int
from refemu.units import AnyUnit, Config, DeclaredState, Flag, Lanes, Result, RunFunction, Unit, constant, decides
from refemu.units.kllm.concat import Concat
from refemu.units.kllm.index_counter import IndexCounter
from refemu.units.kllm.pe_lane.macs import Changes, Macs, Values
from refemu.units.kllm.pe_lane.registers import IDLE, MOST, PHASES, REDUCE, SPARSE, LaneSizes

WORK = ("a_scale", "shift", "b_scale", "row_sum", "bias")  #: operands of a tile, from the ports to registers
WORK_FLAGS = ("closes", "shifts", "biases")


class PeLane(Macs):
    """Lane, an edge a step; an event is named after the phase of the MACs, "count" or "load" if they are idle."""

    name = "pe_lane"
    #: the phases of the MACs, in the order of port `phase`, and events without them
    events: ClassVar[tuple[str, ...]] = (
        *("idle", "reduce", "sparse", "scale", "merge_", "shift", "bias"),
        *("count", "load"),
    )
    counters: ClassVar[Any] = {  # type: ignore[misc]  # `counters` of a lane are its index counters
        "cycles": "clock edges since reset",
        "count_cycles": "edges in which the counters count",
        "stalls": "edges in which the counters have positions to count and must wait for a merge",
        "merge_cycles": "edges in which partial histograms of the counters are merged",
        "mac_cycles": "edges in which the MACs work",
        "tiles": "tiles begun; a tile is the columns that the MACs reduce in parallel",
        "concats": "Concat registers written, padding included; none if A holds integers",
        "indices": "positions counted, outliers and padding excluded",
        "lookups": "counts multiplied by an entry of the product codebook",
        "macs_reduce": "multiply-adds of a count and its codebook entry",
        "macs_sparse": "multiply-adds at outliers",
        "dequants": "centroids multiplied by a scale for the sparse path",
        "mults_scale": "products of the scales of A and of a column",
        "adds_merge": "additions of the dense and the sparse sum of a column",
        "overflows": "outputs that are not finite",
    }
    registers: ClassVar[dict[str, str]] = {
        "amount": "integers of the slab in the Concat registers, if A holds integers"
    }

    def check(self) -> None:
        require_int(self.counters, 1, MOST, self.name, "counters")  # its annotation is that of the unit's counters
        require_int(self.a_bits, 1, 8 if self.integer else 4, self.name, "a_bits")
        if self.concat % (self.counters * self.inputs):
            raise Refused(
                f"{self.name}: concat must be a multiple of counters * inputs, got {self.concat}, {self.counters}, "
                f"{self.inputs}"
            )
        if self.lane_mapping == "counter" and self.macs != self.counters:
            raise Refused(
                f"{self.name}: counters must equal macs if each has its own column, got {self.counters}, {self.macs}"
            )

    @constant
    def initial(self) -> Mapping[str, Any]:
        """Reset values: counters start from 0, and a slab may come."""
        return {"turns": 1, "ready": 1, "fresh": 1, **({} if self.integer else {"amount": ()})}

    def invariant(self, state: DeclaredState) -> bool:
        """A tile that is not full takes the next columns; no edge is beyond its slab, merge or outliers."""
        most = self.macs - (self.counters if self.lane_mapping == "counter" else 1)
        turns = self.concat // (self.counters * self.inputs)
        counts = state.left_turns <= state.turns_held <= turns and state.merging <= self._merge_edges()
        fits = state.columns <= most or (state.full and state.columns <= self.macs)
        return fits and state.working <= self.macs and counts and (state.phase != SPARSE or state.left > 0)

    @constant
    def concats(self) -> list[Concat]:
        """The Concat units; unused if A holds integers [kllm §III-B2]."""
        return [Concat(self.a_bits, self.b_bits) for _ in range(0 if self.integer else self.concat)]

    @constant
    def index_counters(self) -> list[IndexCounter]:
        """The Index Distribution Counters."""
        bits = (self.entries - 1).bit_length()
        amounts = self.a_bits if self.integer else 0
        return [IndexCounter(bits, amounts, self.counter_bits, self.inputs) for _ in range(self.counters)]

    @constant
    def _in_step(self) -> DeclaredState | None:
        """The State whose registers the sub-units have now."""
        return None

    def opens(self, *inputs: int | Lanes) -> str:
        return "edge"  # which sets the event

    def _open(self, *inputs: Any) -> DeclaredState:
        if self.state is not self._in_step:
            self._enter(self.state)
        self._in_step = None  # after an error in the middle of an edge, sub-units do not match the State
        self._in_step = super()._open(*inputs)
        return self._in_step

    def edge(self, *inputs: int | Lanes) -> Changes:
        """Advance a clock edge: stages read the registers before it, some also changes of an earlier stage."""
        before = self.changed(**{name: inputs[at] for at, name in self._latches})
        phase = before.phase
        now: Changes = {"y_valid": 0, "cycles": 1, "mac_cycles": int(phase != IDLE)}
        now |= getattr(self, self.events[phase])(before)
        swaps = bool(before.full and before.go and now.get("phase", phase) == IDLE)
        now |= self._swapped(before) if swaps else {}
        merges = self._merges(before, swaps)
        now |= self._merged(before, now) if merges else {}
        counts = bool(before.left_turns) and before.merging == int(merges)  # a merge must end first
        now |= self.count(before) if counts else {"stalls": int(before.left_turns > 0)}
        takes = self._takes(before)
        now |= self.load(before) if takes else {}
        now["event"] = PHASES[phase] if phase else "count" if counts else "load" if takes else "idle"
        return now | {"ready": self._ready(self.changed(**now))}

    def _enter(self, state: DeclaredState) -> None:
        """Give the Concat units and counters the registers of a State."""
        for unit, q in zip(self.concats, state.q, strict=False):
            unit.state = unit.changed(q=q)
        count = state.count
        for at, counter in enumerate(self.index_counters):
            counter.state = counter.changed(count=count[at * self.entries : (at + 1) * self.entries])

    @decides("D-kllm-45")
    def _takes(self, before: DeclaredState) -> bool:
        """Whether a slab is taken."""
        return bool(before.load and before.ready)

    @decides("D-kllm-43")
    def _ready(self, after: DeclaredState) -> int:
        """Whether the next edge leaves the Concat registers free, for any input."""
        counts = after.merging == 0 or (after.merging == 1 and not after.full)
        return int(after.left_turns == 0 or (after.left_turns == 1 and counts))

    def load(self, before: DeclaredState) -> Changes:
        """Take a slab, each position with its index of A in a Concat register."""
        a, b = before.a, before.b
        now: Changes = {"q": before.b, "amount": before.a} if self.integer else {"q": self._concatenated(a, b)}
        return now | {
            "q_valid": before.valid,
            "turns_held": before.turns,
            "left_turns": before.turns,
            "last_held": before.last,
            "end_held": before.last & before.tile_end,
            "concats": len(self.concats),
        }

    @decides("D-kllm-6")
    def _concatenated(self, a: Values, b: Values) -> Lanes:
        pairs = enumerate(zip(self.concats, b, strict=True))
        return tuple(unit.edge(a[at % self.positions], index).q for at, (unit, index) in pairs)

    @decides("D-kllm-13")
    def count(self, before: DeclaredState) -> Changes:
        """Count `inputs` positions of the slab in every counter, one turn."""
        turn = before.turns_held - before.left_turns
        q, valid = before.q, before.q_valid
        count: list[int] = []
        indices = 0
        for at, counter in enumerate(self.index_counters):  # [kllm §IV-B]
            place = self._place(turn, at)
            part = slice(place, place + self.inputs)
            amount = [tuple(before.amount[place % self.positions :][: self.inputs])] if self.integer else []
            done = counter.cycle(before.fresh, tuple(q[part]), tuple(valid[part]), *amount)
            count.extend(done.count)
            indices += valid[part].count(1)
        left = before.left_turns - 1
        now: Changes = {"count": tuple(count), "left_turns": left, "fresh": 0}
        now |= {"indices": indices, "count_cycles": 1}
        if not left and before.last_held:
            now |= {"fresh": 1, "merging": self._merge_edges(), "merge_end": before.end_held}
        return now

    @decides("D-kllm-31")
    def _place(self, turn: int, counter: int) -> int:
        """First Concat register that a counter reads in a turn."""
        if self.lane_mapping == "counter":
            return counter * self.positions + turn * self.inputs
        return (turn * self.counters + counter) * self.inputs

    @decides("D-kllm-42")
    def _merge_edges(self) -> int:
        """Number of edges that merge the partial histograms of a column."""
        return self.counters if self.merge == "serial" and self.lane_mapping == "column" else 1

    @decides("D-kllm-43")
    def _merges(self, before: DeclaredState, swaps: bool) -> bool:
        """Whether a merge can work: it needs the bank that the MACs have left."""
        return bool(before.merging and (swaps or not before.full))

    @decides("D-kllm-45", "D-kllm-46")
    def _merged(self, before: DeclaredState, now: Changes) -> Changes:
        """Merge histograms into the bank. now: changes of the edge so far."""
        counted, columns = list(now.get("counted", before.counted)), now.get("columns", before.columns)
        left = before.merging - 1
        for column, histogram in self._histograms(before, columns):
            part = slice(column * self.entries, (column + 1) * self.entries)
            counted[part] = [self._fitting(x + y) for x, y in zip(counted[part], histogram, strict=True)]
        columns += (self.counters if self.lane_mapping == "counter" else 1) * (left == 0)
        changes: Changes = {"counted": tuple(counted), "columns": columns, "merging": left, "merge_cycles": 1}
        return changes | ({"full": 1} if left == 0 and self._ends(before, columns) else {})

    @decides("D-kllm-45")
    def _ends(self, before: DeclaredState, columns: int) -> bool:
        """Whether the merged column is the last of its tile."""
        return bool(before.merge_end) or columns == self.macs

    @decides("D-kllm-45")
    def _histograms(self, before: DeclaredState, columns: int) -> list[tuple[int, Values]]:
        """Column and histogram of each counter that is merged in this edge."""
        count = before.count
        parts = [count[at * self.entries : (at + 1) * self.entries] for at in range(self.counters)]
        if self.lane_mapping == "counter":
            return list(enumerate(parts))
        first, last = (0, self.counters) if self.merge == "tree" else (self.counters - before.merging,) * 2
        return [(columns, part) for part in parts[first : max(last, first + 1)]]

    def _fitting(self, count: int) -> int:
        if count >> self.counter_bits:
            raise Refused(f"{self.name}: a count must fit counter_bits={self.counter_bits}, got {count}")
        return count

    def _swapped(self, before: DeclaredState) -> Changes:
        """Hand the counted tile to the MACs, with its operands from the ports; the bank is then empty."""
        zeros = (0,) * self.macs
        now: Changes = {f"work_{name}": getattr(before, name) for name in (*WORK, *WORK_FLAGS)}
        now |= {"acc": zeros, "outside": zeros} if before.opens else {}
        return now | {
            "reducing": before.counted,
            "working": before.columns,
            "counted": (0,) * (self.macs * self.entries),
            "columns": 0,
            "full": 0,
            "phase": REDUCE,
            "address": 0,
            "left": before.outliers,
            "tiles": 1,
        }


SIZES: dict[str, Any] = asdict(LaneSizes())  #: sizes of the ready configurations: two turns a slab
WIDE = {"a_bits": 8, "b_bits": 2, "integer": True, "merge": "serial", "counter_bits": 13}

UNIT: AnyUnit = Unit(
    unit_class=PeLane,
    paper="kllm §III-B, §IV-A, Fig. 6, Table I",
    meaning="a lane: Concat units, index counters, merged histograms, MACs, an edge a step",
    configs={
        "column": Config(**SIZES),
        "counter": Config(**(SIZES | {"macs": 2, "lane_mapping": "counter"})),
        "integer": Config(**(SIZES | {"macs": 2} | WIDE)),
    },
    flags={
        "OVERFLOW": Flag(0, "an output is not finite"),
        "TILE": Flag(1, "outputs of a tile are new"),
        "STALL": Flag(2, "the counters hold positions and wait"),
    },
)
State: type[DeclaredState] = PeLane.State
run: RunFunction[Result] = UNIT.run
