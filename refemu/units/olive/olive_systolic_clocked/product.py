"""Whole products on the clocked array: every edge of every tile, or sums alone by compiled olive_systolic.

Paper: [olive §4.3, Fig. 8]. Tiles do not overlap (D-olive-39).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, require_choice
from refemu.units import Port, stepping
from refemu.units.olive.olive_mac import OverflowMode
from refemu.units.olive.olive_systolic import UNIT as OPERATION
from refemu.units.olive.olive_systolic_clocked.olive_systolic_clocked import TYPES, Narrow, OliveSystolicClocked, Wide

Edges = dict[str, np.ndarray]  #: inputs by port, the first axis is that of edges


Types = tuple[int, int]  #: of 4-bit pairs of A and of B, for an array that has them as inputs: 0 int4, 1 flint4


def idle(edges: int, rows: int, cols: int, wide: int = 0, flint: Types | None = None) -> Edges:
    """Edges in which nothing enters."""
    lines = {"west": rows, "west_valid": rows, "north": cols, "north_valid": cols}
    return {
        "wide": np.full(edges, wide, np.int64),
        "drain": np.zeros(edges, np.int64),
        **{name: np.zeros((edges, count), np.int64) for name, count in lines.items()},
        "bias_a": np.zeros(edges, np.int64),
        "bias_b": np.zeros(edges, np.int64),
        **(
            {}
            if flint is None
            else {f"flint_{side}": np.full(edges, kind) for side, kind in zip("ab", flint, strict=True)}
        ),
    }


def tile(
    a_pairs: np.ndarray,
    b_pairs: np.ndarray,
    biases: tuple[int, int],
    rows: int,
    cols: int,
    wide: int = 0,
    flint: Types | None = None,
) -> Edges:
    """Edges of one output tile: K and the skew of the whole grid, then a drain for each of its rows. [olive §4.3]

    a_pairs, b_pairs: (m, K / 2) and (n, K / 2), at most as many as the grid has. biases: of outliers of A and B. rows,
    cols: 4-bit elements of the array; 8-bit operands (wide is 1) have half as many. flint: types of 4-bit pairs of A
    and B for an array that has them as inputs, 1 for flint4.
    """
    grid, half = (rows >> wide, cols >> wide), a_pairs.shape[1]
    compute = 2 * half + grid[0] + grid[1] - 2
    edges = idle(compute + grid[0], rows, cols, wide, flint)
    for side, pairs in (("west", a_pairs), ("north", b_pairs)):
        for line, words in enumerate(pairs):
            edges[side][line : line + 2 * half : 2, line] = words
            edges[f"{side}_valid"][line : line + 2 * half : 2, line] = 1
    edges["drain"][compute:] = 1
    edges["bias_a"][:], edges["bias_b"][:] = biases
    return edges


def joined(*parts: Edges) -> Edges:
    """Edges one after the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@dataclass(frozen=True, eq=False)
class Product(stepping.Result):
    """D = A x B, and counters of the array."""

    d: np.ndarray  #: int32 (m, n)
    overflow: np.ndarray  #: bool (m, n): a product of the element exceeded 32 bits
    illegal: bool  #: a pair is illegal
    cycles: int  #: edges
    compute_cycles: int  #: edges in which elements may multiply
    drain_cycles: int  #: edges in which accumulators move south
    decodes: int  #: pairs decoded
    decoder_idle: int  #: decoder-edges of compute without a pair
    macs: int  #: products added
    idle: int  #: element-edges of compute without a product
    overflows: int  #: products that made an accumulator exceed 32 bits


def multiply(
    a_pairs: ArrayLike,
    b_pairs: ArrayLike,
    biases: tuple[int, int],
    *,
    wide: bool = False,
    rows: int = 64,
    cols: int = 64,
    a: Narrow = "int4",
    b: Narrow = "int4",
    eight: Wide = "int8",
    overflow: OverflowMode = "wrap",
    jit: bool = True,
) -> Product:
    """Multiply matrices of pairs on the array, tile by tile; the types are its inputs (D-olive-63). [olive §4.3]

    a_pairs, b_pairs: (m, K / 2) by rows and (n, K / 2) by columns: bytes, or words of 16 bits with `wide`. biases: of
    outliers of A and B, 0 to 15. wide: operands have 8 bits. The other parameters are those of `OliveSystolicClocked`.
    jit: use the compiled form. Raises Refused if the matrices do not match, or a value is out of range.
    """
    for name, kind in (("a", a), ("b", b)):
        require_choice(kind, TYPES, OliveSystolicClocked.name, name)
    array, flint = OliveSystolicClocked(rows, cols, "port", "port", eight, overflow), (TYPES.index(a), TYPES.index(b))
    bits, bias = Port("pairs", 16 if wide else 8), Port("bias", 4)
    left, right = (bits.validate(np.asarray(pairs), array.name).astype(np.int64) for pairs in (a_pairs, b_pairs))
    for value in biases:
        bias.validate_one(value, array.name)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1] or not min(*left.shape, *right.shape):
        raise Refused(f"{array.name}: A is (m, K / 2) and B (n, K / 2) pairs, got {left.shape} and {right.shape}")
    mode = int(wide)
    if jit:
        return _compiled(array, left, right, biases, mode, (a, b))
    return _stepped(array, left, right, biases, mode, flint)


def _stepped(
    array: OliveSystolicClocked, left: np.ndarray, right: np.ndarray, biases: tuple[int, int], mode: int, flint: Types
) -> Product:
    """Every edge of every tile on one device."""
    down, across = array.grid(mode)
    d = np.zeros((len(left), len(right)), np.int32)
    overflow = np.zeros(d.shape, np.bool_)
    state = array.state
    for top in range(0, len(left), down):
        for first in range(0, len(right), across):
            rows, columns = left[top : top + down], right[first : first + across]
            edges = tile(rows, columns, biases, array.rows, array.cols, mode, flint)
            states = list(array.steps(**edges))
            for row, state in zip(range(down - 1, -1, -1), states[-down:], strict=True):
                if row < len(rows):
                    d[top + row, first : first + len(columns)] = state.south[: len(columns)]
                    overflow[top + row, first : first + len(columns)] = state.south_overflow[: len(columns)]
    return Product(d, overflow, bool(state.illegal), **{name: getattr(state, name) for name in array.counters})


def _compiled(
    array: OliveSystolicClocked,
    left: np.ndarray,
    right: np.ndarray,
    biases: tuple[int, int],
    mode: int,
    kinds: tuple[Narrow, Narrow],
) -> Product:
    """All sums by compiled olive_systolic, which has the counters in closed form."""
    a, b = (array.eight,) * 2 if mode else kinds
    sizes = {"rows": array.rows, "cols": array.cols, "m": len(left), "n": len(right), "k": 2 * left.shape[1]}
    answer = OPERATION.run_compiled(left.ravel(), right.ravel(), *biases, **sizes, a=a, b=b, overflow=array.overflow)
    counts = {name: int(getattr(answer, name)) for name in OPERATION.counters}
    (down, across), shape = array.grid(mode), (len(left), len(right))
    idle = counts["compute_cycles"] * (down + across) - counts["decodes"]
    d, overflow = answer.d.reshape(shape), answer.overflow.reshape(shape)
    return Product(d, overflow, bool(answer.illegal), decoder_idle=idle, **counts)
