"""Codebooks: what an index stands for. Clusters encode values; tables are results of offline computation.

Paper: [kllm §II-A, Eq. (1), §III-A, §III-B]. A layer shares one set of normalized centroids. Decision: D-kllm-5
(entries of product codebooks may be float32).
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, as_array, at, first_index, require_int, require_range
from refemu.arith.records import parameters, plain_fields

CLUSTER_BITS = 4  #: widest index that a Concat port takes [kllm §IV-A]
TABLE_BITS = 8  #: widest concatenated index: the register of a Concat unit [kllm §IV-A]


@parameters(eq=False, repr=False)
class Codebook:
    """Table of 2**bits entries in index order, finite; zero is stored as +0.

    Floats must be exact in the type of the entries. Shape (2**bits,), or (..., 2**bits) for one table per vector. A
    codebook can encode (it is a "cluster") if it has one row of fp16 entries, ascending with repeats allowed, and at
    most 4 bits; every other one is a "table".

    References
    ----------
    [kllm §II-A, Eq. (1), §III-A, §III-B]
    """

    bits: int  #: of an index, 1 to 8
    values: np.ndarray  #: entries, as integers (patterns) or floats; stored as patterns, uint16 or uint32, read-only
    entry_bits: int = 16  #: 16 for fp16, 32 for float32 entries

    def __post_init__(self) -> None:
        plain_fields(self)
        require_int(self.bits, 1, TABLE_BITS, "Codebook", "bits")
        if self.entry_bits not in (16, 32):
            raise Refused(f"Codebook: entry_bits must be 16 or 32, got {self.entry_bits!r}")
        words = _words(self.values, self.entry_bits)
        if words.ndim == 0 or words.shape[-1] != 1 << self.bits:
            raise Refused(f"Codebook: {self.bits} bits need {1 << self.bits} values, got shape {words.shape}")
        _require_finite(words)
        words[_floats(words) == 0] = 0
        words.flags.writeable = False
        object.__setattr__(self, "values", words)

    @cached_property
    def centroids(self) -> np.ndarray:
        """The entries as float32, exact, read-only; shape of `values`."""
        centroids = _floats(self.values).astype(np.float32)
        centroids.flags.writeable = False
        return centroids

    @cached_property
    def kind(self) -> str:
        """Kind of the codebook, "cluster" or "table"."""
        return "cluster" if self.why_not() is None else "table"

    def why_not(self) -> str | None:
        """Reason that this codebook cannot encode.

        Returns
        -------
        str or None
            Reason, None if it can.
        """
        if self.values.ndim != 1 or self.entry_bits != 16:
            return f"one row of fp16 entries encodes, got {self.values.shape} of {self.entry_bits} bits"
        if self.bits > CLUSTER_BITS:
            return f"at most {CLUSTER_BITS} bits encode, got {self.bits}"
        down = self.centroids[1:] < self.centroids[:-1]
        if down.any():
            i = first_index(down)[0]
            return f"centroids must ascend, got {self.centroids[i + 1]!s} at index {i + 1} after {self.centroids[i]!s}"
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Codebook) and self._key == other._key

    def __hash__(self) -> int:
        return self._key.__hash__()

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return self.bits, self.entry_bits, self.values.shape, self.values.tobytes()

    def __repr__(self) -> str:
        rows = np.array2string(
            self.values,
            separator=", ",
            threshold=self.values.size + 1,
            max_line_width=1 << 20,
            formatter={"int_kind": lambda word: f"0x{word:0{self.entry_bits // 4}X}"},
        )
        entry = "" if self.entry_bits == 16 else ", entry_bits=32"
        return f"Codebook(bits={self.bits}, values={rows.replace(chr(10), '')}{entry})"


def _words(values: ArrayLike, entry_bits: int) -> np.ndarray:
    """A new array of patterns; rejects floats that the entries do not hold."""
    array = values.centroids if isinstance(values, Codebook) else as_array(values)
    word: type[np.unsignedinteger] = np.uint16 if entry_bits == 16 else np.uint32
    if array.dtype.kind != "f":
        return require_range(array, 0, 1 << entry_bits, "Codebook", "pattern").astype(word)
    if array.dtype not in (np.float16, np.float32, np.float64):
        raise RefusedType(f"Codebook: values must be patterns or floats, got dtype {array.dtype}")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        held = fp16.narrow(array) if entry_bits == 16 else array.astype(np.float32)
        lost = (held.astype(np.float64) != array) & np.isfinite(array)
    if lost.any():
        index = first_index(lost)
        raise Refused(f"Codebook: value {array[index]!s}{at(index)} is not one of {entry_bits} bits")
    return held.view(word).copy()


def _floats(words: np.ndarray) -> np.ndarray:
    return words.view(np.float16 if words.dtype == np.uint16 else np.float32)


def _require_finite(words: np.ndarray) -> None:
    values = _floats(words)
    bad = ~np.isfinite(values)
    if bad.any():
        index = first_index(bad)
        place = index[0] if len(index) == 1 else index
        raise Refused(f"Codebook: centroid {place} is {'NaN' if np.isnan(values[index]) else values[index]}")
