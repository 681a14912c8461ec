"""One matrix product through the whole accelerator: tile fetches, the array, FP16, vector unit, offsets, converter.

Paper: [harmonia §IV-A, Fig. 12], steps (1) to (7). Composed of fdgf, bfp_pe_array, fp2half, k_offset, bfp_converter.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from refemu.arith import fp16
from refemu.arith.integers import total
from refemu.units import Changes, DeclaredState, Lanes, constant, decides
from refemu.units.harmonia import bfp_converter
from refemu.units.harmonia.bfp_accumulator import M8M8
from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS, BfpPeArray
from refemu.units.harmonia.fp2half import Fp2Half
from refemu.units.harmonia.harmonia_core import passes
from refemu.units.harmonia.harmonia_core.gemm import Gemm
from refemu.units.harmonia.harmonia_core.passes import Pass
from refemu.units.harmonia.harmonia_core.plan import LANES, Action, group_edges, group_shape, plan
from refemu.units.harmonia.harmonia_core.vector_unit import biased, vector
from refemu.units.harmonia.k_offset import KOffsetGenerator


class HarmoniaCore(Gemm):
    """Accelerator for one product: an event is a step of [harmonia §IV-A] for a tile or a block.

    Matrices are row-major. A result beyond FP16 raises when it reaches the converter.
    """

    name = "harmonia_core"
    events: ClassVar[tuple[str, ...]] = (
        "load",
        "dispatch",
        "compute",
        "fp2half",
        "bias",
        "vector",
        "offset",
        "convert",
        "store",
    )
    counters: ClassVar[dict[str, str]] = {
        "fetched": "elements of A and B fetched",
        "reads": "groups read by each dispatcher",
        "words": "words of 128 bits that the dispatcher of B read, a nibble of each of the 32 elements of a group",
        "passes": "passes of the array, each over 8 rows of A and 16 columns of B",
        "cycles": "compute cycles of the array",
        "macs": "products of two elements in the array",
        "wide_macs": "products of two elements in groups of mode M8M8",
        "fp32_adds": "additions to an accumulator of the array in FP32",
        "half_columns": "columns of eight sums that FP2Half converted",
        "bias_adds": "elements of C to which a bias was added",
        "compare_cycles": "clocks of the converter in which a column arrived",
        "align_cycles": "clocks of the converter in which a column left",
        "comparisons": "comparisons of two exponents in the converter",
        "tracked": "comparisons of the K-offset generator: of magnitudes with peaks, and of peaks",
        "subtractions": "offsets subtracted from keys, one for each token and chosen channel",
        "stored": "elements of C stored",
    }
    registers: ClassVar[dict[str, str]] = {
        "phase": "number of the last event in its product, from 0",
        **{name: f"{meaning}; () without such a port" for name, (_, meaning) in Gemm.optional.items()},
        "offset": "offset subtracted from every key, by channel, FP16 words; () without such a port",
        "array_cycles": 'compute cycles of the array in this product, counted with b_type="mixed" alone',
        "array_words": "words of 128 bits that the dispatcher of B read in this product, a nibble of each of the 32 "
        'elements of a group; counted with b_type="mixed" alone',
        "sums": "FP32 words of a block between the array and FP2Half, tile after tile, 8 x 16 each",
        "offsets": "registers of the K-offset generator: its State, as of unit k_offset",
    }
    conversion: ClassVar[Mapping[str, Any]] = {}  #: options of the converter

    @constant
    def initial(self) -> Mapping[str, Any]:
        """No values where a port is missing."""
        present = {port.name for port in self.ports.all}
        missing = [name for name in (*self.optional, "offset") if name not in present]
        return {**dict.fromkeys(missing, ()), "sums": (), "offsets": self.offsets.state}

    @constant
    def array(self) -> BfpPeArray:
        """The array of PEs."""
        return BfpPeArray(self.groups, self.partial)

    @constant
    def _reset_array(self) -> DeclaredState:
        """The State of the array before a pass."""
        return BfpPeArray(self.groups, self.partial).state

    @property
    def busy(self) -> bool:
        """Whether events of the product remain."""
        return self.state.index >= 0 and self.state.phase < len(self.plan) - 1

    def actions(self, state: DeclaredState) -> tuple[Action, ...]:
        """Actions of the product of a State, in order."""
        return plan(self.shape._replace(tracked=self.window_rows(state)))

    def action(self, state: DeclaredState) -> Action:
        """The action of the event of a State."""
        return self.actions(state)[state.phase]

    def _open(self, *inputs: Any) -> DeclaredState:
        self.begin(inputs)
        return self.execute(0)

    def _continue(self) -> DeclaredState:
        return self.execute(self.state.phase + 1)

    def begin(self, inputs: Sequence[Any]) -> None:
        """Take the operands of a product, before its first event; compute nothing."""
        zeros: dict[str, Any] = {port.name: port.filled(0) for port in self.ports.outputs}
        operands = dict(zip((port.name for port in self.ports.inputs), inputs, strict=True))
        generator = KOffsetGenerator(self.columns)
        if "frozen" in operands:
            generator.freeze(operands["frozen"])
        self.state: DeclaredState = self.latched(*inputs, **zeros, offsets=generator.state)

    def execute(self, number: int) -> DeclaredState:
        """Execute an event of the product, by its number in the plan; usually they come in order."""
        action = self.actions(self.state)[number]
        changes: Changes = getattr(self, action.event)(action)
        return self._commit(action.event, (), {"phase": number, **changes})

    @decides("D-harmonia-45")
    def places(self, state: DeclaredState) -> np.ndarray:
        """Position of every row of the product of a State: int64 (rows,), ascending."""
        if self.positions == "start":
            return self.start + np.arange(self.rows)
        return np.array(state.position, np.int64)

    @decides("D-harmonia-45")
    def window_rows(self, state: DeclaredState) -> int:
        """Number of first rows that choose the offsets; 0 after the window."""
        return int(np.count_nonzero(self.places(state) < self.window)) if self.waits else 0

    def load(self, action: Action) -> Changes:
        """Fetch a tile of A or B."""
        return {"fetched": action.number}

    def dispatch(self, action: Action) -> Changes:
        """Read the groups of a block for the array, again for every pass."""
        before = self.state
        all_passes = [each for place in self._tiles(action) for each in self._passes(before, *place)]
        words = int(total(np.array([each.words for each in all_passes])))
        of_product = {"array_words": before.array_words + words} if self.b_type == "mixed" else {}
        return {"reads": len(all_passes) * self.groups, "words": words, **of_product}

    def _tiles(self, action: Action) -> list[tuple[int, int]]:
        """Corners of the tiles of a block."""
        rows = range(action.row, action.row + action.rows, ROWS)
        columns = range(action.column, action.column + action.columns, COLUMNS)
        return [(row, column) for row in rows for column in columns]

    @decides("D-harmonia-46")
    def _passes(self, state: DeclaredState, row: int, column: int) -> list[Pass]:
        return passes.passes(self, state, row, column)

    @decides("D-harmonia-47")
    def operands(self, state: DeclaredState, row: int, column: int) -> list[Any]:
        """Operands of the array after `mode`, for a tile; 0 beyond the product and past the end of a reduction."""
        return passes.operands(self.shape, state, row, column)

    @decides("D-harmonia-36")
    def modes(self, wide: np.ndarray) -> list[int]:
        """Mode of every group of a pass. wide: bool (rows, 16, groups), codes of B that have 8 bits."""
        return passes.modes(wide)

    def compute(self, action: Action) -> Changes:
        """Compute the sums of the array, stored in `sums` tile after tile, 8 x 16 each."""
        sums: list[int] = []
        counts: dict[str, Any] = dict.fromkeys(("passes", "cycles", "macs", "wide_macs", "fp32_adds"), 0)
        for place in self._tiles(action):
            acc = [0] * (ROWS * COLUMNS)
            for each in self._passes(self.state, *place):
                done = [self._run(each.mode, tile) for tile in each.operands]  # in parallel: they take the same cycles
                for state in done:
                    acc = [new if there else old for new, there, old in zip(state.acc, state.valid, acc, strict=True)]
                counts["passes"] += 1
                counts["cycles"] += done[0].cycles
                wide = each.mode.count(M8M8)
                counts["wide_macs"] += LANES * wide * int(total(np.array([state.valid.count(1) for state in done])))
                for name in ("macs", "fp32_adds"):
                    counts[name] += int(total(np.array([getattr(state, name) for state in done])))
            sums += acc
        if self.b_type == "mixed":
            counts["array_cycles"] = self.state.array_cycles + counts["cycles"]
        return {"sums": tuple(sums), **counts}

    def _run(self, mode: Lanes, tile: Sequence[Any]) -> DeclaredState:
        """State of the array after a pass."""
        self.array.state = self._reset_array
        state = self.array._open(mode, *tile)
        while self.array.busy:
            state = self.array._continue()
        return state

    @decides("D-harmonia-29")
    def bias(self, action: Action) -> Changes:
        """Add biases, in FP32 to the sums of a block, or in FP16 to its words."""
        before, bias = self.state, np.array(self.state.bias)
        if self.bias_add == "after":
            y, some = self._matrix(before.y), block(action)
            y[some] = biased(y[some], bias[some[1]])
            return {"y": self._words(y), "bias_adds": action.number}
        across = -(-action.columns // COLUMNS)
        whole = np.zeros(across * COLUMNS, np.float32)
        whole[: action.columns] = fp16.to_f32(fp16.values(bias[block(action)[1]]))
        tiles = np.array(before.sums, np.uint32).view(np.float32).reshape(-1, across, ROWS, COLUMNS)
        added = (tiles + whole.reshape(across, 1, COLUMNS)).view(np.uint32)
        sums = np.where(self._inside(action), added, 0)
        return {"sums": tuple(sums.ravel().tolist()), "bias_adds": action.number}

    def _inside(self, action: Action) -> np.ndarray:
        """Which sums of a block belong to it: bool (down, across, 8, 16)."""
        down, across = -(-action.rows // ROWS), -(-action.columns // COLUMNS)
        rows, columns = (
            np.arange(n * size) < count
            for n, size, count in (
                (down, ROWS, action.rows),
                (across, COLUMNS, action.columns),
            )
        )
        return rows.reshape(down, 1, ROWS, 1) & columns.reshape(1, across, 1, COLUMNS)

    @decides("D-harmonia-27", "D-harmonia-28")
    def fp2half(self, action: Action) -> Changes:
        """Convert sums to FP16, column by column into the temporary SRAM."""
        y, half = self._matrix(self.state.y), Fp2Half()
        corners = [(row, column) for row in range(0, action.rows, ROWS) for column in range(0, action.columns, COLUMNS)]
        for number, (row, column) in enumerate(corners):
            sums = np.array(self.state.sums[number * ROWS * COLUMNS :][: ROWS * COLUMNS]).reshape(ROWS, COLUMNS)
            for c in range(min(COLUMNS, action.columns - column)):
                words = np.array(half.step(tuple(sums[:, c].tolist())).y)
                place = y[action.row + row : action.row + min(row + ROWS, action.rows), action.column + column + c]
                place[:] = words[: len(place)]
        return {"y": self._words(y), "sums": (), "half_columns": half.state.columns}

    @decides("D-arith-8", "D-harmonia-25", "D-harmonia-27", "D-harmonia-28")
    def vector(self, action: Action) -> Changes:
        """Apply the rotary embedding, the softmax or the activation in the vector unit."""
        y, some = self._matrix(self.state.y), block(action)
        y[some] = vector(self.shape, self.base, y[some], self.places(self.state)[some[0]])
        return {"y": self._words(y)}

    @decides("D-harmonia-25", "D-harmonia-26")
    def offset(self, action: Action) -> Changes:
        """Pass keys through the K-offset generator: keys of the window leave together, others as they come."""
        before, y, generator = self.state, self._matrix(self.state.y), KOffsetGenerator(self.shape.columns)
        generator.restore(before.offsets)
        window = self.window_rows(before)
        for row in range(action.row, action.row + action.rows):
            if row >= window:
                y[row] = generator.step(y[row], 1, 0).k_out
                continue
            generator.step(y[row], 1, int(row == window - 1))
            if row == window - 1:
                for _ in range(generator.chosen):
                    generator.go_on()
                for first in range(window):
                    y[first] = generator.go_on().k_out
        done, was = generator.state, before.offsets
        tracked = done.comparisons + done.select_comparisons - was.comparisons - was.select_comparisons
        counts = {"tracked": tracked, "subtractions": done.subtractions - was.subtractions}
        return {"y": self._words(y), "offsets": done, "offset": done.offset, **counts}

    def convert(self, action: Action) -> Changes:
        """Convert results to BFP codes, a block at a time."""
        before, some, v = self.state, block(action), self.shape.kind == "v"
        kind: bfp_converter.Kind = "v" if v else "token"
        done = bfp_converter.convert(fp16.values(self._matrix(before.y)[some]), kind=kind, m=self.m, **self.conversion)
        sign, mantissa = self._matrix(before.sign), self._matrix(before.mantissa)
        sign[some], mantissa[some] = done.tensor.sign, done.tensor.mantissa
        exponent = np.array(before.exponent).reshape(self._group_shape)
        top, left = (
            (action.row // LANES, action.column) if v else (action.row, group_edges(self.shape).index(action.column))
        )
        down, across = done.tensor.exponent.shape
        exponent[top : top + down, left : left + across] = done.tensor.exponent
        counts = {name: getattr(done, name) for name in ("compare_cycles", "align_cycles", "comparisons")}
        codes = {"sign": sign, "mantissa": mantissa, "exponent": exponent}
        return {**{name: self._words(each) for name, each in codes.items()}, **counts}

    def store(self, action: Action) -> Changes:
        """Store the codes."""
        return {"stored": action.number}

    @property
    def _group_shape(self) -> tuple[int, int]:
        return group_shape(self.shape.kind, self.shape.rows, self.shape.columns, self.shape.head_dim)

    def _matrix(self, words: Any) -> np.ndarray:
        return np.array(words).reshape(self.shape.rows, self.shape.columns)

    def _words(self, matrix: np.ndarray) -> Any:
        return tuple(matrix.ravel().tolist())


def block(action: Action) -> tuple[slice, slice]:
    """The rectangle of C of an event."""
    return slice(action.row, action.row + action.rows), slice(action.column, action.column + action.columns)
