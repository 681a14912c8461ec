"""Parameters, ports and phases of a lane [kllm §IV-A, Fig. 6].

A slab fills the Concat registers once; a tile is the columns that the MACs reduce in parallel.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from refemu.units import Port, Ports, constant
from refemu.units.kllm.index_counter import INPUTS

LaneMapping = Literal["column", "counter"]  #: all counters of a lane on one column, or each on its own (D-kllm-31)
Merge = Literal["tree", "serial"]  #: partial histograms are added in one edge, or one an edge (D-kllm-42)
#: phases of the MACs, in the order of port `phase`
PHASES = ("idle", "reduce", "sparse", "scale", "merge", "shift", "bias")
IDLE, REDUCE, SPARSE, SCALE, MERGE, SHIFT, BIAS = range(len(PHASES))
MOST = 1 << 16  #: upper bound of the sizes
OUTLIER_BITS = 16  #: width of the number of sparse edges of a tile


@dataclass(frozen=True)
class LaneSizes:
    """Parameters of a lane; the paper's sizes are 4,096, 32, 16 and 32, with indices of 4 bits [kllm Table I]."""

    concat: Annotated[int, 1, MOST] = 8  #: Concat units, a multiple of `counters * inputs`
    counters: int = 2  #: index counters
    inputs: Annotated[int, 1, INPUTS] = 2  #: positions that a counter takes an edge, 1 to 16
    #: MACs: columns of a tile; as many as counters if each counter has its own column
    macs: Annotated[int, 1, MOST] = 3
    a_bits: int = 1  #: width of an index of A, 1 to 4; with `integer` of an amount, 1 to 8
    b_bits: Annotated[int, 1, 4] = 1  #: width of an index of B, 1 to 4
    integer: bool = False  #: whether A holds integers, which are amounts
    lane_mapping: LaneMapping = "column"  #: whether all counters count one column, or each its own (D-kllm-31)
    #: whether the partial histograms of a column are added in one edge, or one an edge (D-kllm-42); no effect if each
    #: counter has its own column
    merge: Merge = "tree"
    counter_bits: Annotated[int, 1, 62] = 5  #: width of a count, 1 to 62: 13 for 4,096 positions

    @constant
    def entries(self) -> int:
        """Registers of a counter."""
        return 1 << (self.b_bits if self.integer else self.a_bits + self.b_bits)

    @constant
    def positions(self) -> int:
        """Positions of a slab along K."""
        return self.concat // (self.counters if self.lane_mapping == "counter" else 1)

    @constant
    def ports(self) -> Ports:
        macs, size, turns = self.macs, self.entries, self.concat // (self.counters * self.inputs)

        def words(name: str, lanes: int | None, meaning: str) -> Port:
            return Port(name, 16, lanes, encoding="f16", meaning=meaning)

        def flag(name: str, meaning: str, lanes: int | None = None) -> Port:
            return Port(name, 1, lanes, meaning=meaning)

        def counts(name: str, histograms: int, meaning: str) -> Port:
            return Port(name, self.counter_bits, histograms * size, meaning=meaning)

        def work(name: str) -> str:
            return f"`{name}` of the tile under reduction"

        amount = [Port("amount", self.a_bits, self.positions, meaning="integers")] if self.integer else []
        index_bits = max(1, (size - 1).bit_length())
        return Ports(
            inputs=(
                flag("load", "the Concat units take a slab, if the lane is ready"),
                flag("last", "the slab is the last of its column"),
                flag("tile_end", "the column is the last of its tile"),
                Port("turns", turns.bit_length(), least=1, most=turns, meaning="counting edges of the slab"),
                Port("a", self.a_bits, self.positions, meaning="indices of A, or integers"),
                Port("b", self.b_bits, self.concat, meaning="indices of B"),
                flag("valid", "the position counts: not an outlier, not past the end of K", self.concat),
                flag("go", "the MACs may begin a tile"),
                Port("outliers", OUTLIER_BITS, meaning="sparse edges of the tile"),
                flag("opens", "sums start from 0"),
                flag("closes", "outputs follow the reduction"),
                flag("shifts", "a shift is subtracted (LayerNorm)"),
                flag("biases", "a bias is added"),
                words("a_scale", None, "scale of A's row"),
                words("shift", None, "mean over deviation (LayerNorm)"),
                words("b_scale", macs, "scales of the columns"),
                words("row_sum", macs, "sums of the columns (LayerNorm)"),
                words("bias", macs, "biases of the columns"),
                words("entry", None, "entry of the codebook at `address`"),
                flag("sparse", "the column has a product of outliers", macs),
                words("x", macs, "factor of the product from A"),
                words("w", macs, "factor of the product from B"),
                flag("x_coded", "x is a centroid", macs),
                flag("w_coded", "w is a centroid", macs),
            ),
            outputs=(
                flag("ready", "the next edge takes a slab"),
                flag("full", "a tile is counted"),
                Port("phase", 3, most=len(PHASES) - 1, meaning="next phase of the MACs: " + ", ".join(PHASES)),
                Port("address", index_bits, meaning="entry that the next edge reads"),
                flag("y_valid", "y is new"),
                words("y", macs, "outputs of the columns"),
                flag("overflow", "the output is not finite", macs),
            ),
            state=(
                Port("q", index_bits, self.concat, meaning="Concat registers; with integers the indices of B"),
                flag("q_valid", "the position counts", self.concat),
                *amount,
                Port("turns_held", turns.bit_length(), meaning="counting edges of the slab"),
                Port("left_turns", turns.bit_length(), meaning="remaining counting edges"),
                flag("last_held", "the slab is the last of its column"),
                flag("end_held", "the column is the last of its tile"),
                flag("fresh", "counters start from 0"),
                Port("merging", self.counters.bit_length(), meaning="remaining merge edges"),
                flag("merge_end", "the merged column is the last of its tile"),
                counts("count", self.counters, "registers of the counters"),
                counts("counted", macs, "histograms of the tile that is counted"),
                Port("columns", macs.bit_length(), meaning="columns of the tile that is counted"),
                counts("reducing", macs, "histograms of the tile under reduction"),
                Port("working", macs.bit_length(), meaning="columns of the tile under reduction"),
                Port("left", OUTLIER_BITS, meaning="remaining sparse edges"),
                *(flag(f"work_{name}", work(name)) for name in ("closes", "shifts", "biases")),
                *(words(f"work_{name}", None, work(name)) for name in ("a_scale", "shift")),
                *(words(f"work_{name}", macs, work(name)) for name in ("b_scale", "row_sum", "bias")),
                words("acc", macs, "weighted sums"),
                words("outside", macs, "sums of the sparse path"),
                words("joint", macs, "products of the scales"),
            ),
        )
