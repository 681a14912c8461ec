"""RMSNorm and LayerNorm from counts of indices, in parallel with the matmul whose result they divide."""

from refemu.units.kllm.index_norm.index_norm import UNIT, IndexNorm, NormKind, Result, State, run
from refemu.units.kllm.index_norm.tensors import Divisors, divisors, divisors_by

__all__ = ["UNIT", "Divisors", "IndexNorm", "NormKind", "Result", "State", "divisors", "divisors_by", "run"]
