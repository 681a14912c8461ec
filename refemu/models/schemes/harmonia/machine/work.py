"""Work of the accelerator's parts as `Cost` and as shares of use, from the counters of `harmonia_core`.

Paper: [harmonia §IV-A, §IV-D]. Decisions: D-harmonia-36 (modes of groups of both widths), D-harmonia-49 (cycles are
those of the timeline).
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from refemu.arith.integers import total
from refemu.models.machine.report import Cost
from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS
from refemu.units.harmonia.harmonia_core import HarmoniaCore, Timeline
from refemu.units.harmonia.sub_pe import LANES

FP16 = "fp16"  #: mode of products outside the accelerator


def cost(core: HarmoniaCore, counters: Mapping[str, int], products: int, line: Timeline) -> Cost:
    """Cost of products of one size on their timeline, without the comparisons of the K-offset generator."""
    a, b = loads(core)
    stored = "weights" if core.b_type == "int4" else "kv"
    return Cost(
        modes(core, counters),
        comparisons=counters["comparisons"],
        conversions=0 if core.kind == "final" else products * core.rows * core.columns,
        words={"activations": products * (a + core.rows * core.columns), stored: products * b},
        cycles=line.clock,
    )


def modes(core: HarmoniaCore, counters: Mapping[str, int]) -> dict[str, int]:
    """MACs by mode."""
    if core.b_type == "int4":
        return {"M8W4": counters["macs"]}
    macs = {"M8M8": counters["wide_macs"], "M8M4": counters["macs"] - counters["wide_macs"]}
    return {mode: count for mode, count in macs.items() if count}


def use(counters: Mapping[str, int], line: Timeline) -> dict[str, float]:
    """Shares of the clocks in which a PE has a slot, in which parts work, and in which they wait."""
    slots, clock = (counters["macs"] + counters["wide_macs"]) // LANES, line.clock
    busy: dict[str, Fraction | int] = {
        "PEs": Fraction(slots, ROWS * COLUMNS),
        "array": line.busy["array"],
        "FP2Half": line.busy["fp2half"],
        "vector unit": line.busy["vector"],
        "offsets": line.busy["offset"],
        "comparators": line.busy["compare"],
        "aligner": line.busy["align"],
        "memory": line.busy["load"] + line.busy["store"],
        "waits for operands": line.waits.load,
        "waits for a buffer": line.waits.buffer,
        "waits for a bank": line.waits.bank,
        "waits for the aligner": line.waits.aligner,
    }
    return {part: float(clocks / clock) for part, clocks in busy.items() if clocks}


def timeline(core: HarmoniaCore, wide: np.ndarray, products: int) -> Timeline:
    """Products of one size in sequence (D-harmonia-49). wide: the port of each, (rows, units)."""
    from refemu.units.harmonia.harmonia_core import compiled as harmonia_core_compiled

    line, events = Timeline(), list(harmonia_core_compiled.events(core, wide))
    for _ in range(products):
        line.product(core, events)
    return line


def loads(core: HarmoniaCore) -> tuple[int, int]:
    """Elements of A and of B that a product fetches (D-harmonia-31)."""
    numbers: dict[int, list[int]] = {0: [0], 1: [0]}
    for action in core.plan:
        if action.event == "load":
            numbers[action.columns].append(action.number)
    a, b = (int(total(np.array(numbers[side]))) for side in (0, 1))
    return a, b


def head(model: Any, x: np.ndarray) -> Cost:
    """The output matrix, which stays in FP16 outside the accelerator."""
    words = {"weights": model.vocab * x.shape[1], "activations": x.size}
    return Cost({FP16: x.size * model.vocab}, words=words)
