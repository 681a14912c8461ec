"""The Clustering Unit: the index of the centroid nearest to a value divided by its scale."""

from refemu.units.kllm.clustering.clustering import *
from refemu.units.kllm.clustering.clustering import __all__ as __all__
