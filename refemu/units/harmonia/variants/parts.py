"""Devices with a variant of one part: an accumulator in a PE, an aligner in a converter."""

import functools
from collections.abc import Callable
from typing import Any

from refemu.units.stepping import Stepped

Find = Callable[[Any], Any]  #: the part of a device, or the device itself


def variant(unit: type[Stepped[Any]], find: Find, part: type[Any]) -> type[Stepped[Any]]:
    """`unit` whose part also has the methods of `part`, in addition to those that another such class gave it.

    part: derived from the class of the part.
    """

    @functools.wraps(unit.__init__)
    def init(self: Any, *args: Any, **named: Any) -> None:
        super(changed, self).__init__(*args, **named)
        device = find(self)
        device.__class__ = type(part.__name__, (part, type(device)), {})

    changed: type[Any] = type(f"{part.__name__}{unit.__name__}", (unit,), {"__init__": init, "__doc__": part.__doc__})
    return changed
