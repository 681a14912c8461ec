"""One matrix product for the accelerator: its parameters, and the ports that follow from them.

Paper: [harmonia §IV-A, Fig. 12].
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, require_int
from refemu.arith.rotary import POSITIONS
from refemu.units import Combinational, Port, Ports, constant
from refemu.units.harmonia.bfp_accumulator import M8M4, M8M8, M8W4, Precision
from refemu.units.harmonia.bfp_pe_array import COLUMNS
from refemu.units.harmonia.harmonia_core.checks import require_kind, require_operands
from refemu.units.harmonia.harmonia_core.passes import wide_units
from refemu.units.harmonia.harmonia_core.plan import (
    LANES,
    Action,
    Activation,
    Bias,
    Kind,
    Rotation,
    Shape,
    group_shape,
    plan,
)
from refemu.units.harmonia.k_offset import WINDOW, KOffsetGenerator

BType: TypeAlias = Literal["int4", "bfp8", "bfp4", "mixed"]  #: type of B; "mixed": mantissas of 4 and of 8 bits
Codes: TypeAlias = Literal["sets", "rows"]  #: a pass for each set of codes, or codes for each row (D-harmonia-46)
Positions: TypeAlias = Literal["start", "port"]  #: positions of the rows: consecutive, or inputs (D-harmonia-45)
MODES: dict[BType, int] = {"int4": M8W4, "bfp4": M8M4, "bfp8": M8M8, "mixed": M8M8}
CODES: tuple[Codes, ...] = get_args(Codes)  #: The choices of `Codes`


class Gemm(Combinational):
    """Base of the accelerator: one product C = A x B."""

    #: optional ports: what they carry, for error messages, and their meanings
    optional: ClassVar[dict[str, tuple[str, str]]] = {
        "frozen": ("the offsets of the prompt", "offsets that a prompt has chosen for later keys"),
        "position": ("the position of every row", "position of every row of A"),
        "wide": ("a mask of the codes with 8 bits", "which codes of B have 8 bits, for every row of A"),
        "bias": ("a bias of every column", "bias added to every row of C"),
    }
    kind: Kind = "linear"  #: kind of C
    rows: int = 8  #: M
    inner: int = 32  #: N
    columns: int = 32  #: K
    #: type of B. "mixed": 8-bit mantissas; port `wide` says where a row sees the upper nibbles only: for kind "score"
    #: column by column, else group by group of the reduction
    b_type: BType = "int4"
    m: Annotated[int, 1, 11] = 8  #: mantissa bits of the result, 1 to 11
    tile_m: int = 64  #: rows of a tile, as for `FdgfController`
    tile_k: int = 64  #: columns of a tile
    head_dim: int = 32  #: head dimension of q and k
    start: int = 0  #: position of row 0, or with positions="port" the least position of a row
    base: int = 10000  #: base of the rotary angles
    activation: Activation = "none"  #: activation of kinds "linear" and "final"
    force: int = 0  #: 0, or the dataflow
    partial: Precision = "fp16"  #: rounding of a group's sum, as for `Accumulator`
    #: pairs of q and k that rotate: (i, i + head_dim / 2), (2i, 2i + 1), or none
    rotation: Rotation = "half"
    #: tokens of the prompt that choose the offsets of kind "k", 0 to 32; later products take them from `frozen`. 0:
    #: keys have no offsets
    window: Annotated[int, 0, WINDOW] = WINDOW
    #: rows have consecutive positions from `start` on, or those of port `position` (D-harmonia-45)
    positions: Positions = "start"
    #: where port `bias` is added: in FP16 after FP2Half, or in FP32 before it (D-harmonia-29)
    bias_add: Bias = "none"
    #: rows of a "mixed" pass that see different codes: a pass for each set of codes, or separate codes for each row
    #: (D-harmonia-46)
    codes: Codes = "sets"

    def check(self) -> None:
        require_int(self.start, 0, POSITIONS - self.rows, self.name, "start")
        require_kind(self)
        plan(self.shape)

    @constant
    def shape(self) -> Shape:
        """Parameters of the plan."""
        shifted = self.kind == "k" and self.window > 0
        tracked = min(self.window, self.rows) if shifted and self.start == 0 else 0
        parameters = {name: getattr(self, name) for name in Shape._fields if name in self._names}
        return Shape(**parameters, shifted=shifted, tracked=tracked)

    @constant
    def waits(self) -> bool:
        """Whether keys choose their offsets themselves."""
        return self.shape.shifted and self.start < self.window

    @constant
    def groups(self) -> int:
        """Groups of the reduction."""
        return -(-self.inner // LANES)

    @constant
    def mode(self) -> int:
        """Mode of the PEs; for "mixed" the widest."""
        return MODES[self.b_type]

    @constant
    def offsets(self) -> KOffsetGenerator:
        """The K-offset generator, at reset."""
        return KOffsetGenerator(self.columns)

    @property
    def plan(self) -> tuple[Action, ...]:
        """Events in order. Positions change when keys leave the window, but not how many events there are."""
        return plan(self.shape)

    @constant
    def ports(self) -> Ports:
        """Optional ports of offsets: only keys have them, and only after the window they are inputs."""
        rows, inner, columns, groups, kind = self.rows, self.inner, self.columns, self.groups, self.kind
        codes, units = prod(group_shape(kind, rows, columns, self.head_dim)), wide_units(kind, columns, groups)
        shifted, mixed = self.shape.shifted, self.b_type == "mixed"
        frozen = Port("frozen", 16, columns, encoding="f16", meaning="offsets of the prompt's window")
        offset = Port("offset", 16, columns, encoding="f16", meaning="offset subtracted from every key")
        position = Port("position", 22, rows, meaning="position of every row, ascending")
        wide = Port("wide", 1, rows * units, meaning="by row of A, codes of B that have 8 bits")
        bias = Port("bias", 16, columns, encoding="f16", meaning="added to every row")
        most = rows * columns * groups * 2  # at most one pass for each row
        cycles = rows * -(-columns // COLUMNS) * (2 * groups + COLUMNS - 1)
        array_cycles = Port("array_cycles", cycles.bit_length(), meaning="cycles of the array in all passes")
        array_words = Port("array_words", most.bit_length(), meaning="nibble planes of groups of B that the array read")
        return Ports(
            inputs=(
                Port("a_sign", 1, rows * inner, meaning="signs of A, by rows"),
                Port("a_mag", 8, rows * inner, meaning="8-bit mantissas of A"),
                Port("a_exp", 5, rows * groups, meaning="shared exponents of A"),
                Port("b", 8, columns * inner, meaning="INT4, 4-bit or 8-bit mantissas of B, by columns"),
                Port("b_sign", 1, columns * inner, meaning="signs of B; 0 for INT4"),
                Port("b_exp", 5, columns * groups, meaning="shared exponents of B; 0 for INT4"),
                Port("w_scale", 16, columns * groups, encoding="f16", meaning="weight factors; 0 except for INT4"),
                *[frozen] * (shifted and self.start >= self.window),
                *[position] * (self.positions == "port"),
                *[wide] * mixed,
                *[bias] * (self.bias_add != "none"),
            ),
            outputs=(
                Port("sign", 1, rows * columns, meaning="signs of C, by rows"),
                Port("mantissa", self.m, rows * columns, meaning="mantissas of C"),
                Port("exponent", 5, codes, meaning="shared exponents of C, by rows"),
                Port("y", 16, rows * columns, encoding="f16", meaning="C before its conversion"),
                *[offset] * shifted,
                *[array_cycles, array_words] * mixed,
            ),
        )

    def validate_event(self, *values: Any, **named: Any) -> list[Any]:
        """The inputs of one product; rejects inputs whose port is missing."""
        return super().validate_event(
            *values, **self._due(named), **{n: v for n, v in named.items() if n not in self.optional}
        )

    def validated(
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
        """Check the inputs of products, which broadcast before the axis of lanes.

        A is given row after row, B column after column, group after group, in the fields of bfp_pe. Optional ports are
        None where the configuration lacks them: `frozen`, the `offset` of the Result of the prompt, for kind "k" from
        position `window` on; `position` for positions="port"; `wide` for b_type="mixed"; `bias`.
        """
        due = self._due({"frozen": frozen, "position": position, "wide": wide, "bias": bias})
        return super().validated(a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale, *due.values())

    def _require(self, *inputs: np.ndarray) -> None:
        """Check operands with `require_operands`."""
        require_operands(self, self._by_port(inputs))

    def _due(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The optional inputs that have a port; rejects a missing input, and an input without a port."""
        there = {port.name for port in self.ports.inputs}
        for name, (meaning, _) in self.optional.items():
            if (name in there) != (inputs.get(name) is not None):
                wanted, got = (meaning, "None") if name in there else ("None", "values")
                raise Refused(
                    f"{self.name}: {name} must be {wanted} for kind {self.kind!r} {self._reason(name)}, got {got}"
                )
        return {name: inputs[name] for name in self.optional if name in there}

    def _reason(self, name: str) -> str:
        """The condition of an optional port."""
        if name == "frozen":
            return f"from position {self.start} on"
        parameter = {"position": "positions", "wide": "b_type", "bias": "bias_add"}[name]
        return f"with {parameter} {getattr(self, parameter)!r}"

    def _by_port(self, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Inputs by name, each with an axis of lanes."""
        return {
            port.name: array if port.lanes else array[..., None]
            for port, array in zip(self.ports.inputs, inputs, strict=True)
        }
