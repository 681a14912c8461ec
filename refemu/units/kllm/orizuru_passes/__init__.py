"""Tokens wider than Orizuru, in passes: the ends of every chunk meet in a last pass, as if the tree had n inputs."""

from refemu.units.kllm.orizuru_passes.orizuru_passes import *
from refemu.units.kllm.orizuru_passes.orizuru_passes import __all__ as __all__
