"""Records of the operations of a block on OliVe's array: bits of the memory, busy cycles, edges.

Paper: [olive §4.3, §5.4]. Machine, cost of a run and cost of a shape make their records here. Decisions: D-olive-39
(edges of a tile), D-olive-58 (tiles that overlap), D-olive-59 (encoder and output stage), D-olive-60 (what is read
again).
"""

from collections.abc import Container, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from refemu.models.machine.fill import Filling, Run
from refemu.models.machine.work import Work
from refemu.models.schemes.olive.array_options import OliveMachine
from refemu.units.declaration import decides

FP16, FP32 = 16, 32  #: bits of an output and a bias, and of a scale
SCALES = 2 * FP32  #: bits of the scales of the input and of the next layer's input
#: layers whose outputs an input depends on, by one of the layers that read it
SOURCES = {"o": ("q", "k", "v"), "gate": ("o",), "up": ("o",), "down": ("gate", "up")}


class Side(NamedTuple):
    """How an operand moves."""

    bits: Fraction  #: of a value at the memory; codes, and what an irregular encoding adds
    code: int  #: bits of a code in the buffer of the array


class Layer(NamedTuple):
    """A product on the array."""

    name: str
    m: int  #: tokens
    n: int  #: outputs
    k: int  #: length of the sums, padded to whole pairs
    grid: tuple[int, int]  #: elements as wide as the operands
    a: Side
    b: Side
    biased: bool = False
    after: tuple[str, ...] = ()

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles down and across."""
        return -(-self.m // self.grid[0]), -(-self.n // self.grid[1])

    @property
    def skew(self) -> int:
        """Edges from the first to the last element of the grid."""
        return self.grid[0] + self.grid[1] - 2


class Reads(NamedTuple):
    """What stays in the buffers, and how often each operand passes the port."""

    by_weights: bool  #: tile columns of B stay and tile rows of A pass; otherwise the reverse
    held: int  #: tiles of the staying side that are used in turn
    stays: bool  #: they fit their buffer; otherwise they are read again for each tile of the other side
    tile_stays: bool  #: a tile of the passing side fits its buffer and is read once for all that stay
    a: int  #: readings of A
    b: int  #: readings of B


def quantized(name: str, m: int, k: int, side: Side, machine: OliveMachine, after: tuple[str, ...] | None) -> Work:
    """The encoder on an fp16 input. Pairs that fit half of the buffer of activations stay there (D-olive-60)."""
    pairs, moved = m * -(-k // 2), {"activations": m * k * FP16}
    if not stays(m, 2 * -(-k // 2), side, machine):
        moved["outputs"] = ceil(2 * pairs * side.bits)
    busy = -(-pairs // machine.pairs)
    cycles = busy + machine.encoder_stages
    return Work(f"encode.{name}", "quantize", {"encoder": busy}, cycles, bits=moved, after=after)


def sources(name: str, there: Container[str]) -> tuple[str, ...]:
    """Output stages that the input of a layer waits for. there: layers on the array; others pass their own on."""
    stages: dict[str, None] = {}
    for source in SOURCES.get(name, ()):
        stages |= dict.fromkeys((f"{source}.output",) if source in there else sources(source, there))
    return tuple(stages)


def stays(m: int, k: int, side: Side, machine: OliveMachine) -> bool:
    """Whether all pairs of an input fit half of the buffer of activations."""
    return m * k * side.code <= 8 * machine.halves[0]


def product(layer: Layer, machine: OliveMachine) -> tuple[Work, Work]:
    """A linear layer on the array, and its output stage."""
    (down, across), reads = layer.tiles, readings(layer, machine)
    skew, rows = layer.skew, layer.grid[0]
    outputs = layer.n * (FP32 + FP16 * layer.biased) + SCALES
    there = stays(layer.m, layer.k, layer.a, machine)
    bits = {
        "weights": ceil(reads.b * layer.n * layer.k * layer.b.bits),
        "activations": 0 if there else ceil(reads.a * layer.m * layer.k * layer.a.bits),
        "metadata": outputs,
        "outputs": layer.m * layer.n * FP16,
    }
    number = down * across
    overlapped = machine.overlap != "none"
    computes = number * layer.k + skew if overlapped else number * (layer.k + skew)
    passes = layer.m * _row_passes(layer, machine)
    work = Work(
        layer.name,
        "linear",
        {"array": computes, "drain": number * rows},
        number * (layer.k + skew + rows),
        fed(layer._replace(name="", biased=False, after=()), there, machine),
        bits,
        layer.m * layer.n * layer.k,
        after=layer.after,
    )
    output = Work(
        f"{layer.name}.output",
        "requant",
        {"output": passes},
        passes + machine.output_stages,
        machine.output_stages,
        streams={layer.name: (layer.k + skew, machine.output_stages)},
        after=(),
    )
    return work, output


def _row_passes(layer: Layer, machine: OliveMachine) -> int:
    """Cycles of the output stage for a row of outputs, tile by tile."""
    full, rest = divmod(layer.n, layer.grid[1])
    return full * edges_of_row(layer.grid[1], machine) + (edges_of_row(rest, machine) if rest else 0)


@decides("D-olive-59")
def edges_of_row(columns: int, machine: OliveMachine) -> int:
    """Cycles of the output stage for a drained row of a tile."""
    return ceil(Fraction(ceil(Fraction(columns, 2)), machine.pairs))


@decides("D-olive-60")
def readings(layer: Layer, machine: OliveMachine) -> Reads:
    """What stays in the buffers, and how often each operand passes the port.

    As many tile rows as fit half of their buffer stay while all weights pass; or tile columns while activations pass.
    """
    choices = [_reads(layer, by_weights, machine) for by_weights in (False, True)]
    if machine.reuse != "least":
        return choices[machine.reuse == "weights"]
    return min(choices, key=lambda each: _moved(layer, each, machine))


def _reads(layer: Layer, by_weights: bool, machine: OliveMachine) -> Reads:
    tiles = (
        8 * half // (lines * layer.k * side.code)
        for lines, side, half in zip(layer.grid, (layer.a, layer.b), machine.halves, strict=True)
    )
    fits, other = reversed(tuple(tiles)) if by_weights else tiles
    inner, outer = layer.tiles if by_weights else layer.tiles[::-1]
    held = min(max(fits, 1), outer)
    staying, passing = 1 if fits else inner, -(-outer // held) if other else outer
    a, b = (passing, staying) if by_weights else (staying, passing)
    return Reads(by_weights, held, fits > 0, other > 0, a, b)


def _moved(layer: Layer, reads: Reads, machine: OliveMachine) -> Fraction:
    a = 0 if stays(layer.m, layer.k, layer.a, machine) else reads.a * layer.m * layer.a.bits
    return a + reads.b * layer.n * layer.b.bits


@lru_cache(maxsize=1024)
@decides("D-olive-58")
def fed(layer: Layer, there: bool, machine: OliveMachine) -> int:
    """Edges of a product whose tiles overlap, while the port fills the halves of the buffers.

    Elements begin the next tile after the last operands of this one, and sums drain meanwhile. there: A is on the chip.
    """
    filling = Filling(Fraction(machine.port), 2)
    *before, (last, times) = _sequence(layer, there, machine)
    for runs, count in (*before, (last, times - 1)):
        filling.add(runs, count)
    rows, end = _lines(layer, 0, layer.tiles[0] - 1), last[-1]
    drained = _drain(rows, _lines(layer, 1, layer.tiles[1] - 1), layer, machine)
    over = max(0, drained - layer.k)
    filling.add((*last[:-1], Run(end.size, end.cycles - over + layer.skew + drained)))
    return filling.fed.cycles


def _sequence(layer: Layer, there: bool, machine: OliveMachine) -> Iterator[tuple[Sequence[Run], int]]:
    """Slices of tiles in order: sequences, and how often each repeats."""
    reads = readings(layer, machine)
    inner, outer = layer.tiles if reads.by_weights else layer.tiles[::-1]
    for first in range(0, outer, reads.held):
        block = range(first, min(first + reads.held, outer))
        yield _passing(block, 0, True, layer, there, machine), 1
        if inner > 2:
            yield _passing(block, 1, False, layer, there, machine), inner - 2
        if inner > 1:
            yield _passing(block, inner - 1, False, layer, there, machine), 1


def _passing(
    block: Sequence[int], inner: int, first: bool, layer: Layer, there: bool, machine: OliveMachine
) -> tuple[Run, ...]:
    """Slices of a tile of the passing side and of each that stays. first: the staying ones come now."""
    reads, runs = readings(layer, machine), list[Run]()
    for outer in block:
        staying, passing = first or not reads.stays, outer == block[0] or not reads.tile_stays
        places, loads = (outer, inner), (staying, passing)
        if reads.by_weights:
            places, loads = places[::-1], loads[::-1]
        runs += _slices(places, (loads[0] and not there, loads[1]), layer, machine)
    return tuple(runs)


def _slices(places: tuple[int, int], loads: tuple[bool, bool], layer: Layer, machine: OliveMachine) -> Iterator[Run]:
    """A tile in slices of K, of which each half of a buffer holds one."""
    lines = [_lines(layer, side, place) for side, place in enumerate(places)]
    sides = layer.a, layer.b
    most = min(
        8 * half // (count * side.code) for half, count, side in zip(machine.halves, layer.grid, sides, strict=True)
    )
    bits = lines[0] * layer.a.bits * loads[0] + lines[1] * layer.b.bits * loads[1]
    over = max(0, _drain(lines[0], lines[1], layer, machine) - layer.k)
    sizes = [min(most, layer.k - low) for low in range(0, layer.k, most)] if any(loads) else [layer.k]
    for number, size in enumerate(sizes):
        yield Run(-(-ceil(size * bits) // 8), size + over * (number == len(sizes) - 1))


def _lines(layer: Layer, side: int, place: int) -> int:
    """Rows of A (side 0) or columns of B in a tile."""
    return min(layer.grid[side], (layer.m, layer.n)[side] - place * layer.grid[side])


def _drain(rows: int, columns: int, layer: Layer, machine: OliveMachine) -> int:
    """Edges in which a tile drains, if the output stage takes its rows as they come."""
    return layer.grid[0] - rows + rows * edges_of_row(columns, machine)
