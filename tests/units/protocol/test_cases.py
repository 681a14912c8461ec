"""The golden cases of every unit: they fit its ports, say why they are there, tell a device from none, are marked."""

import re

import numpy as np
import pytest

from refemu.units.unit import Unit
from tests.units.protocol.blocks import CONFIGS, OWN, blocks, evaluated


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_cases_fit_their_ports_and_say_why(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    ports = {port.name: port for port in unit.ports(config).inputs}
    for block in blocks(unit, name):
        assert block.kind in OWN and block.why and re.fullmatch(r"(D-[a-z]+-\d+)?", block.decision)
        assert set(block.inputs) == set(ports)
        for port, array in block.inputs.items():
            low, high = ports[port].limits
            assert array.size and array.dtype.kind in "iu" and low <= array.min() and array.max() <= high
            assert array.ndim == 1 + (unit.timing == "event") + (ports[port].lanes > 1)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_first_row_tells_a_device_from_none(unit: Unit, name: str) -> None:
    """Stimulus not zero; answer neither zero nor what an all-zero stimulus gives."""
    config, block = unit.configs[name], blocks(unit, name)[0]
    first = {port: array[:1] for port, array in block.inputs.items()}
    lowest = {port.name: max(port.limits[0], 0) for port in unit.ports(config).inputs}
    zeros = {port: array * 0 + lowest[port] for port, array in first.items()}
    zeros = dict(unit.legal(config, zeros)) if unit.legal else zeros
    result, silent = (unit.evaluate(config, inputs, jit=False) for inputs in (first, zeros))
    outputs = [port.name for port in unit.ports(config).outputs]

    assert any(np.any(array) for array in first.values())
    assert any(np.any(getattr(result, port)) for port in outputs)
    assert any(np.any(getattr(result, port) != getattr(silent, port)) for port in outputs)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_cases_depend_on_the_seed_alone(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    first, again, other = ([block.inputs for block in unit.cases(config, "random", seed)] for seed in (0, 0, 1))

    assert all(np.array_equal(a[port], b[port]) for a, b in zip(first, again, strict=True) for port in a)
    assert any(not np.array_equal(a[port], b[port]) for a, b in zip(first, other, strict=True) for port in a)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_marks_and_masks_are_those_of_the_descriptor(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    for block, result in zip(blocks(unit, name), evaluated(unit, name, jit=True), strict=True):
        shape = next(iter(block.inputs.values())).shape[: 1 + (unit.timing == "event")]
        marks = unit.mark(config, block.inputs, result) if unit.mark else {}
        masks = unit.care(config, block.inputs, result) if unit.care else {}

        assert set(marks) <= set(unit.flags)
        assert all(mark.shape == shape and mark.dtype == np.bool_ for mark in marks.values())
        assert all(mask.shape == getattr(result, key.removeprefix("out.")).shape for key, mask in masks.items())
