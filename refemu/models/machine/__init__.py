"""Run a block of a real model at the ports of an accelerator and compare it with the scheme's tensors.

report = machine.run("smollm2-135m", "olive-4", layer=0, tokens=16, phase="prompt")
report.differing        # elements of all operations that differ from the scheme: 0
report.as_json()        # what `refemu machine --json` prints

machine.cost("smollm2-135m", "olive-4", tokens=16)      # of a whole run, by layer and kind of work
machine.of_shape("llama-2-7b", "kllm-a4", tokens=2048, phase="decode").total    # a model without weights
"""

from refemu.models.machine.cost import CostReport, LayerCost, of_shape
from refemu.models.machine.cost import run as cost
from refemu.models.machine.report import Absent, Blocks, Cost, Operation, Report
from refemu.models.machine.runner import PHASES, Phase, run
from refemu.models.machine.schedule import Placed, placed
from refemu.models.machine.shapes import SHAPES, Shape
from refemu.models.machine.system import OVERLAPS, STREAMS, Overlap, Price, System
from refemu.models.machine.work import Work

__all__ = [
    "OVERLAPS",
    "PHASES",
    "SHAPES",
    "STREAMS",
    "Absent",
    "Blocks",
    "Cost",
    "CostReport",
    "LayerCost",
    "Operation",
    "Overlap",
    "Phase",
    "Placed",
    "Price",
    "Report",
    "Shape",
    "System",
    "Work",
    "cost",
    "of_shape",
    "placed",
    "run",
]
