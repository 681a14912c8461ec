"""Hand-written compiled forms of units without registers: their text on variables, compared with the readable text.

Units inside are taken as proved: where the text calls the compiled form of another unit, its readable text runs. Loops
that number rows run over one row, whose inputs are any.
"""

import contextlib
import inspect
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_compiled
from refemu.prove import lift, terms
from refemu.prove.arrays import Array, as_array
from refemu.prove.compiled.derived import Words, compared, value_of_port
from refemu.prove.equivalence import Proof
from refemu.prove.interpreter import Interpreter
from refemu.prove.lift import Lift, NotLifted
from refemu.prove.values import Unsupported
from refemu.units.declaration import Sequential
from refemu.units.unit import Unit

#: compiled functions of arrays that are those of `fp16` on every element
SAME: Mapping[Any, Any] = {getattr(fp16_compiled, name): getattr(fp16, name) for name in ("to_f32", "round16")}


class _Output(Array):
    """An output, of which the text may make views that write into it."""

    def view(self, dtype: Any) -> Array:
        """The same memory as another dtype."""
        return _View(self, np.dtype(dtype))


class _View(Array):
    """An output as another dtype."""

    def __init__(self, base: Array, dtype: Any) -> None:
        self.base, self.dtype = base, np.dtype(dtype)

    @property
    def values(self) -> Any:  # type: ignore[override]
        """Elements in this dtype."""
        return Array(self.base.values, self.base.dtype).view(self.dtype).values

    def __setitem__(self, index: Any, value: Any) -> None:
        self.base[index] = self._cast(value).view(self.base.dtype)


class _Rows(Words):
    """Runs the body of a hand-written form on one row."""

    def attribute(self, owner: Any, name: str) -> Any:
        """An attribute; the compiled form of a unit is its readable text on each row."""
        if isinstance(owner, Unit) and name == "run_compiled":
            return partial(self.inner, owner)
        return super().attribute(owner, name)

    def call(self, function: Any, *args: Any, **named: Any) -> Any:
        """Compiled functions of arrays are called by their meaning."""
        with contextlib.suppress(TypeError):  # one that has no hash
            function = SAME.get(function, function)
        return super().call(function, *args, **named)

    def inner(self, unit: Any, *values: Any, **named: Any) -> Any:
        """Outputs of a unit without registers for rows, by the names of its ports; its counters are 0."""
        parameters = inspect.signature(unit.unit_class).parameters
        config = {name: value for name, value in named.items() if name in parameters}
        device = unit.unit_class(**config)
        if isinstance(device, Sequential):
            raise Unsupported(f"a call of the compiled form of {unit.name}, which has registers")
        ports = device.ports
        by_name = dict(zip((port.name for port in ports.inputs), values, strict=False)) | named
        arrays = [as_array(by_name[port.name]).values for port in ports.inputs]
        leading = np.broadcast_shapes(
            *(array.shape[: array.ndim - len(port.shape)] for array, port in zip(arrays, ports.inputs, strict=True))
        )
        rows = [
            np.broadcast_to(array, (*leading, *port.shape)) for array, port in zip(arrays, ports.inputs, strict=True)
        ]
        shown = ports.outputs + ports.state
        outputs = {port.name: np.empty((*leading, *port.shape), object) for port in shown}
        for place in np.ndindex(leading):
            inputs = [
                tuple(row[place]) if port.lanes else row[place] for row, port in zip(rows, ports.inputs, strict=True)
            ]
            state = self._row(unit.unit_class(**config), inputs)
            for port in shown:
                outputs[port.name][place] = getattr(state, port.name)
        arrays_of = {port.name: Array(outputs[port.name], port.result_dtype) for port in shown}
        return SimpleNamespace(**dict.fromkeys(unit.counters, 0), **arrays_of)

    def _row(self, device: Any, inputs: Any) -> Any:
        run = Interpreter()
        run.guard = self.now()
        with run.running():
            lift.operation(run, device, inputs)
        self.illegal = terms.or_(self.illegal, run.illegal)
        self.obligations += run.obligations
        return device.state


def written_equals(lifted: Lift, seconds: float = 60) -> Proof:
    """Prove that the hand-written compiled form of a unit without registers equals the terms of its readable text.

    Parameters, result and errors are those of `derived.compiled_equals`; NotLifted also if the unit has registers.
    """
    unit, device = lifted.unit, lifted.device
    if isinstance(device, Sequential):
        raise NotLifted(f"{unit.name}: its compiled form is a loop over events from reset")
    body, assumed = inspect.unwrap(unit.run_compiled), [lifted.legal]
    inputs = []
    for port in device.ports.inputs:
        value = value_of_port(port, lifted.inputs[port.name], assumed)
        inputs.append(Array([list(value.values) if port.lanes else value], port.dtype))
    ports = device.ports.outputs + device.ports.state
    outputs = [_Output(np.zeros((1, *port.shape), int).tolist(), port.result_dtype) for port in ports]
    run = _Rows()
    try:
        with run.running():
            run.call(body, device, inputs, outputs)
    except (Unsupported, TypeError, ValueError, AttributeError) as error:
        where = getattr(error, "line", "") or run.line
        raise NotLifted(f"{unit.name}: {lift.short(where)}: {error}") from error
    pairs = {
        port.name: list(zip(array.values.reshape(-1), lifted.terms[port.name], strict=True))
        for port, array in zip(ports, outputs, strict=True)
    }
    return compared(assumed, run, ports, pairs, seconds)


__all__ = ["written_equals"]
