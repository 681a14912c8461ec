"""State and ports of a lane [kllm §IV-A, Fig. 6].

A slab is what the Concat registers hold at once; a tile is the columns that the MACs reduce side by side.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from refemu.units.ports import Lanes, Port, Ports

LaneMapping = Literal["column", "counter"]  #: all counters of a lane on one column, or each on its own (D-kllm-31)
MAPPINGS: tuple[LaneMapping, ...] = get_args(LaneMapping)  #: The choices of `LaneMapping`
Merge = Literal["tree", "serial"]  #: partial histograms are added in one edge, or one an edge (D-kllm-42)
MERGES: tuple[Merge, ...] = get_args(Merge)  #: The choices of `Merge`
PHASES = ("idle", "reduce", "sparse", "scale", "merge", "shift", "bias")  #: of the MACs, by the word of port `phase`
IDLE, REDUCE, SPARSE, SCALE, MERGE, SHIFT, BIAS = range(len(PHASES))
OUTLIER_BITS = 16  #: width of the number of sparse edges of a tile
#: Counters of a lane since reset
COUNTERS = (
    "cycles",
    "count_cycles",
    "stalls",
    "merge_cycles",
    "mac_cycles",
    "tiles",
    "concats",
    "indices",
    "lookups",
    "macs_reduce",
    "macs_sparse",
    "dequants",
    "mults_scale",
    "adds_merge",
    "overflows",
)

Values = tuple[int, ...]


@dataclass(frozen=True)
class State:
    """Ports and registers after one edge, and counts since reset. Registers of one lane are tuples too."""

    #: "reset": the lane is empty; where the MACs work, what they do for every column of their tile: "reduce": the
    #: counts of one index are multiplied by its codebook entry and added; "sparse": a product at an outlier is added;
    #: "scale": the scales are multiplied; "merge": both sums are joined; "shift": the mean of LayerNorm is subtracted;
    #: "bias": the bias is added; where they do not: "count": counters count; "load": a slab is taken; "idle": neither
    event: str
    index: int  #: number of the clock edge since reset, from 0; -1 at reset
    load: int  #: port
    last: int  #: port
    tile_end: int  #: port
    turns: int  #: port
    a: Lanes  #: port
    b: Lanes  #: port
    valid: Lanes  #: port
    go: int  #: port
    outliers: int  #: port
    opens: int  #: port
    closes: int  #: port
    shifts: int  #: port
    biases: int  #: port
    a_scale: int  #: port
    shift: int  #: port
    b_scale: Lanes  #: port
    row_sum: Lanes  #: port
    bias: Lanes  #: port
    entry: int  #: port
    sparse: Lanes  #: port
    x: Lanes  #: port
    w: Lanes  #: port
    x_coded: Lanes  #: port
    w_coded: Lanes  #: port
    ready: int  #: the next edge takes a slab
    full: int  #: a whole tile is counted and waits for the MACs
    phase: int  #: of the MACs in the next edge
    address: int  #: entry of the codebook that the next edge reads
    y_valid: int  #: y is new
    y: Lanes  #: outputs, fp16 words
    overflow: Lanes  #: the output is not finite
    q: Lanes  #: Concat registers; with integers B's indices
    q_valid: Lanes  #: the position counts
    amount: Lanes  #: integers of the slab in the Concat registers, where A holds integers
    turns_held: int  #: counting edges of the slab
    left_turns: int  #: those still to come
    last_held: int  #: the slab is the last of its column
    end_held: int  #: the column is the last of its tile
    fresh: int  #: the next counting edge clears the counters
    merging: int  #: merge edges still to come
    merge_end: int  #: the column that is merged is the last of its tile
    count: Lanes  #: registers of the counters, counter by counter
    counted: Lanes  #: merged histograms of the tile that is counted, column by column
    columns: int  #: of `counted`
    reducing: Lanes  #: histograms that the MACs read
    working: int  #: columns of `reducing`
    left: int  #: sparse edges still to come
    work_closes: int  #: flags and operands of the tile under reduction
    work_shifts: int  #: the same
    work_biases: int  #: the same
    work_a_scale: int  #: the same
    work_shift: int  #: the same
    work_b_scale: Lanes  #: the same
    work_row_sum: Lanes  #: the same
    work_bias: Lanes  #: the same
    acc: Lanes  #: weighted sums, fp16 words
    outside: Lanes  #: sums of the sparse path
    joint: Lanes  #: products of the scales
    cycles: int  #: clock edges since reset
    count_cycles: int  #: edges in which the counters count
    stalls: int  #: edges in which the counters have positions to count and must wait for a merge
    merge_cycles: int  #: edges in which partial histograms of the counters are merged
    mac_cycles: int  #: edges in which the MACs work
    tiles: int  #: tiles begun; a tile is the columns that the MACs reduce side by side
    concats: int  #: Concat registers written, padding included; none where A holds integers
    indices: int  #: positions counted, outliers and padding left out
    lookups: int  #: counts multiplied by an entry of the product codebook
    macs_reduce: int  #: multiply-adds of a count and its codebook entry
    macs_sparse: int  #: multiply-adds at outliers
    dequants: int  #: centroids multiplied by a scale for the sparse path
    mults_scale: int  #: products of the scales of A and of a column
    adds_merge: int  #: additions of the dense and the sparse sum of a column
    overflows: int  #: outputs that are not finite


def entries(config: Mapping[str, Any]) -> int:
    """Number of registers of a counter."""
    return 1 << (config["b_bits"] if config["integer"] else config["a_bits"] + config["b_bits"])


def positions(config: Mapping[str, Any]) -> int:
    """Positions along K that a slab has."""
    return int(config["concat"] // (config["counters"] if config["lane_mapping"] == "counter" else 1))


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    concat, counters, macs = config["concat"], config["counters"], config["macs"]
    size, turns = entries(config), concat // (counters * config["inputs"])

    def words(name: str, lanes: int, meaning: str) -> Port:
        return Port(name, 16, lanes, encoding="f16", meaning=meaning)

    def flag(name: str, meaning: str, lanes: int = 1) -> Port:
        return Port(name, 1, lanes, meaning=meaning)

    counts = {"bits": config["counter_bits"]}
    columns = {"bits": macs.bit_length()}
    return Ports(
        inputs=(
            flag("load", "the Concat units take a slab, if the lane is ready"),
            flag("last", "the slab is the last of its column"),
            flag("tile_end", "the column is the last of its tile"),
            Port("turns", turns.bit_length(), least=1, most=turns, meaning="counting edges of the slab"),
            Port("a", config["a_bits"], positions(config), meaning="indices of A, or integers"),
            Port("b", config["b_bits"], concat, meaning="indices of B"),
            flag("valid", "the position counts: no outlier, not past the end of K", concat),
            flag("go", "the MACs may begin a tile"),
            Port("outliers", OUTLIER_BITS, meaning="sparse edges of the tile"),
            flag("opens", "sums start from 0"),
            flag("closes", "outputs follow the reduction"),
            flag("shifts", "a shift is subtracted (LayerNorm)"),
            flag("biases", "a bias is added"),
            words("a_scale", 1, "scale of A's row"),
            words("shift", 1, "mean over deviation (LayerNorm)"),
            words("b_scale", macs, "scales of the columns"),
            words("row_sum", macs, "sums of the columns (LayerNorm)"),
            words("bias", macs, "biases of the columns"),
            words("entry", 1, "entry of the codebook at `address`"),
            flag("sparse", "the column has a product of outliers", macs),
            words("x", macs, "its factor from A"),
            words("w", macs, "its factor from B"),
            flag("x_coded", "x is a centroid", macs),
            flag("w_coded", "w is a centroid", macs),
        ),
        outputs=(
            flag("ready", "the next edge takes a slab"),
            flag("full", "a tile is counted"),
            Port("phase", 3, most=len(PHASES) - 1, meaning="what the MACs do next: " + ", ".join(PHASES)),
            Port("address", max(1, (size - 1).bit_length()), meaning="entry that the next edge reads"),
            flag("y_valid", "y is new"),
            words("y", macs, "outputs of the columns"),
            flag("overflow", "the output is not finite", macs),
        ),
        state=(
            Port(
                "q",
                max(1, (size - 1).bit_length()),
                concat,
                meaning="Concat registers; with integers the indices of B",
            ),
            flag("q_valid", "the position counts", concat),
            *([Port("amount", config["a_bits"], positions(config), meaning="integers")] if config["integer"] else []),
            Port("turns_held", turns.bit_length(), meaning="counting edges of the slab"),
            Port("left_turns", turns.bit_length(), meaning="counting edges still to come"),
            flag("last_held", "the slab is the last of its column"),
            flag("end_held", "the column is the last of its tile"),
            flag("fresh", "counters start from 0"),
            Port("merging", counters.bit_length(), meaning="merge edges still to come"),
            flag("merge_end", "the merged column is the last of its tile"),
            Port("count", **counts, lanes=counters * size, meaning="registers of the counters"),
            Port("counted", **counts, lanes=macs * size, meaning="histograms of the tile that is counted"),
            Port("columns", **columns, meaning="columns of the tile that is counted"),
            Port("reducing", **counts, lanes=macs * size, meaning="histograms of the tile under reduction"),
            Port("working", **columns, meaning="columns of the tile under reduction"),
            Port("left", OUTLIER_BITS, meaning="sparse edges still to come"),
            *(flag(f"work_{name}", f"`{name}` of the tile under reduction") for name in ("closes", "shifts", "biases")),
            *(words(f"work_{name}", 1, f"`{name}` of the tile under reduction") for name in ("a_scale", "shift")),
            *(
                words(f"work_{name}", macs, f"`{name}` of the tile under reduction")
                for name in ("b_scale", "row_sum", "bias")
            ),
            words("acc", macs, "weighted sums"),
            words("outside", macs, "sums of the sparse path"),
            words("joint", macs, "products of the scales"),
        ),
    )
