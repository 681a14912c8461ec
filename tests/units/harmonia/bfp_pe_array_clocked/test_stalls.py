"""The array driven edge by edge with the stalls that the timeline of `refemu cost` computes, by its port `hold`."""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

from refemu.arith import fp16
from refemu.formats import BFP8
from refemu.formats.groupint import INT4_G128
from refemu.models.schemes.harmonia.machine import products, work
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from refemu.units.harmonia import harmonia_core
from refemu.units.harmonia.bfp_pe_array import operands
from refemu.units.harmonia.bfp_pe_array_clocked import UNIT, edges
from refemu.units.harmonia.harmonia_core import HarmoniaCore, Rates, Timeline
from refemu.units.harmonia.harmonia_core import compiled as harmonia_core_compiled
from refemu.units.harmonia.harmonia_core.plan import Action

PAPER: dict[str, Any] = {"rows": 8, "columns": 16, "partial": "fp16", "product": "fp32", "activity": "by_slot"}


class Block(NamedTuple):
    """Passes of the array that the timeline places together."""

    action: Action
    start: int  #: clock in which the first group enters
    end: int  #: clock in which the last column leaves, unless the array is held
    held: int = 0  #: clocks in which the columns wait for a bank of the converter
    converts: int | None = None  #: clock in which the comparators take the first column

    @property
    def last(self) -> int:
        """Clock in which the last column leaves; the end is that of a pass of 16."""
        return self.end + self.held - -self.action.columns % 16

    @property
    def passes(self) -> list[tuple[int, int]]:
        """First row and column of each, in order."""
        _, row, column, rows, columns, _ = self.action
        return [(r, c) for r in range(row, row + rows, 8) for c in range(column, column + columns, 16)]


def placed(core: HarmoniaCore, rates: Rates) -> tuple[Timeline, list[Block]]:
    """A product on a timeline, and its blocks."""
    line, blocks, free = Timeline(rates), list[Block](), 0
    events = list(harmonia_core_compiled.events(core, np.zeros((core.rows, 0), np.uint8)))
    for event, span in zip(events, line.spans(core, events), strict=True):
        if span is not None and span.part == "array":
            blocks.append(Block(event.action, span.start, span.end))
        elif span is not None and span.part == "compare":
            blocks[-1] = blocks[-1]._replace(held=line.free["array"] - free, converts=span.start)
        free = line.free["array"]
    return line, blocks


class Driven(NamedTuple):
    """What leaves the array."""

    clocks: list[list[int]]  #: of every column, by block
    sums: np.ndarray  #: uint32 (M, K): words of float32
    cycles: int  #: edges
    held: int  #: edges in which the port `hold` was 1


def driven(
    blocks: list[Block], fields: dict[str, np.ndarray], groups: int, overlap: bool, waiting: str, banks: bool = True
) -> Driven:
    """Run the array edge by edge.

    waiting: what it does while operands are missing, "idle": nothing enters, or "hold". banks: whether it is held while
    no bank is free.
    """
    pitch = max(groups, 16) if overlap else groups + 16
    feed: list[tuple[int, int, int]] = []  # edge without those held, row, column
    holds: dict[int, int] = defaultdict(int)  # edge before which the array is held, edges
    edge = clock = 0
    for block in blocks:
        if waiting == "hold":
            holds[edge] += block.start - clock
        else:
            edge += block.start - clock
        holds[edge + groups] += banks * block.held
        feed += [(edge + number * pitch, *at) for number, at in enumerate(block.passes)]
        edge += len(block.passes) * pitch
        clock = block.start + len(block.passes) * pitch + block.held
    ports = inputs(feed, fields, edge + groups + 16)
    order = np.repeat(np.arange(len(ports["mode"])), [1 + holds[at] for at in range(len(ports["mode"]))])
    ports = {name: each[order] for name, each in ports.items()}
    ports["hold"] = np.append(order[1:] == order[:-1], False).astype(np.int64)  # all but the last of equal edges
    result = UNIT.run_compiled(**ports, **PAPER, overlap=overlap, holdable=True)
    assert not result.lost and not result.missed
    queues: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for number, block in enumerate(blocks):
        for row, column in block.passes:
            for c in range(min(16, block.action.column + block.action.columns - column)):
                queues[c].append((number, row, column + c))
    sums = np.zeros((len(fields["a_exp"]), len(fields["b_exp"])), np.uint32)
    clocks: list[list[int]] = [[] for _ in blocks]
    for at in np.flatnonzero(result.valid.any(axis=-1)).tolist():
        number, row, column = queues[int(result.col[at])].pop(0)
        clocks[number].append(at)
        part = sums[row : row + 8, column]
        part[:] = result.acc[at, : len(part)]
    assert not any(queues.values())
    return Driven(clocks, sums, len(order), int(ports["hold"].sum()))


def inputs(feed: list[tuple[int, int, int]], fields: dict[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """Inputs of every edge; the weights of a pass still enter on the right while the next one begins on the left."""
    ports: dict[str, np.ndarray] = {}
    for at, row, column in feed:
        some = {name: each[row : row + 8] for name, each in fields.items() if name.startswith("a_")}
        some |= {name: fields[name][column : column + 16] for name in ("b", "b_sign", "b_exp", "w_scale")}
        for name, each in edges({**some, "mode": fields["mode"]}, 8, 16, overlap=True).items():
            port = ports.setdefault(name, np.zeros((count, *each.shape[1:]), np.int64))
            part = each[: count - at]
            port[at : at + len(part)] |= part
    return ports


LAYERS: dict[str, tuple[tuple[str, int, int, int], dict[str, Any]]] = {
    "v of tiny, whose short bands wait for a bank": (("v", 40, 64, 32), {}),
    "short blocks": (("linear", 9, 128, 40), {"memory_gb": 8}),
    "slow memory": (("final", 16, 1024, 256), {"memory_gb": 8}),
    "slower memory": (("linear", 12, 256, 192), {"memory_gb": 1}),
    "weights stay": (("linear", 70, 128, 32), {"memory_gb": 8}),
    "both waits": (("v", 40, 128, 48), {"memory_gb": 8}),
    "both waits, passes that drain": (("v", 40, 128, 48), {"memory_gb": 8, "array": "drain"}),
}


class Layer:
    """A layer with random operands, on the timeline."""

    def __init__(self, name: str) -> None:
        some, options = LAYERS[name]
        sizes: dict[str, Any] = dict(zip(("kind", "rows", "inner", "columns"), some, strict=True))
        self.machine = HarmoniaMachine(**options)
        self.product = products.linear(sizes, self.machine)
        rates = Rates(self.machine.memory_gb * 10**9, passes=self.machine.array)
        tiles = {"tile_m": self.product.tile_m, "tile_k": self.product.tile_k, "force": self.product.way}
        config = {**harmonia_core.UNIT.configs["linear"], "activation": "none", **sizes, **tiles}
        self.core = HarmoniaCore(**config)
        self.line, self.blocks = placed(self.core, rates)
        rng = np.random.default_rng(len(name))
        a = BFP8.encode(rng.normal(size=(self.core.rows, self.core.inner)).astype(np.float16))
        self.fields = operands(a, INT4_G128.encode(rng.normal(size=(self.core.columns, self.core.inner)).astype("f")))
        ports = {name: each[None] for name, each in self.fields.items() if name != "mode"}
        given = {port.name: ports[port.name].reshape(1, -1) for port in self.core.ports.inputs}
        self.y = harmonia_core.UNIT.run_compiled(**given, **config).y.reshape(self.core.rows, -1)

    def run(self, waiting: str, banks: bool = True) -> Driven:
        overlap = self.machine.array == "overlap"
        return driven(self.blocks, self.fields, self.core.groups, overlap, waiting, banks)


@pytest.mark.long
@pytest.mark.parametrize("name", LAYERS)
def test_array_with_stalls_ends_when_cost_says(name: str) -> None:
    """D-harmonia-63: clock of every column, sums of the accelerator, waits and clocks of `refemu cost`."""
    layer = Layer(name)
    blocks, waits = layer.blocks, layer.line.waits

    idle, hold = layer.run("idle"), layer.run("hold")

    for each in (idle, hold):
        assert np.array_equal(fp16.bits(fp16.to_f16(each.sums.view(np.float32))).reshape(layer.y.shape), layer.y)
        assert each.clocks[-1][-1] == blocks[-1].last
    assert [each[-1] for each in idle.clocks] == [each.last for each in blocks]
    for clocks, block in zip(idle.clocks, blocks, strict=True):
        assert block.converts is None or block.converts == clocks[0] + 1  # through FP2Half
    assert idle.held == waits.bank and hold.held == waits.bank + waits.load
    assert work._flow(layer.product, layer.machine, 1, True).waits == waits
    assert work.record("", "linear", layer.product, "weights", layer.machine).fed == layer.line.clock


def test_array_that_ignores_hold_runs_ahead() -> None:
    """The last column leaves as many clocks too early as columns waited for a bank, with the same sums."""
    layer = Layer("both waits")
    held, free = layer.run("idle"), layer.run("idle", banks=False)

    assert layer.line.waits.bank == 96 and free.held == 0
    assert free.clocks[-1][-1] == layer.blocks[-1].last - 96
    assert np.array_equal(free.sums, held.sums)
