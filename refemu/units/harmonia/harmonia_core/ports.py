"""Ports, states and results of harmonia_core, for one product of [harmonia §IV-A, Fig. 12]."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, at, first_index
from refemu.units import stepped
from refemu.units.declared import DeclaredState
from refemu.units.harmonia.bfp_pe import require_fields
from refemu.units.harmonia.bfp_pe_array import COLUMNS
from refemu.units.harmonia.harmonia_core.passes import wide_units
from refemu.units.harmonia.harmonia_core.plan import LANES, group_shape
from refemu.units.harmonia.k_offset import require_offsets
from refemu.units.ports import Lanes, Port, Ports

#: Ports that some configurations have: what they carry, for a refusal
OPTIONAL = {
    "frozen": "the offsets of the prompt",
    "position": "the position of every row",
    "wide": "which codes have 8 bits",
    "bias": "a bias of every column",
}


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset. Matrices are row-major."""

    #: "reset": no product yet; "load": a tile of A or B is fetched; "dispatch": the groups of a block are read for the
    #: array; "compute": the array makes its sums; "fp2half": they become FP16; "bias": biases are added; "vector": the
    #: vector unit applies the rotary embedding, the softmax or the activation; "offset": keys pass the K-offset
    #: generator; "convert": results become BFP codes; "store": they are stored
    event: str
    index: int  #: number of the event in its product, from 0; -1 at reset
    a_sign: Lanes
    a_mag: Lanes
    a_exp: Lanes
    b: Lanes
    b_sign: Lanes
    b_exp: Lanes
    w_scale: Lanes
    #: offsets that a prompt has chosen for the keys behind it, FP16 words; () where there is no such port
    frozen: Lanes
    position: Lanes  #: position of every row of A, ascending; () where there is no such port
    wide: Lanes  #: which codes of B have 8 bits, for every row of A; () where there is no such port
    bias: Lanes  #: what is added to every row of C, FP16 words; () where there is no such port
    sign: Lanes
    mantissa: Lanes
    exponent: Lanes
    offset: Lanes  #: what every key lost, by channel, FP16 words; () where there is no such port
    array_cycles: int  #: compute cycles of the array in this product, kept with b_type="mixed" alone
    #: words of 128 bits that the dispatcher of B read in this product, a nibble of each of the 32 elements of a group;
    #: kept with b_type="mixed" alone
    array_words: int
    y: Lanes  #: the temporary SRAM: words of FP16, as far as they are
    sums: tuple[int, ...]  #: FP32 words of a block on their way from the array to FP2Half, tile after tile, 8 x 16 each
    offsets: DeclaredState  #: registers of the K-offset generator: its State, as of unit k_offset
    fetched: int  #: elements of A and B fetched
    reads: int  #: groups read by each dispatcher
    words: int  #: words of 128 bits that the dispatcher of B read, a nibble of each of the 32 elements of a group
    passes: int  #: passes of the array, each over 8 rows of A and 16 columns of B
    cycles: int  #: compute cycles of the array
    macs: int  #: products of two elements in the array
    wide_macs: int  #: products of two elements in groups of mode M8M8
    fp32_adds: int  #: additions to an accumulator of the array in FP32
    half_columns: int  #: columns of eight sums that FP2Half converted
    bias_adds: int  #: elements of C that got a bias
    compare_cycles: int  #: clocks of the converter in which a column arrived
    align_cycles: int  #: clocks of the converter in which a column was put out
    comparisons: int  #: comparisons of two exponents in the converter
    tracked: int  #: comparisons of the K-offset generator: of magnitudes with peaks, and of peaks
    subtractions: int  #: offsets subtracted from keys, one for each token and chosen channel
    stored: int  #: elements of C stored


#: Counters of a product
COUNTERS = (
    "fetched",
    "reads",
    "words",
    "passes",
    "cycles",
    "macs",
    "wide_macs",
    "fp32_adds",
    "half_columns",
    "bias_adds",
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
    #: (...), cycles of the array and nibble planes of B that it read; None but for b_type "mixed"
    array_cycles: np.ndarray | None = None
    array_words: np.ndarray | None = None
    fetched: int
    reads: int
    words: int
    passes: int
    cycles: int
    macs: int
    wide_macs: int
    fp32_adds: int
    half_columns: int
    bias_adds: int
    compare_cycles: int
    align_cycles: int
    comparisons: int
    tracked: int
    subtractions: int
    stored: int


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration. Only keys have offsets, and only behind the window they come from outside."""
    config = {"positions": "start", "bias_add": "none"} | dict(config)
    rows, inner, columns, kind = config["rows"], config["inner"], config["columns"], config["kind"]
    groups, codes = -(-inner // LANES), prod(group_shape(kind, rows, columns, config["head_dim"]))
    frozen = Port("frozen", 16, columns, encoding="f16", meaning="offsets of the prompt's window")
    offset = Port("offset", 16, columns, encoding="f16", meaning="what every key lost")
    shifted = kind == "k" and config["window"] > 0
    mixed = config["b_type"] == "mixed"
    position = Port("position", 22, rows, meaning="of every row, ascending")
    wide = Port("wide", 1, rows * wide_units(kind, columns, groups), meaning="by row of A, codes of B that have 8 bits")
    bias = Port("bias", 16, columns, encoding="f16", meaning="added to every row")
    most = rows * columns * groups * 2  # as many passes as rows
    cycles = rows * -(-columns // COLUMNS) * (2 * groups + COLUMNS - 1)
    array_cycles = Port("array_cycles", cycles.bit_length(), meaning="cycles of the array in all passes")
    array_words = Port("array_words", most.bit_length(), meaning="nibble planes of groups of B that it read")
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
            *[position] * (config["positions"] == "port"),
            *[wide] * mixed,
            *[bias] * (config["bias_add"] != "none"),
        ),
        outputs=(
            Port("sign", 1, rows * columns, meaning="signs of C, by rows"),
            Port("mantissa", config["m"], rows * columns, meaning="mantissas of C"),
            Port("exponent", 5, codes, meaning="shared exponents of C, by rows"),
            Port("y", 16, rows * columns, encoding="f16", meaning="C before its conversion"),
            *[offset] * shifted,
            *[array_cycles, array_words] * mixed,
        ),
    )


def require_operands(core: Any, inputs: Mapping[str, Any]) -> None:
    """Refuse bits set in fields of b that its type does not have, and what optional ports must not carry.

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
        require_offsets(core.name, "frozen", inputs["frozen"], core.offsets.chosen)
    if "position" in inputs:
        require_positions(core, np.asarray(inputs["position"], np.int64))
    if "bias" in inputs:
        infinite = np.asarray(inputs["bias"]) & 0x7C00 == 0x7C00
        _refuse(core.name, "bias must be finite", infinite, inputs["bias"])


def require_positions(core: Any, position: np.ndarray) -> None:
    """Refuse positions (..., rows) that are repeated or descend, and those that the configuration does not admit."""
    later = np.diff(position, axis=-1, prepend=-1) <= 0
    _refuse(core.name, "position must ascend from row to row", later, position)
    _refuse(core.name, f"position must be {core.start} or more, as start is", position < core.start, position)
    if core.kind == "score":
        unseen = position >= core.columns
        _refuse(core.name, f"position must be that of one of {core.columns} keys", unseen, position)
    if core.waits:
        first = position[..., :1]
        _refuse(core.name, "position of the first key must be 0, whose window gives the offsets", first > 0, first)


def _refuse(name: str, rule: str, bad: np.ndarray, values: Any) -> None:
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{name}: {rule}, got {int(np.asarray(values)[index])}{at(index)}")
