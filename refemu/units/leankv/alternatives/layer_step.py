"""Other answers to the decisions of layer_step: those of head_step, and the order of the heads."""

from refemu.units.alternative import Alternative, choices
from refemu.units.leankv.alternatives.head_step import LastHeadFirst, variants
from refemu.units.leankv.layer_step import LayerStep


class DescendingHeads(LastHeadFirst, LayerStep):
    """The last head's pages come first."""


ALTERNATIVES: tuple[Alternative, ...] = (
    *variants(LayerStep),
    *choices("D-leankv-17", "include_self", True),
    *choices("D-leankv-19", "gqa", "mean"),
    *choices("D-leankv-26", "policy", "diffkv"),
    *choices("D-leankv-34", "lazy_pages", False),
    Alternative("D-leankv-38", "the last head's pages come first", variant=DescendingHeads),
)
