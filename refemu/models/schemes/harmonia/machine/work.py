"""Work of the accelerator's parts as `Cost`, as records of the machine, and as shares of use.

Paper: [harmonia §IV-A, §IV-D]. Decisions: D-harmonia-36 (modes of groups of both widths), D-harmonia-49 (cycles are
those of the timeline). Machine, cost of a run and cost of a shape come from here.
"""

import functools
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from refemu.models.machine.report import Cost
from refemu.models.machine.work import Work
from refemu.models.schemes.harmonia.machine.flow import Flow, timed
from refemu.models.schemes.harmonia.machine.options import B_TYPES, MACS, HarmoniaMachine
from refemu.models.schemes.harmonia.machine.sizes import BFP8, Product, moved, packed
from refemu.units.declaration import decides
from refemu.units.harmonia.bfp_pe_array import ROWS
from refemu.units.harmonia.fdgf import COLUMN_MAJOR, ROW_MAJOR, FdgfController
from refemu.units.harmonia.sub_pe import LANES

FP16 = "fp16"  #: mode of products outside the accelerator
WORD = 16  #: bits of a word of the cache in the column "kv"
#: engines of a record by part of the timeline
ENGINES = {
    "array": "array",
    "fp2half": "FP2Half",
    "vector": "vector unit",
    "offset": "offsets",
    "compare": "comparators",
    "align": "aligner",
}


def cost(name: str, kind: str, product: Product, stream: str, machine: HarmoniaMachine, times: int = 1) -> Cost:
    """Cost of products of one size on their timeline. stream: of B, "weights", "keys" or "values"."""
    done, loads = _flow(product, machine, times, False), moved(product)
    a, b = (times * each for each in loads.elements)
    stored = times * product.stored
    bits = loads.bits * times
    held = {"weights": b} if stream == "weights" else {"kv": -(-(bits.b + bits.b_shared) // WORD)}
    return Cost(
        modes(product, done),
        comparisons=times * comparisons(product),
        conversions=0 if product.plain else stored,
        words={"activations": a + stored, **held},
        cycles=done.clock,
        works=(record(name, kind, product, stream, machine, times),),
    )


def record(name: str, kind: str, product: Product, stream: str, machine: HarmoniaMachine, times: int = 1) -> Work:
    """The record of products of one size."""
    done = _flow(product, machine, times, False)
    bits = moved(product).bits * times
    moves = {
        stream: bits.b,
        "activations": bits.a,
        "outputs": bits.c,
        "metadata": bits.a_shared + bits.b_shared + bits.c_shared,
    }
    return Work(
        name,
        kind,
        {engine: done.busy[part] for part, engine in ENGINES.items() if done.busy[part]},
        done.clock,
        _flow(product, machine, times, True).clock,
        {stream_: number for stream_, number in moves.items() if number},
        times * product.rows * product.inner * product.columns,
    )


@functools.lru_cache(maxsize=256)
def _flow(product: Product, machine: HarmoniaMachine, times: int, fed: bool) -> Flow:
    return timed(product, machine.port(fed), times)


def modes(product: Product, done: Flow) -> dict[str, int]:
    """MACs by mode; those of a baseline by its operands."""
    macs = LANES * done.pairs
    if product.kind not in ("score", "context") and product.low is None and product.b.group > LANES:
        return {"M8W4" if product.a.shared else "fp16 x INT4": macs}
    if not product.a.shared:
        return {FP16: macs}
    wide = LANES * done.wide
    return {mode: count for mode, count in {"M8M8": wide, "M8M4": macs - wide}.items() if count}


def comparisons(product: Product) -> int:
    """Comparisons of exponents in the converter; those of the K-offset generator are work of its own."""
    if product.plain:
        return 0
    return product.stored if product.kind != "v" else ROWS * -(-product.rows // ROWS) * product.columns


def use(product: Product, machine: HarmoniaMachine, times: int = 1) -> dict[str, float]:
    """Shares of the clocks in which a PE has a slot, in which parts work, and in which one waits for another."""
    line = _flow(product, machine, times, True)
    slots = line.pairs * product.slots if product.low is None else line.pairs + line.wide
    busy: dict[str, Fraction | int] = {"PEs": Fraction(slots * LANES, MACS)}
    busy |= {engine: line.busy[part] for part, engine in ENGINES.items()}
    busy |= {
        "memory": line.busy["load"] + line.busy["store"],
        "array waits for operands": line.waits.load,
        "memory waits for a buffer": line.waits.buffer,
        "columns wait for a bank": line.waits.bank,
        "blocks wait for the aligner": line.waits.aligner,
    }
    return {part: float(clocks / line.clock) for part, clocks in busy.items() if clocks}


def flow(product: Product) -> dict[str, int]:
    """FDGF's dataflow, 1 column-major or 2 row-major, its tiles, and what either reads of all tiles of A and B.

    Bits only for formats that FDGF has: codes of both widths count as wide ones.
    """
    tiles, sizes = (product.tile_m, product.tile_k), (product.rows, product.inner, product.columns)
    controllers = {"elements": FdgfController(*tiles)}
    if product.a == BFP8 and product.b in B_TYPES:
        controllers["bits"] = FdgfController(*tiles, "bits", B_TYPES[product.b])
    reads = {
        f"{unit} {order}": ceil(controller.ema(*sizes, way))
        for unit, controller in controllers.items()
        for order, way in (("column-major", COLUMN_MAJOR), ("row-major", ROW_MAJOR))
    }
    return {"dataflow": product.way, "tile rows": tiles[0], "tile columns": tiles[1], **reads}


def converted(name: str, tokens: int, channels: int, after: tuple[str, ...] | None = None) -> Cost:
    """Conversion of a matrix, by tokens."""
    from refemu.units.harmonia.bfp_converter import compiled as bfp_converter_compiled

    _, cycles, _, _, compared = bfp_converter_compiled.stream(tokens, channels, "token")
    busy = {"comparators": cycles, "aligner": cycles}
    record_ = Work(name, "quantize", busy, cycles, after=after)
    return Cost(comparisons=compared, conversions=tokens * channels, cycles=cycles, works=(record_,))


def untimed(name: str, kind: str) -> Work:
    """An operation for which the paper gives no clock."""
    return Work(name, kind, cycles=None)


@decides("D-harmonia-59")
def visible(product: Product, keys: np.ndarray, machine: HarmoniaMachine) -> Product:
    """The product, with the keys that each row may see, whose tiles beyond them are skipped."""
    return replace(product, keys=packed(keys)) if machine.future == "skip" else product


def head(rows: int, width: int, vocab: int) -> Cost:
    """The output matrix, which stays in FP16 outside the accelerator."""
    words = {"weights": vocab * width, "activations": rows * width}
    return Cost({FP16: rows * width * vocab}, words=words, works=(untimed("head", "linear"),))


def outputs(model: Any, x: np.ndarray) -> Cost:
    """The output matrix of a model."""
    return head(len(x), x.shape[1], model.vocab)
