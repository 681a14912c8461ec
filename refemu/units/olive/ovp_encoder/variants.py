"""Variants of the decisions of ovp_encoder, each a changed pair format."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from refemu.formats import IntFormat
from refemu.formats.nearest import TIES
from refemu.units.olive.ovp_encoder import LEFT, RIGHT, OvpEncoder, pair_format
from refemu.units.olive.ovp_encoder.ovp_encoder import rounded
from refemu.units.unit import Config
from refemu.units.variant import Variant, overriding


def _other(field: str, choose: Callable[[Any], Any], config: Config) -> Config:
    fmt: Any = pair_format(config["fmt"])
    if field == "outlier" and fmt.outlier is None:
        return config
    return Config(fmt=dataclasses.replace(fmt, **{field: choose(fmt)}))


def _always(value: Any, fmt: Any) -> Any:
    return value


def _format(decision: str, says: str, field: str, choose: Callable[[Any], Any]) -> Variant:
    """A device whose pair format differs in one field."""
    return Variant(decision, says, partial(_other, field, choose))


@contextmanager
def _other_ties(encoder: OvpEncoder) -> Iterator[None]:
    fmt = encoder.format
    encoder.format = dataclasses.replace(fmt, rounding="half_up" if fmt.rounding == "half_away" else "half_away")
    try:
        yield
    finally:
        encoder.format = fmt


def _left_on_tie(old: OvpEncoder, self: OvpEncoder, first: float, second: float, outliers: tuple[bool, bool]) -> int:
    if all(outliers) and abs(first) == abs(second) and self.format.winner != "left":
        return LEFT
    return old.kind_of(first, second, outliers)


def _rounded_first(old: OvpEncoder, self: OvpEncoder, first: float, second: float, outliers: tuple[bool, bool]) -> int:
    if not all(outliers) or self.format.winner == "left":
        return old.kind_of(first, second, outliers)
    left, right = (self.outlier_code(v) & (self.format.normal.identifier - 1) for v in (first, second))
    return LEFT if left > right else RIGHT


def _normal_ties(old: OvpEncoder, self: OvpEncoder, v: float) -> int:
    with _other_ties(self):
        return old.normal_code(v)


def _outlier_ties(old: OvpEncoder, self: OvpEncoder, v: float) -> int:
    with _other_ties(self):
        return old.outlier_code(v)


def _not_clamped(old: OvpEncoder, self: OvpEncoder, v: float) -> int:
    largest, top = self.format.normal.largest, 2 * self.format.normal.identifier - 1
    whole = rounded(abs(v), v < 0, self.format.rounding)
    wraps = largest < whole and isinstance(self.format.normal, IntFormat) and self.is_clamped(v)
    return (-whole if v < 0 else whole) & top if wraps else old.normal_code(v)


def _wrapped_outlier(old: OvpEncoder, self: OvpEncoder, v: float) -> int:
    outlier = self._outlier
    if abs(v) <= outlier.largest:
        return old.outlier_code(v)
    exponent = math.frexp(abs(v))[1] - 1 - outlier.man_bits
    base_int = rounded(math.ldexp(abs(v), -exponent), v < 0, self.format.rounding)
    if base_int == 2 << outlier.man_bits:
        exponent, base_int = exponent + 1, base_int >> 1
    field = (exponent - outlier.bias) & ((1 << outlier.exp_bits) - 1)
    sign = self.format.normal.identifier if v < 0 else 0
    return sign | field << outlier.man_bits | (base_int & ((1 << outlier.man_bits) - 1))


def _no_carry(old: OvpEncoder, self: OvpEncoder, v: float) -> int:
    code, outlier = old.outlier_code(v), self._outlier
    size = min(max(abs(v), float(outlier.smallest)), float(outlier.largest))
    exponent = math.frexp(size)[1] - 1 - outlier.man_bits
    carries = rounded(math.ldexp(size, -exponent), v < 0, self.format.rounding) == 2 << outlier.man_bits
    return code - (1 << outlier.man_bits) if carries else code


def _sign_of_zero(old: OvpEncoder, self: OvpEncoder, v: float) -> int:
    code = old.normal_code(v)
    return code if code or v >= 0 else self.format.normal.identifier


_device = overriding(OvpEncoder)
VARIANTS: tuple[Variant, ...] = (
    _format("D-olive-1", "the left element is in the high half", "left", lambda fmt: "high"),
    _format("D-olive-3", "the threshold is the largest normal value", "threshold", lambda fmt: fmt.normal.largest),
    _format("D-olive-4", "a value at the threshold is of the other kind", "closed", lambda fmt: not fmt.closed),
    _format("D-olive-5", "the left one of two outliers is stored", "winner", lambda fmt: "left"),
    _format("D-olive-5", "the larger of two outliers is stored", "winner", lambda fmt: "larger"),
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
    _device(
        "D-olive-2: a negative value is never an outlier", is_outlier=lambda old, self, v: old.is_outlier(v) and v > 0
    ),
    _device("D-olive-5: the left one of two outliers of equal magnitude is stored", kind_of=_left_on_tie),
    _device("D-olive-6: two outliers are compared after rounding", kind_of=_rounded_first),
    _device("D-olive-7: ties of normal values round away from 0", normal_code=_normal_ties),
    _device("D-olive-8: ties of outliers round away from 0", outlier_code=_outlier_ties),
    _device("D-olive-9: a normal value beyond the largest keeps its low bits", normal_code=_not_clamped),
    _device(
        "D-olive-10: an outlier below the smallest gets the reserved code",
        outlier_code=lambda old, self, v: 0 if abs(v) < self._outlier.smallest else old.outlier_code(v),
    ),
    _device("D-olive-11: the exponent of an outlier beyond the largest wraps", outlier_code=_wrapped_outlier),
    _device("D-olive-15: a mantissa that rounds up does not carry", outlier_code=_no_carry),
    _device("D-olive-17: a negative value that rounds to 0 keeps its sign", normal_code=_sign_of_zero),
)
UNOBSERVABLE = {"D-olive-47": "The port rejects NaN and infinity, so no row of a stimulus has them."}
