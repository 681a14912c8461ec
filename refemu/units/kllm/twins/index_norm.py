"""Compiled twin of index_norm.run: same arguments, same Result. Read index_norm.py first. [kllm §III-C2]

Indices are counted by the counter's twin for all vectors at once; float32 sums run in a kernel of `arith`, exact ones
in Python integers, one per vector.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.arith import exact, fp16
from refemu.arith.orders import Sequential
from refemu.arith.sums_jit import total32
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_norm import folds, quotient32, require_divisors, require_normed, rounder, width
from refemu.formats.kmeans_tables import squares
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.units import index_counter_jit
from refemu.units.index_norm import IndexNorm, Result, as_floats
from refemu.units.unit import admit


def run(
    a: KMeansTensor,
    *,
    norm: str = "rms",
    eps: float = 0.0,
    preset: str | KllmArith = "paper",
    weights: Codebook | None = None,
) -> Result:
    """As `index_norm.run`."""
    require_normed(a)
    device = IndexNorm(a.length, a.bits, weights.bits if weights is not None else 1, norm, eps, preset)
    table = Codebook(1, np.zeros(2)) if weights is None else weights
    marked = a.rows(a.mask)
    x = np.zeros(marked.shape, np.uint16)
    x[marked] = a.outlier
    words = {
        "q": a.rows(),
        "mask": marked,
        "x": x,
        "scale": a.scale.reshape(-1),
        "centroids": a.codebook.values,
        "squares": squares(a.codebook, device.arith.table).values,
        "weights": table.values,
    }
    return as_floats(_norms(device, words, a.vectors), device.arith, a.vectors, weights)


def run_ports(
    *,
    n: int,
    bits: int = 4,
    weight_bits: int = 4,
    norm: str = "rms",
    eps: float = 0.0,
    preset: str = "paper",
    **words: Any,
) -> Result:
    """As `index_norm.run_ports`."""
    device = IndexNorm(n, bits, weight_bits, norm, eps, preset)
    names = [port.name for port in device.ports.inputs]
    arrays = dict(zip(names, admit(device.name, device.ports.inputs, [words[name] for name in names]), strict=True))
    shape = arrays["scale"].shape
    flat = {name: array.reshape(arrays["scale"].size, *array.shape[len(shape) :]) for name, array in arrays.items()}
    if n == 1:
        flat.update({name: flat[name][:, None] for name in ("q", "mask", "x")})
    answer = _norms(device, flat, shape)
    fields = {name: getattr(answer, name) for name in ("rms", "mean", "folded", "divided", "shift", "overflow")}
    shaped: dict[str, Any] = {
        name: None if array is None else array.reshape(*shape, *array.shape[1:]) for name, array in fields.items()
    }
    return Result(**shaped, indices=answer.indices, macs=answer.macs, divides=answer.divides)


def _norms(device: IndexNorm, words: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> Result:
    """Words of every vector from words (vectors, lanes); tables may have one row for all. shape: of the vectors."""
    layer, arith, vectors = device.norm == "layer", device.arith, words["scale"].size
    mask = words["mask"].astype(np.bool_)
    counted = index_counter_jit.run(words["q"], device.bits, valid=~mask)
    outliers = _packed(words["x"], mask)
    mean = _moment(device, counted.count, words["centroids"], outliers, words["scale"], 1) if layer else None
    square = _moment(device, counted.count, words["squares"], outliers, words["scale"], 2)
    rms = _root(device, square, mean)
    require_divisors(rms, shape)
    marked = int(np.count_nonzero(mask))
    macs = (1 + layer) * (vectors * (1 << device.bits) + marked)
    outputs: dict[str, Any] = {"rms": _words(rms, arith), "mean": None if mean is None else _words(mean, arith)}
    outputs.update(dict.fromkeys(("folded", "divided", "shift")), overflow=np.zeros(vectors, np.bool_))
    divides = 0
    if folds(arith):
        taken = np.broadcast_to(words["weights"], (vectors, 1 << device.weight_bits))
        quotients = _divided(np.column_stack([words["scale"], taken]), rms)
        outputs.update(folded=quotients[:, 0].copy(), divided=quotients[:, 1:].copy())
        infinite = (quotients & 0x7FFF == 0x7C00).any(axis=1)
        if mean is not None:
            outputs["shift"] = fp16.bits(fp16.narrow(quotient32(mean, rms)))
            infinite |= outputs["shift"] & 0x7FFF == 0x7C00
        outputs["overflow"], divides = infinite, vectors * (1 + (1 << device.weight_bits) + layer)
    return Result(**outputs, indices=counted.indices, macs=macs, divides=divides)


def _packed(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Outliers of every vector side by side, float64 (vectors, most), padded with zeros, which change no sum."""
    per_row = np.count_nonzero(mask, axis=1)
    most = int(per_row.max()) if per_row.size else 0
    packed = np.zeros((mask.shape[0], most))
    packed[np.arange(most) < per_row[:, None]] = fp16.values(x[mask]).astype(np.float64)
    return packed


def _moment(
    device: IndexNorm, count: np.ndarray, words: np.ndarray, outliers: np.ndarray, scale: np.ndarray, power: int
) -> np.ndarray:
    """Mean, or mean square, of every vector as float64; rounded as `stat` says."""
    table = np.broadcast_to(words.view(np.float16 if words.dtype == np.uint16 else np.float32), count.shape)
    factor, stat = fp16.values(scale).astype(np.float64), device.arith.stat
    if stat == "exact":
        return _exact_moment(count, table, outliers, factor, power, device.n)
    rnd = rounder(stat)
    dense = _total(rnd(rnd(count.astype(np.float64)) * table.astype(np.float64)), stat)
    apart = _total(rnd(outliers if power == 1 else outliers * outliers), stat)
    with np.errstate(all="ignore"):
        whole = rnd((factor if power == 1 else factor * factor) * dense)
        return np.asarray(rnd(rnd(whole + apart) / device.n))


def _total(terms: np.ndarray, stat: str) -> np.ndarray:
    """Sums of the rows in order, float64 that holds the narrower values."""
    if stat == "fp32":
        return total32(terms.astype(np.float32), order=Sequential()).astype(np.float64)
    total = np.zeros(terms.shape[0])
    for column in terms.T:
        total = rounder(stat)(total + column)
    return np.asarray(total)


def _exact_moment(
    count: np.ndarray, table: np.ndarray, outliers: np.ndarray, scale: np.ndarray, power: int, n: int
) -> np.ndarray:
    """Everything as integers: entries in units of 2^-48, scales and outliers of 2^-24; one division at the end."""
    steps = exact.steps(outliers.astype(np.float32)).tolist()
    factors = exact.steps(scale.astype(np.float32)).tolist()
    moments = []
    for row in range(count.shape[0]):
        units = [int(entry * (1 << 48)) for entry in table[row].tolist()]
        dense = apart = 0
        for c, unit in zip(count[row].tolist(), units, strict=True):
            dense += c * unit
        for x in steps[row]:
            apart += x if power == 1 else x * x
        total = dense * (factors[row] if power == 1 else factors[row] * factors[row]) + (apart << 48)
        moments.append(total / (n << (48 + 24 * power)))
    return np.array(moments, np.float64)


def _root(device: IndexNorm, square: np.ndarray, mean: np.ndarray | None) -> np.ndarray:
    rnd = rounder(device.arith.stat)
    with np.errstate(all="ignore"):
        if mean is not None:
            variance = np.asarray(rnd(square - rnd(mean * mean)))
            square = np.where(variance > 0, variance, 0.0)
        return np.asarray(rnd(np.sqrt(rnd(square + rnd(device.eps)))))


def _words(values: np.ndarray, arith: KllmArith) -> np.ndarray:
    return values.view(np.uint64) if width(arith) == 64 else values.astype(np.float32).view(np.uint32)


def _divided(words: np.ndarray, rms: np.ndarray) -> np.ndarray:
    """Words of r16(r32(value / rms)), rows by their own divisor."""
    return fp16.bits(fp16.narrow(quotient32(fp16.values(words).astype(np.float64), rms[:, None])))
