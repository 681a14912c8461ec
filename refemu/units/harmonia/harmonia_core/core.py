"""One matrix product through the whole accelerator: fetched tiles, the array, FP16, vector unit, offsets, converter.

Paper: [harmonia §IV-A, Fig. 12], steps (1) to (7). Composed of fdgf, bfp_pe_array, fp2half, k_offset, bfp_converter.
Decisions: D-harmonia-25 (offsets after the rotary embedding), D-harmonia-26 (later keys lose the frozen offsets of the
prompt), D-harmonia-27 and D-harmonia-28 (scores are FP16 before the softmax, which scales them in FP32), D-harmonia-29
(biases behind FP2Half), D-harmonia-45 (positions of the rows), D-harmonia-46 (rows that see codes of other bits),
D-harmonia-47 (head sizes that are no multiple of 32), D-arith-8 (exact rotary angles).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, plain, require_choice, require_int
from refemu.arith.rotary import POSITIONS
from refemu.units.harmonia.bfp_accumulator import M8M4, M8M8, M8W4, Precision
from refemu.units.harmonia.bfp_pe_array import BfpPeArray
from refemu.units.harmonia.harmonia_core.checks import require_kind
from refemu.units.harmonia.harmonia_core.plan import (
    LANES,
    Action,
    Activation,
    Bias,
    Kind,
    Rotation,
    Shape,
    plan,
)
from refemu.units.harmonia.harmonia_core.ports import OPTIONAL, State, ports, require_operands
from refemu.units.harmonia.harmonia_core.stages import Stages
from refemu.units.harmonia.k_offset import WINDOW, KOffsetGenerator
from refemu.units.ports import Ports, lanes

BType: TypeAlias = Literal["int4", "bfp8", "bfp4", "mixed"]  #: of B; "mixed": mantissas of 4 and of 8 bits
Codes: TypeAlias = Literal["sets", "rows"]  #: a pass for each set of codes, or codes for each row (D-harmonia-46)
Positions: TypeAlias = Literal["start", "port"]  #: of the rows: one after the other, or inputs (D-harmonia-45)
KINDS: tuple[Kind, ...] = get_args(Kind)
MODES: dict[BType, int] = {"int4": M8W4, "bfp4": M8M4, "bfp8": M8M8, "mixed": M8M8}
BIASES: tuple[Bias, ...] = get_args(Bias)
CODES: tuple[Codes, ...] = get_args(Codes)  #: The choices of `Codes`
POSITIONED: tuple[Positions, ...] = get_args(Positions)
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
ROTATIONS: tuple[Rotation, ...] = get_args(Rotation)
Operand = Sequence[int] | int  #: lanes of a port, an int where it has one


class HarmoniaCore(Stages):
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
        positions: Positions = "start",
        bias_add: Bias = "none",
        codes: Codes = "sets",
    ) -> None:
        """Configure the accelerator and the product.

        Parameters
        ----------
        kind : {"q", "k", "v", "score", "context", "linear", "final"}
            Kind of C.
        rows, inner, columns : int
            M, N and K.
        b_type : {"int4", "bfp8", "bfp4", "mixed"}
            Type of B. "mixed": 8-bit mantissas, of which `wide` says where a row sees no more than the upper nibbles:
            for kind "score" column by column, else group by group of the reduction.
        m : int
            Mantissa bits of the result, 1 to 11.
        tile_m, tile_k : int
            Rows and columns of a tile, as for `FdgfController`.
        head_dim : int
            Head dimension of q and k.
        start : int
            Position of row 0, or with positions="port" the least that a row may have.
        base : int
            Base of the rotary angles.
        activation : {"none", "silu", "relu", "gelu_erf", "gelu_tanh"}
            Activation of kinds "linear" and "final".
        force : int
            0, or the dataflow.
        partial : {"fp16", "fp32"}
            As for `Accumulator`.
        rotation : {"half", "interleaved", "none"}
            Pairs of q and k that rotate: (i, i + head_dim / 2), (2i, 2i + 1), or none.
        window : int
            Tokens of the prompt that choose the offsets of kind "k", 0 to 32; behind them `frozen` brings those. 0:
            keys have no offsets.
        positions : {"start", "port"}
            Rows stand one after the other from `start` on, or where port `position` says (D-harmonia-45).
        bias_add : {"none", "after", "accumulator"}
            Where port `bias` is added: in FP16 behind FP2Half, or in FP32 before it (D-harmonia-29).
        codes : {"sets", "rows"}
            Rows of a "mixed" pass that see other codes: a pass for each set of codes, or codes of its own for each row
            (D-harmonia-46).

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
        self.positions = require_choice(positions, POSITIONED, self.name, "positions")
        self.bias_add: Bias = require_choice(bias_add, BIASES, self.name, "bias_add")
        self.codes = require_choice(codes, CODES, self.name, "codes")
        self.m: int = require_int(m, 1, 11, self.name, "m")
        self.start: int = require_int(start, 0, POSITIONS - self.rows, self.name, "start")
        self.window: int = require_int(window, 0, WINDOW, self.name, "window")
        require_kind(self)
        self.shape: Shape = self._shape()
        plan(self.shape)
        self.waits: bool = self.shape.shifted and self.start < self.window  #: keys choose their offsets themselves
        self.groups: int = -(-self.inner // LANES)
        self.mode: int = MODES[self.b_type]
        self.array: BfpPeArray = BfpPeArray(self.groups, partial)
        self.partial: Precision = self.array.partial
        self.offsets: KOffsetGenerator = KOffsetGenerator(self.columns)
        self.conversion: dict[str, Any] = {}  #: options of the converter
        self.ports: Ports = ports(vars(self))
        present = {port.name for port in self.ports.all}
        missing = {name: () for name in (*OPTIONAL, "offset") if name not in present}
        self.state: State = self.reset(State, sums=(), offsets=self.offsets.state, **missing)

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
            bias_add=self.bias_add,
            shifted=shifted,
            tracked=min(self.window, self.rows) if shifted and self.start == 0 else 0,
        )

    @property
    def busy(self) -> bool:
        """Whether events of the product are left."""
        return 0 <= self.state.index < len(self.plan) - 1

    @property
    def plan(self) -> tuple[Action, ...]:
        """Events of the product.

        Returns
        -------
        tuple of Action
            In order. Positions change when keys leave the window, but not how many events there are.
        """
        return plan(self.shape)

    def action(self, state: State) -> Action:
        """Return what an event of a product does.

        Parameters
        ----------
        state : State
            After the event.

        Returns
        -------
        Action
            Kind and rectangle.
        """
        return plan(self.shape._replace(tracked=self.window_rows(state)))[state.index]

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
        position: Operand | None = None,
        wide: Operand | None = None,
        bias: Operand | None = None,
    ) -> State:
        """Execute the first event of a product, a load; without inputs, the next one.

        Refused are also fields that the mode does not have, and results beyond FP16 when they reach the converter.
        """
        return self._stepped(
            a_sign=a_sign,
            a_mag=a_mag,
            a_exp=a_exp,
            b=b,
            b_sign=b_sign,
            b_exp=b_exp,
            w_scale=w_scale,
            frozen=frozen,
            position=position,
            wide=wide,
            bias=bias,
        )

    def accept(self, *values: Any, **named: Any) -> list[Any]:
        """The inputs of one product; refuses also inputs whose port is missing."""
        return super().accept(*values, **self._due(named), **{n: v for n, v in named.items() if n not in OPTIONAL})

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
        position: ArrayLike | None = None,
        wide: ArrayLike | None = None,
        bias: ArrayLike | None = None,
    ) -> list[np.ndarray]:
        """Check the inputs of products, which broadcast beside their lanes.

        A lies row after row, B column after column, group after group, fields as those of bfp_pe. Further ports are
        there in some configurations only: `frozen`, `offset` of the Result of the prompt, for kind "k" from position
        `window` on; `position` for positions="port"; `wide` for b_type="mixed"; `bias`. Else they are None.
        """
        due = self._due({"frozen": frozen, "position": position, "wide": wide, "bias": bias})
        return super().admitted(a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale, *due.values())

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse what `require_operands` does."""
        require_operands(self, self._by_port(inputs))

    def _due(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The optional inputs that have a port; refuses one that is missing, and one without a port."""
        there = {port.name for port in self.ports.inputs}
        for name, meaning in OPTIONAL.items():
            if (name in there) != (inputs.get(name) is not None):
                wanted = f"needs {meaning}, got none" if name in there else "takes none, got some"
                raise Refused(f"{self.name}: {name}: kind {self.kind!r} {self._reason(name)} {wanted}")
        return {name: inputs[name] for name in OPTIONAL if name in there}

    def _reason(self, name: str) -> str:
        """What an optional port depends on."""
        if name == "frozen":
            return f"from position {self.start} on"
        parameter = {"position": "positions", "wide": "b_type", "bias": "bias_add"}[name]
        return f"with {parameter} {getattr(self, parameter)!r}"

    def _by_port(self, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Inputs by name, each with an axis of lanes."""
        return {
            port.name: array if port.lanes > 1 else array[..., None]
            for port, array in zip(self.ports.inputs, inputs, strict=True)
        }

    def _open(self, *inputs: Any) -> State:
        return self._event(self._opened(*inputs), 0)

    def _opened(self, *inputs: Any) -> State:
        """A product before its first event: operands, and nothing computed."""
        zeros: dict[str, Any] = {port.name: lanes([0] * port.lanes) for port in self.ports.outputs}
        frozen = dict(zip((port.name for port in self.ports.inputs), inputs, strict=True)).get("frozen")
        return self.latched(*inputs, **zeros, offsets=self._generator(frozen).state)

    def _continue(self) -> State:
        return self._event(self.state, self.state.index + 1)

    def _event(self, before: State, index: int) -> State:
        before = replace(before, index=index)
        action = self.action(before)
        events = {
            "load": self._load,
            "dispatch": self._dispatch,
            "compute": self._compute,
            "fp2half": self._fp2half,
            "bias": self._bias,
            "vector": self._vector,
            "offset": self._offset,
            "convert": self._convert,
            "store": self._store,
        }
        self.state = events[action.event](replace(before, event=action.event), action)
        return self.state

    def _generator(self, frozen: Any) -> KOffsetGenerator:
        """The K-offset generator at the start of a product: reset, or gated behind the offsets of the prompt."""
        generator = KOffsetGenerator(self.columns)
        if frozen is not None:
            generator.freeze(frozen)
        return generator
