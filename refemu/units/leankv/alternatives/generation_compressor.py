"""Other answers to the decisions of generation_compressor."""

from refemu.units.alternative import Alternative, choices
from refemu.units.leankv.generation_compressor.decisions import POLICIES

ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-leankv-26", "policy", *POLICIES[:2]),
    *choices("D-leankv-27", "score_rule", "share", "cumulative"),
)
