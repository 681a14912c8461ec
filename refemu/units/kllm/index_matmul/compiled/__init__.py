"""Compiled form of index_matmul: between the ports, and over whole matrices. [kllm §III-B, §III-D]"""

from refemu.units.kllm.index_matmul.compiled.index_matmul import Prepared, distribution, matmul, outputs, prepare
from refemu.units.kllm.index_matmul.compiled.ports import run

__all__ = ["Prepared", "distribution", "matmul", "outputs", "prepare", "run"]
