"""The element-wise index product: concatenate two indices, no counting and no reduction."""

from refemu.units.kllm.index_product.index_product import *
from refemu.units.kllm.index_product.index_product import __all__ as __all__
