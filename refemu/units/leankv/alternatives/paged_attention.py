"""Other answers to the decisions of paged_attention."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-leankv-17", "include_self", True, False),
    *choices("D-leankv-19", "gqa", "mean"),
    *choices("D-leankv-41", "order", "kernel", "sequential"),
    *choices("D-leankv-42", "fma", True, False),
    *choices("D-leankv-43", "lane_max", True),
    *choices("D-leankv-45", "softmax_div", "div", "recip_mul"),
    *choices("D-leankv-46", "partition_tokens", 0, 1),
)
