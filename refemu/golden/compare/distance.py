"""Wrong answers measured: counts, distances in ulps, places."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from refemu.arith import tensors
from refemu.golden.files import fields
from refemu.units.ports import Port

PIECE = 1 << 20  #: elements that are measured at a time
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
    plain = Port(port.name, port.bits, signed=port.signed)
    return of(got, want, wrong, kind, (lambda codes: codes) if kind else lambda codes: fields.decode(codes, plain))


def of(
    got: np.ndarray,
    want: np.ndarray,
    wrong: np.ndarray,
    kind: str,
    decoded: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> Distance:
    """The distance where `wrong` is true, at least once: in ulps of float dtype `kind`; "": of integers, in units.

    decoded: integers of patterns.
    """
    mine, theirs, marked = (np.ascontiguousarray(each).reshape(-1) for each in (got, want, wrong))
    lanes = np.zeros(wrong.shape[-1] if wrong.ndim > 1 else 1, np.bool_)
    count = nans = largest = place = 0
    nearer, parts = bool(kind), []
    for start in range(0, len(marked), PIECE):
        here = np.flatnonzero(marked[start : start + PIECE]) + start
        a, b = decoded(mine[here]), decoded(theirs[here])
        strange = _is_nan(a, kind) | _is_nan(b, kind)
        steps = _steps(a[~strange], b[~strange], kind)
        if steps.size and (not count - nans or int(steps.max()) > largest):
            largest, place = int(steps.max()), int(here[~strange][np.argmax(steps)])
        count, nans = count + len(here), nans + int(np.count_nonzero(strange))
        nearer = nearer and bool(np.all(_magnitude(a) < _magnitude(b)))
        lanes[here % len(lanes)] = True
        parts.append(steps.astype(f"u{mine.itemsize}"))  # of two words, so no wider
    every = np.concatenate(parts)
    every.sort(kind="stable")
    chosen = np.flatnonzero(lanes)
    few = len(chosen) <= FEW and len(chosen) < len(lanes) and count > len(chosen)
    return Distance(
        count,
        wrong.size,
        int(every[(len(every) - 1) // 2]) if len(every) else 0,
        largest,
        tuple(int(index) for index in np.unravel_index(place, wrong.shape)) if len(every) else (),
        nans,
        tuple(chosen.tolist()) if few else (),
        nearer and largest == 1 and not nans,
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
