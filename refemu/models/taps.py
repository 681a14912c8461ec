"""Taps: values at the ports of a unit while a model runs, as cases of golden vectors.

`models.run(..., taps=f)` calls f(layer, unit, case): `unit` is a unit's name, `case` a `Cases` of kind "model" whose
`config` names a configuration of that unit and whose `source` says where the values come from. If f has an attribute
`units`, it is called for those units only, and the others cost nothing.
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
    """State that a session passes through the layers: taps, position, counters."""

    def __init__(self, taps: Tap | None = None) -> None:
        self.taps = taps
        self.first_token = 0  #: position of the first token of the current call
        self.counters: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"Watch(first_token={self.first_token}, counters={self.counters})"

    def count(self, name: str, number: int) -> None:
        """Add to a counter, which exists from its first count on, even of 0."""
        self.counters[name] = self.counters.get(name, 0) + number

    def wants(self, unit: str) -> bool:
        """Whether a tap observes `unit`."""
        return self.taps is not None and unit in getattr(self.taps, "units", (unit,))

    def emit(self, layer: int, unit: str, case: Cases) -> None:
        """Call the tap if it observes `unit`."""
        if self.taps is not None and self.wants(unit):
            self.taps(layer, unit, case)


class Later(Mapping[str, np.ndarray]):
    """Arrays by name, computed at the first access: most cases of a run are never read."""

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
    """A case of kind "model"; `tensor` in `layer` is the source of `inputs`."""
    return Cases("model", why, inputs, source={"tensor": tensor, "layer": layer, **source}, config=config)


def config_of(unit: str, parameters: Mapping[str, Any]) -> str | None:
    """The first ready configuration of a unit with these parameters, or None."""
    return next(
        (name for name, config in units.find(unit).configs.items() if parameters.items() <= config.items()), None
    )


def sized(unit: str, parameters: Mapping[str, Any], **sizes: Any) -> str | None:
    """The configuration with these parameters and the sizes of an operation, ready or by its parameters.

    None if no ready configuration has the parameters: it supplies the others.
    """
    device, exact = units.find(unit), {**parameters, **sizes}
    base = config_of(unit, exact) or config_of(unit, parameters)
    return None if base is None else texts.text(device, {**device.configs[base], **exact})
