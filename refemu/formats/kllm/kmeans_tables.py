"""Tables that are made from codebooks offline: products of two, squares, functions of centroids.

Paper: [kllm §III-B, §III-C]. Decision: D-kllm-5 (products in fp16 or float32), D-kllm-6 (the first operand's index is
the high part).
"""

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, first_index, require_choice, require_range
from refemu.arith.operands import PRECISIONS, Precision
from refemu.formats.kllm.codebook import TABLE_BITS, Codebook


def cartesian(a: Codebook, b: Codebook, table: Precision = "fp16") -> Codebook:
    """Multiply all pairs of centroids: entry (i << nB) | j is a_i * b_j.

    Parameters
    ----------
    a, b : Codebook
        Of at most 8 bits of index together; one row per vector broadcasts.
    table : {"fp16", "fp32"}
        Entries, rounded once; "fp32" is exact for fp16 centroids.

    Returns
    -------
    Codebook
        Product codebook.

    Raises
    ------
    Refused
        The joint index is too wide, or a product overflows.

    References
    ----------
    [kllm §III-B]
    """
    bits = a.bits + b.bits
    if bits > TABLE_BITS:
        raise Refused(f"cartesian: the joint index must have at most {TABLE_BITS} bits, got {a.bits} + {b.bits}")
    products = _exact(a)[..., :, None] * _exact(b)[..., None, :]
    return _table(products.reshape(*products.shape[:-2], 1 << bits), bits, table, "cartesian")


def squares(codebook: Codebook, table: Precision = "fp16") -> Codebook:
    """Square every centroid.

    Parameters
    ----------
    codebook : Codebook
        Centroids.
    table : {"fp16", "fp32"}
        Entries, rounded once.

    Returns
    -------
    Codebook
        Squares, by the same index.

    Raises
    ------
    Refused
        A square overflows.

    References
    ----------
    [kllm §III-C]
    """
    return _table(_exact(codebook) * _exact(codebook), codebook.bits, table, "squares")


def function_table(
    codebook: Codebook, function: ArrayLike, scale: ArrayLike | None = None, name: str = "function"
) -> Codebook:
    """Evaluate a function at every centroid: f(r16(s * c)), or f(c) without a scale.

    Parameters
    ----------
    codebook : Codebook
        Centroids.
    function : array_like of uint16 (65536,)
        Entry u is the fp16 word of f of word u.
    scale : array_like of integers (...), optional
        fp16 patterns, positive; each gives a row of the table.
    name : str
        Name of the function, for error messages.

    Returns
    -------
    Codebook
        Table, by the same index.

    Raises
    ------
    Refused
        A value is not finite, or a scale not positive.
    RefusedType
        The function is no such table.

    References
    ----------
    [kllm §III-C, Eq. (2)]
    """
    words = np.asarray(function)
    if words.shape != (1 << 16,) or words.dtype != np.uint16:
        raise RefusedType(f"function_table: {name} must be uint16 (65536,), got {words.dtype} {words.shape}")
    centroids = _exact(codebook)
    if scale is not None:
        patterns = require_range(scale, 1, 0x7C00, "function_table", "scale")
        centroids = fp16.values(patterns).astype(np.float64)[..., None] * centroids
    inputs = fp16.bits(fp16.to_f16(centroids))
    values = fp16.values(words[inputs]).astype(np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        place = first_index(bad)
        shown = "NaN" if np.isnan(values[place]) else values[place]
        raise Refused(f"function_table: {name} is {shown} at centroid {place[-1] if len(place) == 1 else place}")
    return _table(values, codebook.bits, "fp16", "function_table")


def _exact(codebook: Codebook) -> np.ndarray:
    return codebook.centroids.astype(np.float64)


def _table(values: np.ndarray, bits: int, table: Precision, thing: str) -> Codebook:
    require_choice(table, PRECISIONS, thing, "table")
    with np.errstate(over="ignore", under="ignore"):
        stored = fp16.to_f16(values) if table == "fp16" else values.astype(np.float32)
    bad = ~np.isfinite(stored)
    if bad.any():
        place = first_index(bad)
        raise Refused(f"{thing}: entry {place[0] if len(place) == 1 else place}, {values[place]}, overflows {table}")
    return Codebook(bits, stored, 16 if table == "fp16" else 32)
