"""Variants of the decisions of harmonia_core."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith import fp16, fp32, rotary
from refemu.arith.checks import Refused
from refemu.arith.orders import Sequential
from refemu.units import Changes, Config, DeclaredState
from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS, BfpPeArray
from refemu.units.harmonia.harmonia_core.core import HarmoniaCore, block
from refemu.units.harmonia.harmonia_core.passes import Pass
from refemu.units.harmonia.harmonia_core.plan import LANES, Action
from refemu.units.harmonia.harmonia_core.vector_unit import vector
from refemu.units.harmonia.k_offset import KOffsetGenerator
from refemu.units.harmonia.variants import accumulation
from refemu.units.variant import Variant, choices, of_part, overriding


def _shift_first(old: HarmoniaCore, self: HarmoniaCore, action: Action) -> Changes:
    """Offsets are chosen and subtracted, then keys are rotated."""
    changes, window = old.offset(action), self.window_rows(self.state)
    last = action.row + action.rows
    first = action.row if action.row >= window else 0
    if last < window or self.rotation == "none":
        return changes
    y = self._matrix(changes["y"])
    y[first:last] = vector(self.shape, self.base, y[first:last], self.places(self.state)[first:last])
    return {**changes, "y": self._words(y)}


def _unshifted(old: HarmoniaCore, self: HarmoniaCore, action: Action, after: bool) -> Changes:
    """Keys of the window, or those after it, stay as they are."""
    changes, y, window = old.offset(action), self._matrix(self.state.y), self.window_rows(self.state)
    shifted, some = self._matrix(changes["y"]), slice(window, None) if after else slice(window)
    shifted[some] = y[some]
    return {**changes, "y": self._words(shifted)}


def _by_row(old: HarmoniaCore, self: HarmoniaCore, action: Action) -> Changes:
    """The first rows are tracked, at any position; offsets of the prompt are not read."""
    if self.start == 0:
        return old.offset(action)
    y, generator = self._matrix(self.state.y), KOffsetGenerator(self.columns)
    generator.restore(self.state.offsets if action.row else generator.state)
    window = min(self.window, self.rows)
    for row in range(action.row, action.row + action.rows):
        if row < window:
            generator.step(y[row], 1, int(row == window - 1))
    if action.row + action.rows >= window:
        for _ in range(generator.chosen):
            generator.go_on()
        first = 0 if action.row < window else action.row
        words = np.array(generator.state.rows).reshape(-1, self.columns)
        for row in range(first, action.row + action.rows):
            word = y[row] if row >= window else words[row]
            y[row] = generator._shifted(tuple(word.tolist()), int(row >= window))
    return {"y": self._words(y), "offsets": generator.state, "offset": generator.state.offset}


def _rounded_angles(old: HarmoniaCore, self: HarmoniaCore, action: Action) -> Changes:
    if self.kind not in ("q", "k"):
        return old.vector(action)
    y, some = self._matrix(self.state.y), block(action)
    turns = rotary.rotary(self.places(self.state)[some[0]], self.head_dim, self.base, mode="f32_angle")
    cos, sin = (table.astype(np.float32) for table in turns)
    heads = fp16.to_f32(fp16.values(y[some]))[:, None]
    turned = fp32.rotate(heads, cos, sin, self.rotation == "interleaved")[:, 0]
    y[some] = fp16.bits(fp16.to_f16(turned))
    return {"y": self._words(y)}


class Scores(HarmoniaCore):
    """Scores reach the softmax as `_scores` gives them."""

    def fp2half(self, action: Action) -> Changes:
        """Pass the sums on."""
        changes = super().fp2half(action)
        if self.kind != "score":
            return changes
        y = self._matrix(changes["y"]).astype(np.int64)
        y[block(action)] = self._placed(self.state.sums, action)
        return {**changes, "y": self._words(y)}

    def vector(self, action: Action) -> Changes:
        """Apply the softmax to the scores."""
        if self.kind != "score":
            return super().vector(action)
        y = self._matrix(self.state.y)
        for row in range(action.row, action.row + action.rows):
            seen = int(self.places(self.state)[row]) + 1
            x = self._scores(y[row, :seen].astype(np.uint32).view(np.float32))
            y[row] = 0
            y[row, :seen] = fp16.bits(fp16.to_f16(fp32.softmax32(x[None], Sequential())[0]))
        return {"y": self._words(y)}

    def _scores(self, sums: np.ndarray) -> np.ndarray:
        """Scores that the softmax takes, from float32 sums."""
        return fp16.round16(sums) * self._factor

    @property
    def _factor(self) -> np.float32:
        return np.float32(1 / np.sqrt(np.float64(self.inner)))

    def _placed(self, sums: Sequence[int], action: Action) -> np.ndarray:
        """The block of float32 words whose array passes are stored one after the other."""
        down, across = -(-action.rows // ROWS), -(-action.columns // COLUMNS)
        passes = np.array(sums, np.int64).reshape(down, across, ROWS, COLUMNS).swapaxes(1, 2)
        return np.asarray(passes.reshape(down * ROWS, across * COLUMNS)[: action.rows, : action.columns])


def _one_set(old: HarmoniaCore, self: HarmoniaCore, state: DeclaredState, row: int, column: int) -> list[Pass]:
    if self.b_type != "mixed":
        return old._passes(state, row, column)
    units = len(state.wide) // self.rows
    wide = state.wide[row * units : (row + 1) * units] * self.rows
    return old._passes(replace(state, wide=tuple(wide)), row, column)


def _filled(old: HarmoniaCore, self: HarmoniaCore, state: DeclaredState, row: int, column: int) -> list[Any]:
    tile, rest = old.operands(state, row, column), self.inner % LANES
    if not rest:
        return tile
    for place in (2, 3, 5, 6):  # signs and magnitudes of a, codes and signs of b
        lanes_of = np.array(tile[place]).reshape(-1, self.groups, LANES)
        lanes_of[:, -1, rest:] = lanes_of[:, -1, rest - 1 : rest]
        tile[place] = tuple(lanes_of.ravel().tolist())
    return tile


def _before_half(config: Config) -> Config:
    if config["bias_add"] == "none":
        raise Refused("harmonia_core: no bias to leave out")
    return Config(**{**config, "bias_add": "accumulator"})


def _accumulator(says: str) -> Variant:
    (part,) = of_part(BfpPeArray, "accumulator", [each for each in accumulation.PARTS if each.says == says])
    return of_part(HarmoniaCore, "array", [part])[0]


_device, _scores = overriding(HarmoniaCore), overriding(Scores)
VARIANTS: tuple[Variant, ...] = (
    _device("D-harmonia-2: the converter rounds to even", conversion={"rounding": "half_even"}),
    _device("D-harmonia-4: the converter flushes subnormals", conversion={"subnormals": "flush"}),
    _device("D-harmonia-6: a magnitude of 0 has sign 0", conversion={"zero_sign": "canonical"}),
    *choices("D-harmonia-7", "partial", "fp32"),
    _accumulator("the nibbles' sums are converted separately, then added in FP32"),
    _device(
        "D-harmonia-25: offsets before the rotary embedding",
        vector=lambda old, self, action: {} if self.shape.shifted else old.vector(action),
        offset=_shift_first,
    ),
    _device(
        "D-harmonia-26: keys of the window are not shifted",
        offset=lambda old, self, action: _unshifted(old, self, action, after=False),
    ),
    _device(
        "D-harmonia-26: keys after the window are not shifted",
        offset=lambda old, self, action: _unshifted(old, self, action, after=True),
    ),
    _device("D-harmonia-26: the first rows of every product choose its offsets", offset=_by_row),
    _scores(
        "D-harmonia-27: scores are scaled in FP32, before FP2Half",
        _scores=lambda self, sums: fp16.round16(sums * self._factor),
    ),
    _scores(
        "D-harmonia-27: scores are scaled in FP16", _scores=lambda old, self, sums: fp16.round16(old._scores(sums))
    ),
    _scores("D-harmonia-28: the softmax takes FP32 scores", _scores=lambda self, sums: np.asarray(sums * self._factor)),
    _accumulator("partial sums are truncated to FP16"),
    Variant("D-harmonia-29", "biases are added in FP32 before FP2Half", apply=_before_half),
    _device("D-harmonia-29: biases are not added", bias=lambda self, action: {}),
    _device(
        "D-harmonia-36: all groups have the mode of the first",
        modes=lambda old, self, wide: old.modes(wide)[:1] * self.groups,
    ),
    _device(
        "D-harmonia-45: the first rows are the window",
        window_rows=lambda self, state: min(self.window, self.rows) if self.waits else 0,
    ),
    _device(
        "D-harmonia-45: rows have consecutive positions",
        places=lambda old, self, state: old.places(state)[0] + np.arange(self.rows),
    ),
    *choices("D-harmonia-46", "codes", "rows"),
    _device("D-harmonia-46: all rows of a pass see the codes of the first", _passes=_one_set),
    _device("D-harmonia-47: lanes past the end of a head repeat its last element", operands=_filled),
    *choices("D-harmonia-48", "rotation", "half", "interleaved", "none"),
    *choices("D-harmonia-48", "activation", "silu", "gelu_tanh", "gelu_erf", "relu"),
    _device("D-arith-8: rotary angles are rounded to FP32", vector=_rounded_angles),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-31": "Tiles of a whole product in either dataflow have the same elements, each over the whole "
    "reduction. Accesses to memory differ, which rows of fdgf show.",
    "D-harmonia-49": "A row of a set is a whole product, whose events come in one order. Overlap changes the "
    "clocks of a Timeline, which rows of harmonia_core_clocked show.",
    "D-harmonia-50": "Rates of the memory and of the vector unit change the clocks of a Timeline, which rows of "
    "harmonia_core_clocked show.",
    "D-harmonia-54": "No port of a whole product shows the clock in which a column leaves; rows of "
    "harmonia_core_clocked show it.",
    "D-harmonia-55": "No port of a whole product shows when it is closed; rows of harmonia_core_clocked show it.",
    "D-harmonia-58": "When a pass begins changes the clocks of a Timeline, not the bits of a whole product.",
    "D-harmonia-60": "It says which rows a scheme puts into one product. The core computes each row from its own "
    "values and position, whichever query head it is.",
}
