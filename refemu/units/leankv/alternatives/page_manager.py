"""Other answers to the decisions of page_manager."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-leankv-34", "lazy_pages", True, False),
    *choices("D-leankv-35", "reserve_low", 0, 1),
)
