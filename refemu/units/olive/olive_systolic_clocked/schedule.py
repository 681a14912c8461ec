"""Edges that carry a product through the clocked array: skew at the borders, then drains [olive §4.3] (D-olive-39)."""

import numpy as np

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
