"""Run a block of a real model at the ports of an accelerator and compare it with the scheme's tensors.

report = machine.run("smollm2-135m", "olive-4", layer=0, tokens=16, phase="prompt")
report.differing        # elements of all operations that differ from the scheme: 0
report.as_json()        # what `refemu machine --json` prints

machine.cost("smollm2-135m", "olive-4", tokens=16)      # of a whole run, by layer and kind of work
"""

from refemu.models.machine.cost import CostReport, LayerCost
from refemu.models.machine.cost import run as cost
from refemu.models.machine.report import Absent, Cost, Operation, Report
from refemu.models.machine.runner import PHASES, Phase, run

__all__ = ["PHASES", "Absent", "Cost", "CostReport", "LayerCost", "Operation", "Phase", "Report", "cost", "run"]
