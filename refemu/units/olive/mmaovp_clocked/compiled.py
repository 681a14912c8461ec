"""Compiled form of mmaovp_clocked: compiled olive_edp computes tiles chunk by chunk, spread over edges. [olive §4.6]"""

from collections.abc import Sequence

import numpy as np

from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kernels import cycle_accurate as clocked_kernels
from refemu.units.olive.mmaovp import CHUNKS, COLUMNS, EDPS, OPERATIONS, ROWS, TYPES
from refemu.units.olive.mmaovp_clocked import UNIT, ClockedMmaOvp
from refemu.units.olive.olive_edp import compiled as olive_edp_compiled

TILE = ROWS * COLUMNS


@compiled_run(UNIT)
def run(device: ClockedMmaOvp, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Compute every tile chunk by chunk; a row shows the elements that its events so far have reached."""
    start, *operands = inputs
    plan = clocked_kernels.plan(start, OPERATIONS)
    taken = [plan.taken(operand) for operand in operands]
    d, overflow, illegal = _chunks(device, *taken)
    bad = illegal.transpose(1, 2, 0).reshape(-1, OPERATIONS)
    values = {
        "d": plan.traced(_reached([taken[-1], *d])),
        "overflow": plan.traced(_reached([np.zeros_like(overflow[0]), overflow[0], overflow[0] | overflow[1]])),
        "illegal": plan.traced(np.logical_or.accumulate(bad, axis=1)),
        "busy": plan.busy,
        "valid": plan.valid,
        "phase": plan.phase,
        **{f"{name}_held": plan.shown(array, 0) for name, array in zip(device.held, taken, strict=False)},
    }
    for port, out in zip(device.ports.outputs + device.ports.state, outputs, strict=True):
        out[:] = values[port.name]
    operations, n = int(np.count_nonzero(plan.active)), 2 * device.chunk
    over = overflow.transpose(1, 2, 0).reshape(-1, OPERATIONS)
    ends = np.broadcast_to(np.arange(OPERATIONS) % EDPS == EDPS - 1, over.shape)
    return operations, n * operations, n * operations, *(plan.counted(each) for each in (over, bad, ends))


def _chunks(
    device: ClockedMmaOvp, a: np.ndarray, b: np.ndarray, bias_a: np.ndarray, bias_b: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """d, overflow and illegal (chunks, tiles, elements) of the dot product operations, each chunk onto the d before."""
    left = a.reshape(-1, ROWS, 1, CHUNKS, device.chunk)
    right = b.reshape(-1, 1, COLUMNS, CHUNKS, device.chunk)
    biases = [bias.reshape(-1, 1, 1) for bias in (bias_a, bias_b)]
    config = {"a": TYPES[device.a_type], "b": TYPES[device.b_type], "overflow": device.overflow}
    d, chunks = c.reshape(-1, ROWS, COLUMNS), []
    for chunk in range(CHUNKS):
        chunks.append(olive_edp_compiled.run(left[..., chunk, :], right[..., chunk, :], *biases, d, **config))
        d = chunks[-1].d
    columns = ([getattr(each, name).reshape(-1, TILE) for each in chunks] for name in ("d", "overflow", "illegal"))
    first, second, third = (np.array(column) for column in columns)
    return first, second, third


def _reached(values: Sequence[np.ndarray]) -> np.ndarray:
    """By tile and event (tiles, events, elements). values: of all elements after no chunk, the first, the second."""
    chunks = np.clip(np.arange(OPERATIONS)[:, None] - CHUNKS * np.arange(TILE) + 1, 0, CHUNKS)
    return np.take_along_axis(
        np.stack(values, axis=1), np.broadcast_to(chunks, (len(values[0]), OPERATIONS, TILE)), axis=1
    )
