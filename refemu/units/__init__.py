"""Hardware blocks: a folder per paper, in it one package per block. `find(name)` is a block's descriptor.

The types of both, and of `from refemu.units import orizuru`, are in `__init__.pyi`, which tools/stubs.py makes.
"""

import importlib
from types import ModuleType

from refemu import plugins
from refemu.arith.checks import Refused
from refemu.units import descriptor_rules, faults, parameters
from refemu.units.declaration import Changes, Combinational, DeclaredState, Sequential, constant, decides
from refemu.units.derivation import compiled_run
from refemu.units.faults import FaultLibrary
from refemu.units.ports import Lanes, Port, Ports
from refemu.units.stepping import Result, Stepped
from refemu.units.unit import AnyUnit, Cases, Config, Flag, Kind, RunFunction, Unit, Variant, choices

__all__ = [
    "PAPERS",
    "AnyUnit",
    "Cases",
    "Changes",
    "Combinational",
    "Config",
    "DeclaredState",
    "FaultLibrary",
    "Flag",
    "Kind",
    "Lanes",
    "Port",
    "Ports",
    "Result",
    "RunFunction",
    "Sequential",
    "Stepped",
    "Unit",
    "Variant",
    "broken",
    "called",
    "choices",
    "choose",
    "compiled_run",
    "configurations",
    "constant",
    "decides",
    "find",
    "module",
    "names",
    "plugged",
    "register",
    "register_faults",
    "unregister",
    "unregister_faults",
    "working",
]

#: Units of each paper; their packages are `refemu.units.<paper>.<name>`.
_BLOCKS = {
    "harmonia": "bfp_accumulator bfp_aligner bfp_converter bfp_pe bfp_pe_array bfp_pe_array_clocked bit_allocator fdgf "
    "fp2half harmonia_core harmonia_core_clocked k_offset sub_pe v_grouper",
    "kllm": "clustering concat fp16_mac functional index_counter index_function index_matmul index_norm index_product "
    "kllm_chip orizuru orizuru16 orizuru_clocked orizuru_passes pe_lane score_quantizer weighted_sum",
    "leankv": "free_page_list generation_compressor kv_compressor kv_quantizer layer_step page_manager page_reader "
    "page_table paged_attention prefix_sum prompt_compressor significance streaming_significance",
    "olive": "flint_decoder mmaovp mmaovp_clocked olive_edp olive_edp_clocked olive_mac olive_pe8 olive_requant "
    "olive_systolic olive_systolic_clocked outlier_decoder ovp_decoder ovp_encoder",
}
#: The paper of every unit, in alphabetical order of units.
PAPERS = dict(sorted((name, paper) for paper, names in _BLOCKS.items() for name in names.split()))


def _validated(unit: object, name: str, origin: plugins.Origin) -> AnyUnit:
    checked = descriptor_rules.require(unit)
    if checked.name != name:
        raise Refused(f"unit {name}: the entry point must have the unit's name, {checked.name}")
    vars(checked)["origin"] = origin
    return checked


_PLUGGED = plugins.Registry("unit", lambda: PAPERS, _validated)


def names() -> tuple[str, ...]:
    """List every unit of refemu itself, in alphabetical order."""
    return tuple(PAPERS)


def plugged() -> tuple[str, ...]:
    """List every unit that is not refemu's own: of installed distributions, then those registered by call.

    A name that is not unique is `distribution/unit`.
    """
    return _PLUGGED.names()


def _is_own(unit: object) -> bool:
    """Whether a descriptor is refemu's own."""
    return isinstance(unit, Unit) and unit.name in PAPERS and module(unit.name).UNIT is unit


def working() -> dict[str, AnyUnit]:
    """Load every unit that is not refemu's own: those that load, by the names of `plugged`."""
    return _PLUGGED.working()[0]


def broken() -> tuple[plugins.Broken, ...]:
    """Load every unit and fault library of every installed distribution, and list those that fail, with the error."""
    return (*_PLUGGED.working()[1], *faults.broken(find))


def called() -> tuple[str, ...]:
    """List the units that were registered by call, in this process only."""
    return _PLUGGED.called()


def register(unit: AnyUnit) -> AnyUnit:
    """Register a unit in this process: its name is then valid wherever a unit's name is taken.

    A later unit of the same name replaces an earlier one. To make a unit available in every process, name it in the
    entry points `refemu.units` of a distribution.

    Raises Refused if the descriptor contradicts itself, or the name is one of refemu's or of the unit's own
    distribution.
    """
    if _PLUGGED.holds(unit) or _is_own(unit):
        return unit
    known = descriptor_rules.require(unit)
    if not known.origin.distribution or not _PLUGGED.knows(known.key):
        return _PLUGGED.register(known, known.name)
    if _PLUGGED.find(known.key) is not known:
        raise Refused(f"unit {known.key}: its distribution has another unit of this name; rename one of them")
    return known


def unregister(name: str) -> None:
    """Remove a unit that was registered with `register`, not by a plug-in; no effect if there is none."""
    _PLUGGED.forget(name)


def register_faults(library: FaultLibrary) -> FaultLibrary:
    """Register a fault library in this process: `grade`, `diff --explain` and the rest then try its devices.

    A later library for the same unit replaces an earlier one. To make a library available in every process, name it in
    the entry points `refemu.faults` of a distribution, under the name of the unit.

    Raises Refused if its unit is unknown, it is empty, the id of a device is neither D-word-number nor F-word-number,
    or a device says nothing.
    """
    known = faults.required(library)
    if find(known.unit).key != known.unit:
        raise Refused(f"faults of {known.unit}: the unit must be named {find(known.unit).key!r}, got {known.unit!r}")
    return faults.REGISTRY.register(known, known.unit)


def unregister_faults(unit: str) -> None:
    """Remove the fault library of a unit that was registered by call; no effect if there is none."""
    faults.REGISTRY.forget(unit)


def find(name: str | AnyUnit) -> AnyUnit:
    """Find the descriptor of a unit.

    Parameters
    ----------
    name : str or Unit
        Name; for a plug-in also `distribution/unit`. A Unit is registered, as by `register`.

    Returns
    -------
    Unit
        Descriptor.

    Raises
    ------
    Refused
        An unknown name, with the nearest; a plug-in that does not load or contradicts itself; a name that several
        distributions have; a distribution that is not installed.
    """
    if not isinstance(name, str):
        return register(name)
    return module(name).UNIT if name in PAPERS else _PLUGGED.find(name)


def choose(spec: str | AnyUnit, config: str | None = None) -> tuple[AnyUnit, str]:
    """Find a unit and one configuration of it: its ready name, or the parameters that differ from their defaults.

    spec: name, or name and configuration: "orizuru:n8", "orizuru:n=4096,k=21". config: if `spec` names none; by default
    the first of the unit. Raises Refused for an unknown name or parameter, with the nearest, a value that the unit
    rejects, or two configurations.
    """
    name, text = parameters.split(spec) if isinstance(spec, str) else (spec, None)
    unit = find(name)
    if text is not None and config is not None:
        raise Refused(f"{unit.name}: configuration must be given once, got {text} and {config}")
    text = text or config
    return unit, next(iter(unit.configs)) if text is None else parameters.text(unit, unit.config(text))


def configurations(spec: str | AnyUnit) -> tuple[AnyUnit, list[str]]:
    """Find a unit, and the configuration after its name, or else all its ready configurations; raises as `choose`."""
    unit, config = choose(spec)
    return unit, [config] if isinstance(spec, str) and ":" in spec else list(unit.configs)


def module(name: str | AnyUnit, compiled: bool = False) -> ModuleType:
    """Import the module of a unit, also of a plug-in, or of its compiled form.

    A compiled form that is derived from the text of the unit has `run` alone.
    """
    if isinstance(name, str) and name in PAPERS and not compiled:
        return importlib.import_module(f"refemu.units.{PAPERS[name]}.{name}")
    unit = find(name)
    if compiled:
        return unit.module_compiled
    if _is_own(unit):
        return module(unit.name)
    points = [plug.module for plug in plugins.plugs("unit") if plug.key == unit.key]
    return importlib.import_module(points[0] if points else unit.unit_class.__module__)


def __getattr__(name: str) -> ModuleType:
    """The module of a unit: `from refemu.units import orizuru`."""
    if name not in PAPERS:
        raise AttributeError(f"module 'refemu.units' has no attribute {name!r}")
    return module(name)
