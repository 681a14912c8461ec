"""The index MatMul: concatenate indices, count them, reduce by the product codebook, add the outliers' products."""

from refemu.units.kllm.index_matmul.operands import Norm, Scores
from refemu.units.kllm.index_matmul.problem import Problem, require_problem
from refemu.units.kllm.index_matmul.unit import COUNTERS, UNIT, IndexMatmul, Result, State, matmul, ports, run

__all__ = [
    "COUNTERS",
    "UNIT",
    "IndexMatmul",
    "Norm",
    "Problem",
    "Result",
    "Scores",
    "State",
    "matmul",
    "ports",
    "require_problem",
    "run",
]
