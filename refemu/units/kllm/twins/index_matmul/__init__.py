"""Compiled twin of index_matmul: between the ports, and over whole matrices. [kllm §III-B, §III-D]"""

from refemu.units.kllm.twins.index_matmul.ports import run
from refemu.units.kllm.twins.index_matmul.unit import Prepared, distribution, matmul, outputs, prepare

__all__ = ["Prepared", "distribution", "matmul", "outputs", "prepare", "run"]
