"""Other answers to the decisions of harmonia_core."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith import fp16, fp32, rotary
from refemu.arith.orders import Sequential
from refemu.units.alternative import Alternative, choices
from refemu.units.harmonia import k_offset
from refemu.units.harmonia.alternatives import accumulation
from refemu.units.harmonia.alternatives.parts import variant
from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS
from refemu.units.harmonia.harmonia_core.plan import Action
from refemu.units.harmonia.harmonia_core.ports import State
from refemu.units.harmonia.harmonia_core.unit import HarmoniaCore, registers
from refemu.units.harmonia.harmonia_core.vector_unit import vector
from refemu.units.harmonia.k_offset import KOffsetGenerator
from refemu.units.ports import fields


class Even(HarmoniaCore):
    """The converter rounds to even."""

    def _convert(self, before: State, action: Action) -> State:
        self.conversion["rounding"] = "half_even"
        return super()._convert(before, action)


class Flushing(HarmoniaCore):
    """The converter takes subnormals as 0."""

    def _convert(self, before: State, action: Action) -> State:
        self.conversion["subnormals"] = "flush"
        return super()._convert(before, action)


class Canonical(HarmoniaCore):
    """The converter gives a magnitude of 0 the sign 0."""

    def _convert(self, before: State, action: Action) -> State:
        self.conversion["zero_sign"] = "canonical"
        return super()._convert(before, action)


class Before(HarmoniaCore):
    """Offsets are chosen and subtracted before the rotary embedding."""

    def _vector(self, before: State, action: Action) -> State:
        return before if self.shape.shifted else super()._vector(before, action)

    def _offset(self, before: State, action: Action) -> State:
        after, window = super()._offset(before, action), self.shape.tracked
        last = action.row + action.rows
        first = action.row if action.row >= window else 0
        if last < window or self.rotation == "none":
            return after
        y = self._matrix(after.y)
        y[first:last] = vector(self.shape, self.base, y[first:last], self.start + first)
        return replace(after, y=self._words(y))


class Unshifted(HarmoniaCore):
    """Keys of the window keep their values."""

    def _offset(self, before: State, action: Action) -> State:
        after, y = super()._offset(before, action), self._matrix(before.y)
        shifted, window = self._matrix(after.y), self.shape.tracked
        shifted[:window] = y[:window]
        return replace(after, y=self._words(shifted))


class Ignoring(HarmoniaCore):
    """Keys behind the window keep their values, whatever offsets were frozen."""

    def _offset(self, before: State, action: Action) -> State:
        after, y = super()._offset(before, action), self._matrix(before.y)
        shifted, window = self._matrix(after.y), self.shape.tracked
        shifted[window:] = y[window:]
        return replace(after, y=self._words(shifted))


class ByRow(HarmoniaCore):
    """The first rows of every product choose its offsets, wherever they stand: those of the prompt are not read."""

    def _offset(self, before: State, action: Action) -> State:
        if self.start == 0:
            return super()._offset(before, action)
        y, generator = self._matrix(before.y), KOffsetGenerator(self.columns)
        generator.restore(k_offset.State(*before.offsets) if action.row else generator.state)
        window = min(self.window, self.rows)
        for row in range(action.row, action.row + action.rows):
            if row < window:
                generator.track(fp16.values(y[row]), row == window - 1)
        if action.row + action.rows >= window:
            generator.select()
            first = 0 if action.row < window else action.row
            words = np.array(fields(generator.state.rows)).reshape(-1, self.columns)
            for row in range(first, action.row + action.rows):
                word = y[row] if row >= window else words[row]
                y[row] = generator._shifted(tuple(word.tolist()), int(row >= window))
        return replace(before, y=self._words(y), offsets=registers(generator), offset=generator.state.offset)


class RoundedAngles(HarmoniaCore):
    """Rotary angles are rounded to FP32."""

    def _vector(self, before: State, action: Action) -> State:
        if self.kind not in ("q", "k"):
            return super()._vector(before, action)
        y = self._matrix(before.y)
        some = np.s_[action.row : action.row + action.rows, action.column : action.column + action.columns]
        positions = self.start + action.row + np.arange(action.rows)
        turns = rotary.rotary(positions, self.head_dim, self.base, mode="f32_angle")
        cos, sin = (table.astype(np.float32) for table in turns)
        heads = fp16.to_f32(fp16.values(y[some]))[:, None]
        turned = fp32.rotate(heads, cos, sin, self.rotation == "interleaved")[:, 0]
        y[some] = fp16.bits(fp16.to_f16(turned))
        return replace(before, y=self._words(y))


class Scores(HarmoniaCore):
    """Scores reach the softmax as `_scores` gives them."""

    def _fp2half(self, before: State, action: Action) -> State:
        after = super()._fp2half(before, action)
        if self.kind != "score":
            return after
        block = self._placed(before.sums, action)
        y = self._matrix(after.y).astype(np.int64)
        y[action.row : action.row + action.rows, action.column : action.column + action.columns] = block
        return replace(after, y=self._words(y))

    def _vector(self, before: State, action: Action) -> State:
        if self.kind != "score":
            return super()._vector(before, action)
        y = self._matrix(before.y)
        for row in range(action.row, action.row + action.rows):
            seen = self.start + row + 1
            x = self._scores(y[row, :seen].astype(np.uint32).view(np.float32))
            y[row] = 0
            y[row, :seen] = fp16.bits(fp16.to_f16(fp32.softmax32(x[None], Sequential())[0]))
        return replace(before, y=self._words(y))

    def _scores(self, sums: np.ndarray) -> np.ndarray:
        """What the softmax takes of float32 sums."""
        return fp16.round16(sums) * self._factor

    @property
    def _factor(self) -> np.float32:
        return np.float32(1 / np.sqrt(np.float64(self.inner)))

    def _placed(self, sums: Sequence[int], action: Action) -> np.ndarray:
        """The block of float32 words whose array passes lie one after the other."""
        down, across = -(-action.rows // ROWS), -(-action.columns // COLUMNS)
        passes = np.array(sums, np.int64).reshape(down, across, ROWS, COLUMNS).swapaxes(1, 2)
        return np.asarray(passes.reshape(down * ROWS, across * COLUMNS)[: action.rows, : action.columns])


class ScaledFirst(Scores):
    """Scores are scaled in FP32 before FP2Half."""

    def _scores(self, sums: np.ndarray) -> np.ndarray:
        return fp16.round16(sums * self._factor)


class ScaledInHalf(Scores):
    """Scores are scaled in FP16 behind FP2Half."""

    def _scores(self, sums: np.ndarray) -> np.ndarray:
        return fp16.round16(super()._scores(sums))


class FullScores(Scores):
    """The softmax takes FP32 sums."""

    def _scores(self, sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums * self._factor)


def _accumulator(device: Any) -> Any:
    return device.array.accumulator


ALTERNATIVES: tuple[Alternative, ...] = (
    Alternative("D-harmonia-2", "the converter rounds to even", variant=Even),
    Alternative("D-harmonia-4", "the converter flushes subnormals", variant=Flushing),
    Alternative("D-harmonia-6", "a magnitude of 0 has sign 0", variant=Canonical),
    *choices("D-harmonia-7", "partial", "fp32"),
    Alternative(
        "D-harmonia-11",
        "the nibbles' sums are converted apart, then added in FP32",
        variant=variant(HarmoniaCore, _accumulator, accumulation.Apart),
    ),
    Alternative("D-harmonia-25", "offsets before the rotary embedding", variant=Before),
    Alternative("D-harmonia-26", "keys of the window are not shifted", variant=Unshifted),
    Alternative("D-harmonia-26", "keys behind the window are not shifted", variant=Ignoring),
    Alternative("D-harmonia-26", "the first rows of every product choose its offsets", variant=ByRow),
    Alternative("D-harmonia-27", "scores are scaled in FP32, before FP2Half", variant=ScaledFirst),
    Alternative("D-harmonia-27", "scores are scaled in FP16", variant=ScaledInHalf),
    Alternative("D-harmonia-28", "the softmax takes FP32 scores", variant=FullScores),
    Alternative(
        "D-arith-2",
        "partial sums are truncated to FP16",
        variant=variant(HarmoniaCore, _accumulator, accumulation.Truncating),
    ),
    Alternative("D-arith-8", "rotary angles are rounded to FP32", variant=RoundedAngles),
)
