"""The output stage: two neighbouring 32-bit sums to fp16 words, and to the pair of codes that the next layer reads.

Paper: [olive §3.4, §4.1, §4.3], which ends at the 32-bit sums. Composed of ovp_encoder. Decisions: D-arith-2 (rounding
to fp16), D-olive-25 (division by the scale), D-olive-42 (rescale), D-olive-52 (an output beyond fp16), D-olive-53 (a
quotient beyond float32), D-olive-54 (value that is encoded), D-olive-55 (bias), D-olive-56 (scales), and those of
ovp_encoder.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, at, first_index
from refemu.arith.scalar32 import div32, f32, pattern16, pattern32, value16, value32
from refemu.formats import Ovp
from refemu.formats.ready import OvpName
from refemu.units.olive import ovp_encoder
from refemu.units.olive.cases import olive_requant as olive_requant_cases
from refemu.units.olive.olive_mac import ACC_BITS
from refemu.units.olive.ovp_encoder import OvpEncoder
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["NO_BIAS", "UNIT", "OliveRequant", "State", "run"]


NO_BIAS = 0x8000  #: fp16 word of -0, which changes no sum, not even a zero of either sign
LEAST, MOST = 0x0080_0000, 0x7F7F_FFFF  #: float32 patterns: the smallest normal value, the largest finite value
ONE = 0x3F80_0000  #: float32 pattern of 1, a scale before the first event
INFINITE16 = 0x7C00  #: fp16 word: from here on infinity and NaN
LANES = 2  #: outputs of a pair
ENCODED = ("pair", "kind", "saturated", "raised")  #: outputs of the encoder
REALS = ("acc_f32", "rescale", "scaled", "biased")  #: registers that hold a float32 of each lane


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and counts since reset. Lane 0 is the left element."""

    #: "reset": nothing is converted yet; "requant": two neighbouring sums are rescaled, get their bias, become fp16,
    #: and are encoded as a pair for the next layer
    event: str
    index: int  #: number of the event since reset, from 0; -1 at reset
    acc: tuple[int, ...]
    scale_a: int  #: float32 patterns
    scale_w: tuple[int, ...]
    bias: tuple[int, ...]  #: fp16 words
    scale_next: int
    y: tuple[int, ...]  #: fp16 words
    overflow: tuple[int, ...]
    pair: int
    kind: int  #: of the pair, as ovp_encoder says
    saturated: int
    raised: int
    acc_f32: tuple[int, ...]  #: the sums, float32 patterns
    rescale: tuple[int, ...]  #: products of both scales
    scaled: tuple[int, ...]  #: rescaled sums
    biased: tuple[int, ...]  #: before they are rounded to fp16
    grid: tuple[int, ...]  #: in grid units of the next layer
    inexact_sums: int  #: sums that float32 does not hold exactly
    overflows: int  #: outputs with `overflow` set: infinite in fp16
    #: outputs whose quotient by the next layer's scale is infinite in float32, infinite outputs included
    wide_quotients: int
    pairs: int  #: pairs encoded
    left_outliers: int  #: pairs whose left element is stored as an outlier
    right_outliers: int  #: pairs whose right element is stored as an outlier
    pruned_outliers: int  #: outliers that are lost because their neighbour is an outlier too, and is stored
    victims: int  #: normal values that are lost because their neighbour is an outlier, values of 0 included
    saturated_pairs: int  #: pairs with `saturated` set: their outlier is above the largest one that has a code
    raised_pairs: int  #: pairs with `raised` set: their outlier is below the smallest one that has a code
    clamped_normals: int  #: stored normal values whose magnitude was above the largest one that has a code


@dataclass(frozen=True)
class Lane:
    """Values of one lane on their way, float32."""

    acc_f32: float
    rescale: float
    scaled: float
    biased: float
    y: int  #: fp16 word
    quotient: float  #: beyond float32 infinite


COUNTERS = ("inexact_sums", "overflows", "wide_quotients", *OvpEncoder.counters)


class OliveRequant(Stepped[State]):
    """Output stage of the array and of the tensor core, combinational: one step is a pair of neighbouring outputs.

    References
    ----------
    [olive §3.4, §4.1, §4.3]
    """

    name = "olive_requant"

    def __init__(self, fmt: OvpName | Ovp = "OVP_INT4") -> None:
        """Configure the stage.

        Parameters
        ----------
        fmt : str or Ovp
            Pair format of the next layer's input, as for `OvpEncoder`.

        Raises
        ------
        Refused
            As `OvpEncoder` does.
        """
        self.encoder: OvpEncoder = OvpEncoder(fmt)
        self.fmt: OvpName | Ovp = self.encoder.fmt
        self.ports: Ports = ports({"fmt": self.fmt})
        self.state: State = self.reset(State, scale_a=ONE, scale_w=(ONE,) * LANES, scale_next=ONE)

    def step(self, acc: ArrayLike, scale_a: int, scale_w: ArrayLike, bias: ArrayLike, scale_next: int) -> State:
        """Rescale, round and encode one pair of outputs; return the State after it."""
        return self._open(*self.accept(acc, scale_a, scale_w, bias, scale_next))

    def _open(
        self, acc: tuple[int, ...], scale_a: int, scale_w: tuple[int, ...], bias: tuple[int, ...], scale_next: int
    ) -> State:
        a, following = value32(scale_a), value32(scale_next)
        lanes = [
            self._lane(each, a, value32(w), value16(b), following)
            for each, w, b in zip(acc, scale_w, bias, strict=True)
        ]
        grid = tuple(pattern32(self.limited(lane.quotient)) for lane in lanes)
        before, encoded = self.encoder.state, self.encoder.step(grid)
        overflow = tuple(int(lane.y & INFINITE16 == INFINITE16) for lane in lanes)
        counts = {name: getattr(encoded, name) - getattr(before, name) for name in OvpEncoder.counters}
        counts["inexact_sums"] = [lane.acc_f32 != exact for lane, exact in zip(lanes, acc, strict=True)].count(True)
        counts["overflows"] = overflow.count(1)
        counts["wide_quotients"] = [math.isinf(lane.quotient) for lane in lanes].count(True)
        self.state = self.latched(
            acc,
            scale_a,
            scale_w,
            bias,
            scale_next,
            event="requant",
            y=tuple(lane.y for lane in lanes),
            overflow=overflow,
            **{name: getattr(encoded, name) for name in ENCODED},
            **{name: tuple(pattern32(getattr(lane, name)) for lane in lanes) for name in REALS},
            grid=grid,
            **{name: getattr(self.state, name) + count for name, count in counts.items()},
        )
        return self.state

    def _lane(self, acc: int, scale_a: float, scale_w: float, bias: float, scale_next: float) -> Lane:
        """One output: convert, rescale, add the bias, round, divide."""
        acc_f32 = self.converted(acc)
        rescale = f32(scale_a * scale_w)
        scaled = self.rescaled(acc_f32, scale_a, scale_w)
        biased = self.biased(scaled, bias)
        y = self.word(biased)
        return Lane(acc_f32, rescale, scaled, biased, y, self.quotient(y, biased, scale_next))

    def converted(self, acc: int) -> float:
        """Convert a sum to float32, the first of three roundings (D-olive-42).

        Parameters
        ----------
        acc : int
            Sum of 32 bits.

        Returns
        -------
        float
            The nearest float32, ties to even.
        """
        return f32(acc)

    def rescaled(self, acc_f32: float, scale_a: float, scale_w: float) -> float:
        """Multiply a sum by the product of both scales, the second and the third rounding (D-olive-42).

        Parameters
        ----------
        acc_f32 : float
            Sum in float32.
        scale_a, scale_w : float
            Scales of the input and of the weight's row.

        Returns
        -------
        float
            fl32(acc_f32 * fl32(scale_a * scale_w)).
        """
        return f32(acc_f32 * f32(scale_a * scale_w))

    def biased(self, scaled: float, bias: float) -> float:
        """Add the bias in float32 (D-olive-55).

        Parameters
        ----------
        scaled : float
            Rescaled sum.
        bias : float
            fp16 value; -0 changes nothing.

        Returns
        -------
        float
            fl32(scaled + bias).
        """
        return f32(scaled + bias)

    def word(self, biased: float) -> int:
        """Round to fp16 (D-arith-2); a magnitude of 65,520 or more becomes infinity (D-olive-52).

        Parameters
        ----------
        biased : float
            Output in float32.

        Returns
        -------
        int
            fp16 word.
        """
        return pattern16(biased)

    def quotient(self, y: int, biased: float, scale_next: float) -> float:
        """Divide the fp16 word, not the float32 before it (D-olive-54), by the next layer's scale (D-olive-25).

        Parameters
        ----------
        y : int
            fp16 word of the output.
        biased : float
            The output before it was rounded to fp16.
        scale_next : float
            Scale of the next layer's input.

        Returns
        -------
        float
            Value in grid units, float32.
        """
        return div32(value16(y), scale_next)

    def limited(self, quotient: float) -> float:
        """Limit a quotient to float32's finite values, which is all that the encoder reads (D-olive-53).

        Parameters
        ----------
        quotient : float
            Value in grid units.

        Returns
        -------
        float
            The value; the largest finite one of its sign where it is infinite.
        """
        return math.copysign(value32(MOST), quotient) if math.isinf(quotient) else quotient

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse scales whose product leaves float32, and biases that are not finite (D-olive-56)."""
        _, scale_a, scale_w, bias, _ = inputs
        a, w = scale_a.view(np.float32), scale_w.view(np.float32)
        with np.errstate(over="ignore", under="ignore"):
            wide = np.isinf(a[..., None] * w)
        if wide.any():
            index = first_index(wide)
            product = f"{a[index[:-1]]!s} * {w[index]!s}"
            raise Refused(f"{self.name}: scale_a * scale_w must be a finite float32, got {product}{at(index)}")
        bad = bias & INFINITE16 == INFINITE16
        if bad.any():
            index = first_index(bad)
            raise Refused(f"{self.name}: bias must be a finite fp16, got {bias[index]:#06x}{at(index)}")


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    encoder = {port.name: port for port in ovp_encoder.UNIT.ports(Config(**config)).outputs}

    def real(name: str, meaning: str) -> Port:
        return Port(name, 32, LANES, encoding="f32", meaning=meaning)

    def scale(name: str, lanes: int, meaning: str) -> Port:
        return Port(name, 32, lanes, encoding="f32", meaning=meaning, least=LEAST, most=MOST)

    return Ports(
        inputs=(
            Port("acc", ACC_BITS, LANES, signed=True, meaning="two neighbouring sums, the left element first"),
            scale("scale_a", 1, "scale of the input"),
            scale("scale_w", LANES, "scales of both rows of the weight"),
            Port("bias", 16, LANES, encoding="f16", meaning="biases of both outputs; 0x8000, which is -0, for none"),
            scale("scale_next", 1, "scale of the next layer's input"),
        ),
        outputs=(
            Port("y", 16, LANES, encoding="f16", meaning="outputs of the layer"),
            Port("overflow", 1, LANES, meaning="the output is beyond fp16: infinity"),
            *(encoder[name] for name in ENCODED),
        ),
        state=(
            real("acc_f32", "the sums"),
            real("rescale", "products of both scales"),
            real("scaled", "rescaled sums"),
            real("biased", "outputs before they are rounded to fp16"),
            real("grid", "outputs in grid units of the next layer"),
        ),
    )


UNIT: Unit[State, Result] = Unit(
    name="olive_requant",
    paper="olive §3.4, §4.1, §4.3",
    meaning="two 32-bit sums to fp16 outputs and to the next layer's outlier-victim pair",
    configs={name: Config(fmt=f"OVP_{name.upper()}") for name in ("int4", "flint4", "int8", "int8_repo")},
    ports=ports,
    unit_class=OliveRequant,
    cases=olive_requant_cases.cases,
    counters=COUNTERS,
    legal=olive_requant_cases.legal,
    mark=olive_requant_cases.mark,
    flags={
        "OUTLIER": Flag(0, "the pair holds an outlier and a victim"),
        "INEXACT": Flag(1, "float32 does not hold a sum (D-olive-42)"),
        "OVERFLOW": Flag(2, "an output is beyond fp16 (D-olive-52)"),
        "SUBNORMAL": Flag(3, "an output is subnormal in fp16"),
    },
)
run: RunFunction[Result] = UNIT.run
