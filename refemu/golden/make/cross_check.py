"""Comparison of a unit's forms, before one of them makes a set."""

from collections.abc import Sequence

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.files import fields
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Cases, Config

ROWS = 256  #: rows of every block that both forms run, about; tests compare the forms of refemu's own units


def require_equal(unit: AnyUnit, config: Config, blocks: Sequence[Cases]) -> None:
    """Require equal bits from both forms of a unit. Refused: the first difference."""
    ports = unit.ports(config)
    for block in blocks:
        inputs = _first(unit, block)
        readable, compiled_run = (unit.evaluate(config, inputs, jit) for jit in (False, True))
        for port in ports.outputs + ports.state:
            _require_port(unit, block, port, getattr(readable, port.name), getattr(compiled_run, port.name))
        for counter in unit.counters:
            want, got = getattr(readable, counter), getattr(compiled_run, counter)
            if want != got:
                raise Refused(
                    f"{unit.name}: {counter} must be {want}, that of the readable form, got {got} in the compiled form"
                )


def _first(unit: AnyUnit, block: Cases) -> dict[str, np.ndarray]:
    """The first cases of a block."""
    shape = next(iter(block.inputs.values())).shape
    cases = max(1, ROWS // shape[1]) if unit.timing == "event" else ROWS
    return {name: array[:cases] for name, array in block.inputs.items()}


def _require_port(unit: AnyUnit, block: Cases, port: Port, want: np.ndarray, got: np.ndarray) -> None:
    if got.dtype != want.dtype or got.shape != want.shape:
        raise Refused(
            f"{unit.name}: {port.name} must be {want.dtype} {want.shape}, that of the readable form, "
            f"got {got.dtype} {got.shape} in the compiled form"
        )
    words = [fields.encode(values, port, f"{unit.name}: {port.name}") for values in (got, want)]
    if different := np.argwhere(words[0] != words[1]).tolist():
        index = tuple(different[0])
        raise Refused(
            f"{unit.name}: {port.name} must be {int(words[1][index]):#x}, that of the readable form, "
            f"got {int(words[0][index]):#x} in the compiled form at index {index} of {block.kind} cases ({block.why})"
        )
