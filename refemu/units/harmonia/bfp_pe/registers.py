"""State, events and ports of bfp_pe. [harmonia §IV-B, Fig. 13]"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refemu.units.harmonia.bfp_pe.operands import SLOTS
from refemu.units.harmonia.sub_pe import LANES
from refemu.units.ports import Port, Ports

File = tuple[tuple[int, ...], tuple[int, ...], int]  #: signs, mantissas and exponent of a register file
EVENTS = (("psum", "scale", "accumulate"), ("psum", "accumulate"), ("psum", "psum", "fuse", "accumulate"))  #: by mode


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    #: "reset": no group yet; "load": the operands of a group are taken, its activations into the next register file;
    #: "psum": a sub-PE adds up 32 products, and the sum becomes floating point unless it waits for the other nibbles;
    #: "fuse", in M8M8: the sums of the high and the low nibbles are joined and become floating point; "scale", in M8W4:
    #: the value is multiplied by the weight factor; "accumulate": it is added to the accumulator
    event: str
    index: int  #: number of the group since reset, from 0; all its events have it; -1 at reset
    mode: int
    clear: int
    a_sign: tuple[int, ...]
    a_mag: tuple[int, ...]
    a_exp: int
    b: tuple[int, ...]
    b_sign: tuple[int, ...]
    b_exp: int
    w_scale: int
    todo: int  #: events of this group that are still to come
    slot: int  #: of the pass
    psum: int  #: sum of the last sub-PE; after `fuse` that of 8 by 8 bits
    value: int  #: word of float32: what is to be added
    acc: int  #: word of float32
    flags: int  #: sticky since `clear`
    current_sign: tuple[int, ...]  #: register file that the sub-PEs read
    current_mag: tuple[int, ...]
    current_exp: int
    next_sign: tuple[int, ...]  #: register file that `load` fills
    next_mag: tuple[int, ...]
    next_exp: int
    latched: tuple[int, ...]  #: sums of sub-PEs 0 and 1 of wrapper 0, then of wrapper 1
    passes: int  #: passes begun, each of which has four slots
    cycles: int  #: slots used, one for each event "psum"
    macs: int  #: products of two elements, 32 for each group; one of M8M8 takes two products of 4 by 8 bits
    macs4x8: int  #: products of 4 by 8 bits in the sub-PEs
    psums: int  #: sums of 32 products made by sub-PEs
    fusions: int  #: sums of high and of low nibbles joined, one for each group of M8M8
    fp_converts: int  #: sums converted to floating point, one for each group
    scale_mults: int  #: values multiplied by a weight factor, one for each group of M8W4
    fp32_adds: int  #: additions to the accumulator in FP32, one for each group


COUNTERS = (
    "passes",
    "cycles",
    "macs",
    "macs4x8",
    "psums",
    "fusions",
    "fp_converts",
    "scale_mults",
    "fp32_adds",
)


def changed(state: State, **fields: Any) -> State:
    """`state` with some other fields, without the constructor, which an array of PEs would wait for."""
    after = object.__new__(State)
    vars(after).update(vars(state), **fields)
    return after


def _file(name: str, which: str) -> Sequence[Port]:
    """An activation register file."""
    return (
        Port(f"{name}_sign", 1, LANES, meaning=f"signs of the register file {which}"),
        Port(f"{name}_mag", 8, LANES, meaning="its mantissas"),
        Port(f"{name}_exp", 5, meaning="its exponent"),
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths; the same in every configuration."""
    return Ports(
        inputs=(
            Port("mode", 2, most=2, meaning="0 M8W4, 1 M8M4, 2 M8M8"),
            Port("clear", 1, meaning="this group starts an output: accumulator +0, flags 0"),
            Port("a_sign", 1, LANES, meaning="1 where an activation is negative"),
            Port("a_mag", 8, LANES, meaning="8-bit mantissas of the activations"),
            Port("a_exp", 5, meaning="shared exponent of the activations"),
            Port("b", 8, LANES, meaning="INT4, 4-bit or 8-bit mantissas, by mode; upper bits 0"),
            Port("b_sign", 1, LANES, meaning="signs of the mantissas; 0 in M8W4"),
            Port("b_exp", 5, meaning="their shared exponent; 0 in M8W4"),
            Port("w_scale", 16, encoding="f16", meaning="weight factor, finite; 0 but in M8W4"),
        ),
        outputs=(
            Port("acc", 32, encoding="f32", meaning="sum of the groups"),
            Port("flags", 3, meaning="sticky: 1 FP16 overflow, 2 FP16 underflow, 4 NaN"),
        ),
        state=(
            Port("psum", 22, signed=True, meaning="exact sum of the group"),
            Port("value", 32, encoding="f32", meaning="what was added"),
            Port("slot", 2, meaning="slot of the pass in which it was added"),
            Port("latched", 18, SLOTS, signed=True, meaning="sums of sub-PEs 0 and 1 of wrapper 0, then of wrapper 1"),
            *_file("current", "that the sub-PEs read"),
            *_file("next", "that is filled"),
            Port("todo", 3, most=4, meaning="events of the group that are left"),
        ),
    )
