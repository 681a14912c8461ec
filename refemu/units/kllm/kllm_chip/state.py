"""Registers, counters and ports of the chip [kllm §IV-A, Fig. 6]."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from refemu.units.kllm import functional
from refemu.units.kllm.pe_lane import COUNTERS as LANE_COUNTERS
from refemu.units.kllm.pe_lane import State as LaneState
from refemu.units.ports import Lanes, Port, Ports

Function = Literal["none", "exp", "sqrt", "recip", "softmax"]  #: of the outputs: none, or that of the Functional Unit
SUMMED = LANE_COUNTERS[1:]  #: counters of the lanes, added up; their edges are those of the chip
#: Counters of the Functional Unit
FUNCTION_COUNTERS = ("function_cycles", "exps", "roots", "divides")
#: Counters of the chip
COUNTERS = (
    "cycles",
    "search_cycles",
    "cluster_cycles",
    "edges",
    "comparisons",
    "distances",
    *SUMMED,
    *FUNCTION_COUNTERS,
)


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "search" (of Orizuru), "cluster" (sixteen values), "edge" (of all lanes), "function"
    index: int  #: number of the event, -1 for the reset
    x: Lanes  #: words of the token
    a_codebook: tuple[int, ...]  #: centroids of A, ascending
    b_index: tuple[int, ...]  #: indices of B, column by column
    b_scale: Lanes  #: scale of every column of B
    b_codebook: tuple[int, ...]  #: centroids of B
    products: tuple[int, ...]  #: product codebook
    y: Lanes  #: Out Buffer
    overflow: Lanes  #: 1 at outputs that are not finite
    a_index: Lanes  #: Act Index Buffer; 0 at outliers
    a_mask: Lanes  #: Out Buffer: 1 at outliers
    a_scale: int  #: scale of the token
    cycles_taken: int  #: of this token so far
    clustered: int  #: inliers that have an index
    waiting: int  #: tiles of the token that no lane has begun are counted from here
    taken: tuple[int, ...]  #: slabs of the token that each lane took
    begun: tuple[int, ...]  #: tiles that each lane began before the token
    lanes: tuple[LaneState, ...]  #: registers of the lanes
    functional: functional.State | None  #: registers of the Functional Unit; None without a function
    z: Lanes  #: function of the outputs; 0 without one, like the three registers of softmax that follow
    top: int  #: largest output
    terms: Lanes  #: exponentials
    total: int  #: their float32 sum
    cycles: int  #: of all tokens, one after the other
    search_cycles: int  #: of Orizuru
    cluster_cycles: int  #: of the Clustering Unit
    edges: int  #: of the lanes
    comparisons: int  #: of Orizuru
    distances: int  #: of the Clustering Unit
    count_cycles: int  #: lane-edges in which counters count
    stalls: int  #: lane-edges in which counters wait with positions to count
    merge_cycles: int  #: lane-edges in which a histogram is merged
    mac_cycles: int  #: lane-edges in which MACs are not idle
    tiles: int  #: tiles of all lanes
    concats: int  #: Concat registers written, padding included
    indices: int  #: positions counted
    lookups: int  #: counts multiplied by an entry
    macs_reduce: int  #: MACs that reduce counts
    macs_sparse: int  #: MACs of the sparse path
    dequants: int  #: centroids multiplied by a scale
    mults_scale: int  #: products of two scales
    adds_merge: int  #: sums of both paths
    overflows: int  #: outputs that are not finite
    function_cycles: int  #: of the Functional Unit
    exps: int  #: exponentials
    roots: int  #: square roots
    divides: int  #: divisions and reciprocals


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration; a function brings its results, and softmax its registers.

    Parameters
    ----------
    config : mapping of str to object
        Parameters of KllmChip by name.

    Returns
    -------
    Ports
        Widths and lanes.
    """
    k, n, a_bits, b_bits = (config[name] for name in ("k", "n", "a_bits", "b_bits"))

    def words(name: str, count: int, meaning: str, least: int | None = None, most: int | None = None) -> Port:
        return Port(name, 16, count, encoding="f16", least=least, most=most, meaning=meaning)

    applied: tuple[Port, ...] = ()
    registers: tuple[Port, ...] = ()
    if config["function"] != "none":
        applied = (words("z", n, "the function of the outputs"),)
        registers = functional.ports({"op": config["function"], "t": n, "softmax": config["softmax"]}).state
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
            words("a_scale", 1, "scale of the token"),
            Port("cycles_taken", 32, meaning="cycles of the token: search, clustering, edges of the lanes, function"),
            *applied,
        ),
        state=registers,
    )
