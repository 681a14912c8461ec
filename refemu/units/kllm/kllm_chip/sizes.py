"""Sizes of KLLM's chip, and what follows from them: the lane of a column, the passes of a product.

Paper: [kllm §IV-A, Fig. 6, Table I].
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Literal

from refemu.arith.checks import Refused
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.units.kllm.pe_lane import LaneMapping, Merge, PeLane

KILOBYTE = 8 << 10  #: bits
BUFFERS = {"weight": 2 * KILOBYTE, "index": 32 * KILOBYTE, "codebook": 2 * KILOBYTE, "out": 136 * KILOBYTE}
OUT_BITS = 17  #: bits of an output: fp16, and the mask bit of an outlier
Carry = Literal["counts", "sums"]  #: carried from slab to slab of a long column: counts, or weighted sums (D-kllm-47)
CLUSTERING = 16  #: values that are clustered in a cycle (D-kllm-31)


@parameters
class ChipSizes:
    """Sizes of a chip, by default those of [kllm Table I]."""

    lanes: Annotated[int, 1, 1 << 20] = 16  #: lanes of the chip
    concat: Annotated[int, 1, 1 << 20] = 4096  #: Concat units a lane
    counters: Annotated[int, 1, 1 << 20] = 32  #: index counters a lane
    counter_inputs: Annotated[int, 1, 1 << 20] = 16  #: positions that a counter takes a cycle
    macs: Annotated[int, 1, 1 << 20] = 32  #: MACs a lane: columns of a lane in one tile
    tree: Annotated[int, 1, 1 << 20] = 4096  #: inputs of Orizuru, of 273 units
    #: bits of each buffer, "weight" for each lane, the others for the chip
    buffers: Mapping[str, int] = field(default_factory=lambda: dict(BUFFERS))
    lane_mapping: LaneMapping = "column"  #: which columns the counters of a lane count (D-kllm-31)
    merge: Merge = "tree"  #: how partial histograms are added (D-kllm-42)
    carry: Carry = "counts"  #: what is carried from slab to slab of a long column (D-kllm-47)

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "ChipSizes")
        if set(self.buffers) != set(BUFFERS):
            raise Refused(f"ChipSizes: buffers must be {', '.join(BUFFERS)}, got {', '.join(self.buffers)}")

    @property
    def tile(self) -> int:
        """Columns that all MACs reduce in parallel."""
        return self.lanes * self.macs

    @property
    def positions(self) -> int:
        """Positions of a slab along K."""
        return self.concat // (self.counters if self.lane_mapping == "counter" else 1)

    @property
    def turn(self) -> int:
        """Positions that a lane counts in an edge, along K."""
        return self.counter_inputs * (1 if self.lane_mapping == "counter" else self.counters)

    def lane(self, a_bits: int, b_bits: int, integer: bool = False, counter_bits: int = 18) -> PeLane:
        """Make a lane of these sizes, at reset; raises Refused if the sizes do not match."""
        sizes = self.concat, self.counters, self.counter_inputs, self.macs
        return PeLane(*sizes, a_bits, b_bits, integer, self.lane_mapping, self.merge, counter_bits)

    def counter_bits(self, k: int, a_bits: int, integer: bool = False) -> int:
        """Width of a count of `k` positions: 13 bits for 4,096. a_bits: of A's integers, which are amounts."""
        held = min(k, self.positions) if self.carry == "sums" else k
        return max(1, (held * ((1 << a_bits) - 1 if integer else 1)).bit_length())

    def rows_at_once(self, k: int, n: int, a_bits: int, entries: int) -> int:
        """Rows whose indices and outputs fit the buffers at once, at least 1; a larger batch is divided into parts.

        k, n: positions and columns. entries: of the codebook. Raises Refused if a single row, a codebook, or a slab of
        weights of 4 bits is too large.
        """
        needed = {"weight": self.concat * 4, "index": k * a_bits, "codebook": entries * 16, "out": n * OUT_BITS}
        for name, bits in needed.items():
            if bits > self.buffers[name]:
                raise Refused(f"ChipSizes: buffer {name} must hold {bits} bits, got {self.buffers[name]}")
        return min(self.buffers[name] // max(needed[name], 1) for name in ("index", "out"))
