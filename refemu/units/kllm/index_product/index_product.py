"""The element-wise index product: concatenate two indices, no counting and no reduction.

Paper: [kllm §III-B1, end]. The result has indices of nA + nB bits into the product codebook; if an operand is an
outlier, the product of both values in fp16.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, at, first_index
from refemu.arith.scalar32 import pattern16, value16
from refemu.formats import Codebook, KllmArith, KMeansTensor, cartesian
from refemu.formats.kllm.kllm_arith import Preset
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Unit, constant, stepping
from refemu.units.unit import DeclaredState, RunFunction

__all__ = ["UNIT", "IndexProduct", "Product", "Result", "State", "product", "run"]

INFINITE = 0x7C00  #: exponent field of infinity and NaN


@dataclass(frozen=True, eq=False, repr=False)
class Product(stepping.Result):
    """The product of two tensors as computed in hardware; infinities cannot be in a tensor: see `why_not`."""

    bits: stepping.Result  #: outputs of the unit, element by element
    scale: np.ndarray  #: patterns, sA * sB: fp16, or float32 where the product of scales is exact
    codebook: Codebook  #: all products of centroids; one row per vector if an operand has
    axis: int  #: axis of the vectors
    concats: int  #: elements that were concatenated
    products_sparse: int  #: elements that were multiplied in fp16

    def why_not(self) -> str | None:
        """Reason why the product has no `tensor`, or None: an outlier or a scale exceeded fp16, or a scale became 0."""
        wide = np.float16 if self.scale.dtype == np.uint16 else np.float32
        scales: np.ndarray = self.scale.view(wide)
        outliers = fp16.values(self.bits.outlier)
        for name, values, bad, rule in (
            ("outlier", outliers, ~np.isfinite(outliers), "finite"),
            ("scale", scales, ~(np.isfinite(scales) & (scales > 0)), "positive and finite"),
        ):
            if bad.any():
                place = first_index(bad)
                return f"{name} must be {rule}, got {values[place]!s}{at(place)}"
        return None

    @property
    def tensor(self) -> KMeansTensor:
        """Product as a K-Means tensor; `dequantize_fp16()` gives fp16 values. Raises for the reason of `why_not`."""
        if (why := self.why_not()) is not None:
            raise Refused(f"{IndexProduct.name}: the product has no tensor: {why}; take its words from `bits`")
        mask = self.bits.mask
        words = np.moveaxis(self.bits.outlier, self.axis, -1)[np.moveaxis(mask, self.axis, -1)]
        return KMeansTensor(self.codebook, self.bits.q, self.scale, mask.copy(), words, self.axis)

    def equals(self, other: object) -> bool:
        """Whether the other product is equal in every field, dtypes and shapes included."""
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


class IndexProduct(Combinational):
    """Element-wise product: a Concat unit, and an fp16 multiplier for outliers; one event is one element."""

    name = "index_product"
    events: ClassVar[tuple[str, ...]] = ("concat", "multiply")
    counters: ClassVar[dict[str, str]] = {
        "concats": "pairs of indices concatenated: one for every element, outliers included",
        "products_sparse": "elements with an outlier, whose values are multiplied",
        "overflows": "products of finite values with `overflow` set: infinite in fp16",
    }
    a_bits: Annotated[int, 1, 4] = 4  #: width of the index a, 1 to 4
    b_bits: Annotated[int, 1, 4] = 4  #: width of the index b, 1 to 4

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(
                Port("a", self.a_bits, meaning="index of A"),
                Port("b", self.b_bits, meaning="index of B"),
                Port("a_mask", 1, meaning="A is an outlier"),
                Port("b_mask", 1, meaning="B is an outlier"),
                Port("a_value", 16, encoding="f16", meaning="value of A: its outlier, or r16(s * c)"),
                Port("b_value", 16, encoding="f16", meaning="value of B"),
            ),
            outputs=(
                Port("q", self.a_bits + self.b_bits, meaning="index of the product; 0 at outliers"),
                Port("mask", 1, meaning="the product is stored in fp16"),
                Port("outlier", 16, encoding="f16", meaning="product in fp16; 0 elsewhere"),
                Port("overflow", 1, meaning="the product exceeded fp16"),
            ),
        )

    def opens(self, a: int, b: int, a_mask: int, b_mask: int, *values: int) -> str:
        return "multiply" if a_mask | b_mask else "concat"

    def concat(self, a: int, b: int, *others: int) -> Changes:
        """Concatenate the indices of both operands."""
        return {"q": (a << self.b_bits) | b, "mask": 0, "outlier": 0, "overflow": 0, "concats": 1}

    def multiply(self, a: int, b: int, a_mask: int, b_mask: int, a_value: int, b_value: int) -> Changes:
        """Multiply both values in fp16: an operand is an outlier."""
        word = pattern16(value16(a_value) * value16(b_value))  # 22 bits: exact before the rounding
        overflow = int(
            word & INFINITE == INFINITE and a_value & INFINITE != INFINITE and b_value & INFINITE != INFINITE
        )
        counts = {"concats": 1, "products_sparse": 1, "overflows": overflow}
        return {"q": 0, "mask": 1, "outlier": word, "overflow": overflow, **counts}


def product(
    a: KMeansTensor,
    b: KMeansTensor,
    *,
    preset: Preset | KllmArith = "paper",
    elements: Callable[..., stepping.Result] | None = None,
) -> Product:
    """Multiply two tensors element by element; the `tensor` of the Product has nA + nB bits. [kllm §III-B1]

    a, b: of one shape and axis, with fp16 scales, no zero points, and at most 8 bits of index together; a codebook may
    have one row per vector. preset: `scale_y` and `table` of it matter. elements: `run`, or that of the compiled
    form. Raises Refused if the operands do not match.
    """
    arith = KllmArith.preset(preset)
    _require(a, b)
    scale = a.scales.astype(np.float64) * b.scales.astype(np.float64)
    narrow = fp16.bits(fp16.to_f16(scale)) if arith.scale_y == "fp16" else scale.astype(np.float32).view(np.uint32)
    bits = (elements or run)(
        a.index,
        b.index,
        a.mask.view(np.uint8),
        b.mask.view(np.uint8),
        fp16.bits(a.dequantize_fp16()),
        fp16.bits(b.dequantize_fp16()),
        a_bits=a.bits,
        b_bits=b.bits,
    )
    codebook = cartesian(a.codebook, b.codebook, arith.table)
    return Product(bits, narrow, codebook, a.axis, int(bits.concats), int(bits.products_sparse))


def _require(a: KMeansTensor, b: KMeansTensor) -> None:
    name = IndexProduct.name
    for tensor in (a, b):
        if not isinstance(tensor, KMeansTensor):
            raise RefusedType(f"{name}: operands must be KMeansTensors, got {type(tensor).__name__}")
        if tensor.zero is not None or tensor.scale.dtype != np.uint16:
            raise Refused(f"{name}: operands must have fp16 scales and no zero points, got {tensor!r}")
    if (a.shape, a.axis) != (b.shape, b.axis):
        raise Refused(f"{name}: operands must have one shape and axis, got {a!r} and {b!r}")


UNIT: AnyUnit = Unit(
    unit_class=IndexProduct,
    paper="kllm §III-B1",
    meaning="element-wise product: indices concatenated",
    configs={"w4a4": Config(a_bits=4, b_bits=4), "w3a3": Config(a_bits=3, b_bits=3)},
    flags={
        "OUTLIER": Flag(0, "an operand is an outlier, and so is the product", "mask"),
        "OVERFLOW": Flag(1, "the product of finite values exceeded fp16", "overflow"),
    },
)
State: type[DeclaredState] = IndexProduct.State
Result: type[stepping.Result] = UNIT.result
run: RunFunction[stepping.Result] = UNIT.run
