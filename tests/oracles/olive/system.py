"""A block of OPT-6.7B on OliVe's array by hand: bytes, busy cycles, edges and totals [olive §4.3, §5.4, Table 11].

block(tokens, order)        operations of a block with their numbers
overlapped(a, b, rows, columns)     products tile by tile on a grid whose sums move south while the next tile enters
"""

from typing import Any, NamedTuple

GRID, PORT, STAGES = 64, 128, 5
HALF_A, HALF_B = 256 * 1024 // 2, 128 * 1024 // 2  #: bytes of half of a buffer
WIDTH, FFN = 4096, 16384
LAYERS = [  # name, outputs, length of the sums, input, outputs that the input waits for
    ("q", WIDTH, WIDTH, "q", ()),
    ("k", WIDTH, WIDTH, "q", ()),
    ("v", WIDTH, WIDTH, "q", ()),
    ("o", WIDTH, WIDTH, "o", ("q.output", "k.output", "v.output")),
    ("up", FFN, WIDTH, "up", ("o.output",)),
    ("down", WIDTH, FFN, "down", ("up.output",)),
]


class Operation(NamedTuple):
    """An operation."""

    name: str
    alone: int  #: edges with every operand at hand, nothing overlapped
    fed: int  #: edges while the buffers fill and tiles overlap
    busy: dict[str, int]
    bytes: dict[str, int]


class Passed(NamedTuple):
    """A product, tile by tile."""

    a: int  #: bytes of A that passed the port
    b: int
    edges: int


def product(m: int, n: int, k: int, by_weights: bool, there: bool) -> Passed:
    """4-bit codes. Half of a buffer holds what stays; slices of K pass through halves in turn. there: A is on the chip.

    Time is in 1/128 of an edge, in which a byte passes.
    """
    rows, columns = (-(-size // GRID) for size in (m, n))
    tile = GRID * k // 2
    fits_a, fits_b = HALF_A // tile, HALF_B // tile
    here_a: set[int] = set()
    here_b: set[int] = set()
    moved = {"a": 0, "b": 0}
    slices: list[tuple[int, int]] = []  # bytes, edges
    for i, j in _order(rows, columns, max(1, fits_b if by_weights else fits_a), by_weights):
        size = 0
        for key, here, fits, at, lines in (
            ("a", here_a, fits_a, i, min(GRID, m - GRID * i)),
            ("b", here_b, fits_b, j, min(GRID, n - GRID * j)),
        ):
            if at not in here and not (key == "a" and there):
                moved[key] += lines * k // 2
                size += lines
            if fits and at not in here:
                staying = key == ("b" if by_weights else "a")
                if not staying or len(here) == fits:
                    here.clear()
                here.add(at)
        most = min(HALF_A, HALF_B) * 2 // GRID
        parts = [min(most, k - low) for low in range(0, k, most)] if size else [k]
        slices += [(part * size // 2, part) for part in parts]
    last_rows = 2 * GRID - 2 + GRID  # skew, then a drain of every row
    slices[-1] = slices[-1][0], slices[-1][1] + last_rows
    arrived, ends = 0, [0, 0]
    for size, edges in slices:
        arrived = max(arrived, ends[-2] * PORT) + size
        ends.append(max(ends[-1], -(-arrived // PORT)) + edges)
    return Passed(moved["a"], moved["b"], ends[-1])


def _order(rows: int, columns: int, held: int, by_weights: bool) -> list[tuple[int, int]]:
    """Tiles in order: a few tile rows use every tile column in turn, or the reverse."""
    outer, inner = (columns, rows) if by_weights else (rows, columns)
    places = [
        (at, other)
        for first in range(0, outer, held)
        for other in range(inner)
        for at in range(first, min(first + held, outer))
    ]
    return [(other, at) for at, other in places] if by_weights else places


def block(tokens: int, least: bool = True) -> list[Operation]:
    """The operations of a block, in order. least: the order that moves fewer bytes; otherwise activations stay."""
    found = []
    for name, n, k, reads, _ in LAYERS:
        there = tokens * k // 2 <= HALF_A
        if name == reads:
            pairs = tokens * k // 2
            moved = {"activations": 2 * tokens * k} | ({} if there else {"outputs": pairs})
            found.append(Operation(f"encode.{name}", pairs // 32 + 2, pairs // 32 + 2, {"encoder": pairs // 32}, moved))
        orders = [product(tokens, n, k, by_weights, there) for by_weights in ((False, True) if least else (False,))]
        best = min(orders, key=lambda each: each.a + each.b)
        tiles = -(-tokens // GRID) * (n // GRID)
        skew = 2 * GRID - 2
        moved = {"weights": best.b, "activations": best.a, "metadata": n * 6 + 8, "outputs": 2 * tokens * n}
        busy = {"array": tiles * k + skew, "drain": tiles * GRID}
        alone = tiles * (k + skew + GRID)
        found.append(Operation(name, alone, best.edges, busy, {key: size for key, size in moved.items() if size}))
        passes = tokens * n // GRID  # 32 pairs an edge, 64 columns of a tile
        found.append(Operation(f"{name}.output", passes + STAGES, STAGES, {"output": passes}, {}))
    return found


def cycles(operations: list[Operation], overlap: bool) -> int:
    """Operations one after the other: transfer and work in turn, or together."""
    lengths = []
    for each in operations:
        transfer = -(-sum(each.bytes.values()) // PORT)
        lengths.append(max(transfer, each.fed) if overlap else transfer + each.alone)
    return sum(lengths)


def overlapped(a: list[list[int]], b: list[list[int]], rows: int, columns: int) -> tuple[list[list[int]], int]:
    """D = A x B and the edges, every edge of a grid with a second register for the sum of each element.

    A tile begins K edges after the one before, at least `rows`. An element hands its sum over at its last product. When
    the last row of a column has done so, the sums of this tile move south, and those of the next, above them, stay.
    Raises AssertionError if a sum meets another.
    """
    m, n, k = len(a), len(b), len(a[0])
    tiles = [(top, left) for top in range(0, m, rows) for left in range(0, n, columns)]
    period = max(k, rows)
    sums = [[0] * columns for _ in range(rows)]
    handed: list[list[Any]] = [[None] * columns for _ in range(rows)]
    d, edge, left_over = [[0] * n for _ in range(m)], 0, len(tiles) * rows * columns
    while left_over:
        for j in range(columns):  # the chain of a column moves first
            since = edge - (k + rows - 1 + j)
            if since >= 0 and since // period < len(tiles) and since % period < rows:
                number, row = since // period, rows - 1 - since % period
                top, left = tiles[number]
                value = handed[rows - 1][j]
                assert value is not None and value[0] == (number, row)
                if top + row < m and left + j < n:
                    d[top + row][left + j] = value[1]
                first = since % period  # the rows above have sums of the next tile, or none
                for i in range(rows - 1, first, -1):
                    handed[i][j] = handed[i - 1][j]
                handed[first][j] = None
                left_over -= 1
        for i in range(rows):
            for j in range(columns):
                number, at = divmod(edge - i - j, period)
                if 0 <= number < len(tiles) and at < k:
                    top, left = tiles[number][0] + i, tiles[number][1] + j
                    if top < m and left < n:
                        sums[i][j] += a[top][at] * b[left][at]
                    if at == k - 1:
                        assert handed[i][j] is None
                        handed[i][j], sums[i][j] = ((number, i), sums[i][j]), 0
        edge += 1
    return d, edge
