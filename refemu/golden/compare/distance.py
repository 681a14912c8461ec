"""Wrong answers measured: counts, distances in ulps, places."""

from dataclasses import dataclass

import numpy as np

from refemu.arith import tensors
from refemu.golden.files import fields
from refemu.units.ports import Port

FEW = 4  #: places on the last axis that are listed
FLOATS = ("float16", "float32", "float64")  #: dtypes of NumPy with ulps


@dataclass(frozen=True)
class Distance:
    """Wrong elements of an array. An ulp is a step to the next float; of integers it is 1."""

    wrong: int  #: elements that differ
    elements: int  #: elements of the array
    median: int  #: median distance of the wrong elements in ulps, the lower of two; NaN excluded
    largest: int  #: largest distance in ulps
    at: tuple[int, ...]  #: index of an element with the largest distance
    nan: int  #: wrong elements with NaN on one side or both: they have no distance
    lanes: tuple[int, ...]  #: indices on the last axis with wrong elements, if a few of more; else ()
    nearer_zero: bool  #: whether every distance is 1 toward zero, as truncation gives
    unit: str  #: "ulp" of floats, "" of integers

    @property
    def text(self) -> str:
        """One line for people."""
        parts = [f"{self.wrong:,} of {self.elements:,} differ ({100 * self.wrong / self.elements:.3g} %)"]
        if self.unit and self.wrong > self.nan and not self.largest:
            parts.append("only in the sign of zeros")
        elif self.wrong > self.nan:
            unit = f" {self.unit}" * bool(self.unit)
            parts.append(f"by {self.median:,}{unit} (median) to {self.largest:,}{unit} (at {list(self.at)})")
        if self.nan:
            parts.append(f"{self.nan:,} with NaN")
        if self.lanes:
            parts.append(f"only in lane{'s' * (len(self.lanes) > 1)} {', '.join(map(str, self.lanes))}")
        if self.nearer_zero:
            parts.append("each 1 ulp nearer to zero, as truncation gives")
        return "; ".join(parts)


def of_port(got: np.ndarray, want: np.ndarray, wrong: np.ndarray, port: Port) -> Distance:
    """The distance of patterns at a port; `wrong` marks at least one element."""
    kind = {"f16": "float16", "f32": "float32"}.get(port.kind, "")
    if not kind:
        got, want = (
            np.asarray(fields.decode(each, Port(port.name, port.bits, signed=port.signed))) for each in (got, want)
        )
    return of(got, want, wrong, kind)


def of(got: np.ndarray, want: np.ndarray, wrong: np.ndarray, kind: str) -> Distance:
    """The distance where `wrong` is true, at least once: in ulps of float dtype `kind`; "": of integers, in units."""
    places = np.argwhere(wrong)
    mine, theirs = got[wrong], want[wrong]
    strange = _is_nan(mine, kind) | _is_nan(theirs, kind)
    steps = _steps(mine[~strange], theirs[~strange], kind)
    median = largest = 0
    at: tuple[int, ...] = ()
    if steps.size:
        half = (steps.size - 1) // 2
        median, largest = int(np.sort(steps, kind="stable")[half]), int(steps.max())
        at = tuple(places[~strange][int(np.argmax(steps))].tolist())
    lanes = np.unique(places[:, -1]) if wrong.ndim > 1 else np.zeros(0, int)
    few = 0 < len(lanes) <= FEW and len(lanes) < wrong.shape[-1] and len(places) > len(lanes)
    return Distance(
        len(places),
        wrong.size,
        median,
        largest,
        at,
        int(np.count_nonzero(strange)),
        tuple(lanes.tolist()) if few else (),
        bool(kind) and largest == 1 and not strange.any() and bool(np.all(_magnitude(mine) < _magnitude(theirs))),
        "ulp" if kind else "",
    )


def is_float(kind: str) -> bool:
    """Whether a dtype, by name, has a sign and a magnitude."""
    return kind in FLOATS or kind in tensors.NARROW


def _magnitude(codes: np.ndarray) -> np.ndarray:
    """Patterns without their highest bit, uint64."""
    return codes.astype(np.uint64) & np.uint64((1 << (8 * codes.itemsize - 1)) - 1)


def _is_nan(codes: np.ndarray, kind: str) -> np.ndarray:
    if not kind:
        return np.zeros(codes.shape, np.bool_)
    return np.asarray(np.isnan(tensors.widened(codes, kind) if kind in tensors.NARROW else codes.view(kind)))


def _steps(mine: np.ndarray, theirs: np.ndarray, kind: str) -> np.ndarray:
    """Distances, uint64: floats of one sign by magnitude, through zero else; -0.0 and 0.0 are 0 apart."""
    if not kind:
        return np.asarray(np.maximum(mine, theirs).astype(np.uint64) - np.minimum(mine, theirs).astype(np.uint64))
    a, b = _magnitude(mine), _magnitude(theirs)
    apart = (mine ^ theirs) >> (8 * mine.itemsize - 1) != 0
    return np.asarray(np.where(apart, a + b, np.maximum(a, b) - np.minimum(a, b)))
