"""Contents of the scheme's pages, for comparisons, and parameters of units that work on such pages. [leankv §5.2]"""

from typing import Any

import numpy as np

from refemu.models.schemes.leankv.pool import Pool
from refemu.units.leankv.page_table import HIGH
from refemu.units.leankv.paged_attention import CONSTANTS


def stored(pool: Pool, cells: np.ndarray, section: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Records (count, record_words) and positions of a section's slots in the scheme's pages."""
    page, slots = pool.layouts.sections[section], np.arange(count)
    images = pool.images[run_of(cells, section, -(-count // page.tokens))]
    records = [page.read(images[slot // page.tokens], slot % page.tokens) for slot in slots]
    table = np.array(records, np.uint16).reshape(count, page.record_words)
    halves = table[:, page.parts["pos"]].astype(np.uint32)
    return table, halves[:, 0] | halves[:, 1] << np.uint32(16)


def run_of(cells: np.ndarray, section: int, pages: int) -> np.ndarray:
    """Pages of a run."""
    return cells[:pages] if section == HIGH else cells[::-1][:pages]


def filled(due: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`due` at the start of all lanes (..., lanes) of a port, zeros after it."""
    lanes = np.zeros(shape, due.dtype)
    if due.size:  # reshape cannot infer -1 of an empty array
        lanes.reshape(*due.shape[:-1], -1)[..., : due.shape[-1]] = due
    return lanes


def paging(pool: Pool) -> dict[str, Any]:
    """Parameters of the pages."""
    high, low = pool.layouts.sections
    constants = {name: getattr(high, name) for name in CONSTANTS}
    pairs = {"high": high.config.name, "low": low.config.name}
    return {"head_size": high.head_size, **pairs, "page_bytes": high.size, "preset": pool.layouts.preset, **constants}
