"""RMSNorm and LayerNorm from counts of indices, in parallel with the matmul whose result they divide."""

from refemu.units.kllm.index_norm.index_norm import UNIT, IndexNorm, NormKind, Result, State, run
from refemu.units.kllm.index_norm.tensors import Divisors, divisors

__all__ = ["UNIT", "Divisors", "IndexNorm", "NormKind", "Result", "State", "divisors", "run"]
