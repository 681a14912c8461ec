"""The function that draws the states of each unit."""

import importlib
from collections.abc import Callable
from typing import Any

from refemu.units.ports import Ports
from refemu.units.unit import AnyUnit, Config

#: of the units that refemu ships: module and function; it takes the ports of the configuration and a State
UNITS = {
    "bfp_aligner": "refemu.draw.harmonia.bfp:aligner",
    "bfp_converter": "refemu.draw.harmonia.converter:converter",
    "bfp_pe": "refemu.draw.harmonia.pe:pe",
    "bfp_pe_array": "refemu.draw.harmonia.pe:pe_array",
    "bfp_pe_array_clocked": "refemu.draw.harmonia.wavefront:wavefront",
    "bit_allocator": "refemu.draw.harmonia.cache:widths",
    "clustering": "refemu.draw.kllm.clustering:clustering",
    "fdgf": "refemu.draw.harmonia.core:flow",
    "flint_decoder": "refemu.draw.olive.codes:flint",
    "fp16_mac": "refemu.draw.kllm.mac:mac",
    "free_page_list": "refemu.draw.leankv.free_list:free_list",
    "generation_compressor": "refemu.draw.leankv.generation:generation_compressor",
    "harmonia_core": "refemu.draw.harmonia.core:core",
    "harmonia_core_clocked": "refemu.draw.harmonia.core:clocked",
    "index_counter": "refemu.draw.kllm.counters:counters",
    "index_function": "refemu.draw.kllm.function:function",
    "kllm_chip": "refemu.draw.kllm.chip:chip",
    "k_offset": "refemu.draw.harmonia.cache:offsets",
    "kv_quantizer": "refemu.draw.leankv.quantizer:quantizer",
    "mmaovp": "refemu.draw.olive.tile:tile",
    "mmaovp_clocked": "refemu.draw.olive.tile:clocked",
    "olive_edp": "refemu.draw.olive.dot:unit",
    "olive_edp_clocked": "refemu.draw.olive.dot:clocked",
    "olive_systolic": "refemu.draw.olive.systolic:array",
    "olive_systolic_clocked": "refemu.draw.olive.systolic:clocked",
    "orizuru": "refemu.draw.kllm.trees:trees",
    "orizuru_clocked": "refemu.draw.kllm.trees:trees",
    "outlier_decoder": "refemu.draw.olive.codes:outlier",
    "ovp_decoder": "refemu.draw.olive.pair:decoder",
    "ovp_encoder": "refemu.draw.olive.pair:encoder",
    "page_manager": "refemu.draw.leankv.free_list:page_manager",
    "page_table": "refemu.draw.leankv.free_list:page_table",
    "paged_attention": "refemu.draw.leankv.attention:attention",
    "pe_lane": "refemu.draw.kllm.lane:lane",
    "prefix_sum": "refemu.draw.leankv.scan:prefix_sum",
    "prompt_compressor": "refemu.draw.leankv.prompt:prompt_compressor",
    "v_grouper": "refemu.draw.harmonia.cache:groups",
}


def of(unit: AnyUnit) -> Callable[[Ports, Any], str] | None:
    """The function that draws a unit's states, or None. The unit's own function takes precedence over refemu's."""
    place = unit.drawing or UNITS.get(unit.name, "")
    if not place:
        return None
    module, _, function = place.partition(":")
    drawing: Callable[[Ports, Any], str] = getattr(importlib.import_module(module), function)
    return drawing


def state(unit: AnyUnit, config: str | Config, shown: Any) -> str:
    """Draw a State of a unit.

    Parameters
    ----------
    unit : Unit
        Unit.
    config : str or Config
        Configuration, as `Unit.config` takes it, or its parameters.
    shown : State
        State.

    Returns
    -------
    str
        SVG; "" where the unit has no drawing, or none in this configuration.

    Raises
    ------
    Refused
        An unknown configuration.
    """
    return of_ports(unit, unit.ports(unit.config(config) if isinstance(config, str) else config), shown)


def of_ports(unit: AnyUnit, ports: Ports, shown: Any) -> str:
    """As `state`, for the ports of a device."""
    drawing = of(unit)
    return drawing(ports, shown) if drawing else ""
