"""Other answers to the decisions of bit_allocator."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = choices("D-harmonia-18", "n_local", 32, 95)
