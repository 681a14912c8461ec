"""Devices with a variant of one part: an accumulator in a PE, an aligner in a converter."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from refemu.units import Stepped, Variant

Find = Callable[[Any], Any]  #: the part of a device, or the device itself


def variant(unit: type[Stepped[Any]], find: Find, part: Variant) -> Variant:
    """`unit` whose part also has the methods of a variant of the part, in addition to those of another variant."""
    kind: Any = part.unit_class

    @functools.wraps(unit.__init__)
    def init(self: Any, *args: Any, **named: Any) -> None:
        super(changed, self).__init__(*args, **named)
        device = find(self)
        device.__class__ = type(kind.__name__, (kind, type(device)), {})

    changed: type[Any] = type(f"{kind.__name__}{unit.__name__}", (unit,), {"__init__": init, "__doc__": part.says})
    return replace(part, unit_class=changed)
