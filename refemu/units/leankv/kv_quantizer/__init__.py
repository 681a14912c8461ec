"""The quantizer of a KV cache as a block: one group of fp16 features to codes, a scale and a zero point."""

from refemu.units.leankv.kv_quantizer.kv_quantizer import *
from refemu.units.leankv.kv_quantizer.kv_quantizer import __all__ as __all__
