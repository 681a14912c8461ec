"""The element-wise index product: concatenate two indices, no counting and no reduction.

Paper: [kllm §III-B1, end]. The result has indices of nA + nB bits into the product codebook; where an operand is an
outlier, the product of both values in fp16. Decision: D-kllm-16 (the result is read as values, not indexed again).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, at, first_index, require_int
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_tables import cartesian
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.units import index_product_cases, unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, collect
from refemu.units.unit_cases import Seeds


@dataclass(frozen=True)
class State:
    """Ports after one element, and what happened since reset."""

    event: str  #: "reset", "concat" or "multiply"
    index: int  #: number of the element, -1 for the reset
    a: int
    b: int
    a_mask: int
    b_mask: int
    a_value: int
    b_value: int
    q: int
    mask: int
    outlier: int
    overflow: int
    concats: int
    products_sparse: int
    overflows: int


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one value per element."""

    q: np.ndarray  #: uint8: (a << nB) | b, 0 at outliers
    mask: np.ndarray  #: bool: the result is kept in fp16
    outlier: np.ndarray  #: uint16 words, 0 where `mask` is False
    overflow: np.ndarray  #: bool: a product of finite values left fp16
    concats: int
    products_sparse: int
    overflows: int


@dataclass(frozen=True, eq=False, repr=False)
class Product(unit.Result):
    """The product of two tensors: what the hardware gives, infinities too. No tensor holds those; see `why_not`."""

    bits: Result  #: what the unit gave, element by element
    scale: np.ndarray  #: patterns, sA * sB: fp16, or float32 where the product of scales is exact
    codebook: Codebook  #: all products of centroids; one row per vector if an operand has
    axis: int
    concats: int
    products_sparse: int

    def why_not(self) -> str | None:
        """Why there is no `tensor`: an outlier or a scale left fp16, or a scale became 0. None if there is one."""
        wide = np.float16 if self.scale.dtype == np.uint16 else np.float32
        scales: np.ndarray = self.scale.view(wide)
        outliers = fp16.values(self.bits.outlier)
        for name, values, bad, rule in (
            ("outlier", outliers, ~np.isfinite(outliers), "finite"),
            ("scale", scales, ~(np.isfinite(scales) & (scales > 0)), "positive and finite"),
        ):
            if bad.any():
                place = first_index(bad)
                return f"{name} {values[place]!s}{at(place)} is not {rule}"
        return None

    @property
    def has_tensor(self) -> bool:
        """Whether `tensor` can be made."""
        return self.why_not() is None

    @property
    def tensor(self) -> KMeansTensor:
        """As a K-Means tensor; `dequantized()` gives the fp16 values. Refused where `why_not` says why."""
        if (why := self.why_not()) is not None:
            raise Refused(f"{IndexProduct.name}: the product has no tensor: {why}; its words are in `bits`")
        mask = self.bits.mask
        words = np.moveaxis(self.bits.outlier, self.axis, -1)[np.moveaxis(mask, self.axis, -1)]
        return KMeansTensor(self.codebook, self.bits.q, self.scale, mask.copy(), words, self.axis)

    def equals(self, other: object) -> bool:
        """Equal type, and every field equal in dtype, shape and content."""
        return (
            isinstance(other, Product)
            and self.bits.equals(other.bits)
            and self.codebook == other.codebook
            and self.axis == other.axis
            and self.scale.dtype == other.scale.dtype
            and self.scale.tobytes() == other.scale.tobytes()
        )

    def __repr__(self) -> str:
        why = self.why_not()
        return (
            f"Product({self.codebook.bits} bits, shape={self.bits.q.shape}, axis={self.axis}, "
            f"{self.products_sparse} outliers{'' if why is None else f', no tensor: {why}'})"
        )


class IndexProduct(Stepped):
    """A Concat unit, and an fp16 multiplier for outliers; one event is one element."""

    name = "index_product"

    def __init__(self, a_bits: int = 4, b_bits: int = 4) -> None:
        """a_bits, b_bits: of the indices, 1 to 4."""
        require_int(a_bits, 1, 4, self.name, "a_bits")
        require_int(b_bits, 1, 4, self.name, "b_bits")
        self.a_bits, self.b_bits = a_bits, b_bits
        self.ports = ports({"a_bits": a_bits, "b_bits": b_bits})
        self.state = State("reset", -1, *(0,) * 13)

    def step(self, a: Any, b: Any, a_mask: Any, b_mask: Any, a_value: Any, b_value: Any) -> State:
        """One element; returns the State after it."""
        inputs = self.accept(a, b, a_mask, b_mask, a_value, b_value)
        return self._event(*inputs)

    def _event(self, a: int, b: int, a_mask: int, b_mask: int, a_value: int, b_value: int) -> State:
        before, inputs = self.state, (a, b, a_mask, b_mask, a_value, b_value)
        if a_mask | b_mask:
            x, y = fp16.to_f32(fp16.values([a_value, b_value]))
            word = int(fp16.bits(fp16.to_f16(fp16.mul16(x, y))))
            overflow = int(bool(np.isfinite([x, y]).all()) and word & 0x7C00 == 0x7C00)
            self.state = State(
                "multiply",
                before.index + 1,
                *inputs,
                0,
                1,
                word,
                overflow,
                before.concats + 1,
                before.products_sparse + 1,
                before.overflows + overflow,
            )
        else:
            self.state = State(
                "concat",
                before.index + 1,
                *inputs,
                (a << self.b_bits) | b,
                0,
                0,
                0,
                before.concats + 1,
                before.products_sparse,
                before.overflows,
            )
        return self.state

    def steps(self, a: Any, b: Any, a_mask: Any, b_mask: Any, a_value: Any, b_value: Any) -> Iterator[State]:
        """Yield the State after every element, in C order; arguments broadcast."""
        arrays = admit(self.name, self.ports.inputs, (a, b, a_mask, b_mask, a_value, b_value))
        for event in zip(*(array.ravel().tolist() for array in arrays), strict=True):
            yield self._event(*event)

    def __repr__(self) -> str:
        return f"IndexProduct(a_bits={self.a_bits}, b_bits={self.b_bits})"


def run(a: KMeansTensor, b: KMeansTensor, *, preset: str | KllmArith = "paper") -> Product:
    """The product of two tensors of one shape whose vectors lie along one axis.

    a, b: fp16 scales, no zero points, at most 8 bits of index together; a codebook may have one row per vector.
    preset: of KLLM's arithmetic: `scale_y` and `table` matter. Returns the Product; its `tensor`, if nothing left fp16,
    has nA + nB bits.
    Paper: [kllm §III-B1].
    """
    return product(a, b, preset, run_ports)


def product(a: KMeansTensor, b: KMeansTensor, preset: str | KllmArith, elements: Any) -> Product:
    """`run`, the elements by the readable unit or its twin."""
    arith = KllmArith.preset(preset)
    _require(a, b)
    scale = a.scales.astype(np.float64) * b.scales.astype(np.float64)
    narrow = fp16.bits(fp16.to_f16(scale)) if arith.scale_y == "fp16" else scale.astype(np.float32).view(np.uint32)
    bits = elements(
        a.index,
        b.index,
        a.mask.view(np.uint8),
        b.mask.view(np.uint8),
        fp16.bits(a.dequantized()),
        fp16.bits(b.dequantized()),
        a_bits=a.bits,
        b_bits=b.bits,
    )
    codebook = cartesian(a.codebook, b.codebook, arith.table)
    return Product(bits, narrow, codebook, a.axis, bits.concats, bits.products_sparse)


def _require(a: KMeansTensor, b: KMeansTensor) -> None:
    name = IndexProduct.name
    for tensor in (a, b):
        if not isinstance(tensor, KMeansTensor):
            raise RefusedType(f"{name}: two KMeansTensors are needed, got {type(tensor).__name__}")
        if tensor.zero is not None or tensor.scale.dtype != np.uint16:
            raise Refused(f"{name}: operands have fp16 scales and no zero points, got {tensor!r}")
    if (a.shape, a.axis) != (b.shape, b.axis):
        raise Refused(f"{name}: both operands need one shape and axis, got {a!r} and {b!r}")


def run_ports(
    a: Any, b: Any, a_mask: Any, b_mask: Any, a_value: Any, b_value: Any, *, a_bits: int = 4, b_bits: int = 4
) -> Result:
    """Elements of any shape.

    a, b: indices. a_mask, b_mask: 1 at outliers. a_value, b_value: fp16 words, what each operand stands for: read
    where either is an outlier. They broadcast. a_bits, b_bits: as for IndexProduct. Returns the Result.
    """
    device = IndexProduct(a_bits, b_bits)
    arrays = admit(device.name, device.ports.inputs, (a, b, a_mask, b_mask, a_value, b_value))
    states, last = list(device.steps(*arrays)), device.state
    return Result(
        **collect(states, device.ports.outputs, arrays[0].shape),
        concats=last.concats,
        products_sparse=last.products_sparse,
        overflows=last.overflows,
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    a, b = config["a_bits"], config["b_bits"]
    return Ports(
        inputs=(
            Port("a", a, meaning="index of A"),
            Port("b", b, meaning="index of B"),
            Port("a_mask", 1, meaning="A is an outlier"),
            Port("b_mask", 1, meaning="B is an outlier"),
            Port("a_value", 16, encoding="f16", meaning="value of A: its outlier, or r16(s * c)"),
            Port("b_value", 16, encoding="f16", meaning="value of B"),
        ),
        outputs=(
            Port("q", a + b, meaning="index of the product; 0 at outliers"),
            Port("mask", 1, meaning="the product is kept in fp16"),
            Port("outlier", 16, encoding="f16", meaning="that product; 0 elsewhere"),
            Port("overflow", 1, meaning="it left fp16"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see index_product_cases.py."""
    return index_product_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="index_product",
    paper="kllm §III-B1",
    meaning="element-wise product: indices concatenated",
    configs={"w4a4": Config(a_bits=4, b_bits=4), "w3a3": Config(a_bits=3, b_bits=3)},
    ports=ports,
    run=run_ports,
    twin="refemu.units.index_product_jit:run_ports",
    unit_class=IndexProduct,
    cases=cases,
    mark=index_product_cases.mark,
    flags={
        "OUTLIER": Flag(0, "an operand is an outlier, so is the product"),
        "OVERFLOW": Flag(1, "the product of finite values left fp16"),
    },
)
