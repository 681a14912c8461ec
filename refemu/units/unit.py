"""Descriptor of a unit: ports, configurations, cases, and the shapes of states and results.

The vector writer, the hex export, `refemu list`, `refemu step` and the test strategies read these descriptors only.
"""

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, wraps
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

import numpy as np

from refemu import plugins
from refemu.arith.checks import Refused, RefusedType
from refemu.units import docstrings, faults, parameters, state_text
from refemu.units.config import Config as Config
from refemu.units.declaration import Declared, Sequential, complete, ports_of
from refemu.units.declaration import DeclaredState as DeclaredState
from refemu.units.derivation import inputs_of, readable, result_type
from refemu.units.ports import Ports
from refemu.units.stepping import Result as Result
from refemu.units.stepping import Stepped
from refemu.units.variant import Variant as Variant
from refemu.units.variant import choices as choices

S = TypeVar("S")
R = TypeVar("R", bound=Result, covariant=True)
_DERIVED: Any = None  #: default of fields that `Unit` derives

#: kind of golden cases; "fault": rows that `generate --complete` adds
Kind: TypeAlias = Literal["paper", "edge", "random", "exhaustive", "model", "fault"]
KINDS: tuple[Kind, ...] = get_args(Kind)[:-1]  #: those that can be requested


@dataclass(frozen=True)
class Flag:
    """Bit of a row's flags."""

    bit: int  #: bit of the flags word
    why: str  #: reason for such rows
    output: str = ""  #: rows with a lane of this output that is not 0 have the flag; "": `mark` says which rows


@dataclass(frozen=True, eq=False)
class Cases:
    """Golden cases of one kind that share a reason."""

    kind: Kind  #: kind
    why: str  #: reason for these cases, one line
    #: one array per input port, in its range: (cases,) for a combinational unit, (cases, events) from reset for
    #: another, then lanes
    inputs: Mapping[str, np.ndarray]
    decision: str = ""  #: id of the decision that the outputs follow, if any
    #: for model cases: layer, tensor, tokens, ...; for those of kind "fault": ids of the faults
    source: Mapping[str, Any] = field(default_factory=dict)
    config: str = ""  #: for model cases: name of the configuration in the unit's `configs`


class RunFunction(Protocol[R]):
    """Type of a unit's `run`: any inputs and parameters; `units.find` knows those of each unit."""

    def __call__(self, *inputs: Any, **named: Any) -> R: ...


@dataclass(frozen=True, repr=False, kw_only=True)
class Unit(Generic[S, R]):
    """Descriptor of a hardware block; the last statements of its module are `UNIT = Unit(...)` and `run = UNIT.run`.

    A class that derives from `Combinational` or `Sequential` has name, ports and counters. Derived fields may be
    omitted: `run`, the Result, the place of the compiled form.
    """

    paper: str  #: "olive §4.2, Fig. 6b"
    meaning: str  #: one-line description
    configs: Mapping[str, Config]  #: ready configurations, each with its golden set
    unit_class: type[Stepped[S]]  #: unit_class(**config).steps(**inputs) yields States
    #: cases(config, kind, seed); "random" also takes a range of seeds, in turn; "model" comes from taps. By default,
    #: this one, `mark`, `care`, `legal` and `closes` are the functions of module `cases` next to the class, which may
    #: have instead of `cases` a function for each kind, `edge(config)` or `random(config, seed)`: it yields
    #: (why, inputs) or (why, inputs, decision)
    cases: Callable[[Config, Kind, int | range], Iterable[Cases]] = _DERIVED
    name: str = _DERIVED  #: name of the block, as in `units.find(name)`; by default from the class
    ports: Callable[[Config], Ports] = _DERIVED  #: ports(config): inputs, outputs and registers in one configuration
    counters: Sequence[str] = ()  #: counters of a State; in a Result totals over operations and devices
    peaks: Sequence[str] = ()  #: counters whose total over devices is the maximum, not the sum
    result: type[R] = _DERIVED  #: Result of `run`; by default made from ports and counters
    run: RunFunction[R] = _DERIVED  #: run(**inputs, **config); by default steps `unit_class`
    #: "module:function" of the compiled form, imported on first use; by default `compiled` next to it. A declared
    #: class without it has one made from its events. "none": the readable form runs instead
    compiled_run: str = ""
    timing: str = ""  #: "combinational", or "event": rows of a case are consecutive steps from reset; by `unit_class`
    version: int = 1  #: incremented whenever any input gives another output
    flags: Mapping[str, Flag] = field(default_factory=dict)  #: flags of a row by name
    mark: Callable[..., Mapping[str, np.ndarray]] | None = None  #: mark(config, inputs, result) -> flag -> bool (rows,)
    #: care(config, inputs, result) -> "out.x" -> bools: lanes in which a device must match this unit
    care: Callable[..., Mapping[str, np.ndarray]] | None = None
    #: "out.x" -> bits of a lane that `care` may leave open individually, and why; its mask then has bit patterns
    partial_care: Mapping[str, str] = field(default_factory=dict)
    legal: Callable[..., Mapping[str, np.ndarray]] | None = None  #: legal(config, inputs) -> inputs that `run` takes
    #: closes(config, inputs, result) -> rows that complete an operation: bool (cases, events); by default, those in
    #: which an output `valid` is 1, or without one any output whose name ends in `_valid`
    closes: Callable[..., np.ndarray] | None = None
    #: module with `VARIANTS`, `FAULTS` and `UNOBSERVABLE`, imported on first use; by default `variants`
    others: str = ""
    #: "module:function" that draws a State: function(ports, state) -> SVG; by default one of refemu.draw
    drawing: str = ""

    def __post_init__(self) -> None:
        unit_class: Any = self.unit_class
        declared = isinstance(unit_class, type) and issubclass(unit_class, Declared)
        if declared:
            object.__setattr__(self, "name", unit_class.name)
            if self.ports is None or getattr(self.ports, "func", None) is ports_of:  # else they are given
                object.__setattr__(self, "ports", partial(ports_of, unit_class))
            object.__setattr__(self, "counters", tuple(unit_class.counters))
        stimuli = ("cases", "mark", "care", "legal", "closes")
        home = self._of_block("cases") if declared and self.cases is None else ""
        for name in stimuli if home and _exists(home) else ():
            if getattr(self, name) is None:
                module = importlib.import_module(home)
                object.__setattr__(self, name, getattr(module, name, _by_kind(module) if name == "cases" else None))
        if self.mark is None and any(flag.output for flag in self.flags.values()):
            object.__setattr__(self, "mark", self._marked)
        self._require_callables()
        if declared and "State" not in vars(unit_class):
            complete(unit_class, self.ready_ports, inputs_of(self))
        derived: dict[str, Callable[[], object]] = {
            "timing": lambda: "event" if issubclass(self.unit_class, Sequential) else "combinational",
            "result": lambda: result_type(self.ready_ports, self.counters, self.unit_class.__module__),
            "run": lambda: readable(self),
            "compiled_run": lambda: self._of_block("compiled", ":run"),
            "others": lambda: self._of_block("variants"),
        }
        for name, value in derived.items():
            if not getattr(self, name):
                object.__setattr__(self, name, value())
        for name in stimuli:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, self._completing(getattr(self, name)))
        docstrings.methods(self)
        state_text.install(self)

    def _completing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the configuration that also gets default parameters."""

        @wraps(function)
        def completing(config: Config, *rest: Any) -> Any:
            return function(parameters.full(self, config), *rest)

        return completing

    def _marked(self, config: Config, inputs: object, result: Result) -> dict[str, np.ndarray]:
        """Rows of flags that name an output; none if the configuration lacks it."""
        shapes = {port.name: port.shape for port in self.ports(config).outputs}
        first = next(iter(shapes))
        rows = getattr(result, first).shape
        none = np.zeros(rows[: len(rows) - len(shapes[first])], np.bool_)
        values = {name: getattr(result, name) != 0 for name in shapes}
        marked = {name: value.any(axis=-1) if shapes[name] else value for name, value in values.items()}
        return {name: marked.get(flag.output, none) for name, flag in self.flags.items()}

    def _require_callables(self) -> None:
        """Reject fields from which the derived ones cannot be made."""
        if not self.configs:
            raise Refused(f"{self.name}: configs must have at least one configuration, got none")
        for name in ("ports", "cases", "unit_class"):
            if not callable(getattr(self, name)):
                raise RefusedType(f"{self.name}: {name} must be callable, got {getattr(self, name)!r}")

    @cached_property
    def ready_ports(self) -> tuple[Ports, ...]:
        """Ports in each ready configuration, in the order of `configs`; raises Refused if one lacks a parameter."""
        return tuple(self._ports_of(name) for name in self.configs)

    def _ports_of(self, name: str) -> Ports:
        config = self.configs[name]
        try:
            return self.ports(config)
        except KeyError as error:
            if error.args and error.args[0] in config:
                raise
            stated = ", ".join(config) or "nothing"
            raise Refused(
                f"{self.name}: configuration {name} must state what its ports need, {error}, got {stated}"
            ) from error

    @cached_property
    def run_compiled(self) -> RunFunction[R]:
        """The compiled form: same arguments, same Result. Imports numba; raises Refused if there is no such module."""
        compiled: RunFunction[R] = getattr(self.module_compiled, self.compiled_run.partition(":")[2] or "run")
        return compiled

    @cached_property
    def module_compiled(self) -> ModuleType:
        """The module of the compiled form, with `run` alone where the form is derived. Refused: there is none."""
        home = self.compiled_run.partition(":")[0]
        usual, form = self.compiled_run == self._of_block("compiled", ":run"), ModuleType(home)
        if self.compiled_run == "none":
            form.run = self.run  # type: ignore[attr-defined]
        elif usual and issubclass(self.unit_class, Declared) and not (home and _exists(home)):
            from refemu.units.compiled import derived  # numba

            form.run = derived(self)  # type: ignore[attr-defined]
        elif not home or (not home.startswith("refemu.") and not _exists(home)):
            place = f"module {home}" if home else "a module in no package"
            raise Refused(
                f"{self.name}: a compiled form must exist, got none in {place}; write one, or state compiled_run='none'"
            )
        else:
            return importlib.import_module(home)
        return form

    @cached_property
    def origin(self) -> plugins.Origin:
        """The distribution of the unit; without a name for refemu's own and for units registered by call."""
        module = self.unit_class.__module__
        return plugins.Origin() if module.startswith("refemu.") else plugins.origin_of("unit", module)

    @property
    def key(self) -> str:
        """The name that finds the unit with any other units installed: "orizuru", "refemu-mx/mx_encoder"."""
        return f"{self.origin.distribution}/{self.name}" if self.origin.distribution else self.name

    def _of_block(self, module: str, function: str = "") -> str:
        """A module in the package of the unit's class; "" if the class is not in a package."""
        package = self.unit_class.__module__.rpartition(".")[0]
        return f"{package}.{module}{function}" if package else ""

    @property
    def variants(self) -> Sequence[Variant]:
        """Devices that `grade` and `diff --explain` try: variants of decisions, faults, and libraries."""
        return (*self._variants, *faults.of_unit(self.key))

    @cached_property
    def _variants(self) -> Sequence[Variant]:
        others = [(each, faults.DECISION) for each in getattr(self._others, "VARIANTS", ())]
        others += [(each, faults.FAULT) for each in getattr(self._others, "FAULTS", ())]
        return tuple(faults.require(each, f"{self.name}: {self.others}", form) for each, form in others)

    @cached_property
    def unobservable(self) -> Mapping[str, str]:
        """Decisions without a variant: id -> why no design differs there, or why no bit shows it."""
        return dict(getattr(self._others, "UNOBSERVABLE", {}))

    @cached_property
    def _others(self) -> object:
        if not self.others:
            return None
        try:
            return importlib.import_module(self.others)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{self.others}.".startswith(f"{error.name}."):
                raise
            return None

    def stimuli(
        self, config: Config, kind: Kind, seed: int | range = 0, left_out: Callable[[str], object] | None = None
    ) -> Iterator[Cases]:
        """Cases for a configuration: all of a ready one; for another, those of ready configurations that fit.

        kind: any but "model". seed: of the random cases; a range for the cases of each seed in turn. left_out is called
        with the reason of cases that do not fit, and the error. Raises Refused if the unit returns cases of another
        kind.
        """
        blocks = self._of_kind(kind, self.cases(config, kind, seed))
        yield from blocks if config in self.configs.values() else self._fitting(config, blocks, left_out)

    def _of_kind(self, kind: Kind, blocks: Iterable[Cases]) -> Iterator[Cases]:
        if not isinstance(blocks, Iterable):
            raise RefusedType(f"{self.name}: cases must be an iterable of Cases, got {blocks!r} for kind {kind}")
        for number, block in enumerate(blocks):
            if not isinstance(block, Cases):
                raise RefusedType(f"{self.name}: cases must be Cases, got {type(block).__name__} in block {number}")
            if block.kind != kind:
                raise Refused(f"{self.name}: cases of kind {kind} must be of it, got {block.kind} in block {number}")
            yield block

    def _fitting(
        self, config: Config, blocks: Iterable[Cases], left_out: Callable[[str], object] | None
    ) -> Iterator[Cases]:
        for block in blocks:
            try:
                self.evaluate(config, block.inputs)
            except (Refused, RefusedType) as error:
                if left_out is not None:
                    left_out(f"{block.why}: {error}")
            else:
                yield block

    def config(self, text: str) -> Config:
        """Configuration by a ready name, "n8", or parameters, "n=4096,k=21" or "n8,k=3".

        Raises Refused for an unknown name or parameter, with the nearest, and for a value that the unit rejects.
        """
        return parameters.config(self, text)

    def evaluate(self, config: Mapping[str, Any], inputs: Mapping[str, Any], jit: bool = True) -> R:
        """Run the unit on arrays by port name, in the compiled or the readable form.

        Parameters
        ----------
        config : mapping
            Parameters.
        inputs : mapping of str to array_like
            One array per input port. Combinational units take any shape; for event units the last axis, before lanes,
            is the sequence of events, and leading axes are devices that start from reset.
        jit : bool
            Whether to run the compiled form.

        Returns
        -------
        Result
            Outputs, registers and counters.

        Raises
        ------
        Refused
            A port is missing or unknown, or a value out of range.
        RefusedType
            A dtype that a port does not accept.
        """
        run = self.run_compiled if jit else self.run
        return run(**self._checked(config, inputs), **Config(**config))

    def closing(self, config: Config, inputs: Mapping[str, Any], result: Result) -> np.ndarray | None:
        """Find the rows that complete an operation: bool (cases, events); None if each row is an operation.

        inputs: as for `evaluate`. result: of `evaluate` for them.
        """
        if self.closes is not None:
            return np.asarray(self.closes(config, inputs, result), np.bool_)
        ports = [port for port in self.ports(config).outputs if port.count == 1 and self.timing == "event"]
        flags = [port for port in ports if port.name == "valid"] or [p for p in ports if p.name.endswith("_valid")]
        marks = [getattr(result, port.name)[(..., 0) if port.shape else ...] != 0 for port in flags]
        return np.logical_or.reduce(marks) if marks else None

    def trace(self, config: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[S]:
        """Yield the State after every event of one case, by the readable form; inputs are those of `evaluate`."""
        return iter(self.unit_class(**config).steps(**self._checked(config, inputs)))

    def draw(self, config: Mapping[str, Any], state: S) -> str:
        """Draw a State of the unit in a configuration as SVG; "" if the unit has no drawing."""
        return state_text.drawing(self, self.ports(Config(**config)), state)

    def _checked(self, config: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        ports = [port.name for port in self.ports(Config(**config)).inputs]
        if set(ports) != set(inputs):
            raise Refused(f"{self.name}: inputs must be {', '.join(ports)}, got {', '.join(inputs) or 'none'}")
        return dict(inputs)

    def __repr__(self) -> str:
        return f"<Unit {self.name}: {self.meaning}>"


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _by_kind(module: ModuleType) -> Callable[[Config, Kind, int | range], Iterator[Cases]] | None:
    """Cases of a module with a function for each kind, of the configuration and of the seed if it draws."""
    functions = {kind: vars(module)[kind] for kind in KINDS if inspect.isfunction(vars(module).get(kind))}

    def cases(config: Config, kind: Kind, seed: int | range) -> Iterator[Cases]:
        function = functions.get(kind, lambda: ())
        arguments = (config, seed)[: len(inspect.signature(function).parameters)]
        for block in function(*arguments):
            if not isinstance(block, tuple) or len(block) not in (2, 3):
                rule = "must yield (why, inputs) or (why, inputs, decision)"
                raise RefusedType(f"{module.__name__}: {kind} {rule}, got {type(block).__name__}: {str(block)[:60]!r}")
            yield Cases(kind, *block)

    return cases if functions else None


#: A descriptor of any unit. Its States have different fields, which `ports` names.
AnyUnit: TypeAlias = Unit[Any, Result]
