"""Arrays that an object of refemu keeps alive."""

from typing import Any

import numpy as np


def arrays_of(thing: Any) -> list[np.ndarray]:
    """Each once, and for a view the array that owns the memory."""
    found: dict[int, np.ndarray] = {}
    _walk(thing, found, set())
    return list(found.values())


def bytes_of(thing: Any) -> int:
    """Bytes of them."""
    total = 0
    for array in arrays_of(thing):
        total += array.nbytes
    return total


def _walk(thing: Any, found: dict[int, np.ndarray], seen: set[int]) -> None:
    while isinstance(thing, np.ndarray) and isinstance(thing.base, np.ndarray):
        thing = thing.base
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        found[id(thing)] = thing
    elif isinstance(thing, tuple | list | dict):
        for part in thing.values() if isinstance(thing, dict) else thing:
            _walk(part, found, seen)
    elif type(thing).__module__.startswith("refemu.") and hasattr(thing, "__dict__"):
        _walk(vars(thing), found, seen)
