"""Registers, counters and ports of the chip [kllm §IV-A, Fig. 6]."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from refemu.units.declared import DeclaredState
from refemu.units.kllm.functional import Functional
from refemu.units.kllm.pe_lane import UNIT as LANE
from refemu.units.ports import Lanes, Port, Ports

Function = Literal["none", "exp", "sqrt", "recip", "softmax"]  #: of the outputs: none, or that of the Functional Unit
SUMMED = LANE.counters[1:]  #: counters of the lanes, added up; their edges are those of the chip
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

    #: "reset": no token yet; "search": Orizuru finds the outliers of the token, and the largest magnitude left is its
    #: scale; "cluster": sixteen inliers get the index of their centroid; "edge": a clock edge of all lanes; "function":
    #: a cycle of the Functional Unit on the outputs
    event: str
    index: int  #: number of the event since reset, from 0; -1 at reset
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
    clustered: int  #: inliers of the token that have an index so far
    waiting: int  #: tiles of the token that the lanes have begun so far: the number of the tile that waits
    taken: tuple[int, ...]  #: slabs of the token that each lane has taken so far
    begun: tuple[int, ...]  #: tiles that each lane had begun before the token, since reset
    lanes: tuple[DeclaredState, ...]  #: States of the lanes, as of unit pe_lane
    functional: DeclaredState | None  #: State of the Functional Unit, as of unit functional; None without a function
    z: Lanes  #: function of the outputs, fp16 words; 0 without one
    top: int  #: in softmax, the largest output so far, an fp16 word
    terms: Lanes  #: in softmax, the exponentials of the outputs so far, words
    total: int  #: in softmax, the sum of the exponentials so far, a float32 word
    cycles: int  #: cycles of all tokens, one after the other: of search, clustering, lanes and function
    search_cycles: int  #: cycles of Orizuru
    cluster_cycles: int  #: cycles of the Clustering Unit, sixteen inliers each
    edges: int  #: clock edges of the lanes, which work side by side
    comparisons: int  #: uses of a comparator in Orizuru
    distances: int  #: distances to a centroid computed by the Clustering Unit, or comparisons with a midpoint
    count_cycles: int  #: edges in which the counters of a lane count, summed over the lanes
    stalls: int  #: edges in which the counters of a lane have positions to count and must wait, summed over the lanes
    merge_cycles: int  #: edges in which a lane merges a histogram, summed over the lanes
    mac_cycles: int  #: edges in which the MACs of a lane work, summed over the lanes
    tiles: int  #: tiles begun by all lanes; a tile is the columns that a lane reduces side by side
    concats: int  #: Concat registers written, padding included
    indices: int  #: positions counted, outliers and padding left out
    lookups: int  #: counts multiplied by an entry of the product codebook
    macs_reduce: int  #: multiply-adds of a count and its codebook entry
    macs_sparse: int  #: multiply-adds at outliers
    dequants: int  #: centroids multiplied by a scale for the sparse path
    mults_scale: int  #: products of the scales of the token and of a column
    adds_merge: int  #: additions of the dense and the sparse sum of a column
    overflows: int  #: outputs that are not finite
    function_cycles: int  #: cycles of the Functional Unit
    exps: int  #: exponentials computed by the Functional Unit
    roots: int  #: square roots computed by the Functional Unit
    divides: int  #: reciprocals and divisions computed by the Functional Unit


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
        registers = Functional(config["function"], n, config["softmax"]).ports.state
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
