"""Compiled form of index_norm: the sums of all vectors at once. [kllm §III-C2]

Compiled index_counter counts the indices of all vectors at once; float32 sums run in a kernel of `arith`, exact sums
in Python integers, one per vector.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from refemu.arith import exact, fp16
from refemu.arith.orders import Sequential
from refemu.arith.sums_compiled import total32
from refemu.formats.kllm.kllm_arith import KllmArith, Statistic
from refemu.formats.kllm.kmeans_norm import folds, quotient16, rounder, width
from refemu.units.derivation import Arrays, Rejected, compiled_run
from refemu.units.kllm import index_norm
from refemu.units.kllm.index_counter import compiled as index_counter_compiled
from refemu.units.kllm.index_norm import UNIT, Divisors, IndexNorm


@compiled_run(UNIT)
def run(device: IndexNorm, inputs: Arrays, outputs: Arrays) -> tuple[int, int, int]:
    """Run all vectors."""
    words = {port.name: array for port, array in zip(device.ports.inputs, inputs, strict=True)}
    for name in ("q", "mask", "x"):
        words[name] = words[name].reshape(-1, device.n)
    values, counts = _norms(device, words)
    for port, array in zip(device.ports.outputs + device.ports.state, outputs, strict=True):
        array[:] = values[port.name].reshape(array.shape)
    return counts


#: `index_norm.divisors`, compiled
divisors: Callable[..., Divisors] = partial(index_norm.divisors, vectors=run)


def _norms(device: IndexNorm, words: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], tuple[int, int, int]]:
    """Output ports and registers of every vector, from words (vectors, lanes), and the counters."""
    layer, arith, vectors = device.norm == "layer", device.arith, words["scale"].size
    mask = words["mask"].astype(np.bool_)
    counted = index_counter_compiled.counts(words["q"], device.bits, valid=~mask)
    outliers = _packed(words["x"], mask)
    mean = _moment(device, counted.count, words["centroids"], outliers, words["scale"], 1)[0] if layer else None
    square, dense = _moment(device, counted.count, words["squares"], outliers, words["scale"], 2)
    rms = _root(device, square, mean)
    if not (rms > 0).all():
        raise Rejected
    macs = (1 + layer) * (vectors * (1 << device.bits) + int(np.count_nonzero(mask)))
    values = {"rms": _words(rms, arith)} | ({} if mean is None else {"mean": _words(mean, arith)})
    moments = np.column_stack([square] if mean is None else [mean, square])
    values |= {"count": counted.count, "dense": _words(dense, arith), "moments": _words(moments, arith)}
    divides = 0
    if folds(arith):
        quotients = _divided(np.column_stack([words["scale"], words["weights"]]), rms)
        values |= {"folded": quotients[:, 0], "divided": quotients[:, 1:]}
        if mean is not None:
            values["shift"] = fp16.bits(quotient16(mean, rms))
            quotients = np.column_stack([quotients, values["shift"]])
        values["overflow"] = (quotients & 0x7FFF == 0x7C00).any(axis=1)
        divides = quotients.size
    return values, (counted.indices, macs, divides)


def _packed(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Outliers of every vector side by side, float64 (vectors, most), padded with zeros, which change no sum."""
    per_row = np.count_nonzero(mask, axis=1)
    most = int(per_row.max()) if per_row.size else 0
    packed = np.zeros((mask.shape[0], most))
    packed[np.arange(most) < per_row[:, None]] = fp16.values(x[mask]).astype(np.float64)
    return packed


def _moment(
    device: IndexNorm, count: np.ndarray, words: np.ndarray, outliers: np.ndarray, scale: np.ndarray, power: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean, or mean square, of every vector as float64, rounded by `stat`; its sum over centroids."""
    table = np.broadcast_to(words.view(np.float16 if words.dtype == np.uint16 else np.float32), count.shape)
    factor, stat = fp16.values(scale).astype(np.float64), device.arith.stat
    if stat == "exact":
        return _exact_moment(count, table, outliers, factor, power, device.n)
    rnd = rounder(stat)
    dense = _total(rnd(rnd(count.astype(np.float64)) * table.astype(np.float64)), stat)
    apart = _total(rnd(outliers if power == 1 else outliers * outliers), stat)
    with np.errstate(all="ignore"):
        whole = rnd((factor if power == 1 else factor * factor) * dense)
        return np.asarray(rnd(rnd(whole + apart) / device.n)), np.asarray(dense)


def _total(terms: np.ndarray, stat: Statistic) -> np.ndarray:
    """Sums of the rows in order, float64 that holds the narrower values."""
    if stat == "fp32":
        return total32(terms.astype(np.float32), order=Sequential()).astype(np.float64)
    total = np.zeros(terms.shape[0])
    for column in terms.T:
        total = rounder(stat)(total + column)
    return np.asarray(total)


def _exact_moment(
    count: np.ndarray, table: np.ndarray, outliers: np.ndarray, scale: np.ndarray, power: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compute in integers: entries in units of 2^-48, scales and outliers of 2^-24; one division at the end."""
    steps = exact.steps(outliers.astype(np.float32)).tolist()
    factors = exact.steps(scale.astype(np.float32)).tolist()
    moments, sums = [], []
    for row in range(count.shape[0]):
        units = [int(entry * (1 << 48)) for entry in table[row].tolist()]
        dense = apart = 0
        for c, unit in zip(count[row].tolist(), units, strict=True):
            dense += c * unit
        for x in steps[row]:
            apart += x if power == 1 else x * x
        total = dense * (factors[row] if power == 1 else factors[row] * factors[row]) + (apart << 48)
        moments.append(total / (n << (48 + 24 * power)))
        sums.append(dense / (1 << 48))
    return np.array(moments, np.float64), np.array(sums, np.float64)


def _root(device: IndexNorm, square: np.ndarray, mean: np.ndarray | None) -> np.ndarray:
    rnd = rounder(device.arith.stat)
    with np.errstate(all="ignore"):
        if mean is not None:
            variance = np.asarray(rnd(square - rnd(mean * mean)))
            square = np.where(variance > 0, variance, 0.0)
        return np.asarray(rnd(np.sqrt(rnd(square + rnd(device.eps)))))


def _words(values: np.ndarray, arith: KllmArith) -> np.ndarray:
    values = np.where(np.isnan(values), np.nan, values)  # one word for all NaN
    return values.view(np.uint64) if width(arith) == 64 else values.astype(np.float32).view(np.uint32)


def _divided(words: np.ndarray, rms: np.ndarray) -> np.ndarray:
    """Words of r16(r32(value / rms)), rows by their own divisor."""
    return fp16.bits(quotient16(fp16.values(words), rms[:, None]))
