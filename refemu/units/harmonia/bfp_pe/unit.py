"""The reconfigurable PE: two wrappers of two sub-PEs, one accumulator that they share, two activation register files.

Paper: [harmonia §IV-B, Fig. 13]. Composed of sub_pe and bfp_accumulator. Decisions: D-harmonia-12 (b is the operand
that M8M8 splits), D-harmonia-21 (a pass has four accumulator slots, one a cycle); those of the accumulator hold here.
Dot products of tensors by the same arithmetic: `bfp_dot_int`, `bfp_dot`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_choice
from refemu.formats.bfp_dot import bfp_dot, bfp_dot_int
from refemu.units import bfp_pe_cases, bfp_pe_parts, sub_pe, unit
from refemu.units.bfp_accumulator import FLAGS, M8M4, M8M8, M8W4, MODES, Accumulator, add, fuse
from refemu.units.bfp_pe_parts import NIBBLES, SLOTS, admitted, operand, require_fields, seat
from refemu.units.sub_pe import LANES, SubPe
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, choices, collect
from refemu.units.unit_cases import Seeds

__all__ = [
    "LANES",
    "M8M4",
    "M8M8",
    "M8W4",
    "MODES",
    "NIBBLES",
    "SLOTS",
    "UNIT",
    "Accumulator",
    "BfpPe",
    "Result",
    "State",
    "SubPe",
    "bfp_dot",
    "bfp_dot_int",
    "run",
]

EVENTS = (("psum", "scale", "accumulate"), ("psum", "accumulate"), ("psum", "psum", "fuse", "accumulate"))  #: by mode

Activations = tuple[tuple[int, ...], tuple[int, ...], int]  #: what a register file holds: signs, magnitudes, exponent
NOTHING: Activations = (0,) * LANES, (0,) * LANES, 0


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "load", "psum", "fuse", "scale" or "accumulate"
    index: int  #: group since reset, -1 for the reset
    mode: int
    clear: int
    a_sign: tuple[int, ...]
    a_mag: tuple[int, ...]
    a_exp: int
    b: tuple[int, ...]
    b_sign: tuple[int, ...]
    b_exp: int
    w_scale: int
    todo: tuple[str, ...]  #: events of this group that are still to come
    group: int  #: of the output, from 0
    slot: int  #: of the pass
    psum: int  #: sum of the last sub-PE; after `fuse` that of 8 by 8 bits
    value: int  #: word of float32: what is to be added
    acc: int  #: word of float32
    flags: int  #: sticky since `clear`
    current: Activations  #: register file that the sub-PEs read
    next: Activations  #: register file that `load` fills
    latched: tuple[int, ...]  #: sums of sub-PEs 0 and 1 of wrapper 0, then of wrapper 1
    passes: int
    cycles: int  #: slots used
    macs: int  #: products of a group; those of M8M8 take two of 4 by 8 bits
    macs4x8: int
    psums: int  #: sums of sub-PEs
    fusions: int
    fp_converts: int
    scale_mults: int
    fp32_adds: int


COUNTERS = tuple(State.__dataclass_fields__)[-9:]


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """Ports and registers after every group."""

    acc: np.ndarray  #: uint32, (..., groups), words of float32
    flags: np.ndarray  #: uint8, sticky since `clear`: 1 FP16 overflow, 2 FP16 underflow, 4 NaN
    psum: np.ndarray  #: int32, the exact sum of the group
    value: np.ndarray  #: uint32, words of float32: what was added
    slot: np.ndarray  #: uint8, slot of the pass in which it was added
    passes: int
    cycles: int
    macs: int
    macs4x8: int
    psums: int
    fusions: int
    fp_converts: int
    scale_mults: int
    fp32_adds: int


class BfpPe(Stepped):
    """The unit of [harmonia Fig. 13]. A group is loaded, then goes through its slots event by event."""

    name = "bfp_pe"

    def __init__(self, partial: str = "fp16", product: str = "fp32") -> None:
        """partial, product: as for Accumulator."""
        require_choice(partial, ("fp16", "fp32"), self.name, "partial")
        require_choice(product, ("fp16", "fp32"), self.name, "product")
        self.partial, self.product = partial, product
        self.accumulator = Accumulator(partial, product)
        self.ports = ports({})
        zeros = (0,) * LANES
        self.state = State(
            "reset",
            -1,
            0,
            0,
            zeros,
            zeros,
            0,
            zeros,
            zeros,
            0,
            0,
            (),
            -1,
            SLOTS - 1,
            0,
            0,
            0,
            0,
            NOTHING,
            NOTHING,
            (0,) * SLOTS,
            *(0,) * 9,
        )

    @property
    def busy(self) -> bool:
        """Whether the group loaded last has events left."""
        return bool(self.state.todo)

    def step(self, *inputs: Any) -> State:
        """With inputs (mode, clear, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale): load a group. Without: go on.

        Refused: inputs while a group is on its way, none while there is none, fields set that the mode does not have.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: {self.state.todo[0]} comes next" if self.busy else "the inputs of a group"
            raise Refused(f"{self.name}: step takes {wanted}")
        if inputs:
            return self._load(*self.accept(*inputs))
        event, *todo = self.state.todo
        before = replace(self.state, event=event, todo=tuple(todo))
        happen = {"psum": self._psum, "fuse": self._fuse, "scale": self._scale, "accumulate": self._add}[event]
        self.state = happen(before)
        return self.state

    def _load(
        self, mode: int, clear: int, a_sign: Any, a_mag: Any, a_exp: int, b: Any, b_sign: Any, b_exp: int, w_scale: int
    ) -> State:
        """Fill the next register file, and say which slot comes: a pass ends with its slots, a mode, an output."""
        require_fields(self.name, mode, b, b_sign, b_exp, w_scale)
        before = self.state
        begins = clear or before.index < 0 or mode != before.mode or before.slot == SLOTS - 1
        acc, flags, group = (0, 0, -1) if clear else (before.acc, before.flags, before.group)
        self.state = replace(
            before,
            event="load",
            index=before.index + 1,
            mode=mode,
            clear=clear,
            a_sign=a_sign,
            a_mag=a_mag,
            a_exp=a_exp,
            b=b,
            b_sign=b_sign,
            b_exp=b_exp,
            w_scale=w_scale,
            todo=EVENTS[mode],
            group=group + 1,
            slot=0 if begins else before.slot + 1,
            acc=acc,
            flags=flags,
            next=(a_sign, a_mag, a_exp),
            passes=before.passes + int(begins),
        )
        return self.state

    def _psum(self, before: State) -> State:
        """One slot: a sub-PE works, its sum is latched; one that needs no fusing is converted at once."""
        low = before.todo[:1] == ("fuse",)  # the second slot of M8M8
        current = before.current if low else before.next
        slot = before.slot + low
        signs, nibbles = operand(before.mode, before.b, before.b_sign, 0 if low else 4)
        total = sub_pe.psum(current[0], current[1], signs, nibbles)
        place = seat(before.mode, slot)
        after = replace(
            before,
            slot=slot,
            current=current,
            psum=total,
            cycles=before.cycles + 1,
            latched=(*before.latched[:place], total, *before.latched[place + 1 :]),
            macs4x8=before.macs4x8 + LANES,
            macs=before.macs + LANES * (not low),
            psums=before.psums + 1,
        )
        return after if before.mode == M8M8 else self._convert(after, total)

    def _fuse(self, before: State) -> State:
        """Sub-PEs of both wrappers made the sums of one group, of the high and of the low nibbles."""
        high, low = before.latched[seat(M8M8, before.slot - 1)], before.latched[seat(M8M8, before.slot)]
        return self._convert(replace(before, fusions=before.fusions + 1), fuse(high, low))

    def _convert(self, before: State, p: int) -> State:
        value, flags = self.accumulator.convert(p, before.mode, before.a_exp, before.b_exp)
        return replace(before, psum=p, value=value, flags=before.flags | flags, fp_converts=before.fp_converts + 1)

    def _scale(self, before: State) -> State:
        value = self.accumulator.scale(before.value, before.w_scale)
        return replace(before, value=value, scale_mults=before.scale_mults + 1)

    def _add(self, before: State) -> State:
        acc, invalid = add(before.acc, before.value)
        return replace(before, acc=acc, flags=before.flags | invalid, fp32_adds=before.fp32_adds + 1)

    def steps(
        self,
        mode: Any,
        a_sign: Any,
        a_mag: Any,
        a_exp: Any,
        b: Any,
        b_sign: Any = None,
        b_exp: Any = 0,
        w_scale: Any = 0,
        clear: Any = 0,
    ) -> Iterator[State]:
        """Yield the State after every event of one device; arguments as for `run`, (groups,) and lanes, or one."""
        arrays = admitted(self.name, self.ports, mode, clear, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale)
        if arrays[0].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of groups, got shape {arrays[0].shape}")
        for group in zip(*(array.tolist() for array in arrays), strict=True):
            yield self.step(*(tuple(value) if isinstance(value, list) else value for value in group))
            while self.busy:
                yield self.step()

    def draw(self, state: State) -> str:
        """The registers as text, as [harmonia Fig. 13] lays them out."""
        return bfp_pe_parts.draw(state)

    def __repr__(self) -> str:
        return f"BfpPe(partial={self.partial!r}, product={self.product!r})"


def run(
    mode: Any,
    a_sign: Any,
    a_mag: Any,
    a_exp: Any,
    b: Any,
    b_sign: Any = None,
    b_exp: Any = 0,
    w_scale: Any = 0,
    clear: Any = 0,
    *,
    partial: str = "fp16",
    product: str = "fp32",
) -> Result:
    """Every group of one device or of many.

    mode: 0 or "M8W4", 1 or "M8M4", 2 or "M8M8". a_sign, b_sign: (..., groups, 32) of 0 and 1, 1 = negative.
    a_mag: (..., groups, 32), 8-bit mantissas. a_exp, b_exp: (..., groups), shared exponents. b: (..., groups, 32), in
    M8W4 INT4 in four bits of two's complement, else mantissas of 4 or 8 bits. w_scale: (..., groups), finite FP16
    words. clear: 1 where a group starts an output. All broadcast; each device starts from reset. partial, product: as
    for BfpPe.
    Returns the Result. Refuses a value outside its port or set where the mode has no such field: b_sign and b_exp are 0
    in M8W4, w_scale is 0 in the others. Paper: [harmonia §IV-B].
    """
    pe = BfpPe(partial, product)
    arrays = admitted(pe.name, pe.ports, mode, clear, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale)
    shape, count = arrays[0].shape, prod(arrays[0].shape[:-1])
    names = ("mode", "clear", "a_sign", "a_mag", "a_exp", "b", "b_sign", "b_exp", "w_scale")
    devices = zip(*(array.reshape(count, *array.shape[len(shape) - 1 :]) for array in arrays), strict=True)
    reset, states = pe.state, list[State]()
    counts: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
    for device in devices:
        pe.state = reset
        states += [state for state in pe.steps(**dict(zip(names, device, strict=True))) if not state.todo]
        counts = {name: before + getattr(pe.state, name) for name, before in counts.items()}
    return Result(**collect(states, pe.ports.outputs + pe.ports.state, shape), **counts)


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
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see bfp_pe_cases.py."""
    return bfp_pe_cases.cases(ports(config).inputs, kind, seed)


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with 0 where the mode has no field and with finite weight factors."""
    return bfp_pe_cases.legal(inputs)


UNIT = Unit(
    name="bfp_pe",
    paper="harmonia §IV-B, Fig. 13",
    meaning="reconfigurable PE for M8W4, M8M4 and M8M8",
    configs={"paper": Config(partial="fp16", product="fp32"), "exact": Config(partial="fp32", product="fp32")},
    ports=ports,
    run=run,
    twin="refemu.units.bfp_pe_jit:run",
    unit_class=BfpPe,
    cases=cases,
    timing="event",
    mark=bfp_pe_cases.mark,
    flags=FLAGS,
    legal=legal,
    alternatives=(
        *choices("D-harmonia-7", "partial", "fp16", "fp32"),
        *choices("D-harmonia-8", "product", "fp16", "fp32"),
    ),
)
