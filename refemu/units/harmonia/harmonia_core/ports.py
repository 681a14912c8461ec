"""Ports, states and results of harmonia_core, for one product of [harmonia §IV-A, Fig. 12]."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from refemu.units import stepped
from refemu.units.harmonia.bfp_pe import require_fields
from refemu.units.harmonia.harmonia_core.plan import LANES, group_shape
from refemu.units.harmonia.k_offset import require_offsets
from refemu.units.ports import Lanes, Port, Ports


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset. Matrices are row-major."""

    event: str  #: "reset", or an event of `Action`
    index: int  #: event of the product, -1 for the reset
    a_sign: Lanes
    a_mag: Lanes
    a_exp: Lanes
    b: Lanes
    b_sign: Lanes
    b_exp: Lanes
    w_scale: Lanes
    frozen: Lanes  #: offsets of the prompt; () where the port is missing, here and for `offset`
    sign: Lanes
    mantissa: Lanes
    exponent: Lanes
    offset: Lanes
    y: Lanes  #: the temporary SRAM: words of FP16, as far as they are
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


COUNTERS = (
    "fetched",
    "reads",
    "passes",
    "cycles",
    "macs",
    "fp32_adds",
    "half_columns",
    "compare_cycles",
    "align_cycles",
    "comparisons",
    "tracked",
    "subtractions",
    "stored",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepped.Result):
    """Outputs of the core: codes, all 0 for kind "final", whose result is y."""

    sign: np.ndarray  #: bool, (..., M * K)
    mantissa: np.ndarray  #: uint8 or uint16, the same
    exponent: np.ndarray  #: uint8, (..., groups)
    y: np.ndarray  #: uint16, (..., M * K), words of FP16 that were converted
    #: uint16, (..., K), words of FP16 that every key lost; (0,) where the port is missing
    offset: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint16))
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
    """Widths in one configuration. Only keys have offsets, and only behind the window they come from outside."""
    rows, inner, columns, kind = config["rows"], config["inner"], config["columns"], config["kind"]
    groups, codes = -(-inner // LANES), prod(group_shape(kind, rows, columns, config["head_dim"]))
    frozen = Port("frozen", 16, columns, encoding="f16", meaning="offsets of the prompt's window")
    offset = Port("offset", 16, columns, encoding="f16", meaning="what every key lost")
    shifted = kind == "k" and config["window"] > 0
    return Ports(
        inputs=(
            Port("a_sign", 1, rows * inner, meaning="signs of A, by rows"),
            Port("a_mag", 8, rows * inner, meaning="8-bit mantissas of A"),
            Port("a_exp", 5, rows * groups, meaning="shared exponents of A"),
            Port("b", 8, columns * inner, meaning="INT4, 4-bit or 8-bit mantissas of B, by columns"),
            Port("b_sign", 1, columns * inner, meaning="signs of B; 0 for INT4"),
            Port("b_exp", 5, columns * groups, meaning="shared exponents of B; 0 for INT4"),
            Port("w_scale", 16, columns * groups, encoding="f16", meaning="weight factors; 0 but for INT4"),
            *[frozen] * (shifted and config["start"] >= config["window"]),
        ),
        outputs=(
            Port("sign", 1, rows * columns, meaning="signs of C, by rows"),
            Port("mantissa", config["m"], rows * columns, meaning="mantissas of C"),
            Port("exponent", 5, codes, meaning="shared exponents of C, by rows"),
            Port("y", 16, rows * columns, encoding="f16", meaning="C before its conversion"),
            *[offset] * shifted,
        ),
    )


def require_operands(core: Any, inputs: Mapping[str, Any]) -> None:
    """Refuse bits set in fields of b that its type does not have, and offsets that no window gives.

    inputs: by port, any leading axes, then lanes.
    """
    shape, groups = core.shape, core.groups
    lead = np.shape(inputs["a_exp"])[:-1]
    b, b_sign = (np.reshape(inputs[name], (*lead, shape.columns, 1, shape.inner)) for name in ("b", "b_sign"))
    b_exp, w_scale = (np.reshape(inputs[name], (*lead, shape.columns, groups)) for name in ("b_exp", "w_scale"))
    single, many = (np.full((*lead, shape.columns, count), core.mode) for count in (1, groups))
    require_fields(core.name, single, b, b_sign, np.zeros_like(single), np.zeros_like(single))
    require_fields(core.name, many, np.zeros((*many.shape, 1), int), np.zeros((*many.shape, 1), int), b_exp, w_scale)
    if "frozen" in inputs:
        require_offsets(core.name, "frozen", inputs["frozen"], core.offsets.rule.chosen)
