"""RMSNorm and LayerNorm from counts of indices, in parallel with the matmul whose result they divide.

Paper: [kllm §III-C2, Eq. (3), Fig. 4]. Every index is counted once; a square per centroid, weighted by its count,
replaces the squares of all inliers. The division is delayed: it reaches the dense path as one divided scale, the
sparse path as divided centroids of the weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.arith.operands import Precision
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_norm import NoDivisor, folds, quotient16, rounder, width
from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Unit, constant, decides, stepping
from refemu.units.kllm.index_counter import INPUTS, IndexCounter
from refemu.units.ports import Lanes
from refemu.units.unit import DeclaredState, RunFunction

NormKind = Literal["rms", "layer"]  #: Kind of norm: RMSNorm or LayerNorm
LARGEST = 0x7BFF  #: word of the largest finite value

Number = float | Fraction


class IndexNorm(Combinational):
    """RMSNorm and LayerNorm from counts: an operation is one vector of n indices, which an Index Distribution Counter
    takes sixteen a cycle; the Functional Unit's roots and the sums have the rounding of `stat`.
    """

    name = "index_norm"
    events: ClassVar[tuple[str, ...]] = ("count", "mean", "mean_sparse", "square", "square_sparse", "root", "fold")
    counters: ClassVar[dict[str, str]] = {
        "indices": "positions counted, outliers excluded",
        "macs": "multiply-adds for the mean and the mean square: one for each centroid, one for each outlier",
        "divides": 'divisions of "fold"; those by the number of elements, and the roots, belong to the Functional Unit',
    }
    registers: ClassVar[dict[str, str]] = {
        "cycle": "number of the last cycle of the counter in its operation, from 0",
        "total": "sum over centroids as a number, until the outliers are added; exact if sums are exact",
        "centroids": "normalized centroids of the input, fp16 words, of which LayerNorm takes the mean",
        "mean": "mean of the vector in LayerNorm, as a float word",
    }
    n: Annotated[int, 1, 1 << 24]  #: values of a vector, 1 to 2**24
    bits: Annotated[int, 1, 8] = 4  #: width of an index, 1 to 8
    weight_bits: Annotated[int, 1, 4] = 4  #: width of an index of the weights, 1 to 4
    norm: NormKind = "rms"  #: kind of norm
    eps: float = 0.0  #: added to the mean square, finite and at least 0 (D-kllm-19)
    preset: Preset | KllmArith = "paper"  #: preset of KLLM's arithmetic, or its `stat`, `table` and `acc`

    def check(self) -> None:
        if not 0 <= float(self.eps) < float("inf"):
            raise Refused(f"{self.name}: eps must be finite and at least 0, got {self.eps!r}")

    @constant
    def arith(self) -> KllmArith:
        return KllmArith.preset(self.preset)

    @constant
    def counter(self) -> IndexCounter:
        """The index counter, which counts A's index alone."""
        return IndexCounter(self.bits, 0, self.n.bit_length())

    @constant
    def _round(self) -> Any:
        return rounder(self.arith.stat)

    @constant
    def ports(self) -> Ports:
        n, bits, arith = self.n, self.bits, self.arith
        layer, fold, wide, entry = self.norm == "layer", folds(arith), width(arith), 16 if arith.table == "fp16" else 32
        most = LARGEST if entry == 16 else 0x7F7F_FFFF
        encoding = "f32" if wide == 32 else ""
        inputs = [
            Port("q", bits, n, meaning="indices"),
            Port("mask", 1, n, meaning="1 = outlier"),
            Port("x", 16, n, encoding="f16", meaning="the outliers, read where mask is 1"),
            Port("scale", 16, encoding="f16", meaning="scale of the vector", least=1, most=LARGEST),
            *([Port("centroids", 16, 1 << bits, encoding="f16", meaning="normalized")] if layer else []),
            Port("squares", entry, 1 << bits, encoding=f"f{entry}", meaning="squares of the centroids", most=most),
        ]
        outputs = [Port("rms", wide, encoding=encoding, meaning=f"divisor, float{wide}")]
        if layer:
            outputs.append(Port("mean", wide, encoding=encoding, meaning=f"float{wide}"))
        if fold:
            entries = 1 << self.weight_bits
            inputs.append(Port("weights", 16, entries, encoding="f16", meaning="centroids of a weight matrix"))
            outputs += [
                Port("folded", 16, encoding="f16", meaning="divided scale of the dense path"),
                Port("divided", 16, entries, encoding="f16", meaning="divided centroids of the sparse path"),
                *([Port("shift", 16, encoding="f16", meaning="mean over deviation")] if layer else []),
                Port("overflow", 1, meaning="a divided word is infinite"),
            ]
        says = "mean and mean square" if layer else "mean square"
        state = (
            Port("count", n.bit_length(), 1 << bits, meaning="counts of the indices of inliers"),
            Port(
                "dense", wide, encoding=encoding, meaning=f"sum of counts times squares, before the scale, float{wide}"
            ),
            Port("moments", wide, 1 + layer, encoding=encoding, meaning=says),
        )
        return Ports(inputs=tuple(inputs), outputs=tuple(outputs), state=state)

    @constant
    def _cleared(self) -> Changes:
        """Registers of one vector before its first event."""
        single = dict.fromkeys(("rms", "mean", "folded", "shift", "overflow", "dense", "cycle"), 0)
        tables = {"divided": (0,) * (1 << self.weight_bits), "count": (0,) * (1 << self.bits)}
        return {**single, **tables, "total": 0.0, "moments": (0,) * (1 + (self.norm == "layer"))}

    @constant
    def initial(self) -> Mapping[str, Any]:
        none = self._cleared
        return {**none, "scale": 1, "centroids": none["count"], "squares": none["count"], "weights": none["divided"]}

    @constant
    def plan(self) -> tuple[str, ...]:
        """Events of an operation, in order; the first one repeats for every cycle of the counter."""
        mean = ["mean", "mean_sparse"] if self.norm == "layer" else []
        return ("count", *mean, "square", "square_sparse", "root", *["fold"] * folds(self.arith))

    @property
    def busy(self) -> bool:
        """Whether events of the vector remain."""
        return self.state.event not in ("reset", self.plan[-1])

    def follows(self) -> str:
        if self.state.event == "count" and (self.state.cycle + 1) * INPUTS < self.n:
            return "count"
        return self.plan[self.plan.index(self.state.event) + 1]

    def _continue(self) -> DeclaredState:
        with np.errstate(all="ignore"):  # sums in fp16 may overflow
            return super()._continue()

    def count(self, *inputs: int | Lanes) -> Changes:
        """Count sixteen positions by index, outliers excluded."""
        before = self.state
        operands: Any = inputs[:2] or (before.q, before.mask)
        q, mask = operands
        cycle = 0 if inputs else before.cycle + 1
        here = slice(cycle * INPUTS, (cycle + 1) * INPUTS)
        indices, outliers = q[here], mask[here]
        past = (0,) * (INPUTS - len(indices))
        valid = tuple(1 - outlier for outlier in outliers) + past  # an excluded position is invalid, not index 0
        self.counter.state = self.counter.changed(count=before.count)
        count = self.counter.cycle(int(cycle == 0), indices + past, valid).count
        return {**(self._cleared if inputs else {}), "cycle": cycle, "count": count, "indices": valid.count(1)}

    def mean(self) -> Changes:
        """In LayerNorm alone, sum centroids times their counts for the mean."""
        return self._dense(_entries(self.state.centroids, "fp16"))

    def mean_sparse(self) -> Changes:
        """In LayerNorm alone, add outliers to the mean."""
        return self._sparse(1)

    def square(self) -> Changes:
        """Sum squares of the centroids times their counts for the mean square."""
        return self._dense(_entries(self.state.squares, self.arith.table))

    def square_sparse(self) -> Changes:
        """Add squares of the outliers to the mean square."""
        return self._sparse(2)

    def _dense(self, table: Sequence[float]) -> Changes:
        """Multiply counts by a table and add in order."""
        total = self._number(0)
        for n, c in zip(self.state.count, table, strict=True):
            total = self._round(total + self._round(self._round(self._number(n)) * self._number(c)))
        return {"dense": _word(float(total), self.arith), "total": total, "macs": len(table)}

    def _sparse(self, power: int) -> Changes:
        """Add powers of the outliers in order, then to the sum over the centroids: a moment."""
        before, apart, macs = self.state, self._number(0), 0
        for word, outlier in zip(before.x, before.mask, strict=True):
            if outlier:
                value = self._number(float(fp16.values(word)))
                apart, macs = self._round(apart + self._round(value if power == 1 else value * value)), macs + 1
        scale = self._number(float(fp16.values(before.scale)))
        whole = self._round((scale if power == 1 else scale * scale) * before.total)  # the square itself is exact
        moments = list(before.moments)
        moments[0 if power == 1 else -1] = _word(float(self._round(self._round(whole + apart) / self.n)), self.arith)
        return {"moments": tuple(moments), "total": 0.0, "macs": macs}

    def _number(self, x: float) -> Number:
        return Fraction(x) if self.arith.stat == "exact" else float(x)

    def root(self) -> Changes:
        """Compute the divisor, the root mean square or the standard deviation."""
        *means, square = (_value(word, self.arith) for word in self.state.moments)
        mean = means[0] if means else 0.0
        divisor = self._divisor(self._variance(mean, square) if means else square)
        if not divisor > 0:  # true for NaN
            raise NoDivisor(divisor)
        return {"rms": _word(divisor, self.arith), "mean": _word(mean, self.arith)}

    @decides("D-kllm-39")
    def _variance(self, mean: float, square: float) -> float:
        """The variance from two moments, at least 0."""
        return max(0.0, float(self._round(square - self._round(mean * mean))))

    @decides("D-kllm-19")
    def _divisor(self, square: float) -> float:
        """sqrt(square + eps); each operation rounded."""
        rnd = self._round
        return float(rnd(float(np.sqrt(np.float64(rnd(square + rnd(self.eps)))))))

    def fold(self) -> Changes:
        """Divide the scale and the centroids of the weights by the divisor, rounded to float32, then to fp16."""
        before, layer = self.state, self.norm == "layer"
        divisor = np.array(_value(before.rms, self.arith))
        values = fp16.values(np.array([before.scale, *before.weights])).astype(np.float64)
        words = fp16.bits(quotient16(values, divisor)).tolist()
        shift = int(fp16.bits(quotient16(np.array(_value(before.mean, self.arith)), divisor))) if layer else 0
        return {
            "folded": words[0],
            "divided": tuple(words[1:]),
            "shift": shift,
            "overflow": int(any(word & 0x7FFF == 0x7C00 for word in (*words, shift))),
            "divides": len(words) + layer,
        }

    def operations(self, arrays: Sequence[np.ndarray]) -> Iterator[DeclaredState]:
        """Yield the State after every event; the error for a divisor of 0 has the index of its vector."""
        scale = next(array for array, port in zip(arrays, self.ports.inputs, strict=True) if port.name == "scale")
        vectors = 0
        try:
            for state in super().operations(arrays):
                vectors += not self.busy
                yield state
        except NoDivisor as refusal:
            raise NoDivisor(refusal.value, tuple(map(int, np.unravel_index(vectors, scale.shape)))) from None


def _entries(words: tuple[int, ...], table: Precision) -> list[float]:
    kind, word = (np.float16, np.uint16) if table == "fp16" else (np.float32, np.uint32)
    return [float(value) for value in np.array(words, word).view(kind)]


def _word(value: float, arith: KllmArith) -> int:
    value = value if value == value else float("nan")  # one word for all NaN
    return int(np.float64(value).view(np.uint64) if width(arith) == 64 else np.float32(value).view(np.uint32))


def _value(word: int, arith: KllmArith) -> float:
    bits = np.uint64(word) if width(arith) == 64 else np.uint32(word)
    return float(bits.view(np.float64 if width(arith) == 64 else np.float32))


#: sizes of the ready configurations: two and a half cycles of the counter
SIZE: dict[str, int | float] = {"n": 40, "bits": 4, "eps": 1e-5}

UNIT: AnyUnit = Unit(
    unit_class=IndexNorm,
    paper="kllm §III-C2, Eq. (3), Fig. 4",
    meaning="RMSNorm and LayerNorm from counts of indices",
    configs={
        "rms": Config(**SIZE, weight_bits=4, norm="rms", preset="paper"),
        "layer": Config(**SIZE, weight_bits=3, norm="layer", preset="paper"),
        "layer_exact": Config(**SIZE, weight_bits=4, norm="layer", preset="exact"),
    },
    flags={"OVERFLOW": Flag(0, "a divided scale, centroid or mean is beyond fp16", "overflow")},
)
State: type[DeclaredState] = IndexNorm.State
Result: type[stepping.Result] = UNIT.result
run: RunFunction[stepping.Result] = UNIT.run
