"""A function of a K-Means tensor: the indices stay, a table of function values takes the place of the codebook.

Paper: [kllm §III-C1, Eq. (2)]. Decision: D-kllm-17: the paper makes the table offline and leaves scales out; that holds
only where f(s x) = s f(x); so a token has a table of its own, made from its scale.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, lookup, require_choice, require_int
from refemu.arith.tables import SHA256, table16
from refemu.formats.codebook import Codebook
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.units import index_function_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, collect, fields, lanes
from refemu.units.unit_cases import Seeds

MODES = ("token", "offline", "literal")
ONE, LARGEST = 0x3C00, 0x7BFF  #: words: 1; the largest finite value


@dataclass(frozen=True)
class State:
    """Ports and registers after one evaluation, and what happened since reset."""

    event: str  #: "reset", "centroid" or "outlier"
    index: int  #: number of the evaluation in its operation, -1 for the reset
    codebook: Any  #: words; a tuple of lanes, an int where a port has one lane, here and below
    scale: int
    outlier: Any
    entries: Any  #: of the table; 0 where an evaluation is still to come
    value: Any
    evaluations: int


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, in words; from `run` the tensor too, which holds both."""

    entries: np.ndarray  #: of the table, uint16 (..., 2**n): one row per vector, or one for all
    value: np.ndarray  #: uint16: the function of every outlier, in the tensor's order
    evaluations: int  #: 2**n per row of the table, and one per outlier
    tensor: KMeansTensor | None = None  #: same indices, the table as codebook, scale 1; None between the ports


@cache
def relu() -> np.ndarray:
    """The table of x if x > 0, else +0 (NaN too)."""
    words = np.arange(1 << 16).astype(np.uint16)
    return np.where(fp16.values(words) > 0, words, np.uint16(0))


def function_words(function: Any) -> tuple[str, np.ndarray]:
    """Name and table, uint16 (65536,), of a function given by name or as a table of fp16 words for all fp16 words."""
    if isinstance(function, str):
        known = lookup("function", function, {name: name for name in (*SHA256, "relu")})
        return known, relu() if known == "relu" else table16(known)
    words = np.asarray(function)
    if words.shape != (1 << 16,) or words.dtype != np.uint16:
        raise RefusedType(
            f"index_function: function must be a name or uint16 (65536,), got {words.dtype} of shape {words.shape}"
        )
    return "table", words


class IndexFunction(Stepped):
    """Evaluates a function at the centroids of one vector, then at its outliers; one event an evaluation."""

    name = "index_function"

    def __init__(self, function: Any = "silu", bits: int = 4, outliers: int = 2, mode: str = "token") -> None:
        """function: a name, or a table. bits: of an index. outliers: how many. mode: "token" and "offline" take
        f(r16(s * c)), "literal" r16(s * f(c)).
        """
        self.function, self.words = function, function_words(function)[1]
        require_int(bits, 1, 8, self.name, "bits")
        require_int(outliers, 0, 1 << 22, self.name, "outliers")
        self.bits, self.outliers, self.mode = bits, outliers, require_choice(mode, MODES, self.name, "mode")
        self.ports = ports({"bits": bits, "outliers": outliers})
        centroids, none = (0,) * (1 << bits), lanes((0,) * outliers) if outliers else ()
        self.state = State("reset", -1, centroids, ONE, none, centroids, none, 0)

    @property
    def last(self) -> int:
        """Number of the last evaluation of an operation."""
        return (1 << self.bits) + self.outliers - 1

    @property
    def busy(self) -> bool:
        """Whether evaluations are left."""
        return 0 <= self.state.index < self.last

    def step(self, *inputs: Any) -> State:
        """With inputs (codebook, scale, outlier), or without the last if there are none: the first evaluation.
        Without inputs: the next one. Refused, and nothing changes: a function value that is NaN or infinite.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: evaluation {self.state.index} came last" if self.busy else "the inputs of a vector"
            raise Refused(f"{self.name}: step takes {wanted}")
        before = self.state
        if inputs:
            words = dict(zip((port.name for port in self.ports.inputs), self.accept(*inputs), strict=True))
            none = lanes((0,) * self.outliers) if self.outliers else ()
            before = replace(before, index=-1, entries=(0,) * (1 << self.bits), value=none, **words)
        index = before.index + 1
        after = self._centroid(before, index) if index < 1 << self.bits else self._outlier(before, index)
        self.state = replace(after, index=index, evaluations=before.evaluations + 1)
        return self.state

    def _centroid(self, before: State, i: int) -> State:
        centroid, scale = fp16.values(before.codebook[i]), fp16.values(before.scale)
        word = self.at_centroid(centroid, scale)
        if word & 0x7C00 == 0x7C00:
            raise Refused(f"{self.name}: {self._told} is {fp16.values(word)!s} at centroid {i}")
        return replace(before, event="centroid", entries=(*before.entries[:i], word, *before.entries[i + 1 :]))

    def at_centroid(self, centroid: np.ndarray, scale: np.ndarray) -> int:
        """The entry of one centroid, a zero always +0 (D-kllm-17)."""
        if self.mode == "literal":
            value = fp16.mul16(scale, fp16.values(self.words[centroid.view(np.uint16)]))
            word = int(fp16.bits(fp16.narrow(value)))
        else:
            word = int(self.words[fp16.bits(fp16.narrow(fp16.mul16(scale, centroid)))])
        return 0 if word == 0x8000 else word

    def _outlier(self, before: State, index: int) -> State:
        place = index - (1 << self.bits)
        word = int(self.words[fields(before.outlier)[place]])
        if word & 0x7C00 == 0x7C00:
            raise Refused(f"{self.name}: {self._told} is {fp16.values(word)!s} at outlier {place}")
        value = list(fields(before.value))
        value[place] = word
        return replace(before, event="outlier", value=lanes(value))

    @property
    def _told(self) -> str:
        return self.function if isinstance(self.function, str) else "table"

    def steps(self, codebook: Any, scale: Any, outlier: Any = None) -> Iterator[State]:
        """Yield the State after every evaluation of every vector, in C order; arguments broadcast, lanes apart."""
        given = (codebook, scale, outlier)[: len(self.ports.inputs)]
        yield from self.operations(admit(self.name, self.ports.inputs, given))

    def __repr__(self) -> str:
        return (
            f"IndexFunction(function={self.function!r}, bits={self.bits}, outliers={self.outliers}, mode={self.mode!r})"
        )


def require_input(tensor: Any, mode: str, scale: Any) -> np.ndarray | None:
    """Words of the scales that the tables are made from: one per vector, or a single one; None for functions of c."""
    if not isinstance(tensor, KMeansTensor):
        raise RefusedType(f"index_function: a KMeansTensor is needed, got {type(tensor).__name__}")
    if tensor.zero is not None or tensor.scale.dtype != np.uint16 or tensor.codebook.entry_bits != 16:
        raise Refused("index_function: the tensor must have fp16 scales and centroids and no zero points")
    require_choice(mode, MODES, "index_function", "mode")
    if (scale is None) == (mode == "offline"):
        raise Refused(f'index_function: mode="offline" takes the static scale of the layer, others none, got {scale!r}')
    if mode != "offline":
        return tensor.scale
    word = np.asarray(scale, np.float16).view(np.uint16)
    if word.ndim or not 1 <= int(word) <= LARGEST or float(scale) != float(word.view(np.float16)):
        raise Refused(f"index_function: scale must be one positive fp16 value, got {scale!r}")
    return word


def run(tensor: KMeansTensor, function: Any, *, mode: str = "token", scale: Any = None) -> Result:
    """`function` of every value of `tensor`, by one evaluation per centroid and outlier.

    tensor: without zero points. function: a name of `arith.tables`, "relu", or uint16 (65536,), entry u the fp16 word
    of f at word u. mode: "token", a table per vector, f(r16(s * c)); "offline", one table from the static `scale`;
    "literal", r16(s * f(c)). Returns the Result, whose tensor has scale 1 and f(x) at outliers. Refused: an unknown
    function, a value that is NaN or infinite. Paper: [kllm §III-C1].
    """
    scales = require_input(tensor, mode, scale)
    codebooks = tensor.codebook.values.reshape(-1, 1 << tensor.bits)
    rows = max(codebooks.shape[0], 1 if scales is None else scales.size)
    device = IndexFunction(function, tensor.bits, 0, mode)
    states = [
        state
        for state in device.steps(
            np.broadcast_to(codebooks, (rows, codebooks.shape[-1])),
            np.broadcast_to(np.asarray(scales).reshape(-1), (rows,)),
        )
        if state.index == device.last
    ]
    tables = np.array([state.entries for state in states], np.uint16)
    values = _of_outliers(device, tensor.outlier)
    return result(tensor, tables, values, evaluations(device.state.evaluations, mode, tensor))


def evaluations(counted: int, mode: str, tensor: KMeansTensor) -> int:
    """A literal table is made once, offline; the scales come after it."""
    return (1 << tensor.bits if mode == "literal" else counted) + int(tensor.outlier.size)


def _of_outliers(device: IndexFunction, words: np.ndarray) -> np.ndarray:
    values = device.words[words]
    for place, word in enumerate(values.tolist()):
        if word & 0x7C00 == 0x7C00:
            raise Refused(f"{device.name}: {device._told} is {fp16.values(word)!s} at outlier {place}")
    return values


def result(tensor: KMeansTensor, tables: np.ndarray, values: np.ndarray, counted: int) -> Result:
    """The Result for tables of one row, or one row per vector."""
    several = tables.size > 1 << tensor.bits or tensor.codebook.values.ndim > 1
    shape = (*tensor.vectors, tables.shape[-1]) if several else (tables.shape[-1],)
    codebook = Codebook(tensor.bits, tables.reshape(shape))
    ones = np.full(tensor.scale.shape, ONE, np.uint16)
    answer = KMeansTensor(codebook, tensor.index, ones, tensor.mask, values, tensor.axis)
    return Result(codebook.values, values, counted, answer)


def run_ports(
    codebook: Any,
    scale: Any,
    outlier: Any = None,
    *,
    function: Any = "silu",
    bits: int = 4,
    outliers: int = 2,
    mode: str = "token",
) -> Result:
    """Tables and outliers of vectors between the ports: codebook (..., 2**bits), scale (...), outlier words."""
    device = IndexFunction(function, bits, outliers, mode)
    given = (codebook, scale, outlier)[: len(device.ports.inputs)]
    arrays = admit(device.name, device.ports.inputs, given)
    states = [state for state in device.steps(*arrays) if state.index == device.last]
    outputs = {
        "value": np.zeros((*arrays[1].shape, 0), np.uint16),
        **collect(states, device.ports.outputs, arrays[1].shape),
    }
    return Result(outputs["entries"], outputs["value"], device.state.evaluations)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    n, m = 1 << config["bits"], config["outliers"]
    apart = [Port("outlier", 16, m, encoding="f16", meaning="values kept in fp16")] if m else []
    values = [Port("value", 16, m, encoding="f16", meaning="the function of the outliers")] if m else []
    return Ports(
        inputs=(
            Port("codebook", 16, n, encoding="f16", meaning="normalized centroids"),
            Port("scale", 16, encoding="f16", meaning="of the vector", least=1, most=LARGEST),
            *apart,
        ),
        outputs=(Port("entries", 16, n, encoding="f16", meaning="the function of the centroids"), *values),
    )


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Centroids of magnitude up to 1, as normalized ones are: s * c stays finite."""
    words = inputs["codebook"]
    magnitude = words & 0x7FFF
    return {**inputs, "codebook": np.where(magnitude > ONE, (words & 0x8000) | (magnitude % ONE), words)}


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see index_function_cases.py."""
    return index_function_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="index_function",
    paper="kllm §III-C1, Eq. (2)",
    meaning="a function of the centroids replaces the codebook",
    configs={
        "silu": Config(function="silu", bits=4, outliers=2, mode="token"),
        "silu_literal": Config(function="silu", bits=4, outliers=2, mode="literal"),
        "gelu_tanh3": Config(function="gelu_tanh", bits=3, outliers=2, mode="token"),
        "relu": Config(function="relu", bits=4, outliers=2, mode="token"),
    },
    ports=ports,
    run=run_ports,
    twin="refemu.units.index_function_jit:run_ports",
    unit_class=IndexFunction,
    cases=cases,
    legal=legal,
)
