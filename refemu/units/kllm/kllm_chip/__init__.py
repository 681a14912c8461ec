"""KLLM's chip: lanes over output columns, Orizuru, Clustering Unit, buffers."""

from refemu.units.kllm.kllm_chip.product import Product, matmul
from refemu.units.kllm.kllm_chip.sizes import ChipSizes

__all__ = ["ChipSizes", "Product", "matmul"]
