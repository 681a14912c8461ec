"""Compiled form of olive_edp_clocked: operations of compiled olive_edp, spread over edges. [olive §4.1, Fig. 6a]"""

from collections.abc import Sequence

import numpy as np

from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kernels import cycle_accurate as clocked_kernels
from refemu.units.olive.olive_edp import EVENTS
from refemu.units.olive.olive_edp import compiled as olive_edp_compiled
from refemu.units.olive.olive_edp_clocked import UNIT, ClockedDotProductUnit

DECODE, MULTIPLY, SHIFT, REDUCE = range(len(EVENTS))
#: the event that writes each register; the first one where not listed
WRITTEN = {"shifts": MULTIPLY, "products": MULTIPLY, "shifted": SHIFT, "above": SHIFT, "d": REDUCE, "overflow": REDUCE}


@compiled_run(UNIT)
def run(device: ClockedDotProductUnit, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Compute every operation once; a row shows what its events so far have written."""
    start, *operands = inputs
    plan = clocked_kernels.plan(start, len(EVENTS))
    taken = [plan.taken(operand) for operand in operands]
    whole = olive_edp_compiled.run(*taken, a=device.a, b=device.b, overflow=device.overflow)
    rows = {"busy": plan.busy, "valid": plan.valid, "phase": plan.phase, "c_held": plan.shown(taken[-1], DECODE)}
    for port, out in zip(device.ports.outputs + device.ports.state, outputs, strict=True):
        name = port.name
        out[:] = rows[name] if name in rows else plan.shown(getattr(whole, name), WRITTEN.get(name, DECODE))
    times = [int(np.count_nonzero(plan.rows(phase))) for phase in range(len(EVENTS))]
    closed = plan.operation[plan.valid] - 1
    flags = [int(np.count_nonzero(array[closed])) for array in (whole.overflow, whole.illegal)]
    return times[REDUCE], device.n * times[MULTIPLY], device.n * times[DECODE], *flags
