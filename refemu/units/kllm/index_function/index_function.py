"""A function of a K-Means tensor: the indices stay, a table of function values replaces the codebook.

Paper: [kllm §III-C1, Eq. (2)].
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, first_index, lookup, require_choice
from refemu.arith.tables import SHA256, FunctionName, table16
from refemu.formats import Codebook, KMeansTensor
from refemu.units import Changes, Combinational, Config, Port, Ports, RunFunction, Unit, constant, decides, stepping
from refemu.units.declaration import DeclaredState, ports_of
from refemu.units.ports import Lanes, put

__all__ = ["UNIT", "Evaluation", "Function", "IndexFunction", "Mode", "Result", "State", "apply", "relu", "run"]

#: Table of a function: per token, from one static scale, or of the centroids as they are (D-kllm-17)
Mode = Literal["token", "offline", "literal"]
#: A name of `arith.tables` or "relu"; or uint16 (65536,), entry u the fp16 word of f at word u
Function: TypeAlias = FunctionName | Literal["relu"] | np.ndarray

ONE, LARGEST = 0x3C00, 0x7BFF  #: words: 1; the largest finite value


@dataclass(frozen=True, eq=False)
class Result(stepping.Result):
    """Outputs of a run, in words."""

    entries: np.ndarray  #: entries of the table, uint16 (..., 2**n)
    value: np.ndarray | None = None  #: uint16: the function of every outlier; None where a vector has none
    evaluations: int = 0  #: 2**n per row of the table, and one per outlier


@dataclass(frozen=True, eq=False)
class Evaluation(stepping.Result):
    """A function of a whole tensor."""

    entries: np.ndarray  #: entries of the table, uint16 (..., 2**n): one row per vector, or one for all
    value: np.ndarray  #: uint16: the function of every outlier, in the tensor's order
    evaluations: int  #: 2**n per row of the table, and one per outlier
    tensor: KMeansTensor  #: same indices, the table as codebook, scale 1


@cache
def relu() -> np.ndarray:
    """Tabulate ReLU: x if x > 0, else +0, NaN included; uint16 (65536,), by fp16 word. [kllm §III-C1]"""
    words = np.arange(1 << 16).astype(np.uint16)
    return np.where(fp16.values(words) > 0, words, np.uint16(0))


def function_words(function: Function) -> tuple[str, np.ndarray]:
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


def named(function: Function) -> str:
    """A hashable name of the function, also for a table: parameters are keys of the cache of ports."""
    if isinstance(function, str):
        return function
    function_words(function)
    return "relu"


class IndexFunction(Combinational):
    """Function unit: one event evaluates a function at a centroid of one vector, then at an outlier."""

    name = "index_function"
    events: ClassVar[tuple[str, ...]] = ("centroid", "outlier")
    counters: ClassVar[dict[str, str]] = {"evaluations": "evaluations of the function, at centroids and at outliers"}
    registers: ClassVar[dict[str, str]] = {
        "phase": "number of the last evaluation in its operation: at the centroids, then at the outliers"
    }
    function: Function = "silu"  #: a name of `arith.tables`, "relu", or a table of fp16 words, uint16 (65536,)
    bits: Annotated[int, 1, 8] = 4  #: width of an index, 1 to 8
    outliers: Annotated[int, 0, 1 << 22] = 2  #: number of outliers, 0 to 2**22
    mode: Mode = "token"  #: "token" and "offline" evaluate f(r16(s * c)), "literal" r16(s * f(c)) (D-kllm-17)

    def __post_init__(self) -> None:
        values, function = vars(self), self.function
        values["function"] = named(function)
        super().__post_init__()
        if not isinstance(function, str):
            values["function"] = function

    def check(self) -> None:
        function_words(self.function)

    @constant
    def words(self) -> np.ndarray:
        """The function's table."""
        return function_words(self.function)[1]

    @constant
    def ports(self) -> Ports:
        n, m = 1 << self.bits, self.outliers
        apart = [Port("outlier", 16, m, encoding="f16", meaning="values in fp16")] if m else []
        values = [Port("value", 16, m, encoding="f16", meaning="the function of the outliers")] if m else []
        return Ports(
            inputs=(
                Port("codebook", 16, n, encoding="f16", meaning="normalized centroids"),
                Port("scale", 16, encoding="f16", meaning="scale of the vector", least=1, most=LARGEST),
                *apart,
            ),
            outputs=(Port("entries", 16, n, encoding="f16", meaning="the function of the centroids"), *values),
        )

    @constant
    def initial(self) -> Mapping[str, Any]:
        """Values of optional ports: no outliers."""
        none = (0,) * self.outliers
        return {"scale": ONE, "outlier": none, "entries": (0,) * (1 << self.bits), "value": none}

    @constant
    def last(self) -> int:
        """Number of the last evaluation of an operation."""
        return (1 << self.bits) + self.outliers - 1

    @property
    def busy(self) -> bool:
        """Whether evaluations remain."""
        return self.state.event != "reset" and self.state.phase < self.last

    def follows(self) -> str:
        return "centroid" if self.state.phase + 1 < 1 << self.bits else "outlier"

    def centroid(self, *inputs: int | Lanes) -> Changes:
        """Compute the table entry of one centroid."""
        before = self.state
        operands: Any = inputs[:2] or (before.codebook, before.scale)
        codebook, scale = operands
        i, entries, value = before.phase + 1, before.entries, before.value
        if inputs:
            i, entries, value = 0, self.initial["entries"], self.initial["value"]
        word = self._finite(self.at_centroid(fp16.values(codebook[i]), fp16.values(scale)), f"centroid {i}")
        return {"phase": i, "entries": put(entries, i, word), "value": value, "evaluations": 1}

    @decides("D-kllm-17")
    def at_centroid(self, centroid: np.ndarray, scale: np.ndarray) -> int:
        """Word of the entry of one centroid; a zero is always +0."""
        if self.mode == "literal":
            value = fp16.mul16(scale, fp16.values(self.words[centroid.view(np.uint16)]))
            word = int(fp16.bits(fp16.narrow(value)))
        else:
            word = int(self.words[fp16.bits(fp16.narrow(fp16.mul16(scale, centroid)))])
        return 0 if word == 0x8000 else word

    def outlier(self) -> Changes:
        """Compute the function of one outlier."""
        before = self.state
        phase = before.phase + 1
        i = phase - (1 << self.bits)
        word = self._finite(int(self.words[before.outlier[i]]), f"outlier {i}")
        return {"phase": phase, "value": put(before.value, i, word), "evaluations": 1}

    def _finite(self, word: int, where: str) -> int:
        """A word of the function; raises for NaN or infinity."""
        if word & 0x7C00 == 0x7C00:
            raise Refused(f"{self.name}: {self.title} must be finite, got {fp16.values(word)!s} at {where}")
        return word

    @property
    def title(self) -> str:
        """The name of the function, "table" if it has none."""
        return self.function if isinstance(self.function, str) else "table"


def require_input(tensor: Any, mode: Mode, scale: float | None) -> np.ndarray:
    """Words of the scales that the tables are made from: one per vector, or a single one."""
    if not isinstance(tensor, KMeansTensor):
        raise RefusedType(f"index_function: tensor must be a KMeansTensor, got {type(tensor).__name__}")
    if tensor.zero is not None or tensor.scale.dtype != np.uint16 or tensor.codebook.entry_bits != 16:
        raise Refused("index_function: the tensor must have fp16 scales and centroids and no zero points")
    require_choice(mode, get_args(Mode), "index_function", "mode")
    if (scale is None) == (mode == "offline"):
        raise Refused(f'index_function: scale must be given with mode="offline", and only there, got {scale!r}')
    if scale is None:
        return tensor.scale
    word = np.asarray(scale, np.float16).view(np.uint16)
    if word.ndim or not 1 <= int(word) <= LARGEST or float(scale) != float(word.view(np.float16)):
        raise Refused(f"index_function: scale must be one positive fp16 value, got {scale!r}")
    return word


def apply(
    tensor: KMeansTensor,
    function: Function,
    *,
    mode: Mode = "token",
    scale: float | None = None,
    vectors: RunFunction[Result] | None = None,
) -> Evaluation:
    """Apply a function to every value of a tensor, by one evaluation per centroid and outlier. [kllm §III-C1]

    Mode "token" makes a table per vector, f(r16(s * c)); "offline" one table from the static `scale`; "literal" r16(s *
    f(c)). tensor: without zero points, of fp16 scales and centroids. function: a name of `arith.tables`, "relu", or
    uint16 (65536,) of fp16 words. scale: positive fp16 value, for "offline" alone. vectors: `run`, or that of the
    compiled form. Raises Refused for an unknown function, a value that is NaN or infinite, or operands that do not
    match.
    """
    scales = np.asarray(require_input(tensor, mode, scale)).reshape(-1)
    codebooks = tensor.codebook.values.reshape(-1, 1 << tensor.bits)
    rows = max(codebooks.shape[0], scales.size)
    device = IndexFunction(function, tensor.bits, 0, mode)
    answer = (vectors or run)(
        np.broadcast_to(codebooks, (rows, codebooks.shape[-1])),
        np.broadcast_to(scales, (rows,)),
        function=function,
        bits=tensor.bits,
        outliers=0,
        mode=mode,
    )
    values = device.words[tensor.outlier]
    require_finite(device, values, "outlier")
    counted = (1 << tensor.bits if mode == "literal" else answer.evaluations) + int(tensor.outlier.size)
    several = answer.entries.size > 1 << tensor.bits or tensor.codebook.values.ndim > 1
    shape = (*tensor.vectors, codebooks.shape[-1]) if several else codebooks.shape[-1:]
    codebook = Codebook(tensor.bits, answer.entries.reshape(shape))
    ones = np.full(tensor.scale.shape, ONE, np.uint16)
    table = KMeansTensor(codebook, tensor.index, ones, tensor.mask, values, tensor.axis)
    return Evaluation(codebook.values, values, counted, table)


def require_finite(device: IndexFunction, words: np.ndarray, where: str) -> None:
    """Reject NaN and infinity among words of the function, (..., places)."""
    bad = words & 0x7C00 == 0x7C00
    if bad.any():
        place = first_index(bad)
        value = fp16.values(words)[place]
        raise Refused(f"{device.name}: {device.title} must be finite, got {value!s} at {where} {place[-1]}")


UNIT: Unit[DeclaredState, Result] = Unit(
    unit_class=IndexFunction,
    paper="kllm §III-C1, Eq. (2)",
    meaning="a function of the centroids replaces the codebook",
    configs={
        "silu": Config(function="silu", bits=4, outliers=2, mode="token"),
        "silu_literal": Config(function="silu", bits=4, outliers=2, mode="literal"),
        "gelu_tanh3": Config(function="gelu_tanh", bits=3, outliers=2, mode="token"),
        "relu": Config(function="relu", bits=4, outliers=2, mode="token"),
    },
    ports=lambda config: ports_of(IndexFunction, {**config, "function": named(config.get("function", "silu"))}),
    result=Result,
)
State: type[DeclaredState] = IndexFunction.State
run: RunFunction[Result] = UNIT.run
