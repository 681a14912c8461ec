"""A unit that is stepped transaction by transaction, in packed words.

A transaction of a unit with registers is one row, even if its operation has several events. The readable unit has the
state, or for units with hundreds of events an operation, the class `Stream` of the compiled form, which is stepped
operation by operation. A unit without registers answers from its readable or its compiled form, which are equal: single
transactions from the form that was faster at the start, rows from the compiled one.
"""

import inspect
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.files import fields, masks
from refemu.golden.serve import hello
from refemu.golden.serve.layout import Layout
from refemu.units.ports import Port
from refemu.units.stepping import Stepped
from refemu.units.unit import AnyUnit, Kind

TRIES = 3  #: calls of each form that are timed at the start
#: fields processed at once: Python's integers take a hundred times the bytes of a frame
FIELDS = 1 << 16
SLOW_S = 5e-3  #: a readable form that takes this long is not tried again
SAMPLES: tuple[Kind, ...] = ("random", "edge", "paper")  #: kinds of cases that give the input for these calls


class Predictor:
    """A unit in one configuration, with its state.

    `hello` describes it to a client; `layout_in` and `layout_out` are the places of ports in the words.
    """

    def __init__(self, unit: AnyUnit, config: str, registers: bool = False, care: bool = False) -> None:
        """Check the configuration and compile what answers need.

        config: from `units.choose`. registers: whether registers follow the outputs of an answer. care: whether masks
        of the outputs follow those, 1 = this bit counts. Refused: an invalid configuration.
        """
        self.unit: AnyUnit = unit
        self._config, self._care = unit.config(config), care
        self.hello: dict[str, Any] = hello.hello(unit, config, registers, care)
        self.layout_in: Layout
        self.layout_out: Layout
        self.layout_in, self.layout_out = hello.layouts(unit, config, registers, care)
        self._ports = ports = unit.ports(self._config)
        self._names = [place.port.name for place in self.layout_out.places if place.group != "care"]
        self._fresh = self._device()
        self._require = type(self._fresh)._require is not Stepped._require
        self._require |= any(port.least is not None or port.most is not None for port in ports.inputs)
        self.stateful: bool = unit.timing == "event"
        self._stream_class = _stream_class(unit) if self.stateful else None
        self.reset()
        self._compiled = False
        if not self.stateful:
            self._choose()
        self.layout_out.packed(np.zeros((1, len(self.layout_out.lsb)), np.int64))
        self.layout_in.values(bytes(self.layout_in.bytes))

    def reset(self) -> None:
        """Return to the state of a new device."""
        self.device: Any = self._device()
        self._stream: Any = self._stream_class and self._stream_class(self._device())

    def step(self, data: bytes | bytearray) -> bytes:
        """Answer one transaction. Refused: invalid inputs, which change no state, or a wrong number of words."""
        if len(data) != self.layout_in.bytes:
            raise Refused(
                f"{self.unit.name}: a transaction must have {self.layout_in.bytes} bytes, {self.layout_in.words} "
                f"words, got {len(data)} bytes"
            )
        if self._compiled:
            return self._by_compiled(self.layout_in.values(data), self._require)
        return self._stepped(self.layout_in.values(data).tolist())

    def run(self, data: bytes | bytearray) -> bytes:
        """Answer rows of transactions in turn.

        Refused: invalid inputs in any of them, which change no state, or an incomplete row.
        """
        if len(data) % self.layout_in.bytes:
            raise Refused(
                f"{self.unit.name}: rows must have {self.layout_in.bytes} bytes each, {self.layout_in.words} words, "
                f"got {len(data)} bytes"
            )
        before = self._state() if self.stateful else None
        rows, size = len(data) // self.layout_in.bytes, self.layout_in.bytes
        part = max(1, FIELDS // max(len(self.layout_in.lsb), len(self.layout_out.lsb)))
        answers = bytearray()
        for first in range(0, rows, part):
            values = self.layout_in.values(data[first * size : (first + part) * size])
            try:
                answers += (
                    self._stepped(values.tolist(), first, rows) if self.stateful else self._by_compiled(values, True)
                )
            except (Refused, RefusedType) as error:
                if self.stateful:
                    self._restore(before)
                elif first:
                    raise Refused(f"{error}, counted from row {first} of {rows}") from None
                raise
        return bytes(answers)

    def _state(self) -> Any:
        return self._stream.snapshot() if self._stream else self.device.state

    def _device(self) -> Any:
        return self.unit.unit_class(**self._config)

    def _stepped(self, rows: list[list[int]], first: int = 0, total: int = 1) -> bytes:
        """Answer rows from `first` on, of `total`. Refused: the state is that before the first of these."""
        before = self._state()
        answers = []
        for number, row in enumerate(rows, first):
            try:
                answers.append(self._row(row))
            except (Refused, RefusedType) as error:
                self._restore(before)
                raise Refused(f"{error}, in row {number} of {total}" if total > 1 else f"{error}") from None
        return self.layout_out.packed(np.array(answers, np.int64))

    def _row(self, row: list[int]) -> list[int]:
        """One transaction by the readable form; fields in, fields out."""
        inputs, device = self.layout_in.of_ports(row), self.device
        if self._require:
            names = (place.port.name for place in self.layout_in.places)
            inputs = device.validate_event(**dict(zip(names, inputs, strict=True)))
        state = SimpleNamespace(**self._stream.step(inputs)) if self._stream else self._operation(inputs)
        values = [getattr(state, name) for name in self._names]
        if self._care:
            values += self._masks(inputs, state)
        return self.layout_out.of_fields(values)

    def _operation(self, inputs: list[Any]) -> Any:
        state = self.device._open(*inputs)
        while self.device.busy:
            state = self.device._continue()
        return state

    def _restore(self, state: Any) -> None:
        if self._stream:
            self._stream.restore(state)
        elif self.device.state is not state:
            self.reset()
            if state.index >= 0:
                self.device.restore(state)

    def _masks(self, inputs: list[Any], state: Any) -> list[Any]:
        """Masks of the outputs of one row."""
        axes = (1, 1) if self.stateful else (1,)
        rows = {
            place.port.name: np.array(value, place.port.dtype).reshape(*axes, *place.port.shape)
            for place, value in zip(self.layout_in.places, inputs, strict=True)
        }
        answers = {
            port.name: np.array(getattr(state, port.name), port.result_dtype).reshape(*axes, *port.shape)
            for port in (*self._ports.outputs, *self._ports.state)
        }
        every = self._care_of(rows, answers)
        return [
            tuple(mask.reshape(-1).tolist()) if port.shape else int(mask.reshape(-1)[0])
            for mask, port in zip(every, self._ports.outputs, strict=True)
        ]

    def _care_of(self, inputs: dict[str, np.ndarray], answers: dict[str, np.ndarray]) -> list[np.ndarray]:
        stated = masks.of_result(self.unit, self._config, inputs, SimpleNamespace(**answers))
        return [
            stated.get(f"out.{port.name}", np.full(answers[port.name].shape, fields.mask_of(port.bits), np.uint64))
            for port in self._ports.outputs
        ]

    def _by_compiled(self, values: np.ndarray, require: bool) -> bytes:
        """Rows by the compiled form; fields in."""
        rows = len(values)
        inputs = {place.port.name: _array(values[:, place.fields], place.port) for place in self.layout_in.places}
        answers = self._answers(inputs, rows, require)
        columns = [answers[name] for name in self._names]
        if self._care:
            columns += self._care_of(inputs, answers)
        packed = np.empty((rows, len(self.layout_out.lsb)), np.int64)
        for place, column in zip(self.layout_out.places, columns, strict=True):
            packed[:, place.fields] = column.reshape(rows, -1)
        return self.layout_out.packed(packed)

    def _answers(self, inputs: dict[str, np.ndarray], rows: int, require: bool) -> dict[str, np.ndarray]:
        """Outputs and registers by the inner function of the compiled form, which takes arrays unchanged."""
        every, run = self._ports.outputs + self._ports.state, self.unit.run_compiled
        inside: Any = getattr(run, "__wrapped__", None)
        if inside is None or hasattr(
            inside, "__wrapped__"
        ):  # a compiled form with more than the usual frame around that function
            result = self.unit.evaluate(self._config, inputs)
            return {port.name: getattr(result, port.name) for port in every}
        arrays = list(inputs.values())
        if require:
            arrays = [np.require(array, requirements=["C", "W"]) for array in self._fresh.validated(**inputs)]
        outputs = [np.empty((rows, *port.shape), port.result_dtype) for port in every]
        inside(self._fresh, arrays, outputs)
        return {port.name: array for port, array in zip(every, outputs, strict=True)}

    def _choose(self) -> None:
        """Compile the unit, and use the faster form for single transactions."""
        row = self._sample()
        if row is None:
            return
        data = self.layout_in.packed(np.array([row], np.int64))
        seconds = []
        for compiled in (True, False):
            self._compiled = compiled
            self.step(data)
            seconds.append(self._fastest(data))
        self._compiled = seconds[0] < seconds[1]
        self.reset()

    def _fastest(self, data: bytes) -> float:
        least = float("inf")
        for _ in range(TRIES):
            begin = time.thread_time()
            self.step(data)
            least = min(least, time.thread_time() - begin)
            if least > SLOW_S:
                break
        return least

    def _sample(self) -> list[int] | None:
        """The fields of a valid input from the golden cases."""
        for kind in SAMPLES:
            for cases in self.unit.stimuli(self._config, kind, 0):
                ports = [place.port for place in self.layout_in.places]
                first = [np.asarray(cases.inputs[port.name])[0].reshape(-1).tolist() for port in ports]
                return self.layout_in.of_fields([tuple(map(int, lanes)) for lanes in first])
        return None


def _array(values: np.ndarray, port: Port) -> np.ndarray:
    """The array of a port from its fields (rows, lanes): contiguous, of its dtype."""
    return np.ascontiguousarray(values if port.shape else values[:, 0]).astype(port.dtype)


def _stream_class(unit: AnyUnit) -> Any:
    """The class `Stream` of a unit's compiled form; None if there is none."""
    try:
        module = sys.modules[inspect.unwrap(unit.run_compiled).__module__]
    except Refused:
        return None
    return getattr(module, "Stream", None)
