"""Golden cases of fp16_mac: [kllm §IV-A]'s reduction, sums that differ with one and two roundings, ends of the range.

With directions or flags: ties, tiny and overflowing results, zeros and NaN in every direction.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.units import Cases, Config, Kind, find
from refemu.units.stimuli import Seeds, columns, random_inputs

SPECIAL = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC01, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]
SIGNALLING, PAYLOAD = 0x7D01, 0xFE55  #: NaN that signals; quiet NaN with a payload and a sign
FAR_BELOW = "a product halfway between two numbers, and an addend up to 40 places below it, of either sign"
CODES = 5  #: directions that the port `rm` takes
Inputs = dict[str, np.ndarray]


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration; `rm` goes through all codes where it is a port."""
    ports = find("fp16_mac").ports(config).inputs
    ieee = config.get("ieee_flags", False) or config.get("direction", "half_even") != "half_even"
    codes = CODES if any(port.name == "rm" for port in ports) else 0
    if kind == "paper":
        inputs = _in_each(codes, _reduction())
        yield Cases(kind, "[kllm §III-B1] three MACs of a reduction: 2 * -0.375, 1 * 0.75, 2 * 0.125", inputs)
    if kind == "edge":
        why = "one rounding preserves what two lose; a sum that float32 alone rounds incorrectly"
        yield Cases(kind, why, _in_each(codes, _once_or_twice()), "D-kllm-3")
        if ieee:
            yield from _ieee(codes)
        why = "zeros, subnormals, ends of the range, infinities and NaN, all combinations"
        special = [*SPECIAL, SIGNALLING, PAYLOAD] if ieee else SPECIAL
        yield Cases(kind, why, _in_turn(codes, _grid(special, special, special)))
        yield Cases(kind, FAR_BELOW, _in_each(codes, _far_below()), "D-kllm-3")
    if kind == "random":
        drawn = random_inputs("fp16_mac", ports, (1024,), seed)
        yield Cases(kind, "uniform words", drawn)
        yield Cases(kind, "magnitudes from 0.5 to 2, so that product and sum overlap", _near_one(drawn))
        # products of 2**-12 to 2**-24 or so, addends below 2**-13
        low = {
            "a": drawn["a"] & 0x83FF | 0x1000 + (drawn["a"] >> 2 & 0x1C00),
            "b": drawn["b"] & 0x83FF | 0x1C00,
            "acc": drawn["acc"] & 0x87FF,
        }
        if ieee:
            yield Cases(kind, "products and sums near the smallest normal number", drawn | low, "D-arith-24")


def _ieee(codes: int) -> Iterator[Cases]:
    """Edge cases of a unit with directions or flags."""
    why = "a quarter, a half and three quarters of a unit in the last place, exact and a little more, both signs"
    yield Cases("edge", why, _in_each(codes, _ties()), "D-arith-2")
    why = "results near the smallest normal number, exact and inexact: tiny before or after rounding"
    yield Cases("edge", why, _in_each(codes, _about_normal()), "D-arith-24")
    why = "results near the largest number: infinity or 65504, by direction"
    yield Cases("edge", why, _in_each(codes, _about_largest()), "D-arith-2")
    why = "signed zeros, and sums that cancel"
    yield Cases("edge", why, _in_each(codes, _grid([0, 0x8000, 0x3C00, 0xC200], *[[0, 0x8000, 0x3C00, 0xBC00]] * 2)))
    why = "NaN, quiet and signalling, in each operand, also with infinity * 0"
    yield Cases("edge", why, _in_each(codes, _not_numbers()), "D-arith-25")


def _reduction() -> Inputs:
    return columns(a=[0x4000, 0x3C00, 0x4000], b=[0xB600, 0x3A00, 0x3000], acc=[0x3800, 0xB400, 0xB800])


def _once_or_twice() -> Inputs:
    return columns(a=[0x3C01, 0x39C0], b=[0x3C01, 0xC3FE], acc=[0xBC02, 0x07FE])


def _far_below() -> Inputs:
    """3 * 1.0009765625 and 3 * 1.0029296875 times 1 to 2**13: ties, whose last bits are odd and even."""
    factors = [0x4200, 0x4E00, 0x5E00, 0x6A00, 0x7600]
    return _negated(_grid([0x3C01, 0x3C03], factors, [0x0001, 0x8001, 0x0400, 0x8400, 0x1400, 0x9400, 0x2800, 0xA800]))


def _grid(*words: Sequence[int]) -> Inputs:
    """All combinations of words of a, b and acc."""
    grid = np.meshgrid(*words, indexing="ij")
    return {port: array.ravel() for port, array in zip(("a", "b", "acc"), grid, strict=True)}


def _joined(*parts: Inputs) -> Inputs:
    return {port: np.concatenate([part[port] for part in parts]) for port in parts[0]}


def _negated(inputs: Inputs) -> Inputs:
    """The given rows, then the same with a negative result: signs of a and acc are inverted."""
    return _joined(inputs, {"a": inputs["a"] ^ 0x8000, "b": inputs["b"], "acc": inputs["acc"] ^ 0x8000})


def _ties() -> Inputs:
    """1 or 1 + 2**-10, the last bit even or odd, plus parts of 2**-10; the sum, and the product alone."""
    sums = _grid([0x0C00, 0x1000, 0x1001, 0x0FFF, 0x1200, 0x1400], [0x3C00], [0x3C00, 0x3C01])
    products = _grid([0x3E00, 0x3D00, 0x3D80, 0x3F00], [0x3C01, 0x3C02, 0x3C03, 0x3C06], [0x0000, 0x0001, 0x8001])
    return _negated(_joined(sums, products))


def _about_normal() -> Inputs:
    """2**-14 and 2**-24 plus or minus parts of 2**-24, and products of this size."""
    parts = [0x3A00, 0x3800, 0x3400, 0x3000, 0x1000]
    sums = _grid([0x0001, 0x8001], parts, [0x0400, 0x0401, 0x03FF, 0x0001, 0x0002, 0x0000])
    exact = _grid([0x0400, 0x0402], [0x3800, 0x3C00], [0x0000])
    a = [0x37FE, 0x3BFF, 0x37FF, 0x37FD, 0x3BFE, 0x2C01, 0x0C01, 0x1001]
    b = [0x0801, 0x0400, 0x0800, 0x0803, 0x0401, 0x0C03, 0x1000, 0x0C00]
    products = columns(a=np.repeat(a, 2), b=np.repeat(b, 2), acc=np.tile([0x0000, 0x8001], 8))
    return _negated(_joined(sums, exact, products))


def _about_largest() -> Inputs:
    """65504 plus parts of 32, and products about 65536."""
    sums = _grid([0x4B00, 0x4BFF, 0x4C00, 0x4C01, 0x4E00, 0x5000], [0x3C00], [0x7BFF, 0x7BFE])
    factors = columns(
        a=[0x7800, 0x7BFF, 0x7BFF, 0x5BFF, 0x5C00, 0x7C00], b=[0x4000, 0x3C01, 0x7BFF, 0x5BFF, 0x5BFF, 0x3C00]
    )
    acc = [0x0000, 0xCC00, 0xD000, 0xD010, 0xFBFF, 0xFC00, 0x7BFF, 0x0001, 0x8001]
    products = {port: np.repeat(array, len(acc)) for port, array in factors.items()} | {"acc": np.tile(acc, 6)}
    return _negated(_joined(sums, products))


def _not_numbers() -> Inputs:
    quiet = [0x7E00, PAYLOAD, SIGNALLING, 0xFC01]
    alone = _joined(
        _grid(quiet, [0x3C00], [0x3C00]), _grid([0x3C00], quiet, [0x3C00]), _grid([0x3C00], [0x3C00], quiet)
    )
    undefined = columns(a=[0x7C00, 0x0000, 0xFC00, 0x8000], b=[0x8000, 0x7C00, 0x0000, 0xFC00], acc=0)
    acc = [*quiet, 0x3C00, 0x7C00, 0x0000]
    beside = {port: np.repeat(array, len(acc)) for port, array in undefined.items()} | {"acc": np.tile(acc, 4)}
    return _joined(
        alone, beside, columns(a=[0x7C00, 0x7C00, 0x7BFF], b=[0x3C00, 0x3C00, 0x7BFF], acc=[0xFC00, 0x7C00, 0xFC00])
    )


def _near_one(drawn: Inputs) -> Inputs:
    """Drawn words with exponents of 0.5 and 1, in an unchanged direction."""
    near = {port: drawn[port] & 0x83FF | 0x3800 + (drawn[port] >> 4 & 0x400) for port in ("a", "b", "acc")}
    return drawn | near


def _in_each(codes: int, inputs: Inputs) -> Inputs:
    """Every row in every direction, one after the other; no more rows if `codes` is 0."""
    if not codes:
        return inputs
    rows = len(inputs["a"])
    return {port: np.repeat(array, codes) for port, array in inputs.items()} | {"rm": np.tile(np.arange(codes), rows)}


def _in_turn(codes: int, inputs: Inputs) -> Inputs:
    """Every row in one direction, one after the other."""
    return inputs | {"rm": np.arange(len(inputs["a"])) % codes} if codes else inputs


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    return {"OVERFLOW": result.overflow if result.fflags is None else result.fflags & 4 != 0}
