"""KLLM's PE lane, clocked [kllm §III-B, §III-D, §IV-A, §IV-B, Fig. 6, Table I], from times and queues of events.

Slabs, columns and tiles happen at the times of `lane_times`; a register after an edge is what the last event up to then
wrote, from the positions that the slabs held and from rounded products.

    edges(sizes, inputs)                     outputs, registers and counters after every edge since reset
    product(sizes, a, columns, ...)          outputs of one tile from values alone
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.oracles import fp16
from tests.oracles.kllm.lane_times import NEVER, Column, Edge, Schedule, Slab, schedule

Ports = Mapping[str, Any]
ONE = 0x3C00
IDLE, REDUCE, SPARSE, SCALE, MERGE, SHIFT, BIAS = range(7)
SCALARS = (
    "load", "last", "tile_end", "outliers", "opens", "closes", "shifts", "biases", "a_scale", "shift", "go", "entry",
)  # fmt: skip
WORK = ("closes", "shifts", "biases", "a_scale", "shift")  #: ports that a tile keeps
COLUMN_WORK = ("b_scale", "row_sum", "bias")  #: of every MAC
LANES = ("row_sum", "b_scale", "bias", "sparse", "x", "w", "x_coded", "w_coded")  #: inputs with a lane for every MAC
COUNTERS = (
    "cycles", "count_cycles", "stalls", "merge_cycles", "mac_cycles", "tiles", "concats", "indices",
    "lookups", "macs_reduce", "macs_sparse", "dequants", "mults_scale", "adds_merge", "overflows",
)  # fmt: skip


class Sizes(NamedTuple):
    """Sizes and options of a lane."""

    concat: int
    counters: int
    inputs: int
    macs: int
    a_bits: int
    b_bits: int
    integer: bool = False
    lane_mapping: str = "column"
    merge: str = "tree"
    counter_bits: int = 16

    @property
    def entries(self) -> int:
        """Registers of a counter."""
        return 1 << (self.b_bits if self.integer else self.a_bits + self.b_bits)

    @property
    def shared(self) -> bool:
        """Whether all counters work on one column."""
        return self.lane_mapping == "column"

    @property
    def positions(self) -> int:
        """Positions of a column in a slab."""
        return self.concat if self.shared else self.concat // self.counters

    @property
    def merge_edges(self) -> int:
        """Edges that a merge takes."""
        return self.counters if self.shared and self.merge == "serial" else 1


# Values.


def mac(a: int, b: int, s: int) -> int:
    """s + a * b, both rounded."""
    return fp16.add(s, fp16.mul(a, b))


def half(count: int) -> int:
    """A count as an fp16 word."""
    return fp16.from_float(float(count))


def endless(word: int) -> bool:
    """Whether a word is infinite or NaN."""
    return word & 0x7C00 == 0x7C00


def sparse_term(ports: Ports, lane: int, a_scale: int, b_scale: int, outside: int) -> int:
    """The sum of sparse products with that of one lane, which is dequantized where it is coded."""
    x = fp16.mul(a_scale, ports["x"][lane]) if ports["x_coded"][lane] else ports["x"][lane]
    w = fp16.mul(b_scale, ports["w"][lane]) if ports["w_coded"][lane] else ports["w"][lane]
    return mac(x, w, outside)


def product(
    sizes: Sizes,
    a: Sequence[int],
    columns: Sequence[Sequence[int]],
    valid: Sequence[Sequence[int]],
    entries: Sequence[int],
    a_scale: int,
    b_scale: Sequence[int],
    sparse: Sequence[Ports] = (),
    shift: int | None = None,
    row_sum: Sequence[int] = (),
    bias: Sequence[int] | None = None,
    parts: Sequence[int] = (),
) -> list[int]:
    """Y of every column.

    a: index or integer of every position. columns, valid: of every column, index and whether it counts, by position.
    entries: words of the product codebook. sparse: ports of the sparse edges. shift, bias: None where there is none.
    parts: lengths of the parts of K that are counted and reduced one after the other; all at once if empty.
    """
    result = []
    for j, b in enumerate(columns):
        inside, at = 0, 0
        for length in parts or [len(a)]:
            tally: Counter[int] = Counter()
            for k in range(at, at + length):
                if valid[j][k]:
                    tally[b[k] if sizes.integer else a[k] * 2**sizes.b_bits + b[k]] += a[k] if sizes.integer else 1
            at += length
            for index, word in enumerate(entries):
                inside = mac(half(tally[index]), word, inside)
        outside = 0
        for ports in sparse:
            if ports["sparse"][j]:
                x = fp16.mul(a_scale if ports["x_coded"][j] else ONE, ports["x"][j])
                w = fp16.mul(b_scale[j] if ports["w_coded"][j] else ONE, ports["w"][j])
                outside = mac(x, w, outside)
        y = mac(inside, fp16.mul(a_scale, b_scale[j]), outside)
        y = y if shift is None else mac(shift ^ fp16.SIGN, row_sum[j], y)
        result.append(y if bias is None else mac(bias[j], ONE, y))
    return result


# Edges.


class Log:
    """Registers written and counters raised, each with its edge, in the order of cause and effect."""

    def __init__(self) -> None:
        self.written: list[tuple[Edge, dict[str, Any]]] = []
        self.raised: list[tuple[Edge, dict[str, int]]] = []

    def write(self, edge: Edge, **registers: Any) -> None:
        self.written.append((edge, registers))

    def add(self, edge: Edge, **counters: int) -> None:
        self.raised.append((edge, counters))

    def play(self, length: int, reset: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Everything after each edge; the last write of an edge wins."""
        state, rows = dict(reset), [dict[str, Any]() for _ in range(length)]
        more = [Counter[str](cycles=1) for _ in range(length)]
        for edge, counters in self.raised:
            if edge < length:
                more[int(edge)].update(counters)
        for edge, registers in self.written:
            if edge < length:
                rows[int(edge)].update(registers)
        for row, counters in zip(rows, more, strict=True):
            state |= row
            state |= {name: state[name] + n for name, n in counters.items()}
            row |= state
        return rows


def edges(sizes: Sizes, inputs: Sequence[Ports]) -> list[dict[str, Any]]:
    """Output ports, registers and counters after every edge from reset; `inputs` has the ports of every edge."""
    inputs = [filled(sizes, ports) for ports in inputs]

    def first(port: str, edge: Edge) -> Edge:
        return next((n for n in range(int(edge), len(inputs)) if inputs[n][port]), NEVER) if edge < NEVER else NEVER

    def shape(edge: int) -> tuple[int, int, int]:
        ports = inputs[edge]
        if not 1 <= ports["turns"] <= sizes.concat // (sizes.counters * sizes.inputs):
            raise ValueError(f"edge {edge}: a slab of {ports['turns']} turns")
        return ports["turns"], ports["last"], ports["tile_end"] & ports["last"]

    plan = schedule(
        lambda edge: first("load", edge),
        shape,
        lambda edge: first("go", edge),
        lambda edge: sum(phase_edges(sizes, inputs[int(edge)]).values()),
        sizes.merge_edges,
        sizes.macs if sizes.shared else 1,
    )
    log = Log()
    handshake(log, plan, len(inputs))
    tiles = counting(log, sizes, plan, inputs)
    reducing(log, sizes, plan, tiles, inputs)
    return log.play(len(inputs), reset(sizes))


def filled(sizes: Sizes, ports: Ports) -> dict[str, Any]:
    """Ports with zeros for those that are not given."""
    none = dict[str, Any].fromkeys(SCALARS, 0) | {"turns": 1, "a": [0] * sizes.positions}
    none |= {name: [0] * sizes.concat for name in ("b", "valid")}
    return none | {name: [0] * sizes.macs for name in LANES} | dict(ports)


def reset(sizes: Sizes) -> dict[str, Any]:
    """Everything before the first edge."""
    zeros = ("full", "phase", "address", "y_valid", "left_turns", "turns_held", "merging", "columns", "working", "left")
    held = ("last_held", "end_held", "merge_end", *(f"work_{name}" for name in WORK))
    none: dict[str, Any] = dict.fromkeys([*COUNTERS, *zeros, *held], 0) | {"ready": 1, "fresh": 1}
    none |= {name: [0] * sizes.macs for name in ("y", "overflow", "acc", "outside", "joint")}
    none |= {f"work_{name}": [0] * sizes.macs for name in COLUMN_WORK}
    none |= {name: [0] * (sizes.macs * sizes.entries) for name in ("counted", "reducing")}
    none |= {name: [0] * sizes.concat for name in ("q", "q_valid")}
    return none | {"count": [0] * (sizes.counters * sizes.entries)} | amounts(sizes, [0] * sizes.positions)


def amounts(sizes: Sizes, a: Sequence[int]) -> dict[str, list[int]]:
    """The amount registers, which a lane of integers has."""
    return {"amount": list(a)} if sizes.integer else {}


def handshake(log: Log, plan: Schedule, length: int) -> None:
    """`ready`, and the edges that wait for a merge."""
    for slab, ready in zip(plan.slabs, plan.ready[1:], strict=True):
        log.write(slab.load, ready=0)
        log.write(ready - 1, ready=1)
        for edge in range(slab.load + 1, int(min(slab.turns[0], length))):
            log.add(edge, stalls=1)


def counting(log: Log, sizes: Sizes, plan: Schedule, inputs: Sequence[Ports]) -> list[list[list[int]]]:
    """Loads, turns, merges and banks; the histograms of the columns of every tile."""
    tiles: list[list[list[int]]] = [[]]
    for number, column in enumerate(plan.columns):
        slabs = [slab for slab in plan.slabs if slab.column == number]
        merge(log, sizes, column, count(log, sizes, slabs, inputs, True), tiles[-1])
        if column.ends:
            log.write(column.merges[-1], full=1)
            zeros = [0] * (sizes.macs * sizes.entries)
            log.write(plan.tiles[column.tile].swap, full=0, columns=0, counted=zeros)
            tiles.append([])
    count(log, sizes, [slab for slab in plan.slabs if slab.column == len(plan.columns)], inputs, False)
    return tiles


def count(log: Log, sizes: Sizes, slabs: Sequence[Slab], inputs: Sequence[Ports], whole: bool) -> list[Counter[int]]:
    """Counters over the slabs of a column; the registers of each. whole: the last slab ends the column."""
    tallies = [Counter[int]() for _ in range(sizes.counters)]
    for slab in slabs:
        ports, turns = inputs[slab.load], len(slab.turns)
        q = latch(log, sizes, slab, ports)
        for turn, edge in enumerate(slab.turns):
            lanes = [lane for lane in lanes_of(sizes, turn) if ports["valid"][lane[1]]]
            for counter, lane in lanes:
                tallies[counter][q[lane]] += ports["a"][lane % sizes.positions] if sizes.integer else 1
            values = [tally[index] for tally in tallies for index in range(sizes.entries)]
            if max(values) >> sizes.counter_bits and edge < len(inputs):
                raise ValueError(f"edge {edge}: a count of {max(values)} for {sizes.counter_bits} bits")
            ends = int(whole and slab is slabs[-1] and turn == turns - 1)
            log.write(edge, count=values, left_turns=turns - turn - 1, fresh=ends)
            log.add(edge, count_cycles=1, indices=len(lanes))
            if ends:
                log.write(edge, merging=sizes.merge_edges, merge_end=ports["last"] & ports["tile_end"])
    return tallies


def latch(log: Log, sizes: Sizes, slab: Slab, ports: Ports) -> list[int]:
    """Concatenated indices of the lanes of a slab."""
    a, b = ports["a"], ports["b"]
    q = [index if sizes.integer else a[lane % sizes.positions] << sizes.b_bits | index for lane, index in enumerate(b)]
    turns = len(slab.turns)
    log.write(slab.load, q=q, q_valid=list(ports["valid"]), left_turns=turns, turns_held=turns, **amounts(sizes, a))
    log.write(slab.load, last_held=ports["last"], end_held=ports["last"] & ports["tile_end"])
    log.add(slab.load, concats=0 if sizes.integer else sizes.concat)
    return q


def lanes_of(sizes: Sizes, turn: int) -> Iterator[tuple[int, int]]:
    """Counter and lane of every position that a turn counts."""
    for counter in range(sizes.counters):
        first = turn * sizes.counters + counter if sizes.shared else turn
        start = first * sizes.inputs + (0 if sizes.shared else counter * sizes.positions)
        yield from ((counter, lane) for lane in range(start, start + sizes.inputs))


def merge(log: Log, sizes: Sizes, column: Column, tallies: Sequence[Counter[int]], tile: list[list[int]]) -> None:
    """The bank with one more column, or with one of each counter; the whole histograms go to `tile`."""
    done = list(tile)
    for number, edge in enumerate(column.merges, 1):
        left = sizes.merge_edges - number
        parts = [sum(tallies[: len(tallies) - left], Counter())] if sizes.shared else tallies
        tile[:] = [*done, *([part[index] for index in range(sizes.entries)] for part in parts)]
        if len(tile) > sizes.macs:
            raise ValueError(f"edge {edge}: {len(tile)} columns for {sizes.macs} MACs")
        counted = [value for histogram in tile for value in histogram]
        if max(counted) >> sizes.counter_bits and edge < NEVER:
            raise ValueError(f"edge {edge}: a count of {max(counted)} for {sizes.counter_bits} bits")
        counted += [0] * (sizes.macs * sizes.entries - len(counted))
        log.write(edge, merging=left, counted=counted, columns=len(tile) if left == 0 else len(done))
        log.add(edge, merge_cycles=1)


# MACs.


def phase_edges(sizes: Sizes, ports: Ports) -> dict[int, int]:
    """Edges that a tile spends in each phase, by the ports of the edge that takes it."""
    if not ports["closes"]:
        return {REDUCE: sizes.entries}
    rest = {SPARSE: ports["outliers"], SCALE: 1, MERGE: 1, SHIFT: ports["shifts"], BIAS: ports["biases"]}
    return {phase: n for phase, n in ({REDUCE: sizes.entries} | rest).items() if n}


class Macs:
    """The accumulators of the MACs, and what an edge of a phase makes of them."""

    def __init__(self, sizes: Sizes) -> None:
        self.macs, self.entries = sizes.macs, sizes.entries
        self.work: Ports = {}
        self.histograms: list[list[int]] = []
        self.acc, self.outside, self.joint, self.y = ([0] * sizes.macs for _ in range(4))

    def begin(self, work: Ports, histograms: list[list[int]]) -> None:
        """A tile."""
        self.work, self.histograms = work, histograms
        if work["opens"]:
            self.acc, self.outside = [0] * self.macs, [0] * self.macs

    def each(self, old: Sequence[int], new: Callable[[int], int]) -> list[int]:
        """New values for the MACs that have a column."""
        return [new(j) if j < len(self.histograms) else value for j, value in enumerate(old)]

    def step(self, phase: int, address: int, ports: Ports) -> dict[str, int]:
        """One edge; the operations that it takes."""
        work, n = self.work, len(self.histograms)
        if phase == REDUCE:
            counts = [histogram[address] for histogram in self.histograms]
            self.acc = self.each(self.acc, lambda j: mac(half(counts[j]), ports["entry"], self.acc[j]))
            return {"lookups": n, "macs_reduce": n}
        if phase == SPARSE:
            return self.sparse(ports)
        if phase == SCALE:
            self.joint = self.each(self.joint, lambda j: fp16.mul(work["a_scale"], work["b_scale"][j]))
            return {"mults_scale": n}
        if phase == MERGE:
            self.y = self.each([0] * self.macs, lambda j: mac(self.acc[j], self.joint[j], self.outside[j]))
            return {"adds_merge": n}
        if phase == SHIFT:
            self.y = self.each(self.y, lambda j: mac(work["shift"] ^ fp16.SIGN, work["row_sum"][j], self.y[j]))
        else:
            self.y = self.each(self.y, lambda j: mac(work["bias"][j], ONE, self.y[j]))
        return {}

    def sparse(self, ports: Ports) -> dict[str, int]:
        """One outlier position."""
        lanes = [j for j in range(len(self.histograms)) if ports["sparse"][j]]
        a_scale, b_scale = self.work["a_scale"], self.work["b_scale"]
        terms = {j: sparse_term(ports, j, a_scale, b_scale[j], self.outside[j]) for j in lanes}
        self.outside = [terms.get(j, value) for j, value in enumerate(self.outside)]
        return {"macs_sparse": len(lanes), "dequants": sum(ports["x_coded"][j] + ports["w_coded"][j] for j in lanes)}

    def registers(self) -> dict[str, list[int]]:
        """Accumulators and output."""
        return {"acc": self.acc, "outside": self.outside, "joint": self.joint, "y": self.y}


def reducing(log: Log, sizes: Sizes, plan: Schedule, tiles: Sequence[list[list[int]]], inputs: Sequence[Ports]) -> None:
    """Every tile through its phases."""
    macs = Macs(sizes)
    for tile, histograms in zip(plan.tiles, tiles, strict=False):
        if tile.swap >= len(inputs):
            return
        work = inputs[int(tile.swap)]
        macs.begin(work, histograms)
        bank = [value for histogram in histograms for value in histogram]
        bank += [0] * (sizes.macs * sizes.entries - len(bank))
        log.write(tile.swap, reducing=bank, working=len(histograms), left=work["outliers"], **macs.registers())
        log.write(tile.swap, phase=REDUCE, address=0, **{f"work_{name}": work[name] for name in (*WORK, *COLUMN_WORK)})
        log.add(tile.swap, tiles=1)
        phases = [(phase, k) for phase, n in phase_edges(sizes, work).items() for k in range(n)]
        for edge, ((phase, k), (following, after)) in enumerate(
            zip(phases, [*phases[1:], (IDLE, 0)], strict=True), int(tile.swap) + 1
        ):
            if edge >= len(inputs):
                return
            log.add(edge, mac_cycles=1, **macs.step(phase, k, inputs[edge]))
            left = {"left": work["outliers"] - k - 1} if phase == SPARSE else {}
            address = after if following == REDUCE else 0
            log.write(edge, phase=following, address=address, **macs.registers(), **left)
        if work["closes"]:
            answer(log, tile.finish, macs, len(histograms))


def answer(log: Log, edge: Edge, macs: Macs, n: int) -> None:
    """Flags of a tile that closes."""
    overflow = [int(j < n and endless(word)) for j, word in enumerate(macs.y)]
    log.write(edge, y_valid=1, overflow=overflow)
    log.write(edge + 1, y_valid=0)
    log.add(edge, overflows=sum(overflow))
