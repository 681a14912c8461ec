"""Records of the operations of a block on KLLM's chip: bits of the memory, busy cycles, priced events.

Paper: [kllm §III-C2, §IV-A, §IV-C, §V-A, Table I]. Machine, cost of a run and cost of a shape make their records here.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.integers import total
from refemu.models.machine import fill
from refemu.models.machine.work import Work
from refemu.models.schemes.kllm.machine.filled import LaneTimes, Rows, at_once, fed, tiled
from refemu.models.schemes.kllm.machine.options import KB, KllmMachine
from refemu.units.declaration import decides
from refemu.units.kllm.kllm_chip import CLUSTERING
from refemu.units.kllm.orizuru import levels

FP16 = 16  #: bits of a value, a scale, an entry of a codebook
MASK = 1  #: bits of a value that say whether it is an outlier, as in the Out Buffer [kllm Table I]
SOFTMAX_PASSES, SOFTMAX_LANES = 3, 8  #: maximum, exponential, division, on eight units [kllm §IV-A]
MATRIX = ("lanes", "out buffer", "index buffer", "codebook buffer")  #: parts with a price that work on a product


class Read(NamedTuple):
    """What a product reads as its columns."""

    stream: str  #: "weights", "keys" or "values"
    bits: int  #: of an index
    metadata: int  #: bits of scales, masks, outliers, codebooks, of one reading


class Searched(NamedTuple):
    """Comparisons and cycles of Orizuru for a token."""

    comparisons: int
    cycles: int


@functools.lru_cache(maxsize=256)
def searched(n: int, k: int, machine: KllmMachine) -> Searched:
    """Orizuru for a token of n values, by passes of its inputs (D-kllm-60)."""
    comparisons = cycles = 0
    apart = False
    while n > machine.tree:
        sizes = [min(machine.tree, n - first) for first in range(0, n, machine.tree)]
        n = 0
        for size in sizes:
            used, taken = _pass(size, min(k, size), apart, machine)
            comparisons, cycles, n = comparisons + used, cycles + taken, n + min(k + 1, size)
        apart = True
    last = _pass(n, min(k, n), apart, machine)
    return Searched(comparisons + last[0], cycles + last[1])


def _pass(n: int, k: int, apart: bool, machine: KllmMachine) -> tuple[int, int]:
    """Comparisons and cycles of one pass [kllm §IV-C]. apart: each tree has its own leaves."""
    height, settling = levels(n), machine.settling(n)
    setup = ((1 << height) - 1) + ((1 << height) - 1 if apart else (1 << height) // 2 - 1)
    return setup + 2 * k * height, settling + k * (1 + settling)


def quantized(
    name: str,
    inliers: np.ndarray,
    cycles: int,
    after: tuple[str, ...] | None = None,
    stored: Mapping[str, int] | None = None,
) -> tuple[Work, Work]:
    """Search and clustering of some tokens. inliers: of every token; cycles: of the search of one, 0 without one.

    stored: bits that go to the memory, by stream.
    """
    passes = -(-inliers // CLUSTERING)
    search = Work(f"search.{name}", "quantize", {"search": cycles * len(inliers)}, cycles * len(inliers), after=after)
    clustered = int(total(passes))
    follows = {search.name: (cycles, int(passes[-1]))}
    return search, Work(
        f"index.{name}",
        "quantize",
        {"clustering": clustered},
        clustered,
        bits=stored or {},
        after=(),
        streams=follows,
    )


@decides("D-kllm-71")
def normed(tensor: str, size: int, left_out: np.ndarray, macs: int, machine: KllmMachine) -> Work:
    """The statistics of a norm: one more column of indices for each token, on the lanes' counters and MACs.

    left_out: outliers of every token. macs: products of all tokens, a square for every centroid and every outlier.
    """
    tokens = len(left_out)
    counted = tokens * max(-(-size // machine.chip.turn), 1)
    first, each = int(-(-(size - left_out[0]) // CLUSTERING)), -(-(counted + macs) // tokens)
    holds = ("counters", "MACs") if machine.norm == "parallel" else ("lanes",)
    events = {"counters": 0, "MACs": 0, **dict.fromkeys(MATRIX, 0)}
    return Work(
        f"norm.{tensor}",
        "norm",
        {"counters": counted, "MACs": macs},
        counted + macs,
        events=events | {"lanes": _share(counted + macs, machine)},
        after=(),
        streams={f"index.{tensor}": (first, each)},
        holds=holds,
    )


def _share(cycles: int, machine: KllmMachine) -> int:
    """Cycles of all lanes that cost as much as some cycles of one."""
    return -(-cycles // machine.lanes)


def product(
    name: str,
    kind: str,
    rows: Sequence[Rows],
    entries: int,
    read: Read,
    macs: int,
    machine: KllmMachine,
    extra: int = 0,
    heads: int = 1,
    bits: Mapping[str, int] | None = None,
    after: tuple[str, ...] = (),
    streams: Mapping[str, tuple[int, int]] | None = None,
) -> Work:
    """A product on the lanes. bits: more that passes the port, by stream."""
    alone, filling = times(tuple(rows), entries, read.bits, extra, heads, machine)
    readings = heads * sum(int(part.times) for part in rows)
    moved = {read.stream: filling.bits, "metadata": read.metadata * readings} | dict(bits or {})
    return Work(
        name,
        kind,
        {"counters": filling.counters, "MACs": filling.macs},
        alone.edges,
        filling.edges,
        {stream: number for stream, number in moved.items() if number},
        macs,
        {"counters": 0, "MACs": 0, **dict.fromkeys(MATRIX, alone.edges)},
        after,
        streams or {},
        ("lanes",),
    )


@functools.lru_cache(maxsize=512)
def times(
    rows: tuple[Rows, ...], entries: int, bits: int, extra: int, heads: int, machine: KllmMachine
) -> tuple[LaneTimes, LaneTimes]:
    """Edges of a product with all its columns there, and while they come."""
    chip = machine.chip
    laid = tiled(rows, chip, heads)
    return (
        fed(laid, chip, entries, bits, None, extra),
        fed(laid, chip, entries, bits, machine.rate, extra, machine.fill),
    )


def parts(sizes: np.ndarray, a_bits: int, entries: int, machine: KllmMachine) -> list[Rows]:
    """Rows that pass the columns together. sizes: int64 (rows, 3): positions, columns and left out positions."""
    rows = len(sizes)
    length, width, _ = sizes.max(axis=0).tolist()
    require_buffers(length, width, a_bits, machine)
    together = at_once(rows, length, width, a_bits, entries, machine.chip, machine.order)
    most = np.maximum.reduceat(sizes, np.arange(0, rows, together), axis=0)
    counts = np.full((len(most), 1), together)
    counts[-1] = rows - together * (len(most) - 1)
    each = np.concatenate([counts, most], axis=1)
    new = np.flatnonzero(np.any(each[1:] != each[:-1], axis=1)) + 1
    starts = np.concatenate([[0], new])
    times_ = np.diff(np.concatenate([starts, [len(each)]]))
    return [Rows._make([*row, number]) for row, number in zip(each[starts].tolist(), times_.tolist(), strict=True)]


def require_buffers(length: int, width: int, a_bits: int, machine: KllmMachine) -> None:
    """Raise Refused for a buffer that cannot hold a slab of weights of 4 bits, or a row of a product."""
    needed = {"weight_kb": 4 * machine.concat, "index_kb": length * a_bits, "out_kb": width * (FP16 + MASK)}
    for name, bits in needed.items():
        least, kilobytes = -(-bits // KB), getattr(machine, name)
        if least > kilobytes:
            row = f"a row of {length} values and {width} outputs"
            raise Refused(f"accelerator: {name} must be at least {least} for {row}, got {kilobytes}")


def sized(length: int | np.ndarray, width: int | np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """Sizes of rows for `parts`."""
    return np.stack(np.broadcast_arrays(length, width, left_out), axis=1).astype(np.int64)


class Linear(NamedTuple):
    """A linear layer."""

    name: str
    outputs: int
    bits: int  #: of an index of a weight
    extra: int = 0  #: edges for a shift and a bias
    norm: bool = False  #: whether the statistics of a norm scale its outputs


def linear(layer: Linear, tensor: str, a_bits: int, k: int, left_out: np.ndarray, machine: KllmMachine) -> Work:
    """The record of a linear layer over k positions. left_out: outliers of every row.

    The first rows of a batch are multiplied while later ones are clustered. Statistics of a norm come before, or end no
    later (D-kllm-71).
    """
    rows, entries = len(left_out), 1 << a_bits + layer.bits
    some = parts(sized(k, layer.outputs, left_out), a_bits, entries, machine)
    tail = times((some[-1]._replace(times=1),), entries, layer.bits, layer.extra, 1, machine)[1].edges
    metadata = layer.outputs * (1 + layer.extra) + (1 << layer.bits) + entries
    clustered = int(total(-(-(k - left_out[: some[0].number]) // CLUSTERING)))
    statistics = (f"norm.{tensor}",) if layer.norm else ()
    parallel = machine.norm == "parallel"
    return product(
        layer.name,
        "linear",
        some,
        entries,
        Read("weights", layer.bits, metadata * FP16),
        rows * k * layer.outputs,
        machine,
        layer.extra,
        bits=spilled(rows, k, layer.outputs, a_bits, int(total(left_out)), machine),
        after=() if parallel else statistics,
        streams=dict.fromkeys(statistics if parallel else (), (0, 0)) | {f"index.{tensor}": (clustered, tail)},
    )


@decides("D-kllm-72")
def spilled(rows: int, length: int, width: int, a_bits: int, outliers: int, machine: KllmMachine) -> dict[str, int]:
    """Bits of the activations and outputs of a batch that exceeds the buffers; others stay on the chip (D-kllm-72)."""
    fit = machine.chip.rows_at_once(length, width, a_bits, 1)
    if rows <= fit:
        return {}
    if machine.beyond == "refuse":
        product = f"a product of {length:,} values with {width:,} outputs"
        raise Refused(f"accelerator: the buffers hold {fit} tokens of {product}, got {rows}; or set beyond=spill")
    return {"activations": rows * length * (a_bits + MASK) + outliers * FP16, "outputs": rows * width * FP16}


def softmax(name: str, seen: np.ndarray, after: tuple[str, ...]) -> Work:
    """Softmax of some rows, by the keys that each sees."""
    cycles = int(total(SOFTMAX_PASSES * -(-seen // SOFTMAX_LANES)))
    return Work(name, "attention", {"functional": cycles}, cycles, after=after)


def untimed(name: str, kind: str, after: tuple[str, ...] | None = None) -> Work:
    """An operation for which the paper gives no clock."""
    return Work(name, kind, cycles=None, after=after)


@decides("D-kllm-68")
def together(keys: int, dim: int, kv_heads: int, rows: int, machine: KllmMachine) -> int:
    """KV heads whose products are on the lanes at once: as many as have lanes of their own in one of both products."""
    if machine.heads == "sequence":
        return 1
    chip = machine.chip
    columns = max(chip.macs // rows, 1)
    blocks = min(-(-keys // columns), -(-dim // columns))
    return max(1, min(kv_heads, chip.lanes // blocks))


@decides("D-kllm-73")
def head(tokens: int, width: int, vocab: int, machine: KllmMachine, after: tuple[str, ...] | None = None) -> Work:
    """The output matrix in fp16: a MAC has a column of a row, a weight an edge (D-kllm-36, D-kllm-73)."""
    rows = 1 if machine.order == "rows" else min(tokens, machine.macs)
    runs, readings = [], 0
    for count, times_ in ((rows, tokens // rows), (tokens % rows, 1)):
        if count:
            columns = machine.lanes * max(machine.macs // count, 1)
            runs.append(fill.Run(columns * FP16 // 8, 1, times_ * -(-vocab // columns) * width))
            readings += times_
    edges = sum(int(run.count) for run in runs)
    return Work(
        "head",
        "linear",
        {"MACs": edges},
        edges,
        fill.closed(runs, machine.rate / 8, 2).cycles,
        {"weights": readings * vocab * width * FP16, "outputs": tokens * vocab * FP16},
        tokens * vocab * width,
        {"MACs": 0, **dict.fromkeys(MATRIX[:2], edges)},
        after,
        holds=("lanes",),
    )
