"""Sizes of KLLM's chip, and the lane of each column, cycle counts and buffer capacities that follow.

Paper: [kllm §IV-A, Fig. 6, Table I]. Decision: D-kllm-31 (lanes and every cycle count are a model of refemu's own).
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, get_args

from refemu.arith.checks import Refused, require_choice, require_int
from refemu.arith.records import parameters, plain_fields

KILOBYTE = 8 << 10  #: bits
BUFFERS = {"weight": 2 * KILOBYTE, "index": 32 * KILOBYTE, "codebook": 2 * KILOBYTE, "out": 136 * KILOBYTE}
LaneMapping = Literal["column", "counter"]  #: all counters of a lane on one column, or each on its own (D-kllm-31)


@parameters
class ChipSizes:
    """Sizes of a chip, by default those of [kllm Table I], and cycle counts that follow from them (D-kllm-31)."""

    lanes: int = 16  #: lanes of the chip
    concat: int = 4096  #: Concat units a lane: the longest column
    counters: int = 32  #: index counters a lane
    counter_inputs: int = 16  #: positions that a counter takes a cycle
    macs: int = 32  #: MACs a lane: columns of a lane in one tile
    buffers: Mapping[str, int] = field(default_factory=lambda: dict(BUFFERS))  #: bits: "weight" a lane, the others all
    lane_mapping: LaneMapping = "column"  #: which columns the counters of a lane count (D-kllm-31)

    def __post_init__(self) -> None:
        plain_fields(self)
        for name in ("lanes", "concat", "counters", "counter_inputs", "macs"):
            require_int(getattr(self, name), 1, 1 << 20, "ChipSizes", name)
        require_choice(self.lane_mapping, get_args(LaneMapping), "ChipSizes", "lane_mapping")
        if set(self.buffers) != set(BUFFERS):
            raise Refused(f"ChipSizes: buffers must be {', '.join(BUFFERS)}, got {', '.join(self.buffers)}")

    def lane_of(self, n: int) -> int:
        """Lane of an output column: `macs` columns each in turn.

        Parameters
        ----------
        n : int
            Column.

        Returns
        -------
        int
            Lane.
        """
        return n // self.macs % self.lanes

    def tiles(self, n: int) -> int:
        """Number of tiles of a product.

        Parameters
        ----------
        n : int
            Columns.

        Returns
        -------
        int
            Tiles of `lanes * macs` columns.
        """
        return -(-n // (self.lanes * self.macs))

    def count_cycles(self, k: int) -> int:
        """Cycles in which the lanes count the columns of a tile.

        Parameters
        ----------
        k : int
            Positions of a column.

        Returns
        -------
        int
            Cycles.
        """
        if self.lane_mapping == "counter":
            return -(-self.macs // self.counters) * -(-k // self.counter_inputs)
        return self.macs * -(-k // (self.counters * self.counter_inputs))

    def mac_cycles(self, entries: int, left_out: int) -> int:
        """Cycles in which each MAC reduces one column: entries, sparse products, scale, merge.

        Parameters
        ----------
        entries : int
            Entries of the product codebook, one per counter.
        left_out : int
            Sparse products.

        Returns
        -------
        int
            Cycles.
        """
        return entries + left_out + 2

    def cycles(self, k: int, n: int, entries: int, left_out: int) -> int:
        """Cycles of one row by n columns: counting a tile overlaps the reduction of the one before.

        Parameters
        ----------
        k : int
            Positions of a column.
        n : int
            Columns.
        entries : int
            Entries of the product codebook.
        left_out : int
            Sparse products of a column.

        Returns
        -------
        int
            Cycles.
        """
        count, mac = self.count_cycles(k), self.mac_cycles(entries, left_out)
        return self.tiles(n) * max(count, mac) + min(count, mac) if n else 0

    def clustering_cycles(self, n: int) -> int:
        """Cycles in which n values get their indices, sixteen at a time.

        Parameters
        ----------
        n : int
            Values.

        Returns
        -------
        int
            Cycles.
        """
        return -(-n // 16)

    def quantize_cycles(self, n: int, k: int) -> int:
        """Cycles from fp16 values to indices: Orizuru pops the outliers, then the values are clustered.

        Parameters
        ----------
        n : int
            Values.
        k : int
            Outliers of each side; 0 skips Orizuru.

        Returns
        -------
        int
            Cycles.
        """
        levels = max(1, (n - 1).bit_length())
        return (levels + k * (1 + levels) if k else 0) + self.clustering_cycles(n)

    def batch_cycles(self, tokens: int, quantize: int, matmul: int) -> int:
        """Cycles of a batch: a token is quantized while the one before is multiplied [kllm §V-D].

        Parameters
        ----------
        tokens : int
            Tokens of the batch.
        quantize, matmul : int
            Cycles of one token.

        Returns
        -------
        int
            Cycles.
        """
        return quantize + (tokens - 1) * max(quantize, matmul) + matmul if tokens else 0

    def softmax_cycles(self, scores: int) -> int:
        """Cycles of maximum, exponential and division over a row, on eight lanes each.

        Parameters
        ----------
        scores : int
            Values of the row.

        Returns
        -------
        int
            Cycles.
        """
        return 3 * -(-scores // 8)

    def head_cycles(self, softmax: Sequence[int], matmul: Sequence[int]) -> int:
        """Cycles of all heads: softmax of a head overlaps scores x V of the one before [kllm §IV-A].

        Parameters
        ----------
        softmax, matmul : sequence of int
            Cycles of each head.

        Returns
        -------
        int
            Cycles.

        Raises
        ------
        Refused
            The sequences are empty or of different lengths.
        """
        if len(softmax) != len(matmul) or not softmax:
            raise Refused(f"ChipSizes: every head needs both times, got {len(softmax)} and {len(matmul)}")
        total = softmax[0] + matmul[-1]
        for head in range(1, len(softmax)):
            total += max(softmax[head], matmul[head - 1])
        return total

    def require_capacity(
        self, rows: int, k: int, n: int, a_bits: int, b_bits: int, entry_bits: int = 16, integer: bool = False
    ) -> None:
        """Check that the buffers hold a MatMul, rows x K by K x n, at once.

        Parameters
        ----------
        rows, k, n : int
            Sizes of the MatMul.
        a_bits, b_bits : int
            Widths of the indices.
        entry_bits : int
            Width of an entry of the codebook.
        integer : bool
            Whether A holds integers.

        Raises
        ------
        Refused
            A column is longer than the Concat units of a lane, or a buffer is too small.
        """
        entries = 1 << (b_bits if integer else a_bits + b_bits)
        needed = {
            "weight": k * b_bits,
            "index": rows * k * a_bits,
            "codebook": entries * entry_bits,
            "out": rows * n * 17,
        }
        if k > self.concat:
            raise Refused(f"ChipSizes: a column of {k} needs as many Concat units, a lane has {self.concat}")
        for name, bits in needed.items():
            if bits > self.buffers[name]:
                raise Refused(f"ChipSizes: buffer {name} must hold {bits} bits, it has {self.buffers[name]}")
