"""A lane of KLLM's chip with a clock: Concat units, index counters, merged histograms, MACs.

Paper: [kllm §III-B, §III-D, §IV-A, §IV-B, Fig. 6, Table I]. Composed of concat, index_counter and fp16_mac. Two stages
work side by side: the counters count the columns of a tile, while the MACs reduce the tile before, MAC j column j. What
feeds the lane streams slabs, the codebook's entries and the operands of the sparse path (`kllm_chip` does).

Decisions: D-kllm-31 (which positions a counter takes), D-kllm-42 (partial histograms are added), D-kllm-43 (a second
bank of histograms), D-kllm-44 (multipliers beside the MACs make the values of the sparse path), D-kllm-45 (a slab that
comes too early is not taken, a tile with a column for every MAC ends), D-kllm-46 (outputs stand until the next tile's);
D-kllm-3, D-kllm-4, D-kllm-6, D-kllm-13, D-kllm-32, D-kllm-33, D-kllm-39 and D-kllm-40 as in index_matmul.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from refemu.arith.checks import Refused, require_choice, require_int
from refemu.units.kllm.cases import pe_lane as pe_lane_cases
from refemu.units.kllm.concat import Concat
from refemu.units.kllm.index_counter import INPUTS, IndexCounter
from refemu.units.kllm.pe_lane.macs import Changes, Macs
from refemu.units.kllm.pe_lane.registers import (
    COUNTERS,
    IDLE,
    MAPPINGS,
    MERGES,
    PHASES,
    REDUCE,
    LaneMapping,
    Merge,
    State,
    Values,
    entries,
    ports,
    positions,
)
from refemu.units.ports import Lanes, Ports, fields, lanes
from refemu.units.stepped import Result
from refemu.units.unit import Config, Flag, RunFunction, Unit

MOST = 1 << 16  #: of the sizes
WORK = ("a_scale", "shift", "b_scale", "row_sum", "bias")  #: operands of a tile, from the ports to registers
WORK_FLAGS = ("closes", "shifts", "biases")


class PeLane(Macs):
    """Lane, an edge a step.

    References
    ----------
    [kllm §IV-A, Fig. 6, Table I]
    """

    name = "pe_lane"

    def __init__(
        self,
        concat: int = 8,
        counters: int = 2,
        inputs: int = 2,
        macs: int = 3,
        a_bits: int = 1,
        b_bits: int = 1,
        integer: bool = False,
        lane_mapping: LaneMapping = "column",
        merge: Merge = "tree",
        counter_bits: int = 5,
    ) -> None:
        """Configure the lane; the paper's sizes are 4,096, 32, 16 and 32, with indices of 4 bits [kllm Table I].

        Parameters
        ----------
        concat : int
            Concat units, a multiple of `counters * inputs`.
        counters : int
            Index counters.
        inputs : int
            Positions that a counter takes an edge, 1 to 16.
        macs : int
            MACs: columns of a tile; as many as counters where each counter has a column.
        a_bits : int
            Width of an index of A, 1 to 4; with `integer` of an amount, 1 to 8.
        b_bits : int
            Width of an index of B, 1 to 4.
        integer : bool
            Whether A holds integers, which are amounts.
        lane_mapping : {"column", "counter"}
            Whether all counters count one column, or each its own (D-kllm-31).
        merge : {"tree", "serial"}
            Whether the partial histograms of a column are added in one edge, or one an edge (D-kllm-42); without effect
            where each counter has a column of its own.
        counter_bits : int
            Width of a count, 1 to 62: 13 for 4,096 positions.

        Raises
        ------
        Refused
            A size or width is out of range, or sizes do not fit each other.
        """
        self.concat: int = require_int(concat, 1, MOST, self.name, "concat")
        self.counters: int = require_int(counters, 1, MOST, self.name, "counters")
        self.inputs: int = require_int(inputs, 1, INPUTS, self.name, "inputs")
        self.macs: int = require_int(macs, 1, MOST, self.name, "macs")
        self.integer: bool = bool(integer)
        self.a_bits: int = require_int(a_bits, 1, 8 if self.integer else 4, self.name, "a_bits")
        self.b_bits: int = require_int(b_bits, 1, 4, self.name, "b_bits")
        self.lane_mapping: LaneMapping = require_choice(lane_mapping, MAPPINGS, self.name, "lane_mapping")
        self.merge: Merge = require_choice(merge, MERGES, self.name, "merge")
        self.counter_bits: int = require_int(counter_bits, 1, 62, self.name, "counter_bits")
        self._require_sizes()
        config = {name: getattr(self, name) for name in Config(**UNIT_SIZES)}
        self.entries: int = entries(config)
        self.positions: int = positions(config)  #: along K, of a slab
        self.ports: Ports = ports(config)
        none = {"q": self.concat, "q_valid": self.concat, "count": self.counters * self.entries}
        none |= dict.fromkeys(("counted", "reducing"), self.macs * self.entries)
        none |= dict.fromkeys(("work_b_scale", "work_row_sum", "work_bias", "acc", "outside", "joint"), self.macs)
        registers: Changes = {name: lanes((0,) * size) for name, size in none.items()}
        registers["amount"] = lanes((0,) * self.positions) if self.integer else ()
        self.state: State = self.reset(State, turns=1, ready=1, fresh=1, **registers)
        self._in_step: State | None = self.state  # the State that the registers of the sub-units belong to

    def _require_sizes(self) -> None:
        if self.concat % (self.counters * self.inputs):
            raise Refused(
                f"{self.name}: concat must be a multiple of counters * inputs, got {self.concat}, {self.counters}, "
                f"{self.inputs}"
            )
        if self.lane_mapping == "counter" and self.macs != self.counters:
            raise Refused(
                f"{self.name}: counters with columns of their own are as many as MACs, got {self.counters}, {self.macs}"
            )

    @cached_property
    def concats(self) -> list[Concat]:
        """The Concat units; unused where A holds integers [kllm §III-B2]."""
        return [Concat(self.a_bits, self.b_bits) for _ in range(0 if self.integer else self.concat)]

    @cached_property
    def index_counters(self) -> list[IndexCounter]:
        """The Index Distribution Counters."""
        bits = (self.entries - 1).bit_length()
        amounts = self.a_bits if self.integer else 0
        return [IndexCounter(bits, amounts, self.counter_bits, self.inputs) for _ in range(self.counters)]

    def step(
        self,
        load: int,
        last: int,
        tile_end: int,
        turns: int,
        a: Sequence[int] | int,
        b: Sequence[int] | int,
        valid: Sequence[int] | int,
        go: int,
        outliers: int,
        opens: int,
        closes: int,
        shifts: int,
        biases: int,
        a_scale: int,
        shift: int,
        b_scale: Sequence[int] | int,
        row_sum: Sequence[int] | int,
        bias: Sequence[int] | int,
        entry: int,
        sparse: Sequence[int] | int,
        x: Sequence[int] | int,
        w: Sequence[int] | int,
        x_coded: Sequence[int] | int,
        w_coded: Sequence[int] | int,
    ) -> State:
        """Execute one edge.

        `load` to `valid` are read where the lane is ready; `go` to `bias` where a tile is full and the MACs are free;
        `entry` where they reduce; `sparse` to `w_coded` in their sparse phase. A count beyond `counter_bits` is
        refused, and nothing changes.
        """
        loaded = load, last, tile_end, turns, a, b, valid
        begun = go, outliers, opens, closes, shifts, biases, a_scale, shift, b_scale, row_sum, bias
        return self._open(*self.accept(*loaded, *begun, entry, sparse, x, w, x_coded, w_coded))

    def _open(self, *inputs: Any) -> State:
        if self.state is not self._in_step:
            self._enter(self.state)
        self._in_step = None  # a refusal in the middle of the edge leaves sub-units behind
        before = self.latched(*inputs, y_valid=0, cycles=self.state.cycles + 1)
        now = self._mac_edge(before)
        swaps = bool(before.full and before.go and now.get("phase", before.phase) == IDLE)
        now |= self._swapped(before) if swaps else {}
        merges = self._merges(before, swaps)
        now |= self._merged(before, now) if merges else {}
        counts = bool(before.left_turns) and before.merging == int(merges)  # no merge is left behind
        now |= self._counted(before) if counts else {"stalls": before.stalls + bool(before.left_turns)}
        takes = self._takes(before)
        now |= self._loaded(before) if takes else {}
        phase = PHASES[before.phase] if before.phase else "count" if counts else "load" if takes else "idle"
        after = replace(before, event=phase, **now)
        self.state = self._in_step = replace(after, ready=self._ready(after))
        return self.state

    def _enter(self, state: State) -> None:
        """Give the Concat units and counters the registers of a State."""
        for unit, q in zip(self.concats, fields(state.q), strict=False):
            unit.state = replace(unit.state, q=q)
        count = fields(state.count)
        for at, counter in enumerate(self.index_counters):
            counter.state = replace(counter.state, count=count[at * self.entries : (at + 1) * self.entries])

    def _takes(self, before: State) -> bool:
        """Whether a slab is taken (D-kllm-45)."""
        return bool(before.load and before.ready)

    def _ready(self, after: State) -> int:
        """Whether the next edge leaves the Concat registers free, whatever comes."""
        counts = after.merging == 0 or (after.merging == 1 and not after.full)
        return int(after.left_turns == 0 or (after.left_turns == 1 and counts))

    def _loaded(self, before: State) -> Changes:
        """The slab: each position beside its index of A in a Concat register."""
        a, b = fields(before.a), fields(before.b)
        now: Changes = {"q": before.b, "amount": before.a} if self.integer else {"q": self._concatenated(a, b)}
        return now | {
            "q_valid": before.valid,
            "turns_held": before.turns,
            "left_turns": before.turns,
            "last_held": before.last,
            "end_held": before.last & before.tile_end,
            "concats": before.concats + len(self.concats),
        }

    def _concatenated(self, a: Values, b: Values) -> Lanes:
        pairs = enumerate(zip(self.concats, b, strict=True))
        return lanes(tuple(unit.edge(a[at % self.positions], index).q for at, (unit, index) in pairs))

    def _counted(self, before: State) -> Changes:
        """One turn of the slab: `inputs` positions for every counter [kllm §IV-B]."""
        turn = before.turns_held - before.left_turns
        q, valid = fields(before.q), fields(before.q_valid)
        count: list[int] = []
        indices = before.indices
        for at, counter in enumerate(self.index_counters):
            place = self._place(turn, at)
            part = slice(place, place + self.inputs)
            amount = [lanes(fields(before.amount)[place % self.positions :][: self.inputs])] if self.integer else []
            done = counter.cycle(before.fresh, lanes(q[part]), lanes(valid[part]), *amount)
            count.extend(done.count)
            indices += valid[part].count(1)
        left = before.left_turns - 1
        now: Changes = {
            "count": lanes(tuple(count)),
            "left_turns": left,
            "fresh": 0,
            "indices": indices,
            "count_cycles": before.count_cycles + 1,
        }
        if not left and before.last_held:
            now |= {"fresh": 1, "merging": self._merge_edges(), "merge_end": before.end_held}
        return now

    def _place(self, turn: int, counter: int) -> int:
        """First Concat register that a counter reads in a turn (D-kllm-31)."""
        if self.lane_mapping == "counter":
            return counter * self.positions + turn * self.inputs
        return (turn * self.counters + counter) * self.inputs

    def _merge_edges(self) -> int:
        """Edges in which the partial histograms of a column become one (D-kllm-42)."""
        return self.counters if self.merge == "serial" and self.lane_mapping == "column" else 1

    def _merges(self, before: State, swaps: bool) -> bool:
        """Whether a merge works: it needs the bank that the MACs have left (D-kllm-43)."""
        return bool(before.merging and (swaps or not before.full))

    def _merged(self, before: State, now: Changes) -> Changes:
        """Histograms go to the bank. now: what the edge has changed so far."""
        counted, columns = list(fields(now.get("counted", before.counted))), now.get("columns", before.columns)
        left = before.merging - 1
        for column, histogram in self._histograms(before, columns):
            part = slice(column * self.entries, (column + 1) * self.entries)
            counted[part] = [self._fitting(x + y) for x, y in zip(counted[part], histogram, strict=True)]
        columns += (self.counters if self.lane_mapping == "counter" else 1) * (left == 0)
        changes: Changes = {"counted": lanes(tuple(counted)), "columns": columns, "merging": left}
        changes["merge_cycles"] = before.merge_cycles + 1
        return changes | ({"full": 1} if left == 0 and self._ends(before, columns) else {})

    def _ends(self, before: State, columns: int) -> bool:
        """Whether the merged column is the last of its tile (D-kllm-45)."""
        return bool(before.merge_end) or columns == self.macs

    def _histograms(self, before: State, columns: int) -> list[tuple[int, Values]]:
        """Column and histogram of each counter that is merged in this edge."""
        count = fields(before.count)
        parts = [count[at * self.entries : (at + 1) * self.entries] for at in range(self.counters)]
        if self.lane_mapping == "counter":
            return list(enumerate(parts))
        first, last = (0, self.counters) if self.merge == "tree" else (self.counters - before.merging,) * 2
        return [(columns, part) for part in parts[first : max(last, first + 1)]]

    def _fitting(self, count: int) -> int:
        if count >> self.counter_bits:
            raise Refused(f"{self.name}: count {count} does not fit counter_bits={self.counter_bits}")
        return count

    def _swapped(self, before: State) -> Changes:
        """The counted tile goes to the MACs, with its operands from the ports; the bank is empty."""
        zeros = lanes((0,) * self.macs)
        now: Changes = {f"work_{name}": getattr(before, name) for name in (*WORK, *WORK_FLAGS)}
        now |= {"acc": zeros, "outside": zeros} if before.opens else {}
        return now | {
            "reducing": before.counted,
            "working": before.columns,
            "counted": lanes((0,) * (self.macs * self.entries)),
            "columns": 0,
            "full": 0,
            "phase": REDUCE,
            "address": 0,
            "left": before.outliers,
            "tiles": before.tiles + 1,
        }


UNIT_SIZES: dict[str, Any] = {
    "concat": 8,
    "counters": 2,
    "inputs": 2,
    "macs": 3,
    "a_bits": 1,
    "b_bits": 1,
    "integer": False,
    "lane_mapping": "column",
    "merge": "tree",
    "counter_bits": 5,
}  #: of the ready configurations: two turns a slab

UNIT: Unit[State, Result] = Unit(
    name="pe_lane",
    paper="kllm §III-B, §IV-A, Fig. 6, Table I",
    meaning="a lane: Concat units, index counters, merged histograms, MACs, an edge a step",
    configs={
        "column": Config(**UNIT_SIZES),
        "counter": Config(**{**UNIT_SIZES, "macs": 2, "lane_mapping": "counter"}),
        "integer": Config(
            **{
                **UNIT_SIZES,
                "macs": 2,
                "a_bits": 8,
                "b_bits": 2,
                "integer": True,
                "merge": "serial",
                "counter_bits": 13,
            }
        ),
    },
    ports=ports,
    unit_class=PeLane,
    cases=pe_lane_cases.cases,
    counters=COUNTERS,
    mark=pe_lane_cases.mark,
    flags={
        "OVERFLOW": Flag(0, "some output is not finite"),
        "TILE": Flag(1, "outputs of a tile are new"),
        "STALL": Flag(2, "the counters hold positions and wait"),
    },
)
run: RunFunction[Result] = UNIT.run
