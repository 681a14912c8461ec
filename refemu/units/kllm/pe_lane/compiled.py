"""Compiled form of pe_lane, edge by edge. [kllm §IV-A, Fig. 6]"""

from collections.abc import Mapping, Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derivation import Arrays, Rejected, compiled_run
from refemu.units.kllm.kernels.pe_lane import PORTS, REGISTERS, TOTALS, at_reset, lane_edge, of_lane, word
from refemu.units.kllm.pe_lane import UNIT, PeLane

#: scalar ports, in the order of the kernel
SCALARS = (
    *("load", "last", "tile_end", "turns", "go", "outliers", "opens", "closes", "shifts", "biases"),
    *("a_scale", "shift", "entry"),
)
#: scalar registers, in the order of the kernel
TRACED = (
    *("turns_held", "left_turns", "last_held", "end_held", "fresh", "merging", "merge_end", "columns", "full"),
    *("phase", "address", "working", "left", "work_closes", "work_shifts", "work_biases", "ready", "y_valid"),
)
assert len(SCALARS) == PORTS and len(TRACED) == REGISTERS


@compiled_run(UNIT)
def run(lane: PeLane, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Every edge of every device."""
    words = {port.name: array for port, array in zip(lane.ports.inputs, inputs, strict=True)}
    shown = {port.name: array for port, array in zip(lane.ports.outputs + lane.ports.state, outputs, strict=True)}
    totals, largest = np.zeros(TOTALS, np.int64), 0
    for device in range(len(words["load"])):
        traced, peak = _device(lane, {name: array[device] for name, array in words.items()}, totals)
        largest = max(largest, peak)
        for name, array in shown.items():
            array[device] = traced[name].reshape(array[device].shape)
    if largest >> lane.counter_bits:
        raise Rejected
    counts: list[int] = totals.tolist()
    return counts


def options(lane: PeLane) -> np.ndarray:
    """Sizes of a lane for the kernel."""
    apart = lane.lane_mapping == "counter"
    edges = lane.counters if lane.merge == "serial" and not apart else 1
    return np.array([0 if lane.integer else lane.b_bits, lane.positions, lane.inputs, apart, edges], np.int64)


def _device(lane: PeLane, words: Mapping[str, np.ndarray], totals: np.ndarray) -> tuple[dict[str, np.ndarray], int]:
    """Outputs and registers of one device after every edge, and the largest count."""
    edges, macs, size = len(words["load"]), lane.macs, lane.entries
    scalars = np.stack([words[name].astype(np.int64) for name in SCALARS], axis=1)
    slab = [words[name].reshape(edges, -1).astype(np.uint8) for name in ("a", "b", "valid")]
    tile, product = (
        np.stack([words[name].reshape(edges, macs).astype(np.int64) for name in names], axis=1)
        for names in (("b_scale", "row_sum", "bias"), ("x", "w"))
    )
    coded = np.stack([words[name].reshape(edges, macs) for name in ("sparse", "x_coded", "w_coded")], axis=1)
    control, held = np.empty((edges, REGISTERS), np.int64), np.empty((edges, 2, lane.concat), np.uint8)
    amount = np.empty((edges, lane.positions if lane.integer else 0), np.uint8)
    banks = [np.empty((edges, lanes, size), np.int64) for lanes in (lane.counters, macs, macs)]
    work, scales = np.empty((edges, 3, macs), np.int64), np.empty((edges, 2), np.int64)
    sums, overflow = np.empty((edges, 4, macs), np.uint16), np.empty((edges, macs), np.uint8)
    arrays = (control, held, amount, *banks, work, scales, sums, overflow)
    peak = _edges(options(lane), scalars, (*slab, tile, product, coded.astype(np.uint8)), arrays, totals)
    traced: dict[str, np.ndarray] = {name: control[:, at] for at, name in enumerate(TRACED)}
    traced |= {"q": held[:, 0], "q_valid": held[:, 1], "amount": amount, "overflow": overflow}
    traced |= dict(zip(("count", "counted", "reducing"), banks, strict=True))
    traced |= {f"work_{name}": work[:, at] for at, name in enumerate(("b_scale", "row_sum", "bias"))}
    traced |= {"work_a_scale": scales[:, 0], "work_shift": scales[:, 1]}
    return traced | {name: sums[:, at] for at, name in enumerate(("acc", "outside", "joint", "y"))}, int(peak)


@kernel
def _edges(options, scalars, inputs, traced, totals):  # type: ignore[no-untyped-def]
    """Fill the traced arrays with the registers after every edge; return the largest count."""
    a, b, valid, tile, product, coded = inputs
    control, held, amount, count, counted, reducing, work, scales, sums, overflow = traced
    sizes = held.shape[2], amount.shape[1], count.shape[1], work.shape[2], count.shape[2]
    registers, peak = of_lane(at_reset(1, *sizes), 0), np.int64(0)
    r, slab, amounts, counts, filled, read, words, pair, values, flags = registers
    for edge in range(scalars.shape[0]):
        taken = a[edge], b[edge], valid[edge], tile[edge], product[edge], coded[edge]
        peak = max(peak, lane_edge(options, scalars[edge], taken, registers, totals))
        control[edge], held[edge], amount[edge] = r, slab, amounts
        count[edge], counted[edge], reducing[edge] = counts, filled, read
        work[edge], scales[edge], overflow[edge] = words, pair, flags
        for row in range(4):
            for j in range(sums.shape[2]):
                sums[edge, row, j] = word(values[row, j])
    return peak
