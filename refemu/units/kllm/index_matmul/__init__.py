"""The index MatMul: concatenate indices, count them, reduce by the product codebook, add the outliers' products."""

from refemu.units.kllm.index_matmul.index_matmul import UNIT, IndexMatmul, Result, State, matmul, run
from refemu.units.kllm.index_matmul.operands import Norm, Scores
from refemu.units.kllm.index_matmul.ports import NormPorts
from refemu.units.kllm.index_matmul.problem import Problem, require_problem

__all__ = [
    "UNIT",
    "IndexMatmul",
    "Norm",
    "NormPorts",
    "Problem",
    "Result",
    "Scores",
    "State",
    "matmul",
    "require_problem",
    "run",
]
