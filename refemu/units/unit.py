"""What every unit states about itself: ports, configurations, cases, and the shapes of states and results.

The vector writer, the hex export, `refemu list`, `refemu step` and the test strategies read these descriptors only.
"""

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from refemu.arith.checks import Refused

KINDS = ("paper", "edge", "random", "exhaustive", "model")  #: of golden cases


@dataclass(frozen=True)
class Port:
    """One port or register: `lanes` fields of `bits` bits, lane 0 first (in the least significant bits of a word)."""

    name: str  #: lower case; no keyword of Verilog, SystemVerilog or C
    bits: int  #: of one lane, 1 to 64
    lanes: int = 1
    signed: bool = False  #: two's complement in `bits` bits
    encoding: str = ""  #: what a field means: "uint", "int", "f16", "f32" or the name of a format; "" = by `signed`
    meaning: str = ""  #: one line for people

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 64 or self.lanes < 1:
            raise Refused(f"Port {self.name}: bits must be in [1, 64] and lanes at least 1, got {self.bits}, {self.lanes}")

    @property
    def kind(self) -> str:
        """The encoding, spelled out."""
        return self.encoding or ("int" if self.signed else "uint")


@dataclass(frozen=True)
class Ports:
    """Ports of a unit in one configuration, in the order of the packed words (first port lowest)."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    state: tuple[Port, ...] = ()  #: registers after the event that are exported as `st.<name>`


class Config(Mapping[str, Any]):
    """Parameters of a unit by keyword, frozen: `Config(normal="int4", outlier=(2, 1))`."""

    def __init__(self, **parameters: Any) -> None:
        self._parameters = dict(sorted(parameters.items()))

    def __getitem__(self, name: str) -> Any:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __hash__(self) -> int:
        return hash(tuple(self._parameters.items()))

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self._parameters.items())})"


@dataclass(frozen=True)
class Flag:
    """One bit of a row's flags and why such rows exist."""

    bit: int
    why: str


@dataclass(frozen=True, eq=False)
class Cases:
    """A block of golden cases of one kind that share a reason.

    inputs: one array per input port. Combinational units: (cases,) + lanes. Event units: (cases, rows) + lanes, each
    case starting from reset. A port of one lane has no lane axis. Values lie in the port's range.
    """

    kind: str  #: one of KINDS
    why: str  #: one line: why these cases exist
    inputs: Mapping[str, np.ndarray]
    decision: str = ""  #: id of the decision that the answer follows, if it does
    source: Mapping[str, Any] = field(default_factory=dict)  #: for model cases: layer, tensor, tokens, ...
    config: str = ""  #: for model cases: name of the configuration in the unit's `configs`


@dataclass(frozen=True, eq=False)
class Result:
    """Base of every `run` result: outputs as arrays, counters as int, all compared by `equals`."""

    def equals(self, other: object) -> bool:
        """Equal type, and every field equal in dtype, shape and content."""
        if type(self) is not type(other):
            return False
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and bool(a == b)


@dataclass(frozen=True)
class Unit:
    """Descriptor of a hardware block; the last statement of its module is `UNIT = Unit(...)`."""

    name: str
    paper: str  #: "olive §4.2, Fig. 6b"
    meaning: str  #: one line for people
    configs: Mapping[str, Config]  #: ready configurations; each is a golden set of its own
    ports: Callable[[Config], Ports]
    run: Callable[..., Any]  #: run(**inputs, **config) -> Result whose fields are named as the output and state ports
    twin: str  #: "module:function" of the compiled twin, imported on first use
    unit_class: type  #: unit_class(**config).steps(**inputs) yields States
    cases: Callable[[Config, str, int], Iterable[Cases]]  #: cases(config, kind, seed); "model" comes from taps
    timing: str = "combinational"  #: or "event": rows of a case are consecutive steps from reset
    version: int = 1  #: +1 whenever some input gives another output
    flags: Mapping[str, Flag] = field(default_factory=dict)
    mark: Callable[..., Mapping[str, np.ndarray]] | None = None  #: mark(config, inputs, result) -> flag -> bool (rows,)
    care: Callable[..., Mapping[str, np.ndarray]] | None = None  #: care(config, inputs, result) -> "out.x" -> mask

    @cached_property
    def run_jit(self) -> Callable[..., Any]:
        """The compiled twin: same arguments, same Result. Imports numba."""
        module, function = self.twin.split(":")
        return getattr(importlib.import_module(module), function)
