"""One matrix product through the whole accelerator: fetched tiles, the array, FP16, vector unit, offsets, converter.

Paper: [harmonia §IV-A, Fig. 12], steps (1) to (7). Composed of fdgf, bfp_pe_array, fp2half, k_offset, bfp_converter.
Decisions: D-harmonia-25 (offsets after the rotary embedding), D-harmonia-26 (later keys lose the frozen offsets of the
prompt). Scores are FP16 before the softmax, which scales them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, require_choice, require_int
from refemu.arith.rotary import POSITIONS
from refemu.units import bfp_converter, harmonia_core_cases, k_offset
from refemu.units.bfp_accumulator import M8M4, M8M8, M8W4
from refemu.units.bfp_pe_array import COLUMNS, ROWS, BfpPeArray
from refemu.units.fp2half import Fp2Half
from refemu.units.harmonia_core_parts import HEADS, LANES, Action, Shape, group_edges, group_shape, operands, plan
from refemu.units.harmonia_core_ports_parts import COUNTERS, Result, State, admitted, ports, require_operands
from refemu.units.harmonia_core_vector_parts import vector
from refemu.units.k_offset import WINDOW, KOffsetGenerator
from refemu.units.unit import Cases, Config, Flag, Stepped, Unit, choices, collect, fields, lanes
from refemu.units.unit_cases import Seeds

KINDS = ("q", "k", "v", "score", "context", "linear", "final")  #: what C is
MODES = {"int4": M8W4, "bfp4": M8M4, "bfp8": M8M8}
ACTIVATIONS = ("none", "silu", "relu")
ROTATIONS = ("half", "interleaved", "none")


class HarmoniaCore(Stepped):
    """The accelerator of [harmonia Fig. 12] at one product; an event is a step of §IV-A for a tile or a block."""

    name = "harmonia_core"

    def __init__(
        self,
        kind: str = "linear",
        rows: int = 8,
        inner: int = 32,
        columns: int = 32,
        b_type: str = "int4",
        m: int = 8,
        tile_m: int = 64,
        tile_k: int = 64,
        head_dim: int = 32,
        start: int = 0,
        base: int = 10000,
        activation: str = "none",
        force: int = 0,
        partial: str = "fp16",
        rotation: str = "half",
        window: int = WINDOW,
    ) -> None:
        """kind: what C is, one of KINDS. rows, inner, columns: M, N, K. b_type: "int4", "bfp8" or "bfp4". m: mantissa
        bits of the result. tile_m, tile_k, force: as for FdgfController. head_dim: of q and k. start: position of
        row 0. base: of the rotary angles. activation: of kind "linear". partial: as for Accumulator. rotation: of q and
        k, pairs (i, i + head_dim / 2), pairs (2i, 2i + 1), or "none". window: tokens of the prompt that choose the
        offsets of kind "k", at most 32; behind them `frozen` brings those. 0: keys have no offsets.
        """
        require_choice(kind, KINDS, self.name, "kind")
        require_choice(b_type, MODES, self.name, "b_type")
        require_choice(activation, ACTIVATIONS, self.name, "activation")
        require_choice(rotation, ROTATIONS, self.name, "rotation")
        require_int(m, 1, 11, self.name, "m")
        require_int(start, 0, POSITIONS - rows, self.name, "start")
        require_int(window, 0, WINDOW, self.name, "window")
        if kind in HEADS:
            require_heads(columns, head_dim, rotation)
        if kind != "linear" and activation != "none":
            raise Refused(f"{self.name}: activation goes with kind 'linear', got {kind!r}")
        if kind == "score" and start > columns - rows:
            raise Refused(f"{self.name}: {rows} queries at {start} need as many keys, got {columns}")
        if kind == "k" and 0 < start < window:
            raise Refused(
                f"{self.name}: start must be 0 or behind the window of {window} tokens, whose keys wait for "
                f"each other, got {start}"
            )
        shifted = kind == "k" and window > 0
        tracked = min(window, rows) if shifted and start == 0 else 0
        self.kind, self.b_type, self.m, self.start, self.base, self.window = kind, b_type, m, start, base, window
        self.shape = Shape(
            kind, rows, inner, columns, tile_m, tile_k, head_dim, force, activation, rotation, shifted, tracked
        )
        self.plan = plan(self.shape)
        self.groups, self.mode = -(-inner // LANES), MODES[b_type]
        self.array = BfpPeArray(self.groups, partial)
        self.offsets = KOffsetGenerator(columns)
        self.ports = ports(
            {
                "kind": kind,
                "rows": rows,
                "inner": inner,
                "columns": columns,
                "m": m,
                "head_dim": head_dim,
                "start": start,
                "window": window,
            }
        )
        zeros: dict[str, Any] = {port.name: lanes([0] * port.lanes) for port in self.ports.all}
        self.state = State(
            event="reset",
            index=-1,
            sums=(),
            offsets=registers(self.offsets),
            **{"frozen": (), "offset": ()} | zeros | dict.fromkeys(COUNTERS, 0),
        )

    @property
    def busy(self) -> bool:
        """Whether events of the product are left."""
        return 0 <= self.state.index < len(self.plan) - 1

    def step(self, *inputs: Any) -> State:
        """With the input ports: the first event of a product, a load. Without: the next one.

        Refused: inputs while a product is on its way, none while there is none, fields that the mode does not have;
        results beyond FP16 when they reach the converter.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: {self.state.event} came last" if self.busy else "the inputs of a product"
            raise Refused(f"{self.name}: step takes {wanted}")
        begun = self.state
        if inputs:
            given = dict(zip((port.name for port in self.ports.inputs), self.accept(*inputs), strict=True))
            require_operands(self, {name: np.array(fields(value)) for name, value in given.items()})
            zeros: dict[str, Any] = {port.name: lanes([0] * port.lanes) for port in self.ports.outputs}
            begun = replace(begun, index=-1, offsets=registers(self._generator(given)), **given, **zeros)
        action = self.plan[begun.index + 1]
        happen = getattr(self, f"_{action.event}")
        self.state = happen(replace(begun, event=action.event, index=begun.index + 1), action)
        return self.state

    def _generator(self, given: Mapping[str, Any]) -> KOffsetGenerator:
        """The K-offset generator at the start of a product: reset, or gated behind the offsets of the prompt."""
        generator = KOffsetGenerator(self.shape.columns)
        if "frozen" in given:
            generator.freeze(given["frozen"])
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
        y, generator = self._matrix(before.y), KOffsetGenerator(self.shape.columns)
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
        kind = "v" if self.kind == "v" else "token"
        done = bfp_converter.run(fp16.values(self._matrix(before.y)[some]), kind=kind, m=self.m)
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

    def steps(
        self, a_sign: Any, a_mag: Any, a_exp: Any, b: Any, b_sign: Any, b_exp: Any, w_scale: Any, frozen: Any = None
    ) -> Iterator[State]:
        """Yield the State after every event of every product, in C order; arguments as for `run`."""
        arrays, lead = admitted(self, (a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale, frozen))
        flat = [array.reshape(prod(lead), array.shape[-1]).tolist() for array in arrays.values()]
        for product in zip(*flat, strict=True):
            yield self.step(*(lanes(values) for values in product))
            while self.busy:
                yield self.step()

    def __repr__(self) -> str:
        s = self.shape
        return (
            f"HarmoniaCore(kind={self.kind!r}, rows={s.rows}, inner={s.inner}, columns={s.columns}, "
            f"b_type={self.b_type!r}, m={self.m}, tile_m={s.tile_m}, tile_k={s.tile_k}, head_dim={s.head_dim}, "
            f"start={self.start}, base={self.base}, activation={s.activation!r}, force={s.force}, "
            f"partial={self.array.partial!r}, rotation={s.rotation!r}, window={self.window})"
        )


def registers(generator: KOffsetGenerator) -> tuple[Any, ...]:
    """The fields of its State, from which `k_offset.State(*registers)` is made again."""
    return tuple(vars(generator.state).values())


def require_heads(columns: int, head_dim: int, rotation: str) -> None:
    """Refuse columns that are not whole heads, and heads that rotation cannot pair."""
    require_int(head_dim, 1, max(columns, 1), HarmoniaCore.name, "head_dim")
    if columns % head_dim:
        raise Refused(
            f"{HarmoniaCore.name}: queries and keys are whole heads, got {columns} columns and head_dim {head_dim}"
        )
    if rotation != "none" and head_dim % 2:
        raise Refused(f"{HarmoniaCore.name}: head_dim must be even under rotation {rotation!r}, got {head_dim}")


def run(
    a_sign: Any,
    a_mag: Any,
    a_exp: Any,
    b: Any,
    b_sign: Any,
    b_exp: Any,
    w_scale: Any,
    frozen: Any = None,
    *,
    kind: str = "linear",
    rows: int = 8,
    inner: int = 32,
    columns: int = 32,
    b_type: str = "int4",
    m: int = 8,
    tile_m: int = 64,
    tile_k: int = 64,
    head_dim: int = 32,
    start: int = 0,
    base: int = 10000,
    activation: str = "none",
    force: int = 0,
    partial: str = "fp16",
    rotation: str = "half",
    window: int = WINDOW,
) -> Result:
    """Products of any shape, event by event.

    a_sign, a_mag: (..., M * N), 8-bit mantissas. a_exp: (..., M * groups). b, b_sign: (..., K * N), column after
    column; b_exp, w_scale: (..., K * groups); fields as those of bfp_pe. frozen: (..., K), fp16 words, `offset` of the
    Result of the prompt; of kind "k" from position `window` on, else None. They broadcast beside their lanes. The rest
    as for HarmoniaCore.
    Returns the Result. Refuses what bfp_pe refuses, and results beyond FP16. Paper: [harmonia §IV-A].
    """
    core = HarmoniaCore(
        kind,
        rows,
        inner,
        columns,
        b_type,
        m,
        tile_m,
        tile_k,
        head_dim,
        start,
        base,
        activation,
        force,
        partial,
        rotation,
        window,
    )
    operands = (a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale, frozen)
    _, lead = admitted(core, operands)
    outputs = collect([s for s in core.steps(*operands) if s.index == len(core.plan) - 1], core.ports.outputs, lead)
    return Result(
        **{"offset": np.zeros((*lead, 0), np.uint16)} | outputs,
        **{name: getattr(core.state, name) for name in COUNTERS},
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see harmonia_core_cases.py."""
    return harmonia_core_cases.cases(config, ports(config).inputs, kind, seed)


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


UNIT = Unit(
    name="harmonia_core",
    version=2,
    paper="harmonia §IV-A, Fig. 12",
    meaning="one product through all steps of the accelerator",
    configs={
        "linear": _config("linear", 3, 40, 33, activation="silu"),
        "k": _config("k", 9, 32, 32),
        "decode": _config("k", 2, 32, 32, head_dim=16, start=40, rotation="interleaved"),
        "v": _config("v", 11, 32, 17, m=4),
        "score": _config("score", 3, 32, 35, "bfp8", start=30),
    },
    ports=ports,
    run=run,
    twin="refemu.units.harmonia_core_jit:run",
    unit_class=HarmoniaCore,
    cases=cases,
    mark=harmonia_core_cases.mark,
    legal=harmonia_core_cases.legal,
    flags={"SUBNORMAL": Flag(0, "a result is subnormal in FP16")},
    alternatives=choices("D-harmonia-7", "partial", "fp16", "fp32"),
)
