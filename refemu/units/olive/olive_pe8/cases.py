"""Golden cases of olive_pe8. The 8-bit products of [olive §4.5] first; then the ends of 32 bits, sequences, a sweep."""

from functools import partial

import numpy as np

from refemu.units import Config
from refemu.units.olive.olive_mac import cases as olive_mac_cases
from refemu.units.olive.olive_mac.cases import HIGH, LOW, grid, load, mac
from refemu.units.stimuli import Blocks, Seeds, uniform

_histories = partial(olive_mac_cases.histories, names=("load", "acc_in", "x_exp", "x_int", "y_exp", "y_int"))


def paper(config: Config) -> Blocks:
    yield "[olive §4.5] an int8 product from four 4-bit products: 93 * -77", _histories([mac(0, 93, 0, -77)])
    why = "[olive §4.5] 2**15, the largest outlier after the clip, by a normal value and by itself"
    yield why, _histories([mac(12, 8, 0, 127), mac(12, 8, 12, 8)])


def edge(config: Config) -> Blocks:
    ends = [[load(acc), mac(0, sign, 0, 1)] for acc in (HIGH, HIGH - 1, LOW, LOW + 1) for sign in (1, -1)]
    yield "one step below, at and over either end of 32 bits", _histories(*ends), "D-olive-33"
    why = "two products of the largest clipped outliers, 2**15 * 2**15, of either sign"
    yield why, _histories([mac(12, 8, 12, 8)] * 3, [mac(12, 8, 12, -8)] * 3), "D-olive-33"
    corners = (-128, -127, -16, -15, -1, 1, 15, 16, 127)
    why = "both nibbles at their ends: -128, -127, -16, -15 (an E4M3 integer), -1, 1, 15, 16, 127"
    yield why, _histories(*[[mac(0, x, 0, y)] for x in corners for y in corners]), "D-olive-36"
    yield (
        "largest exponents: shifts beyond 32 bits leave 0 there, and the exact sum flags or saturates",
        _histories(
            *[
                [load(5), mac(30, x, 30, y), mac(31, y, 31, -128), mac(31, 0, 31, x)]
                for x in (-15, 15, -128)
                for y in (-15, 127)
            ]
        ),
        "D-olive-33",
    )


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("olive_pe8", config, (16, 32), seed)
    drawn["load"] = ((np.arange(32) == 0) | (drawn["acc_in"] % 16 == 0)).astype(np.int64)  # row 0, then 1 of 16
    yield "uniform operands: large exponents overflow often", drawn
    none = {"x_exp": drawn["x_exp"] * 0, "y_exp": drawn["y_exp"] * 0, "acc_in": drawn["acc_in"] >> 12}
    yield "no exponents: int8 products", drawn | none


def exhaustive(config: Config) -> Blocks:
    signed = (np.roll(np.arange(256), -1) ^ 128) - 128
    every = grid(load=0, acc_in=0, x_exp=0, x_int=signed[:, None], y_exp=0, y_int=signed)
    yield "every pair of int8 operands; a case sums over all y", every
