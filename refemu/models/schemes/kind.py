"""The code of schemes: one object for each class of configurations.

refemu's own objects are SCHEME in `schemes/<paper>/scheme.py`, imported when a model is first prepared, tapped or
costed, since they import units; names and parameters need only configurations. Other distributions name theirs as entry
points.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from refemu.arith.checks import Refused, RefusedType
from refemu.models import text
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.schemes import own_code
from refemu.models.schemes.scheme import CalibrationTokens, Half, Prepared, Progress, Scheme

if TYPE_CHECKING:
    from refemu.models.encoder.runtime import PreparedEncoder
    from refemu.models.machine.report import Absent, Accelerator, Costs, Shapes

C = TypeVar("C", bound=Scheme)
Calibration: TypeAlias = CalibrationTokens | None  #: None: the calibration text of the model

_KINDS: dict[type, "SchemeKind[Any]"] = {}  #: by class of the configurations


@dataclass(frozen=True, kw_only=True, eq=False)
class SchemeKind(Generic[C]):
    """The code of the schemes whose configurations are of one class."""

    config: type[C]  #: a frozen dataclass
    #: prepare(config, model, backend, calibration, progress) converts the weights, and searches or trains offline
    #: parameters; for a part of a mix, model is a `Share`
    prepare: "Callable[[C, Model, Backend, Calibration, Progress], Prepared | PreparedEncoder]"
    ready: Mapping[str, C] = field(default_factory=dict)  #: configurations by the names of entry points
    #: taps(config, half): units whose ports a run can show, in alphabetical order; half None: the whole scheme
    taps: Callable[[C, Half | None], tuple[str, ...]] | None = None
    accelerator: "Accelerator | None" = None  #: computes a block at the ports of the paper's units
    cost: "Costs | None" = None  #: cost of a call of a part on the accelerator
    #: class of the options of the machine; `accelerator` and `cost` then take its object as their last argument, which
    #: has `system`, a `refemu.models.machine.System`, and their costs have records of work
    options: type | None = None
    shape: "Shapes | None" = None  #: cost of a model from its sizes alone, by blocks
    absent: "Callable[[Any], Iterable[Absent]] | None" = None  #: absent(prepared): what the cost leaves out, and why
    part_cost: "Costs | str" = "no accelerator computes it"  #: cost as a part of a mix, or why there is none

    def __post_init__(self) -> None:
        """Check the types of the fields; a class has one object only."""
        if not _frozen(self.config):
            rule = "config must be a frozen dataclass that derives from refemu.models.Scheme"
            hint = "; put @dataclass(frozen=True) above the class" if isinstance(self.config, type) else ""
            raise RefusedType(f"SchemeKind: {rule}, got {self.config!r:.60}{hint}")
        self._require("prepare", "a function", callable(self.prepare))
        for name in ("taps", "accelerator", "cost", "shape", "absent"):
            self._require(name, "a function or None", getattr(self, name) is None or callable(getattr(self, name)))
        reason = isinstance(self.part_cost, str)
        self._require("part_cost", "a function or a reason", reason or callable(self.part_cost))
        same = isinstance(self.ready, Mapping) and all(type(each) is self.config for each in self.ready.values())
        self._require("ready", f"a mapping of names to configurations {self.config.__name__}", same)
        if self.config in _KINDS:
            raise RefusedType(f"SchemeKind: config {self.config.__name__} has one already; derive another class")
        _KINDS[self.config] = self

    def _require(self, name: str, what: str, right: bool) -> None:
        if not right:
            got = f"got {getattr(self, name)!r:.60}; docs/plugin-reference.md gives its arguments"
            raise RefusedType(f"SchemeKind of {self.config.__name__}: {name} must be {what}, {got}")


def _frozen(config: object) -> bool:
    """Whether `config` is a frozen dataclass that derives from Scheme."""
    if not (isinstance(config, type) and issubclass(config, Scheme)):
        return False
    options = vars(config).get("__dataclass_params__")
    return options is not None and options.frozen is True


def _of_its_own(config: Any, model: Model, backend: Backend, calibration: Calibration, progress: Progress) -> Prepared:
    """Call the `prepare` of a configuration, such as a LinearScheme, with the shipped text if it calibrates."""
    if calibration is None and getattr(config, "calibrates", False):
        calibration = model.tokenizer.encode(text.calibration())
    try:
        return config.prepare(model, backend, calibration, progress)  # type: ignore[no-any-return]
    except (Refused, RefusedType):
        raise
    except Exception as error:  # the user's code may raise anything
        place = own_code.raised_at(error)
        if place is None:
            raise
        said = " ".join(f"{type(error).__name__}: {error}".split())
        hint = "; no calibration text was given: set calibrates = True to get the shipped one"
        more = hint if calibration is None else ""
        raise Refused(f"{type(config).__name__}.prepare: fails: {said} ({place}){more}") from error


def named_kind(config: Scheme, name: str) -> SchemeKind[Any]:
    """The code of a configuration that has its own `prepare`, ready under a name."""
    _KINDS.pop(type(config), None)
    return SchemeKind(config=type(config), prepare=_of_its_own, ready={name: config})


def kind_of(config: Scheme) -> SchemeKind[Any]:
    """The code for a configuration; raises RefusedType if its class has none."""
    home = type(config).__module__
    if home.startswith("refemu.models.schemes."):
        importlib.import_module(f"{home.rpartition('.')[0]}.scheme")
    if type(config) not in _KINDS and callable(getattr(config, "prepare", None)):
        return SchemeKind(config=type(config), prepare=_of_its_own)
    if type(config) not in _KINDS:
        name = type(config).__name__
        raise RefusedType(f"scheme: {name} has no code; make a SchemeKind(config={name}, prepare=...)")
    return _KINDS[type(config)]
