"""Compiled forms of paged_attention [leankv §5.2]: `run` on ports, `attend` over all heads of a layer."""

from refemu.units.leankv.paged_attention.compiled.page_reads import get_scores, set_scores
from refemu.units.leankv.paged_attention.compiled.paged_attention import GRAIN, add_scores, attend, counters, run, step

__all__ = ["GRAIN", "add_scores", "attend", "counters", "get_scores", "run", "set_scores", "step"]
