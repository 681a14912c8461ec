"""Harmonia's array edge by edge: the readable form, and whole products by its kernel."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.pairs import Row, absolute, size
from refemu.formats import BFP8
from refemu.formats.groupint import INT4_G128
from refemu.units.harmonia.bfp_pe import bfp_dot, bfp_dot_int
from refemu.units.harmonia.bfp_pe_array import operands
from refemu.units.harmonia.bfp_pe_array_clocked import BfpPeArrayClocked, Product, edges, multiply

CYCLES, PE_CYCLES = 50, 20e6  #: a second, by the goals
BUSY = slice(17, 49)  #: edges in which all PEs of the array have a slot


def tensors(rows: int, columns: int, inner: int, weights: bool) -> tuple[Any, np.ndarray]:
    """Operands, and their product by the dot functions."""
    rng = np.random.default_rng(inner)
    a = BFP8.encode(rng.normal(size=(rows, inner)).astype(np.float16))
    w = rng.normal(size=(columns, inner))
    if weights:
        codes = INT4_G128.encode(w.astype(np.float32))
        return operands(a, codes), bfp_dot_int(a, codes)
    b = BFP8.encode(w.astype(np.float16))
    return operands(a, b), bfp_dot(a, b)


def stepped() -> list[Row]:
    """The readable array of 8 x 16 PEs, in M8W4, while all of them are busy."""
    stream = edges(tensors(8, 16, 64 * 32, weights=True)[0], 8, 16)
    array = BfpPeArrayClocked()
    for state in array.steps(**{name: values[: BUSY.start] for name, values in stream.items()}):
        begun = state
    middle = {name: values[BUSY] for name, values in stream.items()}
    count = BUSY.stop - BUSY.start

    def cycles() -> int:
        array.restore(begun)
        for state in array.steps(**middle):
            last = state
        return last.busy_pe_cycles - begun.busy_pe_cycles

    return [
        absolute(
            "HARMONIA-EDGE",
            f"bfp_pe_array_clocked 8 x 16, readable, {count} edges with all PEs busy",
            f"goal: {CYCLES} edges/s",
            count / CYCLES,
            cycles,
            lambda busy: busy == count * 8 * 16,
            count=5,
        )
    ]


def products() -> list[Row]:
    """Whole products of 64 tokens, in M8W4 and in M8M8."""
    rows = []
    for name, weights in (("M8W4", True), ("M8M8", False)):
        fields, due = tensors(*size((64, 256, 4096), (8, 16, 128)), weights)
        slots = multiply(fields).busy_pe_cycles

        def good(answer: Product, due: np.ndarray = due) -> bool:
            return answer.acc.view(np.float32).tobytes() == due.tobytes()

        rows.append(
            absolute(
                f"HARMONIA-ARRAY-{name}",
                f"bfp_pe_array_clocked 8 x 16: 64 x 4096 x 256 in {name}, {slots} busy PE-cycles",
                "goal: 20 M busy PE-cycles/s",
                slots / PE_CYCLES,
                partial(multiply, fields),
                good,
            )
        )
    return rows


ROWS: dict[str, Callable[[], list[Row]]] = {
    "HARMONIA-EDGE": stepped,
    "HARMONIA-ARRAY-M8W4 HARMONIA-ARRAY-M8M8": products,
}
