"""Golden cases of olive_mac. The identity of [olive §4.4]; then the ends of 32 bits, sequences, operand sweeps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Seeds, sequences, uniform

Event = tuple[int, int, int, int, int, int]  #: load, acc_in, a_exp, a_int, b_exp, b_int
NAMES = ("load", "acc_in", "a_exp", "a_int", "b_exp", "b_int")
HIGH, LOW = (1 << 31) - 1, -(1 << 31)


def paper(config: Config) -> Blocks:
    yield "[olive §4.4] <4,3> x <0,5> = <4,15>: 48 * 5 = 240, from a cleared accumulator", histories([mac(4, 3, 0, 5)])
    why = "[olive §4.4] two outliers, 96 * 96, then an outlier and a normal value, 12 * -7"
    yield why, histories([mac(5, 3, 5, 3), mac(2, 3, 0, -7)])


def edge(config: Config) -> Blocks:
    top, least = (1 << config["exponent_bits"]) - 1, -1 << (config["int_bits"] - 1)
    most = -1 - least
    ends = [[load(acc), mac(0, sign, 0, 1)] for acc in (HIGH, HIGH - 1, LOW, LOW + 1) for sign in (1, -1)]
    yield "one step below, at and over either end of 32 bits", histories(*ends), "D-olive-33"
    halves = [[load(start), *[mac(15, 1, 15, sign)] * 3] for start, sign in ((0, 1), (-1, 1), (0, -1), (-1, -1))]
    if top >= 15:
        yield "2**15 * 2**15 repeatedly: over the end at the second product", histories(*halves), "D-olive-33"
    yield (
        "largest operands of either sign at the largest exponents, and back",
        histories(
            *[
                [load(0), mac(top, a, top, b), mac(top, a, top, -b - (b == least))]
                for a in (most, least)
                for b in (most, least)
            ]
        ),
        "D-olive-33",
    )
    why = "products of 0 at any exponent leave the accumulator alone"
    yield why, histories([load(-5), mac(top, 0, top, most), mac(top, least, 0, 0), mac(0, 0, 0, 0)])
    yield (
        "a load in the middle of a sum drops the sum, and no product is made",
        histories([mac(1, 3, 0, 5), (1, -7, top, most, top, most), mac(0, 1, 0, 1), load(0), mac(0, -1, 0, 1)]),
    )


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("olive_mac", config, (16, 32), seed)
    drawn["load"] = ((np.arange(32) == 0) | (drawn["acc_in"] % 16 == 0)).astype(np.int64)  # row 0, then 1 of 16
    yield "uniform operands: large exponents overflow often", drawn
    small = {port: drawn[port] & 3 for port in ("a_exp", "b_exp")} | {"acc_in": drawn["acc_in"] >> 16}
    yield "small exponents, as real tensors have them", drawn | small


def exhaustive(config: Config) -> Blocks:
    """All 2**16 operand pairs, a case for each pair of integers, from <1, i> on so that row 0 is not 0."""
    if (config["exponent_bits"], config["int_bits"]) != (4, 4):
        return
    exponent = np.arange(1, 257) & 255
    codes = np.roll(np.arange(256), -17)[:, None]
    signed = [(integer ^ 8) - 8 for integer in (codes >> 4, codes & 15)]
    every = grid(load=0, acc_in=0, a_exp=exponent & 15, a_int=signed[0], b_exp=exponent >> 4, b_int=signed[1])
    yield "every pair of operands; a case sums over all exponents of two integers", every


def load(acc: int) -> Event:
    """An event that loads the accumulator."""
    return 1, acc, 0, 0, 0, 0


def mac(a_exp: int, a_int: int, b_exp: int, b_int: int) -> Event:
    """An event that adds a product."""
    return 0, 0, a_exp, a_int, b_exp, b_int


def histories(*events: list[Event], names: Sequence[str] = NAMES) -> dict[str, np.ndarray]:
    """Each sequence of events is a case; all are equally long."""
    return sequences(names, events)


def grid(**columns: Any) -> dict[str, np.ndarray]:
    """Cases of 256 events from values that broadcast."""
    return {name: np.broadcast_to(column, (256, 256)) for name, column in columns.items()}
