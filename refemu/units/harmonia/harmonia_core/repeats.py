"""Tiles of a product whose clocks repeat, so that kernels.flow steps some of them and moves on by whole periods.

Paper: [harmonia §IV-A, §IV-C, §IV-D].
"""

from collections.abc import Sequence

import numpy as np

from refemu.units.harmonia.harmonia_core.plan import LANES
from refemu.units.harmonia.harmonia_core.product import Product

PITCH = 16  #: keys of a tile of the array
WIDEST = 512  #: most keys of a tile whose widths a class of 64 bits can list


def periodic(p: Product, edges: Sequence[int], heads: Sequence[int]) -> int:
    """Tiles after which groups and heads end at the same places of a tile again; 0 if they never do."""
    if p.tile_m % LANES or p.tile_k % LANES or (p.kind != "v" and any(edge % LANES for edge in edges[1:-1])):
        return 0
    width = heads[1] if len(heads) > 2 else p.tile_k
    if p.way == 1:
        return 1
    if p.tile_k % width == 0:
        return 1
    return width // p.tile_k if width % p.tile_k == 0 else 0


def alike(p: Product, passing: np.ndarray, same: bool) -> np.ndarray:
    """Count tiles from each one on that differ in their place alone: int64 (tiles that stay, tiles that pass).

    passing: their bits, -1 without one. same: whether all bands of rows take the same passes. 0: the clocks of a tile
    depend on its place: it is cut off, ends rows of scores or keys, or has keys that some of its rows see in 8 bits.
    """
    kinds = np.where(passing >= 0, 1, 0) if same else np.zeros(passing.shape, np.int64)
    length, tile = (p.rows, p.tile_m) if p.way == 1 else (p.columns, p.tile_k)
    kinds[:, length // tile :] = 0
    if p.shifted and p.way == 1:  # the last columns complete rows of keys, which wait for the offsets
        kinds[-1] = 0
    if p.kind == "score" and same:
        classes = _of_scores(p)
        kinds *= classes.T if p.way == 1 else classes
    again = (kinds[:, 1:] == kinds[:, :-1]) & (passing[:, 1:] == passing[:, :-1]) & (kinds[:, 1:] > 0)
    runs = np.where(kinds > 0, 1, 0)
    for place in reversed(range(again.shape[1])):
        runs[:, place] += again[:, place] * runs[:, place + 1]
    return np.ascontiguousarray(runs)


def _of_scores(p: Product) -> np.ndarray:
    """Class of every tile of scores, int64 (tiles of rows, tiles of columns); 0: it depends on its place."""
    tops = np.arange(0, p.rows, p.tile_m)
    lasts = np.minimum(tops + p.tile_m, p.rows) - 1
    rights = np.minimum(np.arange(0, p.columns, p.tile_k) + p.tile_k, p.columns)
    keys = p.causal[tops]
    whole = (keys >= p.columns)[:, None]
    inside = (LANES * (keys // LANES)[:, None] > rights) | (whole & (rights < p.columns))
    ends = whole & (rights == p.columns)
    classes = inside + 2 * ends
    if p.low is None:
        return np.asarray(classes, np.int64)
    if p.tile_k > WIDEST:
        return np.zeros(classes.shape, np.int64)
    falls = np.where(p.demotions > 0, p.demotions, np.iinfo(np.int64).max)
    starts = np.arange(0, p.columns, PITCH)
    narrow = np.maximum.reduceat(falls, starts) <= p.widths[tops][:, None]
    wide = np.minimum.reduceat(falls, starts) > p.widths[lasts][:, None]
    codes = np.where(narrow, 1, np.where(wide, 2, 0))
    for first in range(p.tile_k // PITCH):
        part = codes[:, first :: p.tile_k // PITCH]
        missing = classes.shape[1] - part.shape[1]
        part = np.pad(part, ((0, 0), (0, missing)), constant_values=1)
        classes = np.where(part > 0, 3 * classes + part * (classes > 0), 0)
    return np.asarray(classes, np.int64)
