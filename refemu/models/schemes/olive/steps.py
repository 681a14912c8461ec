"""Steps on outlier-victim pairs: compiled, or with backend `numpy` the readable definitions [olive §3.4].

Both give the same bits; the scheme names the steps and their order.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.formats.olive import ovp_search
from refemu.formats.olive.ovp import Ovp, OvpTensor
from refemu.formats.olive.ovp_search import Search
from refemu.models.backend import Backend


def encode(backend: Backend, fmt: Ovp, x: np.ndarray, scale: Any) -> OvpTensor:
    """`x` in pairs along the last axis; scale: float32, one or one per row."""
    if backend.name != "jit":
        return fmt.encode(x, scale)
    from refemu.formats.olive.compiled import ovp as ovp_compiled

    return ovp_compiled.encode(fmt, x, scale)


def encode_pairs(backend: Backend, fmt: Ovp, x: np.ndarray, scale: Any) -> np.ndarray:
    """The words of these pairs as a decoder reads them, (tokens, inputs / 2)."""
    if backend.name != "jit":
        return fmt.encode(x, scale).pairs().reshape(len(x), -1)
    from refemu.formats.olive.compiled import ovp as ovp_compiled

    return ovp_compiled.encode_pairs(fmt, x, scale).reshape(len(x), -1)


def select(backend: Backend, x: np.ndarray, formats: Sequence[Ovp], **options: Any) -> tuple[Ovp, Search]:
    """Format and scales of least error for `x`; options: as for `ovp_search.select`."""
    if backend.name != "jit":
        return ovp_search.select(x, formats, **options)
    from refemu.formats.olive.compiled import ovp_search as ovp_search_compiled

    return ovp_search_compiled.select(x, formats, **options)
