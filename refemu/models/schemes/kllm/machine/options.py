"""Options of KLLM's chip, by default as in the paper: sizes of Table I, memory of §V-A, and the decisions on schedules.

Paper: [kllm §IV-A, §V-A, Table I].
"""

from fractions import Fraction
from typing import Literal

from refemu.arith.checks import require_int
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.models.machine.system import Overlap, Price, System
from refemu.models.schemes.kllm.machine.filled import Fill, Order
from refemu.units.declaration import decides
from refemu.units.kllm.kllm_chip import Carry, ChipSizes
from refemu.units.kllm.orizuru import levels, stages
from refemu.units.kllm.pe_lane import LaneMapping, Merge

MHZ, GB, KB = 10**6, 10**9, 8 << 10
TABLE = "Table I"
#: watts of Table I by part of the chip; those of the lanes are for all 16
WATTS = {
    "lanes": Fraction("5.73"),
    "out buffer": Fraction("0.57"),
    "index buffer": Fraction("0.54"),
    "codebook buffer": Fraction("0.00211"),
    "clustering": Fraction("0.71"),
    "search": Fraction("0.273"),
    "functional": Fraction("0.563"),
}
LANES, CLOCK = 16, 500 * MHZ  #: of Table I, for which the watts are


@parameters
class KllmMachine:
    """Options of the chip."""

    lanes: int = 16  #: PE lanes
    concat: int = 4096  #: Concat units a lane
    counters: int = 32  #: index counters a lane
    counter_inputs: int = 16  #: positions that a counter takes a cycle
    macs: int = 32  #: MACs a lane
    tree: int = 4096  #: inputs of Orizuru
    lane_mapping: LaneMapping = "column"  #: which columns the counters of a lane count (D-kllm-31)
    merge: Merge = "tree"  #: how partial histograms are added (D-kllm-42)
    carry: Carry = "counts"  #: what is carried from slab to slab of a long column (D-kllm-47)
    weight_kb: int = 2  #: Weight Buffer of a lane
    index_kb: int = 32  #: Act Index Buffer
    out_kb: int = 136  #: Out Buffer
    clock: int = 500  #: MHz
    channels: int = 24  #: of the HBM
    channel_gb: int = 64  #: GB/s of a channel
    overlap: Overlap = "operations"  #: what the schedule overlaps (D-kllm-69)
    fill: Fill = "stream"  #: whether the port may end one slab and begin the next in one edge (D-kllm-66)
    order: Order = "weights"  #: what stays while the other passes, in a batch (D-kllm-67)
    heads: Literal["lanes", "sequence"] = "lanes"  #: heads on lanes of their own, or one after the other (D-kllm-68)
    search: Literal["level", "unit"] = "level"  #: what of Orizuru's tree settles in a cycle (D-kllm-70)
    norm: Literal["parallel", "before"] = "parallel"  #: when the statistics of a norm are computed (D-kllm-71)
    beyond: Literal["spill", "refuse"] = "spill"  #: a batch that exceeds the buffers (D-kllm-72)

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "accelerator")
        for name in ("weight_kb", "index_kb", "out_kb", "clock", "channels", "channel_gb"):
            require_int(getattr(self, name), 1, 1 << 20, "accelerator", name)
        _ = self.chip

    @property
    def chip(self) -> ChipSizes:
        """Sizes of the chip."""
        sizes = ChipSizes().buffers
        buffers = {"weight": self.weight_kb * KB, "index": self.index_kb * KB, "out": self.out_kb * KB}
        return ChipSizes(
            self.lanes,
            self.concat,
            self.counters,
            self.counter_inputs,
            self.macs,
            self.tree,
            {**sizes, **buffers},
            self.lane_mapping,
            self.merge,
            self.carry,
        )

    @property
    def rate(self) -> Fraction:
        """Bits that the port of the memory moves in a cycle."""
        return Fraction(8 * self.channels * self.channel_gb * GB, self.clock * MHZ)

    @property
    @decides("D-kllm-69")
    def system(self) -> System:
        """Resources and prices."""
        each = {part: watts * (Fraction(self.lanes, LANES) if part == "lanes" else 1) for part, watts in WATTS.items()}
        return System(
            "KLLM's chip",
            self.clock * MHZ,
            self.rate / 8,
            self.lanes * self.counters * self.counter_inputs,
            self.overlap,
            {
                "clock": "kllm Table I",
                "rate": f"{self.channels} x {self.channel_gb} GB/s, kllm §V-A",
                "peak": "positions that all counters take, kllm Table I",
            },
            {
                part: Price(watts * 10**12 / CLOCK, "busy cycle", f"kllm Table I: {float(watts):.4g} W at 500 MHz")
                for part, watts in each.items()
            },
            "the paper simulates the HBM and gives no energy per bit",
        )

    @decides("D-kllm-70")
    def settling(self, n: int) -> int:
        """Cycles in which a change passes from the leaves of a tree over n values to its root."""
        return levels(n) if self.search == "level" else stages(n)
