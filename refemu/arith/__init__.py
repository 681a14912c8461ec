"""Hardware arithmetic: bit fields, rounding, fp16, ordered sums, tables, random words. Knows no format."""

from refemu.arith import bits, dot, fp16, fp32, integers, orders, prng, rounding, tables, threads
from refemu.arith.checks import Refused, RefusedType

__all__ = [
    "Refused",
    "RefusedType",
    "bits",
    "dot",
    "fp16",
    "fp32",
    "integers",
    "orders",
    "prng",
    "rounding",
    "tables",
    "threads",
]
