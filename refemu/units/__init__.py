"""Hardware blocks: a folder per paper, in it one module or package per block. `find(name)` is a block's descriptor.

The types of both, and of `from refemu.units import orizuru`, stand in `__init__.pyi`, which tools/stubs.py writes.
"""

import importlib
from types import ModuleType

from refemu.arith.checks import Refused, lookup
from refemu.units import parameters
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Clocked, Result, Stepped
from refemu.units.unit import Alternative, AnyUnit, Cases, Config, Flag, Unit, choices

__all__ = [
    "PAPERS",
    "Alternative",
    "AnyUnit",
    "Cases",
    "Clocked",
    "Config",
    "Flag",
    "Port",
    "Ports",
    "Result",
    "Stepped",
    "Unit",
    "choices",
    "choose",
    "configurations",
    "find",
    "module",
    "names",
]

#: The paper of every unit, by which its module is found: `refemu.units.<paper>.<name>`.
PAPERS = {
    "bfp_accumulator": "harmonia",
    "bfp_aligner": "harmonia",
    "bfp_converter": "harmonia",
    "bfp_pe": "harmonia",
    "bfp_pe_array": "harmonia",
    "bfp_pe_array_clocked": "harmonia",
    "bit_allocator": "harmonia",
    "clustering": "kllm",
    "concat": "kllm",
    "fdgf": "harmonia",
    "flint_decoder": "olive",
    "fp16_mac": "kllm",
    "fp2half": "harmonia",
    "free_page_list": "leankv",
    "functional": "kllm",
    "generation_compressor": "leankv",
    "harmonia_core": "harmonia",
    "harmonia_core_clocked": "harmonia",
    "head_step": "leankv",
    "index_counter": "kllm",
    "index_function": "kllm",
    "index_matmul": "kllm",
    "index_norm": "kllm",
    "index_product": "kllm",
    "k_offset": "harmonia",
    "kllm_chip": "kllm",
    "kv_compressor": "leankv",
    "kv_quantizer": "leankv",
    "layer_step": "leankv",
    "mmaovp": "olive",
    "mmaovp_clocked": "olive",
    "olive_edp": "olive",
    "olive_edp_clocked": "olive",
    "olive_mac": "olive",
    "olive_pe8": "olive",
    "olive_requant": "olive",
    "olive_systolic": "olive",
    "olive_systolic_clocked": "olive",
    "orizuru": "kllm",
    "orizuru_clocked": "kllm",
    "orizuru_passes": "kllm",
    "outlier_decoder": "olive",
    "ovp_decoder": "olive",
    "ovp_encoder": "olive",
    "page_manager": "leankv",
    "page_table": "leankv",
    "paged_attention": "leankv",
    "pe_lane": "kllm",
    "prefix_sum": "leankv",
    "prompt_compressor": "leankv",
    "score_quantizer": "kllm",
    "significance": "leankv",
    "sub_pe": "harmonia",
    "v_grouper": "harmonia",
    "weighted_sum": "kllm",
}


def names() -> tuple[str, ...]:
    """List every unit.

    Returns
    -------
    tuple of str
        Names in alphabetical order.
    """
    return tuple(PAPERS)


def find(name: str) -> AnyUnit:
    """Find the descriptor of a unit.

    Parameters
    ----------
    name : str
        Name.

    Returns
    -------
    Unit
        Descriptor.

    Raises
    ------
    Refused
        An unknown name; the refusal shows the nearest known one.
    """
    return module(lookup("unit", name, {unit: unit for unit in PAPERS})).UNIT


def choose(spec: str, config: str | None = None) -> tuple[AnyUnit, str]:
    """Find a unit and one configuration of it.

    Parameters
    ----------
    spec : str
        Name, or name and configuration: "orizuru:n8", "orizuru:n=4096,k=21".
    config : str, optional
        Configuration, where `spec` names none; by default the unit's first.

    Returns
    -------
    unit : Unit
        Descriptor.
    config : str
        Configuration: its ready name, or the parameters that differ from their defaults.

    Raises
    ------
    Refused
        An unknown name or parameter, with the nearest; a value that the unit refuses; two configurations.
    """
    name, text = parameters.split(spec)
    unit = find(name)
    if text is not None and config is not None:
        raise Refused(f"{name}: one configuration is needed, got {text} and {config}")
    text = text or config
    return unit, next(iter(unit.configs)) if text is None else parameters.text(unit, unit.config(text))


def configurations(spec: str) -> tuple[AnyUnit, list[str]]:
    """Find a unit, and the configuration that follows its name or else all its ready ones.

    Parameters
    ----------
    spec : str
        As for `choose`.

    Returns
    -------
    unit : Unit
        Descriptor.
    configs : list of str
        Configurations.

    Raises
    ------
    Refused
        As `choose` does.
    """
    unit, config = choose(spec)
    return unit, [config] if ":" in spec else list(unit.configs)


def module(name: str, compiled: bool = False) -> ModuleType:
    """Import the module of a unit, or of its compiled twin.

    Parameters
    ----------
    name : str
        Name of the unit.
    compiled : bool
        Import the twin.

    Returns
    -------
    module
        Module.
    """
    return importlib.import_module(f"refemu.units.{PAPERS[name]}.{'twins.' if compiled else ''}{name}")


def __getattr__(name: str) -> ModuleType:
    """The module of a unit: `from refemu.units import orizuru`."""
    if name not in PAPERS:
        raise AttributeError(f"module 'refemu.units' has no attribute {name!r}")
    return module(name)
