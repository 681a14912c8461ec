"""Reduction, sparse path and merge of an index MatMul, by the accumulator that the arithmetic names.

Paper: [kllm §III-B step 3, §III-D, Fig. 5, §IV-A].
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from refemu.arith import dot, fp16
from refemu.arith.scalar32 import pattern16, pattern32, value16, value32
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units.declaration import decides
from refemu.units.kllm.fp16_mac import ONE, ROUNDINGS, Fp16Mac
from refemu.units.kllm.index_matmul.arithmetic import UNIT_BITS, finish_exact, marginals, mean_term, merge, zero_terms
from refemu.units.kllm.index_matmul.problem import Column
from refemu.units.kllm.weighted_sum import sums
from refemu.units.kllm.weighted_sum.weighted_sum import exact_sum

SIGN = 0x8000  #: sign bit of an fp16 word


class Arrays:
    """A float32 accumulator (acc "fp32"), by array functions; registers are float32 words."""

    def __init__(self, arith: KllmArith, b_bits: int) -> None:
        """b_bits: width of an index of B."""
        self.arith: KllmArith = arith
        self.b_bits: int = b_bits

    def __repr__(self) -> str:
        return f"{type(self).__name__}(acc={self.arith.acc!r})"

    def dense(self, count: tuple[int, ...], column: Column) -> int:
        """Word of the weighted sum, corrected by zero points."""
        total = self.weighted(count, column.table)
        if not column.centroids:
            return total
        by_a, by_b = marginals(np.array(count), self.b_bits)
        parts = [sums(by, entries, self.arith) for by, entries in zip((by_a, by_b), column.centroids, strict=True)]
        wide = tuple(np.asarray(part, np.float64) for part in (*parts, _total(count)))
        za, zb = (np.asarray(z) for z in column.zeros)
        return _word(zero_terms(np.asarray(value32(total)), wide, za, zb, self.arith.acc))

    def weighted(self, count: tuple[int, ...], table: np.ndarray) -> int:
        """Word of the sum of counts by entries."""
        return _word(sums(np.array(count), table, self.arith))

    def sparse(self, column: Column) -> int:
        """Word of the sum over the positions excluded from the counts, ascending."""
        ks = np.flatnonzero(column.left_out)
        return _word(dot.dot(column.a_value[ks], column.b_value[ks], order=dot.Sequential(), acc=self.arith.acc))

    def merged(self, inside: int, outside: int, column: Column) -> int:
        """fp16 word of the output."""
        shift = None if column.shift is None else mean_term(*column.shift)
        bias = None if column.bias is None else np.asarray(column.bias)
        dense, apart = (np.asarray(value32(word)) for word in (inside, outside))
        y = merge(dense, np.asarray(column.scale), apart, self.arith, bias, shift)
        return int(fp16.bits(fp16.to_f16(y)))


class Macs(Arrays):
    """An fp16 accumulator (preset "paper"; acc "fp16" and "fp16_fma"): `Fp16Mac` steps; registers as float32 words.

    Array functions compute what is not a step of such a MAC: sums in another order, sums over a table of float32
    products, the terms of zero points, and a merge by the exact product of the scales.
    """

    def __init__(self, arith: KllmArith, b_bits: int) -> None:
        """As for `Arrays`; acc is fp16 or fp16_fma."""
        super().__init__(arith, b_bits)
        self.mac: Fp16Mac = Fp16Mac("fp16_fma" if arith.acc == "fp16_fma" else "fp16")  #: reduction and sparse path
        self.merging: Fp16Mac = Fp16Mac()  #: rounds twice, for any `acc` (D-kllm-3)

    @decides("D-kllm-4")
    def weighted(self, count: tuple[int, ...], table: np.ndarray) -> int:
        """Word of the sum: a MAC for every count, which is rounded to fp16."""
        if not isinstance(self.arith.order, dot.Sequential) or not fp16.is_fp16(table).all():
            return super().weighted(count, table)
        numbers = (pattern16(float(number)) for number in count)
        return _widened(self.mac.accumulate(zip(numbers, _words(table), strict=True)))

    def sparse(self, column: Column) -> int:
        """Word of the sum: a MAC for every excluded position."""
        y = 0
        values = _words(column.a_value), _words(column.b_value)
        for left_out, a, b in zip(column.left_out.tolist(), *values, strict=True):
            if left_out:
                _, y = self.mac.multiply_add(a, b, y)
        return _widened(y)

    def merged(self, inside: int, outside: int, column: Column) -> int:
        """fp16 word of the output: sum by scale plus the sparse part, minus h by R_n, plus the bias."""
        if self.arith.scale_y != "fp16":
            return super().merged(inside, outside, column)
        dense, apart = (pattern16(value32(word)) for word in (inside, outside))
        steps = [(dense, pattern16(float(column.scale)))]
        if column.shift is not None:
            h, row_sum = (pattern16(float(value)) for value in column.shift)
            steps.append((h ^ SIGN, row_sum))
        if column.bias is not None:
            steps.append((pattern16(float(column.bias)), ONE))
        y = apart
        for a, b in steps:
            _, y = self.merging.multiply_add(a, b, y)
        return y


class ExactSums(Arrays):
    """An exact accumulator (preset "exact"): Python integers in units of 2**-48, rounded once at the end."""

    def dense(self, count: tuple[int, ...], column: Column) -> int:
        """Weighted sum, corrected by zero points."""
        counts = np.array(count)
        total = exact_sum(counts, column.table, UNIT_BITS)
        if not column.centroids:
            return total
        za, zb = (int(z * (1 << 24)) for z in column.zeros)
        sum_a, sum_b = (
            exact_sum(by, centroids, 24)
            for by, centroids in zip(marginals(counts, self.b_bits), column.centroids, strict=True)
        )
        return total + int(_total(count)) * za * zb - zb * sum_a - za * sum_b

    def sparse(self, column: Column) -> int:
        """Sum over the positions excluded from the counts."""
        ks = np.flatnonzero(column.left_out)
        factors = zip(column.a_value[ks].tolist(), column.b_value[ks].tolist(), strict=True)
        return int(_total(Fraction(x) * Fraction(y) for x, y in factors) * (1 << UNIT_BITS))

    def merged(self, inside: int, outside: int, column: Column) -> int:
        """fp16 word of the output."""
        v = (inside * Fraction(float(column.scale)) + outside) / (1 << UNIT_BITS)
        bias = None if column.bias is None else float(column.bias)
        return int(fp16.bits(fp16.to_f16(np.asarray(finish_exact(v, bias, column.norm)))))


def accumulator(arith: KllmArith, b_bits: int) -> Arrays:
    """The accumulator of an arithmetic."""
    if arith.acc == "exact":
        return ExactSums(arith, b_bits)
    return Macs(arith, b_bits) if arith.acc in ROUNDINGS else Arrays(arith, b_bits)


def _total(values: Iterable[Any]) -> Any:
    total = 0
    for value in values:
        total += value
    return total


def _words(values: np.ndarray) -> list[int]:
    """fp16 words of fp16 values."""
    words: list[int] = fp16.bits(fp16.to_f16(values)).tolist()
    return words


def _widened(word: int) -> int:
    """float32 word of an fp16 word."""
    return pattern32(value16(word))


def _word(value: np.ndarray) -> int:
    return pattern32(float(value))
