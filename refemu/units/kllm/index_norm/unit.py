"""RMSNorm and LayerNorm from counts of indices, beside the matmul whose result they divide.

Paper: [kllm §III-C2, Eq. (3), Fig. 4]. Every index is counted once; a square per centroid, weighted by its count,
stands for the squares of all inliers. The division is delayed: it reaches the dense path as one divided scale, the
sparse path as divided centroids of the weights.
Decisions: D-kllm-18 (the norm's input is quantized before the norm), D-kllm-19 (eps), D-kllm-20 (sums in float32, or
exact), D-kllm-37 (only the sparse path sees divided centroids), D-kllm-39 (variance from two moments, never below 0).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, require_choice, require_int
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_norm import NoDivisor, folds, quotient32, require_normed, rounder, width
from refemu.formats.kmeans_tables import squares
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.units import index_norm_cases, unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit, collect, fields, lanes
from refemu.units.unit_cases import Seeds

NORMS = ("rms", "layer")
INPUTS = 16  #: positions that a counter takes in a cycle [kllm §IV-B]
LARGEST = 0x7BFF  #: word of the largest finite value

Number = float | Fraction


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "count" (16 positions), "mean", "square", each with "_sparse", "root", "fold"
    index: int  #: number of the event in its operation, -1 for the reset
    q: Any  #: indices; a tuple of lanes, an int where a port has one lane, here and below
    mask: Any
    x: Any  #: words; read where `mask` is 1
    scale: int  #: word
    centroids: tuple[int, ...]
    squares: tuple[int, ...]
    weights: tuple[int, ...]
    rms: int  #: word of the divisor: root mean square, or standard deviation
    mean: int  #: word
    folded: int  #: word of r16(r32(scale / rms))
    divided: tuple[int, ...]  #: words of r16(r32(weights / rms))
    shift: int  #: word of r16(r32(mean / rms))
    overflow: int
    count: tuple[int, ...]
    dense: Number  #: the sum over centroids on its way
    moments: tuple[float, ...]  #: mean and mean square, as far as known
    indices: int  #: inliers counted
    macs: int
    divides: int  #: those of the fold; by N and the roots belong to the Functional Unit


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, per vector: float arrays from `run`, words between the ports. None where there is none."""

    rms: np.ndarray  #: what divides: float32, float64 where sums are exact
    mean: np.ndarray | None  #: LayerNorm's, dtype of rms
    folded: np.ndarray | None  #: float16: scale of the dense path; None where the accumulator is exact
    divided: np.ndarray | None  #: float16 (..., 2**w): centroids of the weights for the sparse path, if they were given
    shift: np.ndarray | None  #: float16: LayerNorm's mean over deviation
    overflow: np.ndarray  #: bool: a word of the fold is infinite
    indices: int
    macs: int
    divides: int


class IndexNorm(Stepped):
    """One vector of n indices an operation."""

    name = "index_norm"

    def __init__(
        self,
        n: int,
        bits: int = 4,
        weight_bits: int = 4,
        norm: str = "rms",
        eps: float = 0.0,
        preset: str | KllmArith = "paper",
    ) -> None:
        """n: values of a vector. bits, weight_bits: of an index, of one of the weights. norm: "rms" or "layer"."""
        require_int(n, 1, 1 << 24, self.name, "n")
        require_int(bits, 1, 8, self.name, "bits")
        require_int(weight_bits, 1, 4, self.name, "weight_bits")
        self.n, self.bits, self.weight_bits, self.eps, self.preset = n, bits, weight_bits, require_eps(eps), preset
        self.norm, self.arith = require_choice(norm, NORMS, self.name, "norm"), KllmArith.preset(preset)
        config = {"n": n, "bits": bits, "weight_bits": weight_bits, "norm": norm, "preset": preset}
        self.ports, self._round = ports(config), rounder(self.arith.stat)
        sums = [*(["mean", "mean_sparse"] if norm == "layer" else []), "square", "square_sparse"]
        self.events = ["count"] * -(-n // INPUTS) + sums + ["root"] + ["fold"] * folds(self.arith)
        zeros, table, divided = lanes((0,) * n), (0,) * (1 << bits), (0,) * (1 << weight_bits)
        self.state = State(
            "reset", -1, zeros, zeros, zeros, 1, table, table, divided, 0, 0, 0, divided, 0, 0, table, 0.0, (), 0, 0, 0
        )

    @property
    def busy(self) -> bool:
        """Whether events of the vector are left."""
        return 0 <= self.state.index < len(self.events) - 1

    def step(self, *inputs: Any) -> State:
        """With inputs, one per input port: the first event of a vector. Without: the next one.

        Refused, and nothing changes: inputs while a vector is on its way, none while there is none, a divisor of 0.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: {self.state.event} was the last event" if self.busy else "the inputs of a vector"
            raise Refused(f"{self.name}: step takes {wanted}")
        before = self.state
        if inputs:
            words = dict(zip((port.name for port in self.ports.inputs), self.accept(*inputs), strict=True))
            before = replace(
                before,
                index=-1,
                rms=0,
                mean=0,
                folded=0,
                divided=(0,) * len(before.divided),
                shift=0,
                overflow=0,
                count=(0,) * len(before.count),
                dense=0.0,
                moments=(),
                **words,
            )
        index = before.index + 1
        event = self.events[index]
        work = {"count": self._count, "root": self._root, "fold": self._fold}
        with np.errstate(all="ignore"):  # sums in fp16 may overflow
            after = work.get(event, self._moment)(before)
        self.state = replace(after, event=event, index=index)
        return self.state

    def _count(self, before: State) -> State:
        """Masked positions are invalid, they are not index 0."""
        low = (before.index + 1) * INPUTS
        count, counted = list(before.count), 0
        for q, outlier in zip(
            fields(before.q)[low : low + INPUTS], fields(before.mask)[low : low + INPUTS], strict=True
        ):
            count[q] += 1 - outlier
            counted += 1 - outlier
        return replace(before, count=tuple(count), indices=before.indices + counted)

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
        return replace(before, dense=total, macs=before.macs + len(table))

    def _closed(self, before: State, power: int) -> State:
        apart, macs = self._zero, 0
        for word, outlier in zip(fields(before.x), fields(before.mask), strict=True):
            if outlier:
                value = self._number(float(fp16.values(word)))
                apart, macs = self._round(apart + self._round(value if power == 1 else value * value)), macs + 1
        scale = self._number(float(fp16.values(before.scale)))
        whole = self._round((scale if power == 1 else scale * scale) * before.dense)  # the square itself is exact
        moment = float(self._round(self._round(whole + apart) / self.n))
        return replace(before, moments=(*before.moments, moment), dense=0.0, macs=before.macs + macs)

    @property
    def _zero(self) -> Number:
        return self._number(0)

    def _number(self, x: float) -> Number:
        return Fraction(x) if self.arith.stat == "exact" else float(x)

    def _root(self, before: State) -> State:
        """sqrt(mean square + eps), or of the variance; each operation rounded."""
        rnd, square, mean = self._round, before.moments[-1], 0.0
        if self.norm == "layer":
            mean = before.moments[0]
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
        words = fp16.bits(fp16.narrow(quotient32(values, divisor))).tolist()
        shift = 0
        if self.norm == "layer":
            mean = np.array(_value(before.mean, self.arith))
            shift = int(fp16.bits(fp16.narrow(quotient32(mean, divisor))))
        overflow = int(any(word & 0x7FFF == 0x7C00 for word in (*words, shift)))
        return replace(
            before,
            folded=words[0],
            divided=tuple(words[1:]),
            shift=shift,
            overflow=overflow,
            divides=before.divides + len(words) + (self.norm == "layer"),
        )

    def steps(self, **words: Any) -> Iterator[State]:
        """Yield the State after every event of every vector, in C order; one array of words per input port.

        Refused: a divisor of 0, with the index of its vector.
        """
        names = [port.name for port in self.ports.inputs]
        arrays = admit(self.name, self.ports.inputs, [words[name] for name in names])
        vectors, done = arrays[names.index("scale")].shape, 0
        try:
            for state in self.operations(arrays):
                done += state.index == len(self.events) - 1
                yield state
        except NoDivisor as refusal:
            raise NoDivisor(refusal.value, tuple(map(int, np.unravel_index(done, vectors)))) from None

    def __repr__(self) -> str:
        return (
            f"IndexNorm(n={self.n}, bits={self.bits}, weight_bits={self.weight_bits}, norm={self.norm!r}, "
            f"eps={self.eps!r}, preset={self.preset!r})"
        )


def require_eps(eps: Any) -> float:
    """`eps` as a float, finite and not negative."""
    value = float(eps)
    if not 0 <= value < float("inf"):
        raise Refused(f"index_norm: eps must be finite and not negative, got {eps!r}")
    return value


def _entries(words: tuple[int, ...], table: str) -> list[float]:
    kind, word = (np.float16, np.uint16) if table == "fp16" else (np.float32, np.uint32)
    return [float(value) for value in np.array(words, word).view(kind)]


def _word(value: float, arith: KllmArith) -> int:
    return int(np.float64(value).view(np.uint64) if width(arith) == 64 else np.float32(value).view(np.uint32))


def _value(word: int, arith: KllmArith) -> float:
    bits = np.uint64(word) if width(arith) == 64 else np.uint32(word)
    return float(bits.view(np.float64 if width(arith) == 64 else np.float32))


def run(
    a: KMeansTensor,
    *,
    norm: str = "rms",
    eps: float = 0.0,
    preset: str | KllmArith = "paper",
    weights: Codebook | None = None,
) -> Result:
    """What divides the outputs of the matmul of every vector of `a`, from its counts.

    a: fp16 scales, one codebook of fp16 centroids, no zero points; its values are those before the norm. norm: "rms" or
    "layer" (then rms is the standard deviation, and there are mean and shift). eps: added to the mean square. weights:
    codebook of a weight matrix, divided for the sparse path. Returns the Result, arrays of the shape of a's vectors.
    Refused: a divisor of 0, vectors without values. Paper: [kllm §III-C2].
    """
    require_normed(a)
    bits = weights.bits if weights is not None else 1
    device = IndexNorm(a.length, a.bits, bits, norm, eps, preset)
    table = Codebook(1, np.zeros(2)) if weights is None else weights
    marked = a.rows(a.mask)
    x = np.zeros(marked.shape, np.uint16)
    x[marked] = a.outlier
    shape = (*a.vectors, a.length) if a.length > 1 else a.vectors  # of ports of that many lanes
    given = {
        "q": a.rows().reshape(shape),
        "mask": marked.astype(np.uint8).reshape(shape),
        "x": x.reshape(shape),
        "scale": a.scale,
        "centroids": a.codebook.values,
        "weights": table.values,
        "squares": squares(a.codebook, device.arith.table).values,
    }
    words = {port.name: given[port.name] for port in device.ports.inputs}
    return as_floats(_collected(device, words, a.vectors), device.arith, a.vectors, weights)


def as_floats(answer: Result, arith: KllmArith, shape: tuple[int, ...], weights: Codebook | None) -> Result:
    """Words of one vector after another as floats of `shape`; without weights nothing of theirs."""
    wide = np.float64 if width(arith) == 64 else np.float32
    views: dict[str, Any] = {"rms": answer.rms.view(wide).reshape(shape), "overflow": answer.overflow.reshape(shape)}
    for name, dtype in (("mean", wide), ("folded", np.float16), ("shift", np.float16)):
        words = getattr(answer, name)
        views[name] = None if words is None else words.view(dtype).reshape(shape)
    if weights is None:
        rows = answer.rms.size * 2 if answer.divided is not None else 0
        return replace(answer, **views, divided=None, divides=answer.divides - rows)
    divided = None if answer.divided is None else answer.divided.view(np.float16).reshape(*shape, -1)
    return replace(answer, **views, divided=divided)


def _collected(device: IndexNorm, words: Mapping[str, Any], shape: tuple[int, ...]) -> Result:
    states = [state for state in device.steps(**words) if state.index == len(device.events) - 1]
    outputs: dict[str, Any] = dict.fromkeys(("mean", "folded", "divided", "shift"))
    outputs.update(collect(states, device.ports.outputs, shape))
    last = device.state
    overflow = outputs.pop("overflow", np.zeros(shape, np.bool_))
    return Result(**outputs, overflow=overflow, indices=last.indices, macs=last.macs, divides=last.divides)


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
    """Vectors between the ports: one array of words per input port, broadcast beside their lanes."""
    device = IndexNorm(n, bits, weight_bits, norm, eps, preset)
    arrays = admit(device.name, device.ports.inputs, [words[port.name] for port in device.ports.inputs])
    given = dict(zip((port.name for port in device.ports.inputs), arrays, strict=True))
    return _collected(device, given, given["scale"].shape)


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
    return Ports(inputs=tuple(inputs), outputs=tuple(outputs))


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see index_norm_cases.py."""
    return index_norm_cases.cases(config, ports(config).inputs, kind, seed)


SIZE = {"n": 40, "bits": 4, "eps": 1e-5}  #: of the ready configurations: two cycles of the counter and a half

UNIT = Unit(
    name="index_norm",
    paper="kllm §III-C2, Eq. (3), Fig. 4",
    meaning="RMSNorm and LayerNorm from counts of indices",
    configs={
        "rms": Config(**SIZE, weight_bits=4, norm="rms", preset="paper"),
        "layer": Config(**SIZE, weight_bits=3, norm="layer", preset="paper"),
        "layer_exact": Config(**SIZE, weight_bits=4, norm="layer", preset="exact"),
    },
    ports=ports,
    run=run_ports,
    twin="refemu.units.index_norm_jit:run_ports",
    unit_class=IndexNorm,
    cases=cases,
    mark=index_norm_cases.mark,
    flags={"OVERFLOW": Flag(0, "a divided scale, centroid or mean is beyond fp16")},
)
