"""Drawings of formats and hardware blocks, as SVG without scripts, in light and dark.

draw.pair(formats.OVP_INT4, 0x85)                  # bits of a pair word and what they are
draw.page(formats.UnifiedPage(128, formats.K8V4))  # sections of a page
draw.state(orizuru.UNIT, "n8", device.state)       # a unit after an event; "" where it has no drawing

A notebook shows the same for a device, a State and a tensor.
"""

from .harmonia.bfp import bfp
from .harmonia.pe import pe, pe_array
from .kllm.counters import counters
from .kllm.trees import trees
from .leankv.attention import attention
from .leankv.free_list import free_list, page_table
from .leankv.page import page
from .olive.pair import abfloat, pair
from .olive.systolic import array
from .registry import state

__all__ = [
    "abfloat",
    "array",
    "attention",
    "bfp",
    "counters",
    "free_list",
    "page",
    "page_table",
    "pair",
    "pe",
    "pe_array",
    "state",
    "trees",
]
