"""Ports, states and results of harmonia_core: one product of [harmonia §IV-A, Fig. 12]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.units import unit
from refemu.units.bfp_pe_parts import require_fields
from refemu.units.harmonia_core_parts import LANES, group_shape
from refemu.units.k_offset import require_offsets
from refemu.units.unit import Port, Ports, admit


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
    frozen: Any  #: offsets of the prompt; () where the port is missing, here and for `offset`
    sign: Any
    mantissa: Any
    exponent: Any
    offset: Any
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
    offset: np.ndarray  #: uint16, (..., K), words of FP16 that every key lost; (..., 0) where they lose nothing
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


def admitted(core: Any, values: Sequence[Any]) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
    """The arguments of `run` by port, each with an axis of lanes, and the shape of the products; refused as there."""
    ports = core.ports.inputs
    given = [value for value in values if value is not None]
    if len(given) != len(ports):
        wanted = "needs the offsets of the prompt" if "frozen" in [port.name for port in ports] else "takes no offsets"
        raise Refused(f"{core.name}: frozen: kind {core.kind!r} from position {core.start} on {wanted}")
    arrays = {
        port.name: array if port.lanes > 1 else array[..., None]
        for port, array in zip(ports, admit(core.name, ports, given), strict=True)
    }
    require_operands(core, arrays)
    return arrays, arrays["a_exp"].shape[:-1]


def require_operands(core: Any, given: Mapping[str, Any]) -> None:
    """Refuse bits set in fields of b that its type does not have, and offsets that no window gives.

    given: ports, any leading axes.
    """
    shape, groups = core.shape, core.groups
    lead = np.shape(given["a_exp"])[:-1]
    b, b_sign = (np.reshape(given[name], (*lead, shape.columns, 1, shape.inner)) for name in ("b", "b_sign"))
    b_exp, w_scale = (np.reshape(given[name], (*lead, shape.columns, groups)) for name in ("b_exp", "w_scale"))
    one, many = (np.full((*lead, shape.columns, count), core.mode) for count in (1, groups))
    require_fields(core.name, one, b, b_sign, np.zeros_like(one), np.zeros_like(one))
    require_fields(core.name, many, np.zeros((*many.shape, 1), int), np.zeros((*many.shape, 1), int), b_exp, w_scale)
    if "frozen" in given:
        require_offsets(core.name, "frozen", given["frozen"], core.offsets.rule.chosen)
