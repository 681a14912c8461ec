"""RMSNorm and LayerNorm from counts of indices, beside the matmul whose result they divide.

Paper: [kllm §III-C2, Eq. (3), Fig. 4]. Every index is counted once; a square per centroid, weighted by its count,
stands for the squares of all inliers. The division is delayed: it reaches the dense path as one divided scale, the
sparse path as divided centroids of the weights.
Decisions: D-kllm-18 (the norm's input is quantized before the norm), D-kllm-19 (eps), D-kllm-20 (sums in float32, or
exact), D-kllm-37 (only the sparse path sees divided centroids), D-kllm-39 (variance from two moments, never below 0).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, plain, require_choice, require_int
from refemu.arith.operands import Precision
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_norm import NoDivisor, folds, quotient16, rounder, width
from refemu.units import stepped
from refemu.units.kllm.cases import index_norm as index_norm_cases
from refemu.units.kllm.index_counter import INPUTS, IndexCounter
from refemu.units.ports import Lanes, Port, Ports, fields, lanes
from refemu.units.stepped import Stepped
from refemu.units.unit import Config, Flag, RunFunction, Unit

NormKind = Literal["rms", "layer"]  #: Kind of norm: RMSNorm or LayerNorm
LARGEST = 0x7BFF  #: word of the largest finite value

Number = float | Fraction


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    #: "reset": no vector yet; "count": sixteen positions are counted by index, outliers left out; "mean",
    #: "mean_sparse", in LayerNorm alone: centroids by their counts, then outliers, are added up to the mean; "square",
    #: "square_sparse": squares of the centroids by their counts, then of the outliers, up to the mean square; "root":
    #: the divisor is made, the root mean square or the standard deviation; "fold": the scale and the centroids of the
    #: weights are divided by it
    event: str
    index: int  #: number of the event in its operation, which is one vector, from 0; -1 at reset
    q: Lanes  #: indices
    mask: Lanes  #: 1 at outliers
    x: Lanes  #: words; read where `mask` is 1
    scale: int  #: word
    centroids: tuple[int, ...]  #: normalized centroids of the input, fp16 words, of which LayerNorm takes the mean
    squares: tuple[int, ...]  #: words of the centroids' squares
    #: centroids of the weights of the MatMul behind the norm, fp16 words, which "fold" divides
    weights: tuple[int, ...]
    rms: int  #: word of the divisor: root mean square, or standard deviation
    mean: int  #: mean of the vector in LayerNorm, as a float word
    folded: int  #: the input's scale over the divisor, an fp16 word: the delayed division of the dense path
    #: centroids of the weights over the divisor, fp16 words: the delayed division of the sparse path
    divided: tuple[int, ...]
    shift: int  #: mean over the divisor in LayerNorm, an fp16 word
    overflow: int  #: 1 if a result of "fold" is infinite
    count: tuple[int, ...]  #: counts of the indices
    dense: int  #: word of the last sum over centroids
    total: Number  #: sum over centroids as a number, until the outliers are added to it; exact where sums are
    moments: Lanes  #: words of mean and mean square, or of the mean square; 0 until known
    indices: int  #: positions counted, outliers left out
    macs: int  #: multiply-adds for the mean and the mean square: one for each centroid, one for each outlier
    divides: int  #: divisions of "fold"; those by the number of elements, and the roots, belong to the Functional Unit


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepped.Result):
    """Outputs of a run, words per vector; None where a configuration has no such port."""

    rms: np.ndarray  #: what divides: the root mean square, or LayerNorm's standard deviation
    mean: np.ndarray | None = None  #: means of LayerNorm
    folded: np.ndarray | None = None  #: scale over divisor, fp16 words
    divided: np.ndarray | None = None  #: weights' centroids over divisor, fp16 words
    shift: np.ndarray | None = None  #: mean over divisor, fp16 words
    overflow: np.ndarray | None = None  #: bool: a word of the fold is infinite
    count: np.ndarray  #: counts of the indices
    dense: np.ndarray  #: words of the last sums over centroids
    moments: np.ndarray  #: words of the moments
    indices: int
    macs: int
    divides: int


class IndexNorm(Stepped[State]):
    """RMSNorm and LayerNorm from counts: an operation is one vector of n indices, which an Index Distribution Counter
    takes sixteen a cycle; the Functional Unit's roots and the sums have the rounding of `stat`.

    References
    ----------
    [kllm §III-C2, Eq. (3), Fig. 4]
    """

    name = "index_norm"

    def __init__(
        self,
        n: int,
        bits: int = 4,
        weight_bits: int = 4,
        norm: NormKind = "rms",
        eps: float = 0.0,
        preset: Preset | KllmArith = "paper",
    ) -> None:
        """Configure the unit.

        Parameters
        ----------
        n : int
            Values of a vector, 1 to 2**24.
        bits : int
            Width of an index, 1 to 8.
        weight_bits : int
            Width of an index of the weights, 1 to 4.
        norm : {"rms", "layer"}
            Kind of norm.
        eps : float
            Added to the mean square, finite and not negative (D-kllm-19).
        preset : str or KllmArith
            Arithmetic; `stat` and `table` matter.

        Raises
        ------
        Refused
            A parameter is out of range or an option unknown.
        """
        self.n: int = require_int(n, 1, 1 << 24, self.name, "n")
        self.bits: int = require_int(bits, 1, 8, self.name, "bits")
        self.weight_bits: int = require_int(weight_bits, 1, 4, self.name, "weight_bits")
        self.norm = require_choice(norm, get_args(NormKind), self.name, "norm")
        self.eps: float = require_eps(eps)
        self.preset: Preset | KllmArith = plain(preset)
        self.arith: KllmArith = KllmArith.preset(self.preset)
        self.counter: IndexCounter = IndexCounter(self.bits, 0, self.n.bit_length())  #: fed with A's index alone
        config = {"n": self.n, "bits": self.bits, "weight_bits": self.weight_bits}
        self.ports: Ports = ports({**config, "norm": self.norm, "preset": self.preset})
        self._round = rounder(self.arith.stat)
        sums = [*(["mean", "mean_sparse"] if norm == "layer" else []), "square", "square_sparse"]
        self.events: list[str] = ["count"] * -(-self.n // INPUTS) + sums + ["root"] + ["fold"] * folds(self.arith)
        cleared = self._cleared()
        tables = {"centroids": cleared["count"], "squares": cleared["count"], "weights": cleared["divided"]}
        self.state: State = self.reset(State, scale=1, **tables, **cleared)

    def _cleared(self) -> dict[str, Any]:
        """Registers of one vector before its first event."""
        single = dict.fromkeys(("rms", "mean", "folded", "shift", "overflow"), 0)
        tables = {"divided": (0,) * (1 << self.weight_bits), "count": (0,) * (1 << self.bits)}
        moments = lanes((0,) * (1 + (self.norm == "layer")))
        return {**single, **tables, "dense": 0, "total": 0.0, "moments": moments}

    @property
    def busy(self) -> bool:
        """Whether events of the vector are left."""
        return 0 <= self.state.index < len(self.events) - 1

    def step(
        self,
        q: Sequence[int] | int | None = None,
        mask: Sequence[int] | int | None = None,
        x: Sequence[int] | int | None = None,
        scale: int | None = None,
        centroids: Sequence[int] | None = None,
        squares: Sequence[int] | None = None,
        weights: Sequence[int] | None = None,
    ) -> State:
        """Execute the first event of a vector; without inputs, the next one.

        Inputs are those of the configuration's ports, in their order. A divisor of 0 is refused, and nothing changes.
        """
        return self._stepped(q=q, mask=mask, x=x, scale=scale, centroids=centroids, squares=squares, weights=weights)

    def _open(self, *inputs: Any) -> State:
        return self._next(replace(self.latched(*inputs), index=-1, **self._cleared()))

    def _continue(self) -> State:
        return self._next(self.state)

    def _next(self, before: State) -> State:
        index = before.index + 1
        event = self.events[index]
        work = {"count": self._count, "root": self._root, "fold": self._fold}
        with np.errstate(all="ignore"):  # sums in fp16 may overflow
            after = work.get(event, self._moment)(before)
        self.state = replace(after, event=event, index=index)
        return self.state

    def _count(self, before: State) -> State:
        """A cycle of the counter; masked positions are invalid, they are not index 0, and so are lanes past the end."""
        low = (before.index + 1) * INPUTS
        q, mask = (fields(lane)[low : low + INPUTS] for lane in (before.q, before.mask))
        past = (0,) * (INPUTS - len(q))
        valid = tuple(1 - outlier for outlier in mask) + past
        self.counter.state = replace(self.counter.state, count=before.count)
        after = self.counter.cycle(int(low == 0), q + past, valid)
        return replace(before, count=after.count, indices=before.indices + valid.count(1))

    def _moment(self, before: State) -> State:
        """One half of a moment: counts by centroids, or the outliers, each multiplied and added in order."""
        name = self.events[before.index + 1]
        power = 1 if name.startswith("mean") else 2
        if name.endswith("_sparse"):
            return self._closed(before, power)
        table = _entries(before.centroids, "fp16") if power == 1 else _entries(before.squares, self.arith.table)
        total: Number = self._zero
        for n, c in zip(before.count, table, strict=True):
            total = self._round(total + self._round(self._round(self._number(n)) * self._number(c)))
        dense = _word(float(total), self.arith)
        return replace(before, dense=dense, total=total, macs=before.macs + len(table))

    def _closed(self, before: State, power: int) -> State:
        apart, macs = self._zero, 0
        for word, outlier in zip(fields(before.x), fields(before.mask), strict=True):
            if outlier:
                value = self._number(float(fp16.values(word)))
                apart, macs = self._round(apart + self._round(value if power == 1 else value * value)), macs + 1
        scale = self._number(float(fp16.values(before.scale)))
        whole = self._round((scale if power == 1 else scale * scale) * before.total)  # the square itself is exact
        moment = float(self._round(self._round(whole + apart) / self.n))
        values = [moment, *self.moments(before)[1:]] if power == 1 else [*self.moments(before)[:-1], moment]
        return replace(self.with_moments(before, *values), total=0.0, macs=before.macs + macs)

    def moments(self, state: State) -> tuple[float, ...]:
        """Values of the moments.

        Parameters
        ----------
        state : State
            State that holds them.

        Returns
        -------
        tuple of float
            Mean and mean square, or the mean square; 0 until known.
        """
        return tuple(_value(word, self.arith) for word in fields(state.moments))

    def with_moments(self, state: State, *moments: float) -> State:
        """Replace the moments.

        Parameters
        ----------
        state : State
            State to change.
        *moments : float
            Mean and mean square, or the mean square.

        Returns
        -------
        State
            The State; it is not committed.
        """
        return replace(state, moments=lanes(tuple(_word(moment, self.arith) for moment in moments)))

    @property
    def _zero(self) -> Number:
        return self._number(0)

    def _number(self, x: float) -> Number:
        return Fraction(x) if self.arith.stat == "exact" else float(x)

    def _root(self, before: State) -> State:
        """sqrt(mean square + eps), or of the variance; each operation rounded."""
        rnd, mean = self._round, 0.0
        *first, square = self.moments(before)
        if self.norm == "layer":
            mean = first[0]
            square = max(0.0, float(rnd(square - rnd(mean * mean))))
        divisor = float(rnd(float(np.sqrt(np.float64(rnd(square + rnd(self.eps)))))))
        if not divisor > 0:  # a NaN neither
            raise NoDivisor(divisor)
        return replace(before, rms=_word(divisor, self.arith), mean=_word(mean, self.arith))

    def _fold(self, before: State) -> State:
        """The delayed division: two roundings each, to float32 and to fp16."""
        divisor = np.array(_value(before.rms, self.arith))
        taken = [before.scale, *before.weights]
        values = fp16.values(np.array(taken)).astype(np.float64)
        words = fp16.bits(quotient16(values, divisor)).tolist()
        shift = 0
        if self.norm == "layer":
            mean = np.array(_value(before.mean, self.arith))
            shift = int(fp16.bits(quotient16(mean, divisor)))
        overflow = int(any(word & 0x7FFF == 0x7C00 for word in (*words, shift)))
        return replace(
            before,
            folded=words[0],
            divided=tuple(words[1:]),
            shift=shift,
            overflow=overflow,
            divides=before.divides + len(words) + (self.norm == "layer"),
        )

    def operations(self, arrays: Sequence[np.ndarray]) -> Iterator[State]:
        """Yield the State after every event; a divisor of 0 is refused with the index of its vector.

        Parameters
        ----------
        arrays : sequence of ndarray
            One per input port, as `admitted` returns them.

        Returns
        -------
        iterator of State
            States in C order of the vectors.

        Raises
        ------
        Refused
            A divisor is 0.
        """
        scale = next(array for array, port in zip(arrays, self.ports.inputs, strict=True) if port.name == "scale")
        vectors = 0
        try:
            for state in super().operations(arrays):
                vectors += not self.busy
                yield state
        except NoDivisor as refusal:
            raise NoDivisor(refusal.value, tuple(map(int, np.unravel_index(vectors, scale.shape)))) from None


def require_eps(eps: Any) -> float:
    """`eps` as a float, finite and not negative."""
    value = float(eps)
    if not 0 <= value < float("inf"):
        raise Refused(f"index_norm: eps must be finite and not negative, got {eps!r}")
    return value


def _entries(words: tuple[int, ...], table: Precision) -> list[float]:
    kind, word = (np.float16, np.uint16) if table == "fp16" else (np.float32, np.uint32)
    return [float(value) for value in np.array(words, word).view(kind)]


def _word(value: float, arith: KllmArith) -> int:
    value = value if value == value else float("nan")  # one word for every NaN
    return int(np.float64(value).view(np.uint64) if width(arith) == 64 else np.float32(value).view(np.uint32))


def _value(word: int, arith: KllmArith) -> float:
    bits = np.uint64(word) if width(arith) == 64 else np.uint32(word)
    return float(bits.view(np.float64 if width(arith) == 64 else np.float32))


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    n, bits, arith = config["n"], config["bits"], KllmArith.preset(config["preset"])
    layer, fold, wide = config["norm"] == "layer", folds(arith), width(arith)
    inputs = [
        Port("q", bits, n, meaning="indices"),
        Port("mask", 1, n, meaning="1 = outlier"),
        Port("x", 16, n, encoding="f16", meaning="the outliers, read where mask is 1"),
        Port("scale", 16, encoding="f16", meaning="of the vector", least=1, most=LARGEST),
    ]
    if layer:
        inputs.append(Port("centroids", 16, 1 << bits, encoding="f16", meaning="normalized"))
    entry = 16 if arith.table == "fp16" else 32
    inputs.append(
        Port(
            "squares",
            entry,
            1 << bits,
            encoding=f"f{entry}",
            meaning="of the centroids",
            most=LARGEST if entry == 16 else 0x7F7F_FFFF,
        )
    )
    encoding = "f32" if wide == 32 else ""
    outputs = [Port("rms", wide, encoding=encoding, meaning=f"divisor, float{wide}")]
    if layer:
        outputs.append(Port("mean", wide, encoding=encoding, meaning=f"float{wide}"))
    if fold:
        entries = 1 << config["weight_bits"]
        inputs.append(Port("weights", 16, entries, encoding="f16", meaning="centroids of a weight matrix"))
        outputs += [
            Port("folded", 16, encoding="f16", meaning="divided scale of the dense path"),
            Port("divided", 16, entries, encoding="f16", meaning="divided centroids of the sparse path"),
        ]
        outputs += [Port("shift", 16, encoding="f16", meaning="mean over deviation")] if layer else []
        outputs.append(Port("overflow", 1, meaning="a divided word is infinite"))
    state = (
        Port("count", n.bit_length(), 1 << bits, meaning="counts of the indices of inliers"),
        Port("dense", wide, encoding=encoding, meaning=f"counts by squares, added: before the scale, float{wide}"),
        Port("moments", wide, 1 + layer, encoding=encoding, meaning="mean and mean square" if layer else "mean square"),
    )
    return Ports(inputs=tuple(inputs), outputs=tuple(outputs), state=state)


SIZE: dict[str, int | float] = {
    "n": 40,
    "bits": 4,
    "eps": 1e-5,
}  #: of the ready configurations: two cycles of the counter and a half

UNIT: Unit[State, Result] = Unit(
    name="index_norm",
    paper="kllm §III-C2, Eq. (3), Fig. 4",
    meaning="RMSNorm and LayerNorm from counts of indices",
    configs={
        "rms": Config(**SIZE, weight_bits=4, norm="rms", preset="paper"),
        "layer": Config(**SIZE, weight_bits=3, norm="layer", preset="paper"),
        "layer_exact": Config(**SIZE, weight_bits=4, norm="layer", preset="exact"),
    },
    ports=ports,
    unit_class=IndexNorm,
    cases=index_norm_cases.cases,
    counters=("indices", "macs", "divides"),
    result=Result,
    mark=index_norm_cases.mark,
    flags={"OVERFLOW": Flag(0, "a divided scale, centroid or mean is beyond fp16")},
)
run: RunFunction[Result] = UNIT.run
