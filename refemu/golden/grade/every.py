"""All legal inputs of a unit without registers, if they are few: a fault that none of them detects is equivalent."""

from math import prod

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.files import fields
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.answers import Answers
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Cases, Config

MOST = 1 << 20  #: inputs that are all tried, at most
TRIES = 1 << 12  #: evaluations that find the legal ones, at most
Inputs = dict[str, np.ndarray]


class Every:
    """The legal inputs of a unit in a configuration; `count` is 0 where they are too many, or registers matter too."""

    unit: AnyUnit
    config: Config
    ports: tuple[Port, ...]
    sizes: list[int]
    count: int

    def __init__(self, unit: AnyUnit, config: Config) -> None:
        self.unit, self.config = unit, config
        self.ports = unit.ports(config).inputs
        self.sizes = [port.limits[1] - port.limits[0] + 1 for port in self.ports for _ in range(port.count)]
        legal = None
        if unit.timing != "event" and prod(self.sizes) <= MOST:
            legal = self._legal(self._values(np.arange(prod(self.sizes))))
        self._rows = np.flatnonzero(legal) if legal is not None else np.zeros(0, np.int64)
        self.count = len(self._rows)

    @property
    def inputs(self) -> Inputs:
        """Each of them once, by port."""
        return self._values(self._rows)

    def rows(self) -> Answers:
        """Answers to each of them once."""
        return self._answers([self._rows])

    def sequences(self) -> Answers:
        """Answers to orders of them in which every two inputs that differ at one port only are connected.

        For a port, its values come one after another while the other ports are constant. The last order begins with the
        second input, since a fault may concern the first and second, third and fourth, ... of a stream.
        """
        orders, place = [], 0
        for port in self.ports:
            orders.append(self._fastest(place, port))
            place += port.count
        return self._answers([*orders, np.roll(self._rows, -1)])

    def _fastest(self, place: int, port: Port) -> np.ndarray:
        """Numbers of the legal inputs, the lanes of one port first. place: number of its first lane."""
        grid = np.arange(prod(self.sizes)).reshape(self.sizes[::-1])
        axes = [grid.ndim - 1 - lane for lane in range(place, place + port.count)][::-1]
        order = np.moveaxis(grid, axes, range(grid.ndim - port.count, grid.ndim)).reshape(-1)
        return order[np.isin(order, self._rows)]

    def _answers(self, orders: list[np.ndarray]) -> Answers:
        cases = [Cases("exhaustive", "every input", self._values(order)) for order in orders]
        blocks = answers_of.of_cases(self.unit, self.config, cases).blocks
        return Answers(self.unit, self.config, blocks, spare=True, inputs=self.count)

    def _values(self, numbers: np.ndarray) -> Inputs:
        """Inputs by port: a number has the first lane of the first port as its lowest digit."""
        inputs, rest = {}, numbers
        for port in self.ports:
            lanes = []
            for _ in range(port.count):
                size = port.limits[1] - port.limits[0] + 1
                lanes.append(rest % size + port.limits[0])
                rest = rest // size
            inputs[port.name] = np.stack(lanes, axis=-1).reshape(len(numbers), *port.shape).astype(port.dtype)
        return inputs

    def _legal(self, inputs: Inputs) -> np.ndarray | None:
        """Which inputs the unit takes, of NaNs that sets do not distinguish one; None if it takes too long to find."""
        legal = np.ones(prod(self.sizes), np.bool_)
        for port in self.ports:
            codes = fields.encode(inputs[port.name], port, port.name)
            legal &= (fields.stimulus(codes, port) == codes).reshape(len(legal), -1).all(axis=1)
        todo, tries = [np.flatnonzero(legal)], 0
        while todo:
            some, tries = todo.pop(), tries + 1
            try:
                if len(some):
                    self.unit.evaluate(self.config, {name: array[some] for name, array in inputs.items()})
            except (Refused, RefusedType):
                if tries > TRIES:
                    return None
                if len(some) == 1:
                    legal[some] = False
                else:
                    todo += [some[: len(some) // 2], some[len(some) // 2 :]]
        return legal
