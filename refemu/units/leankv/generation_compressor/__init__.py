"""Placement of the new token, and choice of the token that frees a slot: one decision per KV head and step."""

from refemu.units.leankv.generation_compressor.decisions import *
from refemu.units.leankv.generation_compressor.generation_compressor import *

__all__ = [
    "A1",
    "A2",
    "A3",
    "APPEND",
    "B1",
    "B2",
    "DOWNGRADE",
    "LARGEST",
    "PRUNE",
    "STATIC_APPEND",
    "STATIC_DROP",
    "SWAP",
    "UNIT",
    "C",
    "GenerationCompressor",
    "Policy",
    "ScoreRule",
    "W",
    "run",
]
