"""Whole machines on real models: the operations of a block, at the machine's ports, beside the scheme's own tensors.

report = machine.run("smollm2-135m", "olive-4", layer=0, tokens=16, phase="prompt")
report.differing        # elements of all operations that differ from the scheme: 0
report.as_json()        # what `refemu machine --json` prints
"""

from refemu.models.machine.report import Absent, Operation, Report
from refemu.models.machine.runner import PHASES, Phase, run

__all__ = ["PHASES", "Absent", "Operation", "Phase", "Report", "run"]
