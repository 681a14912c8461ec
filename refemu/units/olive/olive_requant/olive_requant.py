"""The output stage: from two neighbouring 32-bit sums to fp16 words, and to a pair of codes for the next layer.

Paper: [olive §3.4, §4.1, §4.3], which ends at the 32-bit sums. Composed of ovp_encoder.
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from refemu.arith.checks import Refused, at, first_index, reject
from refemu.arith.scalar32 import div32, f32, pattern16, pattern32, value16, value32
from refemu.formats import Ovp
from refemu.formats.presets import OvpName
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Unit, constant, decides
from refemu.units.olive.olive_mac import ACC_BITS
from refemu.units.olive.ovp_encoder import OvpEncoder
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["NO_BIAS", "UNIT", "OliveRequant", "State", "run"]

NO_BIAS = 0x8000  #: fp16 word of -0, which changes no sum, not even a zero of either sign
BIASES = "biases of both outputs; 0x8000, which is -0, for none"  #: meaning of port `bias`
LEAST, MOST = 0x0080_0000, 0x7F7F_FFFF  #: float32 patterns: the smallest normal value, the largest finite value
ONE = 0x3F80_0000  #: float32 pattern of 1, a scale before the first event
INFINITE16 = 0x7C00  #: first fp16 magnitude that is infinity or NaN
LANES = 2  #: outputs of a pair
REALS = ("acc_f32", "rescale", "scaled", "biased")  #: registers that hold a float32 of each lane


class Lane(NamedTuple):
    """Intermediate values of one lane, float32."""

    acc_f32: float
    rescale: float
    scaled: float
    biased: float
    y: int  #: fp16 word
    quotient: float  #: infinite beyond float32


class OliveRequant(Combinational):
    """Output stage of the array and of the tensor core: one event is a pair of neighbouring outputs.

    Lane 0 is the left element.
    """

    name = "olive_requant"
    events: ClassVar[tuple[str, ...]] = ("requant",)
    counters: ClassVar[dict[str, str]] = {
        "inexact_sums": "sums that float32 does not hold exactly",
        "overflows": "outputs with `overflow` set: infinite in fp16",
        "wide_quotients": "outputs whose quotient by the next layer's scale is infinite in float32, infinite outputs "
        "included",
        **OvpEncoder.counters,
    }
    initial: ClassVar[dict[str, Any]] = {"scale_a": ONE, "scale_w": (ONE,) * LANES, "scale_next": ONE}
    fmt: OvpName | Ovp = "OVP_INT4"  #: pair format of the next layer's input, as for `OvpEncoder`

    @constant
    def encoder(self) -> OvpEncoder:
        """The encoder of the next layer's input."""
        return OvpEncoder(self.fmt)

    @constant
    def ports(self) -> Ports:
        def real(name: str, meaning: str) -> Port:
            return Port(name, 32, LANES, encoding="f32", meaning=meaning)

        def scale(name: str, lanes: int | None, meaning: str) -> Port:
            return Port(name, 32, lanes, encoding="f32", meaning=meaning, least=LEAST, most=MOST)

        return Ports(
            inputs=(
                Port("acc", ACC_BITS, LANES, signed=True, meaning="two neighbouring sums, the left element first"),
                scale("scale_a", None, "scale of the input"),
                scale("scale_w", LANES, "scales of both rows of the weight"),
                Port(
                    "bias", 16, LANES, encoding="f16", meaning="biases of both outputs; 0x8000, which is -0, for none"
                ),
                scale("scale_next", None, "scale of the next layer's input"),
            ),
            outputs=(
                Port("y", 16, LANES, encoding="f16", meaning="outputs of the layer"),
                Port("overflow", 1, LANES, meaning="the output is beyond fp16: infinity"),
                *self.encoder.ports.outputs,
            ),
            state=(
                real("acc_f32", "the sums"),
                real("rescale", "products of both scales"),
                real("scaled", "rescaled sums"),
                real("biased", "outputs before they are rounded to fp16"),
                real("grid", "outputs in grid units of the next layer"),
            ),
        )

    def requant(
        self, acc: tuple[int, ...], scale_a: int, scale_w: tuple[int, ...], bias: tuple[int, ...], scale_next: int
    ) -> Changes:
        """Rescale two neighbouring sums, add the bias, round to fp16, and encode them for the next layer."""
        a, following = value32(scale_a), value32(scale_next)
        lanes = [
            self._lane(each, a, value32(w), value16(b), following)
            for each, w, b in zip(acc, scale_w, bias, strict=True)
        ]
        grid = pattern32(self.limited(lanes[0].quotient)), pattern32(self.limited(lanes[1].quotient))
        overflow = tuple(int(lane.y & INFINITE16 == INFINITE16) for lane in lanes)
        return {
            "y": tuple(lane.y for lane in lanes),
            "overflow": overflow,
            **{name: tuple(pattern32(getattr(lane, name)) for lane in lanes) for name in REALS},
            "grid": grid,
            "inexact_sums": [lane.acc_f32 != exact for lane, exact in zip(lanes, acc, strict=True)].count(True),
            "overflows": overflow.count(1),
            "wide_quotients": [math.isinf(lane.quotient) for lane in lanes].count(True),
            **self.encoder.encode(grid),
        }

    def _lane(self, acc: int, scale_a: float, scale_w: float, bias: float, scale_next: float) -> Lane:
        """Convert, rescale, add the bias, round and divide one output."""
        acc_f32 = self.converted(acc)
        rescale = f32(scale_a * scale_w)
        scaled = self.rescaled(acc_f32, scale_a, scale_w)
        biased = self.biased(scaled, bias)
        y = self.word(biased)
        return Lane(acc_f32, rescale, scaled, biased, y, self.quotient(y, biased, scale_next))

    @decides("D-olive-42")
    def converted(self, acc: int) -> float:
        """Round the sum to float32, the first of three roundings."""
        return f32(acc)

    @decides("D-olive-42", "D-olive-55")
    def rescaled(self, acc_f32: float, scale_a: float, scale_w: float) -> float:
        """Multiply a sum by the product of both scales, the second and the third rounding."""
        return f32(acc_f32 * f32(scale_a * scale_w))

    @decides("D-olive-42", "D-olive-55")
    def biased(self, scaled: float, bias: float) -> float:
        """Add the bias in float32; -0 changes nothing."""
        return f32(scaled + bias)

    @decides("D-arith-2", "D-olive-52")
    def word(self, biased: float) -> int:
        """The fp16 word; a magnitude of 65,520 or more becomes infinity."""
        return pattern16(biased)

    @decides("D-olive-25", "D-olive-52", "D-olive-54")
    def quotient(self, y: int, biased: float, scale_next: float) -> float:
        """Divide the fp16 word, not the float32 before it, by the next layer's scale."""
        return div32(value16(y), scale_next)

    @decides("D-olive-53")
    def limited(self, quotient: float) -> float:
        """The nearest finite float32: the encoder reads finite values only."""
        return math.copysign(value32(MOST), quotient) if math.isinf(quotient) else quotient

    @decides("D-olive-56")
    def _require(self, *inputs: np.ndarray) -> None:
        """Reject scales whose product is not a finite float32, and biases that are not finite."""
        _, scale_a, scale_w, bias, _ = inputs
        a, w = scale_a.view(np.float32), scale_w.view(np.float32)
        with np.errstate(over="ignore", under="ignore"):
            wide = np.isinf(a[..., None] * w)
        if wide.any():
            index = first_index(wide)
            product = f"{a[index[:-1]]!s} * {w[index]!s}"
            raise Refused(f"{self.name}: scale_a * scale_w must be a finite float32, got {product}{at(index)}")
        rule = f"{self.name}: bias must be a finite fp16"
        reject(bias & INFINITE16 == INFINITE16, rule, bias, ", got {:#06x}")


UNIT: AnyUnit = Unit(
    unit_class=OliveRequant,
    paper="olive §3.4, §4.1, §4.3",
    meaning="two 32-bit sums to fp16 outputs and to the next layer's outlier-victim pair",
    configs={name: Config(fmt=f"OVP_{name.upper()}") for name in ("int4", "flint4", "int8", "int8_repo")},
    flags={
        "OUTLIER": Flag(0, "the pair holds an outlier and a victim"),
        "INEXACT": Flag(1, "float32 does not hold a sum (D-olive-42)"),
        "OVERFLOW": Flag(2, "an output is beyond fp16 (D-olive-52)"),
        "SUBNORMAL": Flag(3, "an output is subnormal in fp16"),
    },
)
State: type[DeclaredState] = OliveRequant.State
run: RunFunction[Result] = UNIT.run
