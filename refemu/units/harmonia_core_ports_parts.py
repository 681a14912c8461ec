"""Ports, states and results of harmonia_core: one product of [harmonia §IV-A, Fig. 12]."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refemu.units import unit
from refemu.units.harmonia_core_parts import LANES, group_shape
from refemu.units.unit import Port, Ports


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset. Matrices are row-major."""

    event: str  #: "reset", or an event of `Action`
    index: int  #: event of the product, -1 for the reset
    a_sign: Any  #: a tuple of lanes; an int where a port has one lane, here and below
    a_mag: Any
    a_exp: Any
    b: Any
    b_sign: Any
    b_exp: Any
    w_scale: Any
    sign: Any
    mantissa: Any
    exponent: Any
    y: Any  #: the temporary SRAM: words of FP16, as far as they are
    sums: tuple[int, ...]  #: words of FP32 on their way from the array to FP2Half
    offsets: tuple[Any, ...]  #: registers of the K-offset generator: the fields of its State, in order
    fetched: int  #: elements of A and B
    reads: int  #: groups read by each dispatcher
    passes: int  #: of the array
    cycles: int  #: of the array
    macs: int
    fp32_adds: int
    half_columns: int  #: columns of FP2Half
    compare_cycles: int  #: of the converter
    align_cycles: int
    comparisons: int  #: of its exponents
    tracked: int  #: comparisons of the K-offset generator
    subtractions: int
    stored: int  #: elements


COUNTERS = tuple(State.__dataclass_fields__)[-13:]


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the core: codes, all 0 for kind "final", whose result is y."""

    sign: np.ndarray  #: bool, (..., M * K)
    mantissa: np.ndarray  #: uint8 or uint16, the same
    exponent: np.ndarray  #: uint8, (..., groups)
    y: np.ndarray  #: uint16, (..., M * K), words of FP16 that were converted
    fetched: int
    reads: int
    passes: int
    cycles: int
    macs: int
    fp32_adds: int
    half_columns: int
    compare_cycles: int
    align_cycles: int
    comparisons: int
    tracked: int
    subtractions: int
    stored: int


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    rows, inner, columns = config["rows"], config["inner"], config["columns"]
    groups, codes = -(-inner // LANES), prod(group_shape(config["kind"], rows, columns))
    return Ports(
        inputs=(Port("a_sign", 1, rows * inner, meaning="signs of A, by rows"),
                Port("a_mag", 8, rows * inner, meaning="8-bit mantissas of A"),
                Port("a_exp", 5, rows * groups, meaning="shared exponents of A"),
                Port("b", 8, columns * inner, meaning="INT4, 4-bit or 8-bit mantissas of B, by columns"),
                Port("b_sign", 1, columns * inner, meaning="signs of B; 0 for INT4"),
                Port("b_exp", 5, columns * groups, meaning="shared exponents of B; 0 for INT4"),
                Port("w_scale", 16, columns * groups, encoding="f16", meaning="weight factors; 0 but for INT4")),
        outputs=(Port("sign", 1, rows * columns, meaning="signs of C, by rows"),
                 Port("mantissa", config["m"], rows * columns, meaning="mantissas of C"),
                 Port("exponent", 5, codes, meaning="shared exponents of C, by rows"),
                 Port("y", 16, rows * columns, encoding="f16", meaning="C before its conversion")))
