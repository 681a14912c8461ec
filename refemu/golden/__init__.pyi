"""Golden vectors: where cases come from, how they are written, checked, compared and exported.

golden.generate("vec", units=["ovp_decoder"])   # directories vec/<unit>-<configuration>/
golden.check("vec").equal                       # every file regenerated and compared
golden.load("vec/ovp_decoder-int4").arrays      # after all checks of manifest and hashes
golden.diff("vec/ovp_decoder-int4", "dut.npz")  # the first difference, decoded
golden.grade_set("vec/ovp_decoder-int4").survivors  # wrong devices that the set lets pass
"""

from .compare.cases import CaseChanges, diff_cases
from .compare.check import Checked, Finding, Report, check
from .compare.decode import Value
from .compare.diff import Difference, Mismatch, diff
from .explain.diagnosis import Diagnosis, Explanation
from .explain.histograms import Where
from .explain.variant_list import Choice, variants
from .files.sets import Golden, case_inputs, load
from .grade.entry import grade_set, grade_stimulus
from .grade.grade import Counts, Grade, Survivor
from .grade.minimize import Minimal, generate_minimal
from .make.generate import Summary, generate

__all__ = [
    "CaseChanges",
    "Checked",
    "Choice",
    "Counts",
    "Diagnosis",
    "Difference",
    "Explanation",
    "Finding",
    "Golden",
    "Grade",
    "Minimal",
    "Mismatch",
    "Report",
    "Summary",
    "Survivor",
    "Value",
    "Where",
    "case_inputs",
    "check",
    "diff",
    "diff_cases",
    "generate",
    "generate_minimal",
    "grade_set",
    "grade_stimulus",
    "load",
    "variants",
]
