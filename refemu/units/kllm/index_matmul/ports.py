"""Parameters of the index MatMul and its ports: an output column, and what a norm and a bias add to it.

Paper: [kllm §III-B, §III-D, Fig. 3, Fig. 5; §III-C2, Fig. 4 for the norm].
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.units import Port, Ports, constant, decides

NormPorts = Literal["none", "rms", "layer"]  #: norm whose divided operands are inputs

OUTPUTS = (Port("y", 16, encoding="f16", meaning="the output"), Port("overflow", 1, meaning="y is not finite"))


@dataclass(frozen=True)
class MatmulOptions:
    """Parameters of an index MatMul."""

    k: Annotated[int, 1, 1 << 20] = 16  #: positions of a column, 1 to 2**20
    a_bits: int = 4  #: width of an index of A, 1 to 4; with `integer` of an amount, 1 to 8
    b_bits: Annotated[int, 1, 4] = 4  #: width of an index of B, 1 to 4
    integer: bool = False  #: whether A holds integers, which are amounts
    preset: Preset | KllmArith = "paper"  #: arithmetic; its accumulator selects the MACs, see `accumulators`
    biased: bool = False  #: whether the unit has a port for a bias (D-kllm-40)
    #: norm before the MatMul: operands are inputs divided by index_norm (D-kllm-37), and B has no outliers; "layer"
    #: adds its shift
    norm: NormPorts = "none"

    @constant
    def arith(self) -> KllmArith:
        """The arithmetic."""
        return KllmArith.preset(self.preset)

    @constant
    def ports(self) -> Ports:
        operands = self._integers() if self.integer else (*self._a(), *self._b(), self._products())
        return Ports(inputs=(*operands, *self._addends()), outputs=OUTPUTS)

    def _integers(self) -> Iterator[Port]:
        """Integers as amounts at B's indices; B has no scale."""
        yield Port("a_index", self.a_bits, self.k, meaning="integers")
        yield _words("a_outlier", self.k, "unquantized scores")
        yield _scale("a_scale")
        yield from self._columns(True)
        yield self._centroids("centroids of B")

    def _a(self) -> tuple[Port, ...]:
        """A row of A; after a norm its scale is divided, and may be 0 or infinity."""
        divided = Port("a_scale", 16, encoding="f16", meaning="scale of A over the norm's divisor", most=0x7C00)
        return (
            Port("a_index", self.a_bits, self.k, meaning="indices of A"),
            Port("a_mask", 1, self.k, meaning="1 = an outlier of A"),
            _words("a_outlier", self.k, "values of A's outliers"),
            _scale("a_scale") if self.norm == "none" else divided,
            _words("a_codebook", 1 << self.a_bits, "centroids of A"),
        )

    @decides("D-kllm-37")
    def _b(self) -> tuple[Port, ...]:
        """A column of B; after a norm it has no outliers, and divided centroids for the sparse path."""
        plain = self.norm == "none"
        meaning = "centroids of B" if plain else "centroids of B over the norm's divisor, for the sparse path"
        return (*self._columns(plain), _scale("b_scale"), self._centroids(meaning))

    def _columns(self, outliers: bool) -> Iterator[Port]:
        yield Port("b_index", self.b_bits, self.k, meaning="indices of B")
        if outliers:
            yield Port("b_mask", 1, self.k, meaning="1 = an outlier of B")
            yield _words("b_outlier", self.k, "values of B's outliers")

    def _products(self) -> Port:
        width = 32 if self.arith.table == "fp32" else 16
        return Port("products", width, 1 << self.a_bits + self.b_bits, encoding=f"f{width}", meaning="product codebook")

    def _centroids(self, meaning: str) -> Port:
        return _words("b_codebook", 1 << self.b_bits, meaning)

    def _addends(self) -> Iterator[Port]:
        """Inputs of the merge, in the order of their additions."""
        if self.norm == "layer":
            yield _words("shift", None, "LayerNorm's mean over deviation, h")
            yield _words("row_sum", None, "sum of the column's weights, R_n")
        if self.biased:
            yield _words("bias", None, "bias, added last")


def _words(name: str, lanes: int | None, meaning: str) -> Port:
    return Port(name, 16, lanes, encoding="f16", meaning=meaning)


def _scale(name: str) -> Port:
    return Port(name, 16, encoding="f16", meaning=f"scale of {name[0].upper()}", least=1, most=0x7BFF)
