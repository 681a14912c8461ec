"""Attention of one step over the pages of a KV head: high pages, then low pages, dequantized on the way."""

from refemu.units.leankv.paged_attention.arithmetic import *
from refemu.units.leankv.paged_attention.heads import *
from refemu.units.leankv.paged_attention.loads import *
from refemu.units.leankv.paged_attention.paged_attention import *
from refemu.units.leankv.paged_attention.ports import COUNTERS

__all__ = [
    "CONSTANTS",
    "COUNTERS",
    "DIFFKV",
    "EPSILON",
    "PAPER",
    "SECTOR",
    "UNIT",
    "WARP",
    "Arithmetic",
    "Join",
    "Load",
    "PagedAttention",
    "Pages",
    "Paging",
    "SoftmaxDiv",
    "SumOrder",
    "Traffic",
    "WarpLoad",
    "add_scores",
    "attend",
    "get_scores",
    "head_loads",
    "page_loads",
    "require_runs",
    "run",
    "set_scores",
    "step",
    "traffic",
]
