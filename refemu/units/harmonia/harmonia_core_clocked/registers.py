"""State and ports of harmonia_core_clocked. [harmonia §IV-A, Fig. 12]"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refemu.units import stepped
from refemu.units.harmonia.bfp_pe_array import ROWS
from refemu.units.harmonia.harmonia_core import PARTS, HarmoniaCore, Timeline, longest
from refemu.units.ports import Lanes, Port, Ports

HELD = "_held"  #: end of the name of a register that holds an operand of the product
PARAMETERS = tuple(inspect.signature(HarmoniaCore).parameters)  #: of the whole operation
COUNTERS = ("clocks", "events", "products")  #: Counters of a run


@dataclass(frozen=True)
class State:
    """Ports and registers after one clock, and what happened since reset. Matrices are row-major."""

    #: "reset": no clock yet; "idle": no product is under way; "wait": one is, and none of its events ends in this
    #: clock; else the last event of the product that ends in it: "load": a tile of A or B is fetched; "dispatch": the
    #: groups of a block are read for the array; "compute": the array makes its sums; "fp2half": they become FP16;
    #: "bias": biases are added; "vector": the vector unit applies the rotary embedding, the softmax or the activation;
    #: "offset": keys pass the K-offset generator; "convert": results become BFP codes; "store": they are stored
    event: str
    index: int  #: number of the clock since reset, from 0; -1 at reset
    go: int
    a_sign: Lanes
    a_mag: Lanes
    a_exp: Lanes
    b: Lanes
    b_sign: Lanes
    b_exp: Lanes
    w_scale: Lanes
    #: offsets that a prompt has chosen for the keys behind it, as they are at the input; () where there is no such port
    frozen: Lanes
    position: Lanes  #: position of every row of A, as it is at the input; () where there is no such port
    #: which codes of B have 8 bits, for every row of A, as it is at the input; () where there is no such port
    wide: Lanes
    bias: Lanes  #: what is added to every row of C, as it is at the input; () where there is no such port
    sent: Lanes
    row: int
    column: int
    sign: Lanes
    mantissa: Lanes
    exponent: Lanes
    word: Lanes
    working: Lanes
    busy: int
    valid: int
    phase: int  #: number of the clock in its product
    a_sign_held: Lanes
    a_mag_held: Lanes
    a_exp_held: Lanes
    b_held: Lanes
    b_sign_held: Lanes
    b_exp_held: Lanes
    w_scale_held: Lanes
    frozen_held: Lanes  #: offsets that a prompt has chosen, for the product under way; () where there is no such port
    position_held: Lanes  #: position of every row of A, for the product under way; () where there is no such port
    wide_held: Lanes  #: which codes of B have 8 bits, for the product under way; () where there is no such port
    bias_held: Lanes  #: what is added to every row of C, for the product under way; () where there is no such port
    y: Lanes  #: the temporary SRAM: words of FP16, as far as they are
    offset: Lanes  #: what every key of the product loses, by channel, FP16 words; () where there is no such port
    #: State of the product, as of unit harmonia_core, whose events are executed in the clock in which they end
    core: Any
    #: FP32 sums of the blocks that FP2Half is not done with, by row and column of the block
    waiting: tuple[tuple[tuple[int, int], tuple[int, ...]], ...]
    clocks: int  #: clocks in which a product was under way
    events: int  #: events of products executed
    products: int  #: products completed


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepped.Result):
    """Outputs and registers after every clock; counters are totals. None: the configuration lacks the register."""

    sent: np.ndarray
    row: np.ndarray
    column: np.ndarray
    sign: np.ndarray
    mantissa: np.ndarray
    exponent: np.ndarray
    word: np.ndarray
    working: np.ndarray
    busy: np.ndarray
    valid: np.ndarray
    phase: np.ndarray
    a_sign_held: np.ndarray
    a_mag_held: np.ndarray
    a_exp_held: np.ndarray
    b_held: np.ndarray
    b_sign_held: np.ndarray
    b_exp_held: np.ndarray
    w_scale_held: np.ndarray
    frozen_held: np.ndarray | None = None
    position_held: np.ndarray | None = None
    wide_held: np.ndarray | None = None
    bias_held: np.ndarray | None = None
    y: np.ndarray
    offset: np.ndarray | None = None
    clocks: int
    events: int
    products: int


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    rows, columns = config["rows"], config["columns"]
    height = min(ROWS, rows)
    core = HarmoniaCore(**{name: config[name] for name in PARAMETERS if name in config})
    inner = core.ports
    shown = {port.name: port for port in inner.outputs}
    codes = [replace(shown[name], lanes=height) for name in ("sign", "mantissa", "exponent")]
    meanings = ("its signs", "its mantissas", "the shared exponents of its elements")
    begin = Port("go", 1, meaning="begin a product, unless one is under way")
    return Ports(
        inputs=(begin, *inner.inputs),
        outputs=(
            Port("sent", 1, height, meaning="rows of the column of C that leaves"),
            Port("row", max(1, (rows - 1).bit_length()), meaning="its first row"),
            Port("column", max(1, (columns - 1).bit_length()), meaning="its number"),
            *(replace(port, meaning=meaning) for port, meaning in zip(codes, meanings, strict=True)),
            Port("word", 16, height, encoding="f16", meaning="its words before the conversion"),
            Port("working", 1, len(PARTS), meaning=f"parts that work on an event: {', '.join(PARTS)}"),
            Port("busy", 1, meaning="clocks of the product are left"),
            Port("valid", 1, meaning="this row closes a product"),
        ),
        state=(
            Port("phase", longest(core, Timeline()).bit_length(), meaning="number of the last clock in its product"),
            *(replace(port, name=f"{port.name}{HELD}", meaning=f"{port.name} of the product") for port in inner.inputs),
            replace(shown["y"], meaning="the temporary SRAM"),
            *([replace(shown["offset"], meaning="what every key loses")] if "offset" in shown else []),
        ),
    )
