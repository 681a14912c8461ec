"""Other answers to the decisions of layer_step: those of head_step, and the order of the heads."""

from refemu.units.alternative import Alternative
from refemu.units.leankv.alternatives.head_step import OPTIONS, LastHeadFirst, variants
from refemu.units.leankv.layer_step import LayerStep


class DescendingHeads(LastHeadFirst, LayerStep):
    """The last head's pages come first."""


ALTERNATIVES: tuple[Alternative, ...] = (
    *variants(LayerStep),
    *OPTIONS,
    Alternative("D-leankv-38", "the last head's pages come first", variant=DescendingHeads),
)
