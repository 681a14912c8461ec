"""Golden cases of fp16_mac: [kllm §IV-A]'s reduction first, then where one and two roundings part, ends of the range.

This module describes stimuli only; the descriptor, and with it every answer, is in fp16_mac.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units import find
from refemu.units.stimuli import Seeds, columns, random_inputs
from refemu.units.unit import Cases, Config, Kind

SPECIAL = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC01, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("fp16_mac").ports(config).inputs
    if kind == "paper":
        inputs = columns(a=[0x4000, 0x3C00, 0x4000], b=[0xB600, 0x3A00, 0x3000], acc=[0x3800, 0xB400, 0xB800])
        yield Cases(kind, "[kllm §III-B1] three MACs of a reduction: 2 * -0.375, 1 * 0.75, 2 * 0.125", inputs)
    if kind == "edge":
        why = "one rounding leaves what two lose; a sum that float32 alone rounds wrongly"
        yield Cases(kind, why, columns(a=[0x3C01, 0x39C0], b=[0x3C01, 0xC3FE], acc=[0xBC02, 0x07FE]), "D-kllm-3")
        a, b, acc = (x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL, SPECIAL, indexing="ij"))
        why = "zeros, subnormals, ends of the range, infinities and NaN, all combinations"
        yield Cases(kind, why, columns(a=a, b=b, acc=acc))
    if kind == "random":
        drawn = random_inputs("fp16_mac", ports, (1024,), seed)
        yield Cases(kind, "uniform words", drawn)
        near = {port: array & 0x83FF | 0x3800 + (array >> 4 & 0x400) for port, array in drawn.items()}
        yield Cases(kind, "magnitudes from 0.5 to 2, so that product and sum meet", near)


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    return {"OVERFLOW": result.overflow}
