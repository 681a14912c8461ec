"""One product through Harmonia's accelerator, event by event [harmonia §IV-A, Fig. 12], on Python numbers.

What is computed is a set of places; after every block all parts of C are looked through for those that are whole now.
`core_values` says what the values are.

    events(product, a, b, given)     -> the Moment after every event
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any

from tests.oracles import fp16
from tests.oracles.harmonia import units
from tests.oracles.harmonia.core_values import (
    NOTHING,
    Given,
    Matrix,
    Product,
    behind,
    encoded,
    halves,
    stages,
    summed,
    tracked,
    with_bias,
)

Part = tuple[int, int, int, int]  #: first row, first column, row and column after the last


@dataclass(frozen=True)
class Moment:
    """Registers and counters after an event."""

    event: str = "reset"
    sums: tuple[int, ...] = ()
    y: tuple[int, ...] = ()
    sign: tuple[int, ...] = ()
    mantissa: tuple[int, ...] = ()
    exponent: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()
    peak: tuple[int, ...] = ()  #: largest magnitudes among the keys seen
    frozen: bool = False  #: the offsets are final
    counters: dict[str, int] = field(default_factory=dict)


def events(p: Product, a: Sequence[Any], b: Sequence[Any], given: Given = NOTHING) -> Iterator[Moment]:
    """The Moment after every event."""
    sums = summed(p, a, b, given)
    before = sums if p.bias_add != "accumulator" else with_bias(sums, given.bias)
    raw = halves(before)
    ready = raw if p.bias_add != "after" else behind(raw, given.bias)
    turned, final, offset = stages(p, ready, given)
    window = tracked(p, given)
    y, sign, mantissa = ([[0] * p.columns for _ in range(p.rows)] for _ in range(3))
    codes = encoded(p, final)
    exponent = [[0] * len(row) for row in codes[2]]
    now = Moment(
        counters=dict.fromkeys(
            (
                "fetched",
                "reads",
                "words",
                "passes",
                "cycles",
                "macs",
                "wide_macs",
                "fp32_adds",
                "half_columns",
                "bias_adds",
                "compare_cycles",
                "align_cycles",
                "comparisons",
                "tracked",
                "subtractions",
                "stored",
            ),
            0,
        ),
        peak=(0,) * p.columns * p.shifted,
        frozen=p.shifted and not window,
        offset=(0,) * p.columns * p.shifted,
    )
    for event, part, counts in plan(p, given):
        top, left, bottom, right = part
        now = replace(now, event=event, counters={n: c + counts.get(n, 0) for n, c in now.counters.items()})
        if event == "compute":
            now = replace(now, sums=passes(p, sums, part))
        if event == "bias" and p.bias_add == "accumulator":
            now = replace(now, sums=passes(p, before, part))
        elif source := {"fp2half": raw, "bias": ready, "vector": turned}.get(event):
            now = replace(now, sums=())
            fill(y, source, part)
        if event == "offset":
            seen = [row for row in range(bottom) if row < window]
            now = replace(
                now, peak=tuple(max((turned[r][c] & 0x7FFF for r in seen), default=0) for c in range(p.columns))
            )
            first = 0 if bottom >= window > top else max(top, window)
            if bottom >= window:
                fill(y, final, (first, 0, bottom, p.columns))
                now = replace(now, offset=tuple(offset), frozen=True)
        if event == "convert":
            fill(sign, codes[0], part)
            fill(mantissa, codes[1], part)
            place = left if p.kind == "v" else p.ends.index(left)
            wide = right - left if p.kind == "v" else 1
            tall = 1 if p.kind == "v" else bottom - top
            at = top // 32 if p.kind == "v" else top
            fill(exponent, codes[2], (at, place, at + tall, place + wide))
        yield (now := replace(now, y=flat(y), sign=flat(sign), mantissa=flat(mantissa), exponent=flat(exponent)))


def plan(p: Product, given: Given) -> Iterator[tuple[str, Part, dict[str, int]]]:
    """Events, where they happen, and what they count."""
    done: dict[str, set[Part]] = {name: set() for name in ("vector", "offset", "convert")}
    there: set[tuple[int, int]] = set()
    flow = p.force or units.choose(p.rows, p.inner, p.columns, p.tile_m, p.tile_k)
    for event, mt, kt, count in units.fdgf_events(p.rows, p.inner, p.columns, p.tile_m, p.tile_k, flow):
        if event != "compute":
            yield "load", (0, 0, 0, 0), {"fetched": count}
            continue
        for block in blocks(p, mt, kt, flow):
            high, size = math.ceil((block[2] - block[0]) / 8), area(block)
            made = [each for tile in tiles(block) for each in array_passes(p, tile, given)]
            yield "dispatch", block, {"reads": len(made) * p.groups, "words": sum(words for _, words, _ in made)}
            yield (
                "compute",
                block,
                {
                    "passes": len(made),
                    "cycles": sum(slots + 15 for slots, _, _ in made),
                    "macs": 32 * p.groups * size,
                    "wide_macs": sum(count for _, _, count in made),
                    "fp32_adds": p.groups * size,
                },
            )
            half: Any = ("fp2half", block, {"half_columns": high * (block[3] - block[1])})
            added: Any = ("bias", block, {"bias_adds": size})
            yield from {"none": [half], "after": [half, added], "accumulator": [added, half]}[p.bias_add]
            there |= inside(block)
            yield from follow(p, there, done, tracked(p, given))


def tiles(block: Part) -> list[Part]:
    """Parts of 8 x 16 of a block, row by row."""
    top, left, bottom, right = block
    return [
        (row, column, min(row + 8, bottom), min(column + 16, right))
        for row in range(top, bottom, 8)
        for column in range(left, right, 16)
    ]


def array_passes(p: Product, tile: Part, given: Given) -> list[tuple[int, int, int]]:
    """Of every pass over a tile: cycles of column 0, nibble planes of B, MACs in groups of two slots."""
    top, left, bottom, right = tile
    width, count = right - left, area(tile)
    if p.b_type != "mixed":
        nibbles = 2 if p.b_type == "bfp8" else 1
        return [(nibbles * p.groups, nibbles * p.groups * width, (nibbles - 1) * 32 * p.groups * count)]
    seen = [codes_of(p, given.wide[row], left, right) for row in range(top, bottom)]
    kinds = [seen] if p.codes == "rows" else [[each] for each in dict.fromkeys(seen)]
    found = []
    for kind in kinds:
        double = sum(any(1 in row[g] for row in kind) for g in range(p.groups))
        members = len([each for each in seen if each in kind])
        planes = sum(1 + bit for row in kind for group in row for bit in group)
        found.append((p.groups + double, planes, 32 * double * members * width))
    return found


def codes_of(p: Product, wide: Sequence[int], left: int, right: int) -> tuple[tuple[int, ...], ...]:
    """By group, whether a row sees each of some columns in 8 bits."""
    if p.kind == "score":
        return (tuple(wide[left:right]),) * p.groups
    return tuple((bit,) * (right - left) for bit in wide)


def follow(p: Product, places: set[tuple[int, int]], done: dict[str, set[Part]], window: int) -> Iterator[Any]:
    """What the places that are there allow by now."""
    chosen = max(1, p.columns // 32)
    for part in whole(vector_parts(p), places, done["vector"]):
        yield "vector", part, {}
    turned = set().union(*map(inside, done["vector"])) if vector_parts(p) else places
    if not p.shifted:
        yield from convert(p, turned, done)
        return
    for band in cut(p.rows, 8, [0, p.columns]):
        if band in done["offset"]:
            continue
        if not inside(band) <= turned:
            return
        done["offset"].add(band)
        new = len([row for row in range(band[0], band[2]) if row < window])
        closes = band[0] < window <= band[2]
        put = (window if closes else 0) + band[2] - band[0] - new
        yield (
            "offset",
            band,
            {"tracked": new * p.columns + (chosen * (p.columns - 1) if closes else 0), "subtractions": chosen * put},
        )
        if band[2] >= window:
            yield from convert(p, {(r, c) for r in range(band[2]) for c in range(p.columns)}, done)


def convert(p: Product, ready: set[tuple[int, int]], done: dict[str, set[Part]]) -> Iterator[Any]:
    """The converter, but for what stays FP16, and the store."""
    for part in whole(cut(p.rows, 32 if p.kind == "v" else 8, p.ends), ready, done["convert"]):
        if p.kind != "final":
            counts = units.converter_counts("v" if p.kind == "v" else "token", part[2] - part[0], part[3] - part[1])
            yield "convert", part, counts
        yield "store", part, {"stored": area(part)}


def vector_parts(p: Product) -> list[Part]:
    """What the vector unit takes at once: heads, rows of scores, blocks."""
    if p.kind in ("q", "k") and p.rotation != "none":
        return cut(p.rows, 8, list(range(0, p.columns + 1, p.head_dim)))
    if p.kind == "score":
        return cut(p.rows, 8, [0, p.columns])
    return cut(p.rows, 8, p.ends) if p.activation != "none" else []


def blocks(p: Product, mt: int, kt: int, flow: int) -> list[Part]:
    """Blocks of a tile: 8 x 32, of V 32 x 16; columns outside in dataflow 1, rows outside in dataflow 2."""
    tall, wide = (32, 16) if p.kind == "v" else (8, 32)
    bottom, right = min(p.rows, (mt + 1) * p.tile_m), min(p.columns, (kt + 1) * p.tile_k)
    rows, columns = range(mt * p.tile_m, bottom, tall), range(kt * p.tile_k, right, wide)
    corners = [(r, c) for c in columns for r in rows] if flow == 1 else [(r, c) for r in rows for c in columns]
    return [(r, c, min(r + tall, bottom), min(c + wide, right)) for r, c in corners]


def cut(rows: int, height: int, ends: Sequence[int]) -> list[Part]:
    """Parts of `height` rows between the ends of columns, row by row."""
    return [
        (top, left, min(top + height, rows), right) for top in range(0, rows, height) for left, right in pairwise(ends)
    ]


def whole(parts: Sequence[Part], places: set[tuple[int, int]], done: set[Part]) -> Iterator[Part]:
    """The parts all of whose places are there, each once."""
    for part in parts:
        if part not in done and inside(part) <= places:
            done.add(part)
            yield part


@cache
def inside(part: Part) -> frozenset[tuple[int, int]]:
    """The places of a part."""
    return frozenset((r, c) for r in range(part[0], part[2]) for c in range(part[1], part[3]))


def area(part: Part) -> int:
    """Places of a part."""
    return (part[2] - part[0]) * (part[3] - part[1])


def fill(matrix: Matrix, source: Matrix, part: Part) -> None:
    """matrix <- source inside the part."""
    top, left, bottom, right = part
    for row in range(top, bottom):
        matrix[row][left:right] = source[row][left:right]


def flat(matrix: Matrix) -> tuple[int, ...]:
    """Row after row."""
    return tuple(value for row in matrix for value in row)


def passes(p: Product, sums: Sequence[Sequence[float]], part: Part) -> tuple[int, ...]:
    """FP32 words of a block, pass after pass of 8 x 16, 0 outside it."""
    top, left, bottom, right = part
    return tuple(
        fp16.f32_bits(sums[r][c]) if r < bottom and c < right else 0
        for row in range(top, bottom, 8)
        for column in range(left, right, 16)
        for r in range(row, row + 8)
        for c in range(column, column + 16)
    )
