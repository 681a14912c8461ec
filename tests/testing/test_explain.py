"""Explanations of a design that failed `hold`."""

import numpy as np
import pytest

from refemu import units
from refemu.testing import compare, explain, hold
from refemu.units import variant as other


def held(unit: str, config: str, says: str, rounds: int) -> list[str]:
    """Lines about a device with a variant of a decision, after some comparisons on random inputs."""
    descriptor = units.find(unit)
    (variant,) = (each for each in descriptor.variants if each.says == says)
    device = other.device(descriptor, descriptor.config(config), [variant])
    assert device is not None
    compare.tried.clear()
    for seed in range(rounds):
        block = next(iter(descriptor.stimuli(descriptor.config(config), "random", seed)))
        inputs = {name: array[:8] for name, array in block.inputs.items()}
        if descriptor.timing == "event":
            inputs = {name: array[0] for name, array in inputs.items()}
        answers = device.evaluate({n: a[None] for n, a in inputs.items()} if descriptor.timing == "event" else inputs)
        ports = descriptor.ports(descriptor.config(config)).outputs
        named = {port.name: np.asarray(getattr(answers, port.name)) for port in ports}
        if descriptor.timing == "event":
            named = {name: array[0] for name, array in named.items()}
        try:
            hold(unit, config, inputs, **named)
        except AssertionError:
            assert compare.last is not None
    failure = compare.last
    assert failure is not None
    return explain.lines(failure, compare.tried)


def test_explanation_uses_all_comparisons_of_a_test() -> None:
    lines = held("ovp_decoder", "int4", "a victim has the bias as its exponent", 40)
    assert lines[0].startswith("diagnosis: D-olive-19 explains every wrong row")


def test_unit_with_registers_is_explained() -> None:
    lines = held("olive_mac", "wrap", "overflow is 'saturate'", 12)
    assert lines[0].startswith("diagnosis: D-olive-33 explains")


def test_too_few_rows_give_no_explanation() -> None:
    compare.tried.clear()
    inputs = {"pair": np.array([0x12], np.uint8), "bias": np.array([0], np.uint8)}
    right = units.find("ovp_decoder").evaluate(units.find("ovp_decoder").config("int4"), inputs)
    with pytest.raises(AssertionError):
        hold("ovp_decoder", "int4", inputs, exponent=np.asarray(right.exponent) ^ 1)
    assert compare.last is not None
    assert explain.lines(compare.last, compare.tried) == []


def test_only_latest_comparisons_are_retained() -> None:
    compare.tried.clear()
    inputs = {"pair": np.zeros(3000, np.uint8), "bias": np.zeros(3000, np.uint8)}
    right = units.find("ovp_decoder").evaluate(units.find("ovp_decoder").config("int4"), inputs)
    for _ in range(3):
        hold("ovp_decoder", "int4", inputs, illegal=right.illegal)
    assert len(compare.tried) == 1
