"""One matrix product through the whole accelerator: fetched tiles, the array, FP16, vector unit, offsets, converter.

Paper: [harmonia §IV-A, Fig. 12], steps (1) to (7). Composed of fdgf, bfp_pe_array, fp2half, k_offset, bfp_converter.
Decisions: D-harmonia-25 (offsets after the rotary embedding), D-harmonia-26 (later keys lose the frozen offsets of the
prompt), D-harmonia-27 and D-harmonia-28 (scores are FP16 before the softmax, which scales them in FP32), D-arith-8
(exact rotary angles).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import Refused, plain, require_choice, require_int
from refemu.arith.rotary import POSITIONS
from refemu.units.harmonia import bfp_converter, k_offset
from refemu.units.harmonia.bfp_accumulator import M8M4, M8M8, M8W4, Precision
from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS, BfpPeArray
from refemu.units.harmonia.cases import harmonia_core as harmonia_core_cases
from refemu.units.harmonia.fdgf import BType
from refemu.units.harmonia.fp2half import Fp2Half
from refemu.units.harmonia.harmonia_core.plan import (
    HEADS,
    LANES,
    Action,
    Activation,
    Kind,
    Rotation,
    Shape,
    group_edges,
    group_shape,
    operands,
    plan,
)
from refemu.units.harmonia.harmonia_core.ports import COUNTERS, Result, State, ports, require_operands
from refemu.units.harmonia.harmonia_core.vector_unit import vector
from refemu.units.harmonia.k_offset import WINDOW, KOffsetGenerator
from refemu.units.ports import Ports, fields, lanes
from refemu.units.stepped import Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

KINDS: tuple[Kind, ...] = get_args(Kind)
MODES: dict[BType, int] = {"int4": M8W4, "bfp4": M8M4, "bfp8": M8M8}
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
ROTATIONS: tuple[Rotation, ...] = get_args(Rotation)
Operand = Sequence[int] | int  #: lanes of a port, an int where it has one


class HarmoniaCore(Stepped[State]):
    """Accelerator at one product: an event is a step of [harmonia §IV-A] for a tile or a block.

    References
    ----------
    [harmonia §IV-A, Fig. 12]
    """

    name = "harmonia_core"

    def __init__(
        self,
        kind: Kind = "linear",
        rows: int = 8,
        inner: int = 32,
        columns: int = 32,
        b_type: BType = "int4",
        m: int = 8,
        tile_m: int = 64,
        tile_k: int = 64,
        head_dim: int = 32,
        start: int = 0,
        base: int = 10000,
        activation: Activation = "none",
        force: int = 0,
        partial: Precision = "fp16",
        rotation: Rotation = "half",
        window: int = WINDOW,
    ) -> None:
        """Configure the accelerator and the product.

        Parameters
        ----------
        kind : {"q", "k", "v", "score", "context", "linear", "final"}
            Kind of C.
        rows, inner, columns : int
            M, N and K.
        b_type : {"int4", "bfp8", "bfp4"}
            Type of B.
        m : int
            Mantissa bits of the result, 1 to 11.
        tile_m, tile_k : int
            Rows and columns of a tile, as for `FdgfController`.
        head_dim : int
            Head dimension of q and k.
        start : int
            Position of row 0.
        base : int
            Base of the rotary angles.
        activation : {"none", "silu", "relu"}
            Activation of kind "linear".
        force : int
            0, or the dataflow.
        partial : {"fp16", "fp32"}
            As for `Accumulator`.
        rotation : {"half", "interleaved", "none"}
            Pairs of q and k that rotate: (i, i + head_dim / 2), (2i, 2i + 1), or none.
        window : int
            Tokens of the prompt that choose the offsets of kind "k", 0 to 32; behind them `frozen` brings those. 0:
            keys have no offsets.

        Raises
        ------
        Refused
            A parameter is out of range, an option unknown, or one does not go with the kind.
        """
        self.rows: int = plain(rows)
        self.inner: int = plain(inner)
        self.columns: int = plain(columns)
        self.tile_m: int = plain(tile_m)
        self.tile_k: int = plain(tile_k)
        self.head_dim: int = plain(head_dim)
        self.base: int = plain(base)
        self.force: int = plain(force)
        self.kind = require_choice(kind, KINDS, self.name, "kind")
        self.b_type = require_choice(b_type, MODES, self.name, "b_type")
        self.activation = require_choice(activation, ACTIVATIONS, self.name, "activation")
        self.rotation = require_choice(rotation, ROTATIONS, self.name, "rotation")
        self.m: int = require_int(m, 1, 11, self.name, "m")
        self.start: int = require_int(start, 0, POSITIONS - self.rows, self.name, "start")
        self.window: int = require_int(window, 0, WINDOW, self.name, "window")
        self._require_kind()
        self.shape: Shape = self._shape()
        self.plan: tuple[Action, ...] = plan(self.shape)
        self.groups: int = -(-self.inner // LANES)
        self.mode: int = MODES[self.b_type]
        self.array: BfpPeArray = BfpPeArray(self.groups, partial)
        self.partial: Precision = self.array.partial
        self.offsets: KOffsetGenerator = KOffsetGenerator(self.columns)
        self.conversion: dict[str, Any] = {}  #: options of the converter
        self.ports: Ports = ports(vars(self))
        present = {port.name for port in self.ports.all}
        missing = {name: () for name in ("frozen", "offset") if name not in present}
        self.state: State = self.reset(State, sums=(), offsets=registers(self.offsets), **missing)

    def _require_kind(self) -> None:
        """Refuse options that do not go with the kind of C."""
        if self.kind in HEADS:
            require_heads(self.columns, self.head_dim, self.rotation)
        if self.kind != "linear" and self.activation != "none":
            raise Refused(f"{self.name}: activation goes with kind 'linear', got {self.kind!r}")
        if self.kind == "score" and self.start > self.columns - self.rows:
            raise Refused(f"{self.name}: {self.rows} queries at {self.start} need as many keys, got {self.columns}")
        if self.kind == "k" and 0 < self.start < self.window:
            raise Refused(
                f"{self.name}: start must be 0 or behind the window of {self.window} tokens, whose keys wait for "
                f"each other, got {self.start}"
            )

    def _shape(self) -> Shape:
        shifted = self.kind == "k" and self.window > 0
        return Shape(
            kind=self.kind,
            rows=self.rows,
            inner=self.inner,
            columns=self.columns,
            tile_m=self.tile_m,
            tile_k=self.tile_k,
            head_dim=self.head_dim,
            force=self.force,
            activation=self.activation,
            rotation=self.rotation,
            shifted=shifted,
            tracked=min(self.window, self.rows) if shifted and self.start == 0 else 0,
        )

    @property
    def busy(self) -> bool:
        """Whether events of the product are left."""
        return 0 <= self.state.index < len(self.plan) - 1

    def step(
        self,
        a_sign: Operand | None = None,
        a_mag: Operand | None = None,
        a_exp: Operand | None = None,
        b: Operand | None = None,
        b_sign: Operand | None = None,
        b_exp: Operand | None = None,
        w_scale: Operand | None = None,
        frozen: Operand | None = None,
    ) -> State:
        """Execute the first event of a product, a load; without inputs, the next one.

        Refused are also fields that the mode does not have, and results beyond FP16 when they reach the converter.
        """
        return self._stepped(
            a_sign=a_sign, a_mag=a_mag, a_exp=a_exp, b=b, b_sign=b_sign, b_exp=b_exp, w_scale=w_scale, frozen=frozen
        )

    def accept(self, *values: Any, **named: Any) -> list[Any]:
        """The inputs of one product; refuses also offsets that are not due."""
        self._require_frozen(named.get("frozen"))
        return super().accept(*values, **named)

    def admitted(
        self,
        a_sign: ArrayLike,
        a_mag: ArrayLike,
        a_exp: ArrayLike,
        b: ArrayLike,
        b_sign: ArrayLike,
        b_exp: ArrayLike,
        w_scale: ArrayLike,
        frozen: ArrayLike | None = None,
    ) -> list[np.ndarray]:
        """Check the inputs of products, which broadcast beside their lanes.

        A lies row after row, B column after column, group after group, fields as those of bfp_pe. `frozen` is `offset`
        of the Result of the prompt: for kind "k" from position `window` on, else None.
        """
        self._require_frozen(frozen)
        offsets = () if frozen is None else (frozen,)
        return super().admitted(a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale, *offsets)

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse what `require_operands` does."""
        require_operands(self, self._by_port(inputs))

    def _require_frozen(self, frozen: Any) -> None:
        """Refuse offsets where their port is missing, and none where it is there."""
        needed = "frozen" in {port.name for port in self.ports.inputs}
        if needed != (frozen is not None):
            wanted = "needs the offsets of the prompt" if needed else "takes no offsets"
            raise Refused(f"{self.name}: frozen: kind {self.kind!r} from position {self.start} on {wanted}")

    def _by_port(self, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Inputs by name, each with an axis of lanes."""
        return {
            port.name: array if port.lanes > 1 else array[..., None]
            for port, array in zip(self.ports.inputs, inputs, strict=True)
        }

    def _open(self, *inputs: Any) -> State:
        zeros: dict[str, Any] = {port.name: lanes([0] * port.lanes) for port in self.ports.outputs}
        frozen = inputs[-1] if self.ports.inputs[-1].name == "frozen" else None
        return self._event(self.latched(*inputs, **zeros, offsets=registers(self._generator(frozen))), 0)

    def _continue(self) -> State:
        return self._event(self.state, self.state.index + 1)

    def _event(self, before: State, index: int) -> State:
        action = self.plan[index]
        events = {
            "load": self._load,
            "dispatch": self._dispatch,
            "compute": self._compute,
            "fp2half": self._fp2half,
            "vector": self._vector,
            "offset": self._offset,
            "convert": self._convert,
            "store": self._store,
        }
        self.state = events[action.event](replace(before, event=action.event, index=index), action)
        return self.state

    def _generator(self, frozen: Any) -> KOffsetGenerator:
        """The K-offset generator at the start of a product: reset, or gated behind the offsets of the prompt."""
        generator = KOffsetGenerator(self.columns)
        if frozen is not None:
            generator.freeze(frozen)
        return generator

    def _load(self, before: State, action: Action) -> State:
        return replace(before, fetched=before.fetched + action.number)

    def _dispatch(self, before: State, action: Action) -> State:
        return replace(before, reads=before.reads + action.number)

    def _compute(self, before: State, action: Action) -> State:
        """The array passes of a block; results lie in `sums` pass after pass, 8 x 16 each."""
        sums: list[int] = []
        counts = dict.fromkeys(("cycles", "macs", "fp32_adds"), 0)
        for row in range(action.row, action.row + action.rows, ROWS):
            for column in range(action.column, action.column + action.columns, COLUMNS):
                self.array.state = BfpPeArray(self.groups).state
                state = self.array.step(lanes([self.mode] * self.groups), *operands(self.shape, before, row, column))
                while self.array.busy:
                    state = self.array.step()
                sums += state.acc
                counts = {name: count + getattr(state, name) for name, count in counts.items()}
        totals = {name: getattr(before, name) + count for name, count in counts.items()}
        return replace(before, sums=tuple(sums), passes=before.passes + action.number, **totals)

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
        y[some] = vector(self.shape, self.base, y[some], self.start + action.row)
        return replace(before, y=self._words(y))

    def _offset(self, before: State, action: Action) -> State:
        """Tokens in order: tracked in the window, which leaves as a whole, then shifted as they come."""
        y, generator = self._matrix(before.y), KOffsetGenerator(self.columns)
        generator.restore(k_offset.State(*before.offsets))
        window = self.shape.tracked
        for row in range(action.row, action.row + action.rows):
            if row >= window:
                y[row] = generator.apply(fp16.values(y[row])).k_out
                continue
            generator.track(fp16.values(y[row]), row == window - 1)
            if row == window - 1:
                generator.select()
                for first in range(window):
                    y[first] = generator.apply().k_out
        done, was = generator.state, k_offset.State(*before.offsets)
        tracked = done.comparisons + done.select_comparisons - was.comparisons - was.select_comparisons
        return replace(
            before,
            y=self._words(y),
            offsets=registers(generator),
            tracked=before.tracked + tracked,
            offset=done.offset,
            subtractions=before.subtractions + done.subtractions - was.subtractions,
        )

    def _convert(self, before: State, action: Action) -> State:
        """A block by the converter; codes go to their places."""
        some = np.s_[action.row : action.row + action.rows, action.column : action.column + action.columns]
        kind: bfp_converter.Kind = "v" if self.kind == "v" else "token"
        done = bfp_converter.convert(fp16.values(self._matrix(before.y)[some]), kind=kind, m=self.m, **self.conversion)
        sign, mantissa = self._matrix(before.sign), self._matrix(before.mantissa)
        sign[some], mantissa[some] = done.tensor.sign, done.tensor.mantissa
        exponent = np.array(fields(before.exponent)).reshape(self._group_shape)
        v = self.kind == "v"
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
        return group_shape(self.kind, self.shape.rows, self.shape.columns, self.shape.head_dim)

    def _matrix(self, words: Any) -> np.ndarray:
        return np.array(fields(words)).reshape(self.shape.rows, self.shape.columns)

    def _words(self, matrix: np.ndarray) -> Any:
        return lanes(matrix.ravel().tolist())


def registers(generator: KOffsetGenerator) -> tuple[Any, ...]:
    """The fields of its State, from which `k_offset.State(*registers)` is made again."""
    return tuple(vars(generator.state).values())


def require_heads(columns: int, head_dim: int, rotation: Rotation) -> None:
    """Refuse columns that are not whole heads, and heads that rotation cannot pair."""
    require_int(head_dim, 1, max(columns, 1), HarmoniaCore.name, "head_dim")
    if columns % head_dim:
        raise Refused(
            f"{HarmoniaCore.name}: queries and keys are whole heads, got {columns} columns and head_dim {head_dim}"
        )
    if rotation != "none" and head_dim % 2:
        raise Refused(f"{HarmoniaCore.name}: head_dim must be even under rotation {rotation!r}, got {head_dim}")


def _config(kind: str, rows: int, inner: int, columns: int, b_type: str = "int4", **others: Any) -> Config:
    usual = {
        "m": 8,
        "tile_m": 64,
        "tile_k": 64,
        "head_dim": 32,
        "start": 0,
        "base": 10000,
        "activation": "none",
        "force": 0,
        "partial": "fp16",
        "rotation": "half",
        "window": WINDOW,
    }
    return Config(kind=kind, rows=rows, inner=inner, columns=columns, b_type=b_type, **usual | others)


UNIT: Unit[State, Result] = Unit(
    name="harmonia_core",
    version=2,
    paper="harmonia §IV-A, Fig. 12",
    meaning="one product through all steps of the accelerator",
    configs={
        "linear": _config("linear", 3, 40, 33, activation="silu"),
        "k": _config("k", 9, 8, 32, head_dim=16),
        "decode": _config("k", 2, 8, 16, head_dim=16, start=4000, rotation="interleaved"),
        "v": _config("v", 11, 32, 17, m=4),
        "score": _config("score", 3, 32, 35, "bfp8", start=30),
    },
    ports=ports,
    unit_class=HarmoniaCore,
    cases=harmonia_core_cases.cases,
    counters=COUNTERS,
    result=Result,
    mark=harmonia_core_cases.mark,
    legal=harmonia_core_cases.legal,
    flags={"SUBNORMAL": Flag(0, "a result is subnormal in FP16")},
)
run: RunFunction[Result] = UNIT.run
