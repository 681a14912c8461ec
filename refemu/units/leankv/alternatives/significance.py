"""Other answers to the decisions of significance."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-leankv-16", "score_queries", None, 64),
    *choices("D-leankv-17", "include_self", True, False),
    *choices("D-leankv-18", "normalize", True, False),
    *choices("D-leankv-19", "gqa", "mean"),
)
