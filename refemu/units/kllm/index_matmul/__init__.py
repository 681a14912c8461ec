"""The index MatMul: concatenate indices, count them, reduce by the product codebook, add the outliers' products."""

from refemu.units.kllm.index_matmul.operands import Norm, Scores
from refemu.units.kllm.index_matmul.ports import NormPorts, ports
from refemu.units.kllm.index_matmul.problem import Problem, require_problem
from refemu.units.kllm.index_matmul.tensors import matmul
from refemu.units.kllm.index_matmul.unit import COUNTERS, UNIT, IndexMatmul, Result, State, run

__all__ = [
    "COUNTERS",
    "UNIT",
    "IndexMatmul",
    "Norm",
    "NormPorts",
    "Problem",
    "Result",
    "Scores",
    "State",
    "matmul",
    "ports",
    "require_problem",
    "run",
]
