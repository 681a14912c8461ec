"""The dot product unit of a tensor core with pair decoders: 16 products of 4-bit pairs, or 8 of 8-bit pairs.

Paper: [olive §4.1, Fig. 6a] (16EDP, 8EDP). Composed of ovp_decoder. Decisions: D-olive-33 (a result that leaves 32
bits), D-olive-34 (width of the adder tree), D-olive-35 (a shifter per product).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_choice
from refemu.arith.integers import Overflow
from refemu.units import olive_edp_cases, unit
from refemu.units.olive_mac import ACC_BITS, reduce
from refemu.units.ovp_decoder import OvpDecoder
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, choices, collect
from refemu.units.unit_cases import Seeds

OUTLIER = {"int4": (2, 1), "flint4": (2, 1), "int8": (4, 3)}  #: operand type -> the outlier format beside it
EVENTS = ("decode", "multiply", "shift", "reduce")

Pairs = tuple[tuple[int, int], ...]  #: (exponent, integer) of every element


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset. Element 2k is the left one of pair k."""

    event: str  #: "reset" or one of EVENTS
    index: int  #: number of the operation, -1 for the reset
    a_pairs: tuple[int, ...]
    b_pairs: tuple[int, ...]
    bias_a: int
    bias_b: int
    c: int
    d: int
    overflow: int
    illegal: int
    a: Pairs  #: decoded operands
    b: Pairs
    shifts: tuple[int, ...]  #: sums of exponents
    products: tuple[int, ...]  #: of the integers
    shifted: tuple[int, ...]  #: products << shifts, exact
    operations: int  #: dot products finished
    macs: int  #: products made
    decodes: int  #: pairs decoded, both operands
    overflows: int  #: operations with `overflow` set
    illegal_operations: int  #: operations with `illegal` set


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one value per operation."""

    d: np.ndarray  #: int32
    overflow: np.ndarray  #: bool
    illegal: np.ndarray  #: bool: some pair was illegal; it contributes 0
    operations: int
    macs: int
    decodes: int
    overflows: int
    illegal_operations: int


class DotProductUnit(Stepped):
    """The block of [olive Fig. 6a]: an operation is four events, decode, multiply, shift, reduce."""

    name = "olive_edp"

    def __init__(self, a: str = "int4", b: str = "int4", overflow: str = "wrap") -> None:
        """a, b: types of the operands, of one width: "int4", "flint4", "int8". overflow: "wrap" or "saturate"."""
        for name, kind in (("a", a), ("b", b)):
            require_choice(kind, OUTLIER, self.name, name)
        if (a == "int8") != (b == "int8"):
            raise Refused(f"{self.name}: a and b must have one width, got {a} and {b}")
        self.overflow = Overflow(require_choice(str(overflow), ("wrap", "saturate"), self.name, "overflow"))
        self.a, self.b = a, b
        self.n = 8 if a == "int8" else 16  #: products of an operation
        self.decoders = tuple(OvpDecoder(kind, OUTLIER[kind]) for kind in (a, b))
        self.ports = ports({"a": a, "b": b})
        none, zeros = ((0, 0),) * self.n, (0,) * self.n
        pairs = (0,) * (self.n // 2)
        self.state = State("reset", -1, pairs, pairs, 0, 0, 0, 0, 0, 0, none, none, zeros, zeros, zeros, 0, 0, 0, 0, 0)

    @property
    def multipliers(self) -> int:
        """One for every product: 16 of 4 bits or 8 of 8 bits [olive §4.1]."""
        return self.n

    @property
    def pair_decoders(self) -> int:
        """One for every pair of both operands, as many as multipliers [olive Tbl. 10]."""
        return 2 * (self.n // 2)

    @property
    def busy(self) -> bool:
        """Whether an operation is on its way: after `decode` until `reduce`."""
        return self.state.event in EVENTS[:-1]

    def step(self, *inputs: Any) -> State:
        """With inputs (a_pairs, b_pairs, bias_a, bias_b, c): decode them. Without: the next event of the operation.

        Refused: inputs while an operation is on its way, none while there is none.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: {self.state.event} was the last event" if self.busy else "the inputs of an operation"
            raise Refused(f"{self.name}: step takes {wanted}")
        if inputs:
            return self._decode(*self.accept(*inputs))
        event = EVENTS[EVENTS.index(self.state.event) + 1]
        self.state = {"multiply": self._multiplied, "shift": self._shifted, "reduce": self._reduced}[event]()
        return self.state

    def _decode(self, a_pairs: tuple[int, ...], b_pairs: tuple[int, ...], bias_a: int, bias_b: int, c: int) -> State:
        before = self.state
        (a, bad_a), (b, bad_b) = self.decoded(0, a_pairs, bias_a), self.decoded(1, b_pairs, bias_b)
        self.state = replace(
            before,
            event="decode",
            index=before.index + 1,
            a_pairs=a_pairs,
            b_pairs=b_pairs,
            bias_a=bias_a,
            bias_b=bias_b,
            c=c,
            a=a,
            b=b,
            illegal=bad_a | bad_b,
            decodes=before.decodes + self.n,
        )
        return self.state

    def decoded(self, operand: int, pairs: tuple[int, ...], bias: int) -> tuple[Pairs, int]:
        """The exponent-integer pairs of one operand (0 = a, 1 = b), and 1 if some pair is illegal."""
        decoder = self.decoders[operand]
        states = [decoder.step(pair, bias) for pair in pairs]
        elements = tuple(element for s in states for element in zip(s.exponent, s.base_int, strict=True))
        return elements, int(any(s.illegal for s in states))

    def _multiplied(self) -> State:
        elements = tuple(zip(self.state.a, self.state.b, strict=True))
        return replace(
            self.state,
            event="multiply",
            shifts=tuple(x[0] + y[0] for x, y in elements),
            products=tuple(x[1] * y[1] for x, y in elements),
            macs=self.state.macs + self.n,
        )

    def _shifted(self) -> State:
        """A shifter for every product, because there are as many exponents (D-olive-35)."""
        shifted = tuple(p << s for p, s in zip(self.state.products, self.state.shifts, strict=True))
        return replace(self.state, event="shift", shifted=shifted)

    def _reduced(self) -> State:
        """One exact sum and one reduction to 32 bits, so there is no order of additions (D-olive-34)."""
        before, total = self.state, self.state.c
        for product in before.shifted:
            total += product
        d, overflow = reduce(total, self.overflow)
        return replace(
            before,
            event="reduce",
            d=d,
            overflow=overflow,
            operations=before.operations + 1,
            overflows=before.overflows + overflow,
            illegal_operations=before.illegal_operations + before.illegal,
        )

    def steps(self, a_pairs: Any, b_pairs: Any, bias_a: Any, bias_b: Any, c: Any) -> Iterator[State]:
        """Yield the State after every event of every operation, in C order; arguments broadcast beside their lanes."""
        arrays = admit(self.name, self.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b, c))
        lanes = [port.lanes for port in self.ports.inputs]
        columns = [
            array.reshape(-1, n).tolist() if n > 1 else array.ravel().tolist()
            for array, n in zip(arrays, lanes, strict=True)
        ]
        for a, b, *others in zip(*columns, strict=True):
            yield self.step(a, b, *others)
            while self.busy:
                yield self.step()

    def __repr__(self) -> str:
        return f"DotProductUnit(a={self.a!r}, b={self.b!r}, overflow={self.overflow.value!r})"


def run(
    a_pairs: Any,
    b_pairs: Any,
    bias_a: Any,
    bias_b: Any,
    c: Any,
    *,
    a: str = "int4",
    b: str = "int4",
    overflow: str = "wrap",
) -> Result:
    """d = c + the dot product of two rows of pairs, for operations of any shape.

    a_pairs, b_pairs: (..., 8) bytes, or (..., 4) words of 16 bits for int8. bias_a, bias_b: unsigned, below 16.
    c: int32. They broadcast beside their lanes. a, b, overflow: as for DotProductUnit.
    Returns the Result, arrays of shape (...). Refuses a value outside its port and types of different width.
    Paper: [olive §4.1, Fig. 6a].
    """
    device = DotProductUnit(a, b, overflow)
    arrays = admit(device.name, device.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b, c))
    states = [state for state in device.steps(*arrays) if state.event == "reduce"]
    last = device.state
    return Result(
        **collect(states, device.ports.outputs, arrays[-1].shape),
        operations=last.operations,
        macs=last.macs,
        decodes=last.decodes,
        overflows=last.overflows,
        illegal_operations=last.illegal_operations,
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    bits, lanes = (16, 4) if config["a"] == "int8" else (8, 8)
    operands = [
        Port(f"{name}_pairs", bits, lanes, encoding=f"ovp_{config[name]}", meaning=f"pairs of operand {name}")
        for name in ("a", "b")
    ]
    biases = [Port(f"bias_{name}", 4, meaning=f"outlier bias of operand {name}") for name in ("a", "b")]
    return Ports(
        inputs=(*operands, *biases, Port("c", ACC_BITS, signed=True, meaning="added to the dot product")),
        outputs=(
            Port("d", ACC_BITS, signed=True, meaning="c + the dot product"),
            Port("overflow", 1, meaning="the exact sum left 32 signed bits"),
            Port("illegal", 1, meaning="some pair is illegal; it contributes 0"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see olive_edp_cases.py."""
    return olive_edp_cases.cases(config, ports(config).inputs, kind, seed)


TYPES = {
    "int4_int4": ("int4", "int4"),
    "int4_flint4": ("int4", "flint4"),
    "flint4_int4": ("flint4", "int4"),
    "flint4_flint4": ("flint4", "flint4"),
    "int8_int8": ("int8", "int8"),
}

UNIT = Unit(
    name="olive_edp",
    paper="olive §4.1, Fig. 6a",
    meaning="dot product of 16 (8-bit: 8) elements in pairs, plus c",
    configs={
        **{name: Config(a=a, b=b, overflow="wrap") for name, (a, b) in TYPES.items()},
        "int8_int8_saturate": Config(a="int8", b="int8", overflow="saturate"),
    },
    ports=ports,
    run=run,
    twin="refemu.units.olive_edp_jit:run",
    unit_class=DotProductUnit,
    cases=cases,
    mark=olive_edp_cases.mark,
    flags={
        "OVERFLOW": Flag(0, "the exact sum left 32 bits: wrapped or saturated by configuration (D-olive-33)"),
        "ILLEGAL": Flag(1, "some pair is an identifier beside magnitude 0; it contributes 0 (D-olive-18)"),
    },
    alternatives=choices("D-olive-33", "overflow", "wrap", "saturate"),
)
