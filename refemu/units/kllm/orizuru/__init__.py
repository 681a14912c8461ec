"""Orizuru: pops the k largest and the k smallest of n fp16 values from two trees of bits over the same leaves."""

from refemu.units.kllm.orizuru.array import CandidateArray, OrizuruArray
from refemu.units.kllm.orizuru.orizuru import (
    MIN_LEAVES,
    UNIT,
    MinLeaf,
    Orizuru,
    Popped,
    Result,
    State,
    pops,
    require_input,
    require_ordered,
    run,
    shaped,
)
from refemu.units.kllm.orizuru.trees import levels, stages

__all__ = [
    "MIN_LEAVES",
    "UNIT",
    "CandidateArray",
    "MinLeaf",
    "Orizuru",
    "OrizuruArray",
    "Popped",
    "Result",
    "State",
    "levels",
    "pops",
    "require_input",
    "require_ordered",
    "run",
    "shaped",
    "stages",
]
