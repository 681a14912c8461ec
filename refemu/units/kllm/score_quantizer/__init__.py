"""Attention scores to unsigned integers, with the scales of V folded in."""

from refemu.units.kllm.score_quantizer.score_quantizer import *
from refemu.units.kllm.score_quantizer.score_quantizer import __all__ as __all__
