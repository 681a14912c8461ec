"""The events of a product in harmonia_core, each on the registers that the one before it committed.

Paper: [harmonia §IV-A, Fig. 12], steps (1) to (7). Decisions: D-harmonia-25, D-harmonia-26, D-harmonia-29,
D-harmonia-45.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.integers import total
from refemu.units.harmonia import bfp_converter
from refemu.units.harmonia.bfp_accumulator import M8M8
from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS, BfpPeArray
from refemu.units.harmonia.fp2half import Fp2Half
from refemu.units.harmonia.harmonia_core import passes
from refemu.units.harmonia.harmonia_core.passes import Pass
from refemu.units.harmonia.harmonia_core.plan import LANES, Action, Bias, Shape, group_edges, group_shape
from refemu.units.harmonia.harmonia_core.ports import State
from refemu.units.harmonia.harmonia_core.vector_unit import biased, vector
from refemu.units.harmonia.k_offset import KOffsetGenerator
from refemu.units.ports import Lanes, fields, lanes
from refemu.units.stepped import Stepped


class Stages(Stepped[State]):
    """What each event of a product does; `HarmoniaCore` has the configuration, the sub-units and their order."""

    shape: Shape
    array: BfpPeArray
    offsets: KOffsetGenerator
    groups: int
    mode: int
    m: int
    base: int
    b_type: str
    codes: str
    bias_add: Bias
    positions: str
    rows: int
    start: int
    window: int
    waits: bool
    conversion: dict[str, Any]

    def places(self, state: State) -> np.ndarray:
        """Return the position of every row of a product.

        Parameters
        ----------
        state : State
            After its first event.

        Returns
        -------
        ndarray of int64 (rows,)
            Ascending.
        """
        if self.positions == "start":
            return self.start + np.arange(self.rows)
        return np.array(fields(state.position), np.int64)

    def window_rows(self, state: State) -> int:
        """Count the rows, the first ones, that choose the offsets (D-harmonia-45).

        Parameters
        ----------
        state : State
            After the first event of a product.

        Returns
        -------
        int
            0 behind the window.
        """
        return int(np.count_nonzero(self.places(state) < self.window)) if self.waits else 0

    def _load(self, before: State, action: Action) -> State:
        return replace(before, fetched=before.fetched + action.number)

    def _dispatch(self, before: State, action: Action) -> State:
        """Groups go from the buffers to the array, for every pass anew."""
        all_passes = [each for place in self._tiles(action) for each in self._passes(before, *place)]
        words = int(total(np.array([each.words for each in all_passes])))
        after = replace(before, reads=before.reads + len(all_passes) * self.groups, words=before.words + words)
        return replace(after, array_words=before.array_words + words) if self.b_type == "mixed" else after

    def _tiles(self, action: Action) -> list[tuple[int, int]]:
        """Corners of the tiles of a block."""
        rows = range(action.row, action.row + action.rows, ROWS)
        columns = range(action.column, action.column + action.columns, COLUMNS)
        return [(row, column) for row in rows for column in columns]

    def _passes(self, state: State, row: int, column: int) -> list[Pass]:
        return passes.passes(self, state, row, column)

    def operands(self, state: State, row: int, column: int) -> list[Any]:
        """Operands of the array for a tile.

        Parameters
        ----------
        state : State
            Of the product.
        row, column : int
            First ones.

        Returns
        -------
        list
            Values of its ports behind `mode`; 0 beyond the product and in lanes behind the end of a reduction.
        """
        return passes.operands(self.shape, state, row, column)

    def modes(self, wide: np.ndarray) -> list[int]:
        """Mode of every group of a pass.

        Parameters
        ----------
        wide : ndarray of bool (rows, 16, groups)
            Codes of B that have 8 bits.

        Returns
        -------
        list of int
            As of `bfp_pe`.
        """
        return passes.modes(wide)

    def _compute(self, before: State, action: Action) -> State:
        """The array passes of a block; results lie in `sums` tile after tile, 8 x 16 each."""
        sums: list[int] = []
        counts = dict.fromkeys(("passes", "cycles", "macs", "wide_macs", "fp32_adds"), 0)
        for place in self._tiles(action):
            acc = [0] * (ROWS * COLUMNS)
            for each in self._passes(before, *place):
                done = [self._run(each.mode, tile) for tile in each.operands]  # side by side: their cycles are the same
                for state in done:
                    acc = [new if there else old for new, there, old in zip(state.acc, state.valid, acc, strict=True)]
                counts["passes"] += 1
                counts["cycles"] += done[0].cycles
                wide = fields(each.mode).count(M8M8)
                counts["wide_macs"] += LANES * wide * int(total(np.array([state.valid.count(1) for state in done])))
                for name in ("macs", "fp32_adds"):
                    counts[name] += int(total(np.array([getattr(state, name) for state in done])))
            sums += acc
        totals: dict[str, Any] = {name: getattr(before, name) + count for name, count in counts.items()}
        if self.b_type == "mixed":
            totals["array_cycles"] = before.array_cycles + counts["cycles"]
        return replace(before, sums=tuple(sums), **totals)

    def _run(self, mode: Lanes, tile: Sequence[Any]) -> Any:
        """State of the array behind a pass."""
        self.array.state = BfpPeArray(self.groups).state
        state = self.array.step(mode, *tile)
        while self.array.busy:
            state = self.array.step()
        return state

    def _bias(self, before: State, action: Action) -> State:
        """In FP32 to the sums of a block, or in FP16 to its words in the temporary SRAM (D-harmonia-29)."""
        after, bias = replace(before, bias_adds=before.bias_adds + action.number), np.array(fields(before.bias))
        some = np.s_[action.row : action.row + action.rows, action.column : action.column + action.columns]
        if self.bias_add == "after":
            y = self._matrix(before.y)
            y[some] = biased(y[some], bias[some[1]])
            return replace(after, y=self._words(y))
        across = -(-action.columns // COLUMNS)
        whole = np.zeros(across * COLUMNS, np.float32)
        whole[: action.columns] = fp16.to_f32(fp16.values(bias[some[1]]))
        tiles = np.array(before.sums, np.uint32).view(np.float32).reshape(-1, across, ROWS, COLUMNS)
        added = (tiles + whole.reshape(across, 1, COLUMNS)).view(np.uint32)
        return replace(after, sums=tuple(np.where(self._inside(action), added, 0).ravel().tolist()))

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

    def _fp2half(self, before: State, action: Action) -> State:
        """Column by column into the temporary SRAM."""
        y, half = self._matrix(before.y), Fp2Half()
        places = [(row, column) for row in range(0, action.rows, ROWS) for column in range(0, action.columns, COLUMNS)]
        for number, (row, column) in enumerate(places):
            block = np.array(before.sums[number * ROWS * COLUMNS :][: ROWS * COLUMNS]).reshape(ROWS, COLUMNS)
            for c in range(min(COLUMNS, action.columns - column)):
                words = np.array(half.step(tuple(block[:, c].tolist())).y)
                place = y[action.row + row : action.row + min(row + ROWS, action.rows), action.column + column + c]
                place[:] = words[: len(place)]
        return replace(before, y=self._words(y), sums=(), half_columns=before.half_columns + half.state.columns)

    def _vector(self, before: State, action: Action) -> State:
        y = self._matrix(before.y)
        some = np.s_[action.row : action.row + action.rows, action.column : action.column + action.columns]
        y[some] = vector(self.shape, self.base, y[some], self.places(before)[some[0]])
        return replace(before, y=self._words(y))

    def _offset(self, before: State, action: Action) -> State:
        """Tokens in order: tracked in the window, which leaves as a whole, then shifted as they come."""
        y, generator = self._matrix(before.y), KOffsetGenerator(self.shape.columns)
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
        return replace(
            before,
            y=self._words(y),
            offsets=done,
            tracked=before.tracked + tracked,
            offset=done.offset,
            subtractions=before.subtractions + done.subtractions - was.subtractions,
        )

    def _convert(self, before: State, action: Action) -> State:
        """A block by the converter; codes go to their places."""
        some = np.s_[action.row : action.row + action.rows, action.column : action.column + action.columns]
        kind: bfp_converter.Kind = "v" if self.shape.kind == "v" else "token"
        done = bfp_converter.convert(fp16.values(self._matrix(before.y)[some]), kind=kind, m=self.m, **self.conversion)
        sign, mantissa = self._matrix(before.sign), self._matrix(before.mantissa)
        sign[some], mantissa[some] = done.tensor.sign, done.tensor.mantissa
        exponent = np.array(fields(before.exponent)).reshape(self._group_shape)
        v = self.shape.kind == "v"
        top, left = (
            (action.row // LANES, action.column) if v else (action.row, group_edges(self.shape).index(action.column))
        )
        exponent[top : top + len(done.tensor.exponent), left : left + done.tensor.exponent.shape[1]] = (
            done.tensor.exponent
        )
        return replace(
            before,
            sign=self._words(sign),
            mantissa=self._words(mantissa),
            exponent=self._words(exponent),
            compare_cycles=before.compare_cycles + done.compare_cycles,
            align_cycles=before.align_cycles + done.align_cycles,
            comparisons=before.comparisons + done.comparisons,
        )

    def _store(self, before: State, action: Action) -> State:
        return replace(before, stored=before.stored + action.number)

    @property
    def _group_shape(self) -> tuple[int, int]:
        return group_shape(self.shape.kind, self.shape.rows, self.shape.columns, self.shape.head_dim)

    def _matrix(self, words: Any) -> np.ndarray:
        return np.array(fields(words)).reshape(self.shape.rows, self.shape.columns)

    def _words(self, matrix: np.ndarray) -> Any:
        return lanes(matrix.ravel().tolist())
