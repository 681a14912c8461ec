"""Taps: values at the ports of a unit while a model runs, in the shape of golden vectors.

`models.run(..., taps=f)` calls f(layer, unit, case): `unit` is a unit's name, `case` a `Cases` of kind "model" whose
`config` names a configuration of that unit and whose `source` says where the values come from. An f that has an
attribute `units` is called for the units named there only; the others cost nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from refemu import units
from refemu.units import parameters as texts
from refemu.units.unit import Cases

Tap = Callable[[int, str, Cases], None]  #: tap(layer, unit, case)


class Watch:
    """What a session hands through the layers: the taps, the position, and the counters."""

    def __init__(self, taps: Tap | None = None) -> None:
        self.taps = taps
        self.first_token = 0  #: position of the first token of the current call
        self.counters: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"Watch(first_token={self.first_token}, counters={self.counters})"

    def count(self, name: str, number: int) -> None:
        """Add to a counter; a counter exists from its first count, of 0 too."""
        self.counters[name] = self.counters.get(name, 0) + number

    def wants(self, unit: str) -> bool:
        """Whether a tap listens to `unit`."""
        return self.taps is not None and unit in getattr(self.taps, "units", (unit,))

    def emit(self, layer: int, unit: str, case: Cases) -> None:
        """Call the tap, if it listens to `unit`."""
        if self.taps is not None and self.wants(unit):
            self.taps(layer, unit, case)


class Later(Mapping[str, np.ndarray]):
    """Arrays by name that are made when the first of them is asked for: most cases of a run are never looked at."""

    def __init__(self, make: Callable[[], Mapping[str, np.ndarray]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, np.ndarray]:
        return self._make()

    def __getitem__(self, name: str) -> np.ndarray:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return f"Later({', '.join(self._made)})" if "_made" in vars(self) else "Later()"


def model_case(
    why: str, config: str, tensor: str, layer: int, inputs: Mapping[str, np.ndarray], **source: Any
) -> Cases:
    """A case of kind "model": `tensor` in `layer` is where the values of `inputs` come from."""
    return Cases("model", why, inputs, source={"tensor": tensor, "layer": layer, **source}, config=config)


def config_of(unit: str, parameters: Mapping[str, Any]) -> str | None:
    """The first ready configuration of a unit that has these parameters, None if there is none."""
    return next(
        (name for name, config in units.find(unit).configs.items() if parameters.items() <= config.items()), None
    )


def sized(unit: str, parameters: Mapping[str, Any], **sizes: Any) -> str | None:
    """The configuration of these parameters and of the sizes that an operation has, ready or by its parameters.

    None if no ready configuration has the parameters: it gives those that neither names.
    """
    device, exact = units.find(unit), {**parameters, **sizes}
    base = config_of(unit, exact) or config_of(unit, parameters)
    return None if base is None else texts.text(device, {**device.configs[base], **exact})
