"""The weighted sum: counts times codebook entries, one MAC each, the reduction of an index MatMul.

Paper: [kllm §III-B1 step 3, §IV-A]. Zero counts are executed.
"""

from typing import Annotated, Any, ClassVar

import numpy as np

from refemu.arith import dot, exact, fp16
from refemu.arith.scalar32 import pattern16, pattern32, value16, value32
from refemu.arith.sums import reduce
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Lanes, Port, Ports, Unit, constant, decides
from refemu.units.kllm.fp16_mac import ROUNDINGS, Fp16Mac
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["COUNT_BITS", "UNIT", "UNIT_BITS", "State", "WeightedSum", "run", "sums"]

COUNT_BITS = 16  #: Width of a count port: amounts of four bits over 4096 positions reach 61,440
UNIT_BITS = {"fp16": 24, "fp32": 48}  #: Fraction bits of a table's entries: multiples of 2**-24, or as products 2**-48


class WeightedSum(Combinational):
    """Reduction of one column on a lane's MACs; an event is one MAC in a sequential order, else a whole sum.

    A sequential sum in an fp16 accumulator (preset "paper", acc "fp16" and "fp16_fma") steps the unit's `Fp16Mac`. A
    wider accumulator (acc "fp32", and preset "exact") and other orders have no such MAC and use `sums`.
    """

    name = "weighted_sum"
    events: ClassVar[tuple[str, ...]] = ("sum", "mac")
    counters: ClassVar[dict[str, str]] = {
        "lookups": "codebook entries read",
        "macs": "multiply-adds of a count and its codebook entry, counts of 0 included",
        "overflows": "sums with `overflow` set: not finite in fp16",
    }
    bits: Annotated[int, 1, 8] = 8  #: width of an index, 1 to 8; a codebook has 2**bits entries
    preset: Preset | KllmArith = "paper"  #: preset of KLLM's arithmetic; `acc` and `order` matter

    def check(self) -> None:
        KllmArith.preset(self.preset)

    @constant
    def arith(self) -> KllmArith:
        return KllmArith.preset(self.preset)

    @constant
    def fp16_mac(self) -> Fp16Mac | None:
        return Fp16Mac(self.arith.acc) if self.arith.acc in ROUNDINGS else None

    @constant
    def ports(self) -> Ports:
        size = 1 << self.bits
        return Ports(
            inputs=(
                Port("count", COUNT_BITS, size, meaning="occurrences of each index"),
                Port("codebook", 16, size, encoding="f16", meaning="value of each index"),
            ),
            outputs=(
                Port("y", 16, encoding="f16", meaning="the weighted sum"),
                Port("overflow", 1, meaning="y is not finite"),
            ),
            state=(
                Port("acc", 32, encoding="f32", meaning="the accumulator after the last MAC"),
                Port("done", self.bits + 1, meaning="MACs of the sum so far"),
            ),
        )

    @property
    def busy(self) -> bool:
        """Whether MACs of the sum remain."""
        return self.state.event == "mac" and self.state.done < 1 << self.bits

    def opens(self, *inputs: int | Lanes) -> str:
        return "mac" if isinstance(self.arith.order, dot.Sequential) else "sum"

    def mac(self, *inputs: tuple[int, ...]) -> Changes:
        """Add one count times its codebook entry."""
        before = self.state
        count, codebook = inputs or (before.count, before.codebook)
        i, acc = (0, 0) if inputs else (before.done, before.acc)
        return self._reached(self._added(count[i], codebook[i], acc), i + 1, 1)

    def sum(self, count: tuple[int, ...], codebook: tuple[int, ...]) -> Changes:
        """Add all counts at once, if the order or the accumulator has no single steps."""
        acc = _word(result16(np.array(count), fp16.values(codebook), self.arith))
        return self._reached(acc, len(count), len(count))

    @decides("D-kllm-4")
    def _added(self, count: int, entry: int, acc: int) -> int:
        """Word of the accumulator after count * entry; the MAC takes the count as fp16."""
        if self.fp16_mac is None:
            return _word(sums(np.array([count]), fp16.values([entry]), self.arith, value32(acc)))
        return pattern32(
            value16(self.fp16_mac.multiply_add(pattern16(float(count)), entry, pattern16(value32(acc)))[1])
        )

    def _reached(self, acc: int, done: int, macs: int) -> Changes:
        """The accumulator after `macs` more MACs, `done` in all; the last one shows y."""
        y = pattern16(value32(acc)) if done == 1 << self.bits else 0
        overflow = int(y & 0x7C00 == 0x7C00)
        counts = {"lookups": macs, "macs": macs, "overflows": overflow}
        return {"acc": acc, "done": done, "y": y, "overflow": overflow, **counts}


def _word(value: np.ndarray) -> int:
    return int(fp16.canonical(value).view(np.uint32))


def sums(count: np.ndarray, table: np.ndarray, arith: KllmArith, start: float = 0.0) -> np.ndarray:
    """Sum count * entry along the last axis, rounded by `arith`, as float32. [kllm §III-B1]

    count: integers (..., 2**n), at least 0. table: finite float16 or float32 (..., 2**n), broadcast against `count`.
    arith: any acc except "exact". start: value of the accumulator before the sum.
    """
    numbers = fp16.to_f32(fp16.to_f16(count)) if arith.acc.startswith("fp16") else count.astype(np.float32)
    entries = np.asarray(table, np.float32)
    if arith.acc == "fp32" or fp16.is_fp16(entries).all():
        return dot.dot(numbers, entries, order=arith.order, acc=arith.acc, start=start)
    return _with_wide_entries(numbers, entries, arith, start)


def _with_wide_entries(numbers: np.ndarray, entries: np.ndarray, arith: KllmArith, start: float) -> np.ndarray:
    """fp16 accumulators over float32 entries (products of centroids): terms of 33 bits, exact in float64."""

    def add(s: Any, x: Any) -> Any:
        return fp16.round16_of_f64(np.asarray(s + x)).astype(np.float64)

    def leaf(term: Any) -> Any:
        return fp16.round16_of_f64(np.asarray(term)).astype(np.float64)

    def step(s: Any, term: Any) -> Any:
        if arith.acc == "fp16":
            return add(s, leaf(term))
        total = np.asarray(s + term)
        return fp16.round16_of_f64(fp16.round_to_odd(total, term, np.asarray(s))).astype(np.float64)

    with np.errstate(all="ignore"):
        terms = list(np.moveaxis(numbers.astype(np.float64) * entries, -1, 0))
        total = reduce(arith.order, terms, np.float64(start), add, step, leaf)
    return fp16.canonical(np.asarray(total).astype(np.float32))


def units_of(table: np.ndarray, unit_bits: int) -> list[int]:
    """Finite float32 entries (2**n,), multiples of 2**-unit_bits, as integers in that unit."""
    ratios = (float(entry).as_integer_ratio() for entry in table)
    return [numerator << unit_bits + 1 - denominator.bit_length() for numerator, denominator in ratios]


def exact_sum(count: np.ndarray, table: np.ndarray, unit_bits: int) -> int:
    """Sum of count * entry of one column, as an integer in units of 2**-unit_bits."""
    total = 0
    for number, entry in zip(count.tolist(), units_of(table, unit_bits), strict=True):
        total += number * entry
    return total


def result16(count: np.ndarray, table: np.ndarray, arith: KllmArith) -> np.ndarray:
    """The sum (2**n,) by (2**n,) as one fp16 value, rounded once more where the accumulator is wider."""
    if arith.acc != "exact":
        return fp16.round16(sums(count, table, arith))
    if not np.isfinite(table).all():
        return np.array(np.nan, np.float32)
    total = np.array(exact_sum(count, table, UNIT_BITS["fp32"]), object)
    return fp16.round16_of_f64(exact.round_integers(total))


UNIT: AnyUnit = Unit(
    unit_class=WeightedSum,
    paper="kllm §III-B, §IV-A",
    meaning="counts times codebook, reduced on fp16 MACs",
    configs={
        "example": Config(bits=3, preset="paper"),
        "integer": Config(bits=4, preset="paper"),
        "w4a4": Config(bits=8, preset="paper"),
        "exact": Config(bits=4, preset="exact"),
    },
    flags={"OVERFLOW": Flag(0, "the sum, or a count, exceeds fp16 (D-kllm-4)", "overflow")},
)
State: type[DeclaredState] = WeightedSum.State
run: RunFunction[Result] = UNIT.run
