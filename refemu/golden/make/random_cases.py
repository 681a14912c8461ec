"""Random cases of consecutive seeds."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from refemu.arith import integers
from refemu.arith.checks import Refused
from refemu.golden.files import fields
from refemu.units.unit import AnyUnit, Cases, Config

PART = 1 << 19  #: values of random cases drawn at once, about: 4 MB before they get their port's dtype


def random_cases(unit: AnyUnit, config: str, seed: int, seeds: int) -> list[Cases]:
    """The random cases of consecutive seeds: a block for each reason, integers in the dtypes of the ports."""
    values = int(
        integers.total(
            [
                array.size
                for block in unit.stimuli(unit.config(config), "random", seed)
                for array in block.inputs.values()
            ]
        )
    )
    step, last = max(1, PART // max(1, values)), seed + seeds
    drawn = [
        _drawn(unit, unit.config(config), range(first, min(first + step, last))) for first in range(seed, last, step)
    ]
    return [_merged(blocks) for blocks in zip(*drawn, strict=True)]


def _drawn(unit: AnyUnit, config: Config, seeds: range) -> list[Cases]:
    """The random cases of a few seeds."""
    ports = {port.name: port for port in unit.ports(config).inputs}
    return [
        dataclasses.replace(
            block, inputs={name: fields.narrow(array, ports[name]) for name, array in block.inputs.items()}
        )
        for block in unit.stimuli(config, "random", seeds)
    ]


def _merged(blocks: Sequence[Cases]) -> Cases:
    if len({block.why for block in blocks}) > 1:
        raise Refused(f"random cases: reasons must not depend on the seed, got {blocks[0].why!r}, {blocks[-1].why!r}")
    names = blocks[0].inputs
    return dataclasses.replace(
        blocks[0], inputs={name: np.concatenate([block.inputs[name] for block in blocks]) for name in names}
    )
