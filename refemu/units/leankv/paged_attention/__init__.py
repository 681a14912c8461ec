"""Attention of one step over the pages of a KV head: high pages, then low pages, dequantized on the way."""

from refemu.units.leankv.paged_attention.arithmetic import Join, SoftmaxDiv, SumOrder, require_runs
from refemu.units.leankv.paged_attention.block import (
    Multiprocessor,
    Occupancy,
    WarpReads,
    balance,
    bank_conflicts,
    occupancy,
    reads,
)
from refemu.units.leankv.paged_attention.heads import get_scores, set_scores
from refemu.units.leankv.paged_attention.loads import SECTOR, Load, Traffic, WarpLoad, head_loads, page_loads, traffic
from refemu.units.leankv.paged_attention.paged_attention import (
    CONSTANTS,
    DIFFKV,
    EPSILON,
    PAPER,
    UNIT,
    Arithmetic,
    PagedAttention,
    Pages,
    add_scores,
    attend,
    run,
    step,
)
from refemu.units.leankv.paged_attention.ports import COUNTERS

__all__ = [
    "CONSTANTS",
    "COUNTERS",
    "DIFFKV",
    "EPSILON",
    "PAPER",
    "SECTOR",
    "UNIT",
    "Arithmetic",
    "Join",
    "Load",
    "Multiprocessor",
    "Occupancy",
    "PagedAttention",
    "Pages",
    "SoftmaxDiv",
    "SumOrder",
    "Traffic",
    "WarpLoad",
    "WarpReads",
    "add_scores",
    "attend",
    "balance",
    "bank_conflicts",
    "get_scores",
    "head_loads",
    "occupancy",
    "page_loads",
    "reads",
    "require_runs",
    "run",
    "set_scores",
    "step",
    "traffic",
]
