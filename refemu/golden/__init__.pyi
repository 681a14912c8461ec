"""Golden vectors: where cases come from, how they are written, checked, compared and exported.

golden.generate("vec", units=["ovp_decoder"])   # directories vec/<unit>-<configuration>/
golden.check("vec").equal                       # every file regenerated and compared
golden.load("vec/ovp_decoder-int4").arrays      # after all checks of manifest and hashes
golden.diff("vec/ovp_decoder-int4", "dut.npz")  # the first difference, decoded
"""

from .compare.check import Checked, Finding, Report, check
from .compare.decode import Value
from .compare.diff import Difference, Mismatch, diff
from .files.sets import Golden, case_inputs, load
from .make.generate import Summary, generate

__all__ = [
    "Checked",
    "Difference",
    "Finding",
    "Golden",
    "Mismatch",
    "Report",
    "Summary",
    "Value",
    "case_inputs",
    "check",
    "diff",
    "generate",
    "load",
]
