"""Golden cases of fp16_mac: [kllm §IV-A]'s reduction, sums that differ with one and two roundings, ends of the range.

With directions or flags: ties, tiny and overflowing results, zeros and NaN in every direction.
"""

from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.stimuli import Blocks, Inputs, Seeds, columns, crossed, joined, uniform

SPECIAL = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC01, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]
SIGNALLING, PAYLOAD = 0x7D01, 0xFE55  #: NaN that signals; quiet NaN with a payload and a sign
FAR_BELOW = "a product halfway between two numbers, and an addend up to 40 places below it, of either sign"
CODES = 5  #: directions that the port `rm` takes


def paper(config: Config) -> Blocks:
    reduction = columns(a=[0x4000, 0x3C00, 0x4000], b=[0xB600, 0x3A00, 0x3000], acc=[0x3800, 0xB400, 0xB800])
    why = "[kllm §III-B1] three MACs of a reduction: 2 * -0.375, 1 * 0.75, 2 * 0.125"
    yield why, _in_each(_codes(config), reduction)


def edge(config: Config) -> Blocks:
    codes = _codes(config)
    why = "one rounding preserves what two lose; a sum that float32 alone rounds incorrectly"
    once_or_twice = columns(a=[0x3C01, 0x39C0], b=[0x3C01, 0xC3FE], acc=[0xBC02, 0x07FE])
    yield why, _in_each(codes, once_or_twice), "D-kllm-3"
    special = SPECIAL
    if _is_ieee(config):
        for why, inputs, *decision in _ieee():
            yield why, _in_each(codes, inputs), *decision
        special = [*SPECIAL, SIGNALLING, PAYLOAD]
    grid = crossed(a=special, b=special, acc=special)
    turns = {"rm": np.arange(len(grid["a"])) % codes} if codes else {}  # a direction for each row
    yield "zeros, subnormals, ends of the range, infinities and NaN, all combinations", grid | turns
    yield FAR_BELOW, _in_each(codes, _far_below()), "D-kllm-3"


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("fp16_mac", config, (1024,), seed)
    yield "uniform words", drawn
    near = {port: drawn[port] & 0x83FF | 0x3800 + (drawn[port] >> 4 & 0x400) for port in ("a", "b", "acc")}
    yield "magnitudes from 0.5 to 2, so that product and sum overlap", drawn | near
    if _is_ieee(config):  # products of 2**-12 to 2**-24 or so, addends below 2**-13
        low = {"a": drawn["a"] & 0x83FF | 0x1000 + (drawn["a"] >> 2 & 0x1C00), "b": drawn["b"] & 0x83FF | 0x1C00}
        acc = {"acc": drawn["acc"] & 0x87FF}
        yield "products and sums near the smallest normal number", drawn | low | acc, "D-arith-24"


def _codes(config: Config) -> int:
    """Directions of each row: those of the port `rm`; 0 without it."""
    return CODES if any(port.name == "rm" for port in find("fp16_mac").ports(config).inputs) else 0


def _is_ieee(config: Config) -> bool:
    """Whether a unit has directions or flags."""
    return config.get("ieee_flags", False) or config.get("direction", "half_even") != "half_even"


def _ieee() -> Blocks:
    why = "a quarter, a half and three quarters of a unit in the last place, exact and a little more, both signs"
    yield why, _ties(), "D-arith-2"
    why = "results near the smallest normal number, exact and inexact: tiny before or after rounding"
    yield why, _about_normal(), "D-arith-24"
    yield "results near the largest number: infinity or 65504, by direction", _about_largest(), "D-arith-2"
    terms = [0, 0x8000, 0x3C00, 0xBC00]
    yield "signed zeros, and sums that cancel", crossed(a=[0, 0x8000, 0x3C00, 0xC200], b=terms, acc=terms)
    yield "NaN, quiet and signalling, in each operand, also with infinity * 0", _not_numbers(), "D-arith-25"


def _far_below() -> Inputs:
    """3 * 1.0009765625 and 3 * 1.0029296875 times 1 to 2**13: ties, whose last bits are odd and even."""
    factors = [0x4200, 0x4E00, 0x5E00, 0x6A00, 0x7600]
    return _negated(
        crossed(a=[0x3C01, 0x3C03], b=factors, acc=[0x0001, 0x8001, 0x0400, 0x8400, 0x1400, 0x9400, 0x2800, 0xA800])
    )


def _negated(inputs: Inputs) -> Inputs:
    """The given rows, then the same with a negative result: signs of a and acc are inverted."""
    return joined([inputs, {"a": inputs["a"] ^ 0x8000, "b": inputs["b"], "acc": inputs["acc"] ^ 0x8000}])


def _ties() -> Inputs:
    """1 or 1 + 2**-10, the last bit even or odd, plus parts of 2**-10; the sum, and the product alone."""
    sums = crossed(a=[0x0C00, 0x1000, 0x1001, 0x0FFF, 0x1200, 0x1400], b=[0x3C00], acc=[0x3C00, 0x3C01])
    products = crossed(
        a=[0x3E00, 0x3D00, 0x3D80, 0x3F00], b=[0x3C01, 0x3C02, 0x3C03, 0x3C06], acc=[0x0000, 0x0001, 0x8001]
    )
    return _negated(joined([sums, products]))


def _about_normal() -> Inputs:
    """2**-14 and 2**-24 plus or minus parts of 2**-24, and products of this size."""
    parts = [0x3A00, 0x3800, 0x3400, 0x3000, 0x1000]
    sums = crossed(a=[0x0001, 0x8001], b=parts, acc=[0x0400, 0x0401, 0x03FF, 0x0001, 0x0002, 0x0000])
    exact = crossed(a=[0x0400, 0x0402], b=[0x3800, 0x3C00], acc=[0x0000])
    a = [0x37FE, 0x3BFF, 0x37FF, 0x37FD, 0x3BFE, 0x2C01, 0x0C01, 0x1001]
    b = [0x0801, 0x0400, 0x0800, 0x0803, 0x0401, 0x0C03, 0x1000, 0x0C00]
    products = columns(a=np.repeat(a, 2), b=np.repeat(b, 2), acc=np.tile([0x0000, 0x8001], 8))
    return _negated(joined([sums, exact, products]))


def _about_largest() -> Inputs:
    """65504 plus parts of 32, and products about 65536."""
    sums = crossed(a=[0x4B00, 0x4BFF, 0x4C00, 0x4C01, 0x4E00, 0x5000], b=[0x3C00], acc=[0x7BFF, 0x7BFE])
    a, b = [0x7800, 0x7BFF, 0x7BFF, 0x5BFF, 0x5C00, 0x7C00], [0x4000, 0x3C01, 0x7BFF, 0x5BFF, 0x5BFF, 0x3C00]
    acc = [0x0000, 0xCC00, 0xD000, 0xD010, 0xFBFF, 0xFC00, 0x7BFF, 0x0001, 0x8001]
    products = columns(a=np.repeat(a, len(acc)), b=np.repeat(b, len(acc)), acc=np.tile(acc, len(a)))
    return _negated(joined([sums, products]))


def _not_numbers() -> Inputs:
    quiet, plain = [0x7E00, PAYLOAD, SIGNALLING, 0xFC01], [0x3C00]
    alone = [
        crossed(a=a, b=b, acc=acc)
        for a, b, acc in ((quiet, plain, plain), (plain, quiet, plain), (plain, plain, quiet))
    ]
    a, b = [0x7C00, 0x0000, 0xFC00, 0x8000], [0x8000, 0x7C00, 0x0000, 0xFC00]
    acc = [*quiet, 0x3C00, 0x7C00, 0x0000]
    undefined = columns(a=np.repeat(a, len(acc)), b=np.repeat(b, len(acc)), acc=np.tile(acc, len(a)))
    last = columns(a=[0x7C00, 0x7C00, 0x7BFF], b=[0x3C00, 0x3C00, 0x7BFF], acc=[0xFC00, 0x7C00, 0xFC00])
    return joined([*alone, undefined, last])


def _in_each(codes: int, inputs: Inputs) -> Inputs:
    """Every row in every direction, one after the other; no more rows if `codes` is 0."""
    if not codes:
        return inputs
    rows = len(inputs["a"])
    return {port: np.repeat(array, codes) for port, array in inputs.items()} | {"rm": np.tile(np.arange(codes), rows)}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    return {"OVERFLOW": result.overflow if result.fflags is None else result.fflags & 4 != 0}
