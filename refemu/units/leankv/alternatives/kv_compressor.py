"""Other answers to the decisions of kv_compressor."""

from refemu.formats.leankv.affine import PRESETS
from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = choices("D-leankv-1", "preset", *PRESETS)
