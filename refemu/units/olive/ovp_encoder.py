"""The outlier-victim pair encoder: two real values in grid units to one pair of codes.

Paper: [olive §3.1, Alg. 1, Alg. 2]. Both values arrive together; the one-element buffer of §3.1 is not modelled.
Decisions: D-olive-2, D-olive-4, D-olive-5, D-olive-6 (which value is the outlier), D-olive-7, D-olive-8 (ties),
D-olive-9 (between the normal values and the threshold), D-olive-10, D-olive-11 (both ends of the outlier range),
D-olive-15 (Algorithm 2 for any mantissa), D-olive-17 (signs of zero), D-olive-46 (far outliers), D-olive-47 (NaN and
infinity).
"""

import dataclasses
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import frexp, ldexp
from typing import Any

import numpy as np

from refemu import formats
from refemu.arith.checks import Refused, at, first_index
from refemu.formats import Flint, Ovp
from refemu.formats.nearest import TIES
from refemu.units import ovp_encoder_cases, unit
from refemu.units.unit import Alternative, Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, collect
from refemu.units.unit_cases import Seeds

NORMAL, LEFT, RIGHT = 0, 1, 2  #: kinds of pairs: N-N, O-V, V-O
INFINITY = 0x7F800000  #: magnitude bits of the float32 infinity; above it NaN
FLINT4 = ((0, 0b000), (1, 0b001), (2, 0b010), (3, 0b011), (4, 0b110), (6, 0b111), (8, 0b101), (16, 0b100))


@dataclass(frozen=True)
class State:
    """Ports after one event, and what happened since reset. Lane 0 is the left element."""

    event: str  #: "reset" or "encode"
    index: int  #: number of the event, -1 for the reset
    value: tuple[int, int]  #: float32 patterns
    pair: int
    kind: int  #: NORMAL, LEFT or RIGHT
    saturated: int
    raised: int
    pairs: int  #: pairs encoded
    left_outliers: int
    right_outliers: int
    pruned_outliers: int  #: losers of a pair of two outliers
    victims: int  #: every other identifier, also where the lost normal value was 0
    saturated_pairs: int  #: pairs with `saturated` set
    raised_pairs: int  #: pairs with `raised` set
    clamped_normals: int  #: stored normal values whose magnitude was above the largest one


COUNTERS = tuple(State.__dataclass_fields__)[7:]


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one value per pair; counters as in State."""

    pair: np.ndarray  #: uint8, or uint16 for 8-bit codes
    kind: np.ndarray  #: uint8
    saturated: np.ndarray  #: bool
    raised: np.ndarray  #: bool
    pairs: int
    left_outliers: int
    right_outliers: int
    pruned_outliers: int
    victims: int
    saturated_pairs: int
    raised_pairs: int
    clamped_normals: int


class OvpEncoder(Stepped):
    """The block, combinational: one step is one pair."""

    name = "ovp_encoder"

    def __init__(self, fmt: str | Ovp = "OVP_INT4") -> None:
        """fmt: a ready pair format by name, or any pair format of 4- or 8-bit codes whose outliers have a mantissa."""
        found = formats.find(fmt) if isinstance(fmt, str) else fmt
        if not isinstance(found, Ovp) or found.width not in (4, 8) or (found.outlier and not found.outlier.man_bits):
            raise Refused(
                f"{self.name}: fmt must be a pair format of 4 or 8 bits whose outliers have a mantissa, got {fmt!r}"
            )
        self.fmt, self._given = found, fmt
        self.ports = ports({"fmt": found})
        self.state = State("reset", -1, (0, 0), *(0,) * 12)

    def step(self, value: Any) -> State:
        """Encode one pair of float32 patterns; returns the State after it."""
        self.admitted(value)
        return self._encode(*self.accept(value))

    def _encode(self, value: tuple[int, int]) -> State:
        first, second = (struct.unpack("<f", pattern.to_bytes(4, "little"))[0] for pattern in value)
        outliers = self.is_outlier(first), self.is_outlier(second)
        kind = self.kind_of(first, second, outliers)
        if kind == NORMAL:
            codes = self.normal_code(first), self.normal_code(second)
            flags = 0, 0
        else:
            stored = first if kind == LEFT else second
            code, identifier = self.outlier_code(stored), self.fmt.normal.identifier
            codes = (code, identifier) if kind == LEFT else (identifier, code)
            flags = int(abs(stored) > self._outlier.largest), int(abs(stored) < self._outlier.smallest)
        clamped = [kind == NORMAL and self.is_clamped(v) for v in (first, second)]
        events = (
            1,
            kind == LEFT,
            kind == RIGHT,
            all(outliers),
            kind != NORMAL and not all(outliers),
            *flags,
            clamped.count(True),
        )
        counts = (getattr(self.state, name) + int(event) for name, event in zip(COUNTERS, events, strict=True))
        shown = value, self.join(codes), kind, *flags
        self.state = State("encode", self.state.index + 1, *shown, *counts)
        return self.state

    def is_outlier(self, v: float) -> bool:
        """Whether |v| is beyond the threshold (D-olive-2, D-olive-4), and not beyond `far` (D-olive-46)."""
        beyond = abs(v) >= self.fmt.boundary if self.fmt.closed else abs(v) > self.fmt.boundary
        return beyond and (self.fmt.far is None or abs(v) <= self.fmt.far)

    def is_clamped(self, v: float) -> bool:
        """Whether a normal value is above the largest one, and not beyond `far`."""
        return self.fmt.normal.largest < abs(v) and (self.fmt.far is None or abs(v) <= self.fmt.far)

    def kind_of(self, first: float, second: float, outliers: tuple[bool, bool]) -> int:
        """[olive Alg. 1] on magnitudes before rounding: which element is the stored outlier (D-olive-5, D-olive-6)."""
        if outliers[0] and (self.fmt.winner == "left" or not outliers[1] or abs(first) > abs(second)):
            return LEFT
        return RIGHT if outliers[1] else NORMAL

    def normal_code(self, v: float) -> int:
        """The nearest normal value; beyond the largest that one (D-olive-9); a zero has no sign (D-olive-17)."""
        if self.fmt.far is not None and abs(v) > self.fmt.far:
            return 0
        size = min(abs(v), float(self.fmt.normal.largest))
        if isinstance(self.fmt.normal, Flint):
            code = flint_code(size, v < 0, self.fmt.rounding)
            return code | self.fmt.normal.identifier if v < 0 and code else code
        whole = rounded(size, v < 0, self.fmt.rounding)
        return -whole & (2 * self.fmt.normal.identifier - 1) if v < 0 else whole

    def outlier_code(self, v: float) -> int:
        """[olive Alg. 2], clamped to the smallest and to the largest legal code (D-olive-10, D-olive-11)."""
        size = min(max(abs(v), float(self._outlier.smallest)), float(self._outlier.largest))
        exponent = frexp(size)[1] - 1 - self._outlier.man_bits  # l. 2: floor(log2) - mb (D-olive-15)
        base_int = rounded(ldexp(size, -exponent), v < 0, self.fmt.rounding)  # l. 3
        if base_int == 2 << self._outlier.man_bits:  # l. 4: rounded up to the next power of two
            exponent, base_int = exponent + 1, base_int >> 1
        field, mantissa = exponent - self._outlier.bias, base_int - (1 << self._outlier.man_bits)
        return field << self._outlier.man_bits | mantissa | (self.fmt.normal.identifier if v < 0 else 0)

    @property
    def _outlier(self) -> formats.AbFloat:
        assert self.fmt.outlier is not None  # called for outliers only
        return self.fmt.outlier

    def join(self, codes: tuple[int, int]) -> int:
        """The word of both codes, the left one in the half that the format names (D-olive-1)."""
        low, high = codes if self.fmt.left == "low" else codes[::-1]
        return low | high << self.fmt.width

    def steps(self, value: Any) -> Iterator[State]:
        """Yield the State after every pair, in C order."""
        for one in self.admitted(value).reshape(-1, 2).tolist():
            yield self._encode((one[0], one[1]))

    def admitted(self, value: Any) -> np.ndarray:
        """The input as uint32; refuses also patterns of NaN and infinity (D-olive-47)."""
        (values,) = admit(self.name, self.ports.inputs, (value,))
        bad = values & np.uint32(0x7FFFFFFF) >= INFINITY
        if bad.any():
            index = first_index(bad)
            raise Refused(f"{self.name}: value {values[index]:#010x}{at(index)} must be a finite float32")
        return values

    def __repr__(self) -> str:
        return f"OvpEncoder(fmt={self._given!r})"


def tie_goes_up(odd: bool, negative: bool, rounding: str) -> bool:
    """Whether a magnitude midway between two is rounded to the larger (D-olive-7, D-olive-8)."""
    return {"half_even": odd, "half_away": True, "half_up": not negative, "half_down": negative}[rounding]


def rounded(size: float, negative: bool, rounding: str) -> int:
    """The integer nearest to `size` >= 0, the magnitude of a value that is negative or not."""
    whole = int(size)
    rest = size - whole  # exact: both are multiples of the float's last place
    return whole + int(rest > 0.5 or (rest == 0.5 and tie_goes_up(whole % 2 == 1, negative, rounding)))


def flint_code(size: float, negative: bool, rounding: str) -> int:
    """Magnitude code of the flint4 value nearest to `size`, at most 16; ranks decide ties."""
    rank = 0
    while rank < len(FLINT4) - 1:
        middle = (FLINT4[rank][0] + FLINT4[rank + 1][0]) / 2
        if size < middle or (size == middle and not tie_goes_up(rank % 2 == 1, negative, rounding)):
            break
        rank += 1
    return FLINT4[rank][1]


def run(value: Any, *, fmt: str | Ovp = "OVP_INT4") -> Result:
    """Encode pairs of any shape.

    value: float32 patterns as unsigned integers, (..., 2), left element first, in grid units: `x.view(np.uint32)`.
    fmt: as for OvpEncoder. Returns the Result, arrays of shape (...). Refuses NaN and infinity with the first index.
    Paper: [olive §3.1, Alg. 1, Alg. 2].
    """
    encoder = OvpEncoder(fmt)
    values = encoder.admitted(value)
    outputs = collect(list(encoder.steps(values)), encoder.ports.outputs, values.shape[:-1])
    return Result(**outputs, **{name: getattr(encoder.state, name) for name in COUNTERS})


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    fmt = config["fmt"]
    width = (formats.find(fmt) if isinstance(fmt, str) else fmt).width
    return Ports(
        inputs=(Port("value", 32, 2, encoding="f32", meaning="two values in grid units, the left element first"),),
        outputs=(
            Port("pair", 2 * width, encoding=fmt.lower() if isinstance(fmt, str) else "", meaning="two codes"),
            Port("kind", 2, meaning="0 two normal values, 1 outlier at the left, 2 outlier at the right"),
            Port("saturated", 1, meaning="the outlier was above the largest that is encoded"),
            Port("raised", 1, meaning="the outlier was below the smallest that has a code"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see ovp_encoder_cases.py."""
    return ovp_encoder_cases.cases(OvpEncoder(**config).fmt, kind, seed)


def _other(field: str, choose: Callable[[Any], Any], config: Config) -> Config:
    found: Any = OvpEncoder(config["fmt"]).fmt
    if field == "outlier" and found.outlier is None:
        return config
    return Config(fmt=dataclasses.replace(found, **{field: choose(found)}))


def _always(value: Any, fmt: Any) -> Any:
    return value


def _format(decision: str, says: str, field: str, choose: Callable[[Any], Any]) -> Alternative:
    """A device whose pair format differs in one field."""
    return Alternative(decision, says, partial(_other, field, choose))


ALTERNATIVES = (
    _format("D-olive-1", "the left element is in the high half", "left", lambda fmt: "high"),
    _format("D-olive-3", "the threshold is the largest normal value", "threshold", lambda fmt: fmt.normal.largest),
    _format("D-olive-4", "a value at the threshold is the other kind", "closed", lambda fmt: not fmt.closed),
    _format("D-olive-5", "of two outliers the left one wins", "winner", lambda fmt: "left"),
    _format("D-olive-5", "of two outliers the larger wins", "winner", lambda fmt: "larger"),
    *(_format("D-olive-7", f"ties round {rule}", "rounding", partial(_always, rule)) for rule in TIES),
    _format("D-olive-12", "no clip at 2**15", "outlier", lambda fmt: dataclasses.replace(fmt.outlier, limit=None)),
    _format(
        "D-olive-13",
        "the bias is one more",
        "outlier",
        lambda fmt: dataclasses.replace(fmt.outlier, bias=fmt.outlier.bias + 1),
    ),
    _format("D-olive-46", "outliers beyond the largest become 0", "far", lambda fmt: float(fmt.outlier.largest)),
    _format("D-olive-46", "no outlier is too far", "far", lambda fmt: None),
)


UNIT = Unit(
    name="ovp_encoder",
    paper="olive §3.1, Alg. 1, Alg. 2",
    meaning="two values to an outlier-victim pair",
    configs={
        name: Config(fmt=f"OVP_{name.upper()}")
        for name in ("int4", "flint4", "int8", "int4_repo", "flint4_repo", "int8_repo")
    },
    ports=ports,
    run=run,
    twin="refemu.units.ovp_encoder_jit:run",
    unit_class=OvpEncoder,
    cases=cases,
    mark=ovp_encoder_cases.mark,
    flags={
        "OUTLIER": Flag(0, "the pair holds an outlier and a victim"),
        "SATURATES": Flag(1, "the outlier is above the largest that is encoded (D-olive-11, D-olive-12)"),
        "RAISED": Flag(2, "the outlier is below the smallest that has a code (D-olive-10)"),
    },
    alternatives=ALTERNATIVES,
)
