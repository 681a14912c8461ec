"""Variants of the decisions of a cycle-accurate unit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.units.config import Config
from refemu.units.cycle_accurate import CycleAccurate
from refemu.units.declaration import Changes
from refemu.units.unit import AnyUnit
from refemu.units.variant import Variant, of_part


class Restarted(CycleAccurate):
    """A start ends the operation under way and begins another one."""

    def begins(self, start: int) -> bool:
        return bool(start)


class Lasting(CycleAccurate):
    """`valid` stays 1 until the next operation begins."""

    def idle(self) -> Changes:
        return {"valid": self.state.valid}


class Closed:
    """Outputs of a device that shows results of closed operations only."""

    def __init__(self, unit_class: type[CycleAccurate], gated: bool) -> None:
        """gated: outputs are 0 unless an operation closes; else those of the last closed operation."""
        self.unit_class: type[CycleAccurate] = unit_class
        self.gated: bool = gated

    def __call__(self, config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
        device = self.unit_class(**config)
        names = [port.name for port in device.inner.ports.outputs]
        return {name: self._shown(getattr(device.state, name), getattr(result, name), result.valid) for name in names}

    def _shown(self, reset: Any, values: np.ndarray, valid: np.ndarray) -> np.ndarray:
        lanes = values.ndim - valid.ndim
        rows = np.arange(valid.shape[-1])
        last = np.where(valid, rows, -1)
        if not self.gated:
            last = np.maximum.accumulate(last, axis=-1)
        index = last.reshape(*last.shape, *[1] * lanes)
        kept = np.take_along_axis(values, np.maximum(index, 0), axis=valid.ndim - 1)
        return np.where(index >= 0, kept, np.asarray(0 if self.gated else reset, values.dtype)).astype(values.dtype)


def inner(unit: AnyUnit, known: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants of the whole operation that change parameters (other than ready ones) or classes of the inner unit.

    unit: the cycle-accurate form, with the parameters of the inner unit. known: variants of the inner unit.
    """
    configs = unit.configs.values()
    parameters = [each for each in known if any(each.apply(config) != config for config in configs)]
    return *parameters, *of_part(unit.unit_class, "inner", known)


def variants(unit: AnyUnit) -> tuple[Variant, ...]:
    """Variants of every cycle-accurate form."""
    unit_class: type[Any] = unit.unit_class

    def variant(mixed: type[Any]) -> type[Any]:
        return type(f"{mixed.__name__}{unit_class.__name__}", (mixed, unit_class), {"__doc__": mixed.__doc__})

    return (
        Variant("D-arith-19", "a start while busy begins another operation", unit_class=variant(Restarted)),
        Variant(
            "D-arith-20", "outputs stay those of the last closed operation", answer=Closed(unit_class, gated=False)
        ),
        Variant("D-arith-20", "outputs are 0 unless an operation closes", answer=Closed(unit_class, gated=True)),
        Variant("D-arith-21", "valid stays 1 until the next operation begins", unit_class=variant(Lasting)),
    )
