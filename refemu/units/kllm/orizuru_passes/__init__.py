"""Tokens wider than Orizuru, in passes: a last pass over the extremes of every chunk, as if the tree had n inputs."""

from refemu.units.kllm.orizuru_passes.orizuru_passes import *
from refemu.units.kllm.orizuru_passes.orizuru_passes import __all__ as __all__
