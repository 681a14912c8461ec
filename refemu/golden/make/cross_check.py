"""Both forms of a unit side by side, before a set is made of what one of them answers."""

from collections.abc import Sequence

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.files import fields
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Cases, Config

ROWS = 256  #: rows of every block that both forms run, about; those of refemu's own units are held in its tests


def require_equal(unit: AnyUnit, config: Config, blocks: Sequence[Cases]) -> None:
    """Refuse a unit whose compiled twin gives other bits than its readable form, with the first that differs."""
    ports = unit.ports(config)
    for block in blocks:
        inputs = _first(unit, block)
        readable, compiled_run = (unit.evaluate(config, inputs, jit) for jit in (False, True))
        for port in ports.outputs + ports.state:
            _require_port(unit, block, port, getattr(readable, port.name), getattr(compiled_run, port.name))
        for counter in unit.counters:
            want, got = getattr(readable, counter), getattr(compiled_run, counter)
            if want != got:
                raise Refused(f"{unit.name}: the twin must equal the readable form, {counter} is {got}, not {want}")


def _first(unit: AnyUnit, block: Cases) -> dict[str, np.ndarray]:
    """The first cases of a block."""
    shape = next(iter(block.inputs.values())).shape
    cases = max(1, ROWS // shape[1]) if unit.timing == "event" else ROWS
    return {name: array[:cases] for name, array in block.inputs.items()}


def _require_port(unit: AnyUnit, block: Cases, port: Port, want: np.ndarray, got: np.ndarray) -> None:
    if got.dtype != want.dtype or got.shape != want.shape:
        raise Refused(
            f"{unit.name}: the twin must equal the readable form, {port.name} is {got.dtype} {got.shape}, not "
            f"{want.dtype} {want.shape}"
        )
    words = [fields.encode(values, port, f"{unit.name}: {port.name}") for values in (got, want)]
    if different := np.argwhere(words[0] != words[1]).tolist():
        index = tuple(different[0])
        raise Refused(
            f"{unit.name}: the twin must equal the readable form, got {port.name} {int(words[0][index]):#x}, not "
            f"{int(words[1][index]):#x}, at index {index} of {block.kind} cases ({block.why})"
        )
