"""Answers without a set."""

import numpy as np

from refemu import units
from refemu.golden.explain.stimulus import Answered, explained
from refemu.golden.files import fields
from refemu.units import variant as other


def answered(says: str | None, seed: int = 0) -> Answered:
    """Random rows of ovp_decoder and the answers of a device."""
    unit = units.find("ovp_decoder")
    config = unit.config("int4")
    inputs = next(iter(unit.stimuli(config, "random", seed))).inputs
    chosen = [each for each in unit.variants if each.says == says]
    device = other.device(unit, config, chosen) if chosen else other.right(unit, config)
    assert device is not None
    result = device.evaluate(inputs)
    ports = unit.ports(config).outputs
    return Answered(inputs, {port.name: fields.encode(getattr(result, port.name), port, "") for port in ports})


def test_right_device_has_no_explanation() -> None:
    assert explained(units.find("ovp_decoder"), "int4", [answered(None)]) is None


def test_explanation_uses_all_parts() -> None:
    parts = [answered("a victim has the bias as its exponent", seed) for seed in range(3)]
    result = explained(units.find("ovp_decoder"), "int4", parts)
    assert result is not None
    assert [part.id for part in result.diagnosis.explanations] == ["D-olive-19"]
    assert result.rows == len(parts) * len(next(iter(parts[0].inputs.values())))
    assert result.wrong == result.diagnosis.explanations[0].rows_explained
    assert result.lines[0].startswith("diagnosis: D-olive-19 explains every wrong row")


def test_unknown_bits_are_wrong() -> None:
    part = answered(None)
    unknown = {port: np.zeros_like(codes) for port, codes in part.answers.items()}
    unknown["illegal"][4] = 1
    result = explained(units.find("ovp_decoder"), "int4", [Answered(part.inputs, part.answers, unknown)])
    assert result is not None and (result.wrong, result.where.ports) == (1, {"illegal": 1})
