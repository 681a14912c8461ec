"""One matrix product through the whole accelerator, cycle-accurate: parts work in parallel, columns of C leave.

Paper: [harmonia §IV-A, Fig. 12, §IV-C]. Composed of harmonia_core: each event is executed in the clock in which its
Timeline ends it.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from refemu.units import AnyUnit, Config, Lanes, Port, Ports, Result, RunFunction, Stepped, Unit
from refemu.units.cycle_accurate import HELD, IDLE
from refemu.units.declaration import Changes, DeclaredState, Sequential, constant, decides
from refemu.units.harmonia import harmonia_core
from refemu.units.harmonia.bfp_pe_array import ROWS
from refemu.units.harmonia.harmonia_core import (
    PARTS,
    HarmoniaCore,
    Passes,
    Rates,
    Schedule,
    Timeline,
    longest,
    scheduled,
    stepped,
)

__all__ = ["UNIT", "HarmoniaCoreClocked", "State", "run"]

WAIT = "wait"
TIMING = ("wide", "position")  #: the only operands on which clocks depend: passes of the array, and its window
SUMS = ("compute", "bias", "fp2half")  #: events that read or write sums between the array and FP2Half
NONE = "() without such a port"


class HarmoniaCoreClocked(Sequential, HarmoniaCore):
    """Accelerator, one product after the other, a clock a step. Matrices are row-major.

    The event of a clock is the last one of the product that ends in it.
    """

    name = "harmonia_core_clocked"
    events: ClassVar[tuple[str, ...]] = (*HarmoniaCore.events, WAIT, IDLE)
    counters: ClassVar[dict[str, str]] = {
        "clocks": "clocks in which a product was under way",
        "events": "events of products executed",
        "products": "products completed",
    }
    registers: ClassVar[dict[str, str]] = {
        **{name: f"{meaning}, as it is at the input; {NONE}" for name, (_, meaning) in HarmoniaCore.optional.items()},
        **{
            f"{name}{HELD}": f"{meaning}, for the product under way; {NONE}"
            for name, (_, meaning) in HarmoniaCore.optional.items()
        },
        "offset": f"offset subtracted from every key of the product, by channel, FP16 words; {NONE}",
        "core": "State of the product, as of unit harmonia_core, whose events are executed in the clock in which they "
        "end",
        "waiting": "FP32 sums of blocks that FP2Half has yet to convert, by row and column of the block",
    }
    pitch: Passes = "adjacent"  #: when a pass of the array begins, as in `Rates` (D-harmonia-64)
    validate_event = Stepped.validate_event
    validated = Sequential.validated
    busy = Stepped.busy  # of `step`: a row is one clock

    @constant
    def core(self) -> HarmoniaCore:
        """Core that runs the whole product, event by event."""
        return HarmoniaCore(**{name: getattr(self, name) for name in self._names if name != "pitch"})

    @constant
    def ports(self) -> Ports:
        height, inner = min(ROWS, self.rows), self.core.ports
        shown = {port.name: port for port in inner.outputs}
        codes = {"sign": "signs of the column", "mantissa": "its mantissas", "exponent": "its shared exponents"}
        clocks = longest(self.core, self.timeline())
        return Ports(
            inputs=(Port("go", 1, meaning="begin a product, unless one is under way"), *inner.inputs),
            outputs=(
                Port("sent", 1, height, meaning="rows of the column of C that leaves"),
                Port("row", max(1, (self.rows - 1).bit_length()), meaning="first row of the column"),
                Port("column", max(1, (self.columns - 1).bit_length()), meaning="number of the column"),
                *(replace(shown[name], lanes=height, meaning=meaning) for name, meaning in codes.items()),
                Port("word", 16, height, encoding="f16", meaning="words of the column before the conversion"),
                Port("working", 1, len(PARTS), meaning=f"parts that work on an event: {', '.join(PARTS)}"),
                Port("busy", 1, meaning="a product is under way"),
                Port("valid", 1, meaning="this row closes a product"),
            ),
            state=(
                Port("phase", clocks.bit_length(), meaning="number of the last clock in its product"),
                *(
                    replace(each, name=f"{each.name}{HELD}", meaning=f"{each.name} of the product")
                    for each in inner.inputs
                ),
                replace(shown["y"], meaning="the temporary SRAM"),
                *([replace(shown["offset"], meaning="offset subtracted from every key")] if "offset" in shown else []),
            ),
        )

    @constant
    def initial(self) -> Mapping[str, Any]:
        """No values where a port is missing, and the core at reset."""
        missing = [name for name, value in vars(self.core.state).items() if value == () and name != "sums"]
        held = [f"{name}{HELD}" for name in missing if name in self.optional]
        return {**dict.fromkeys([*missing, *held], ()), "core": self.core.state, "waiting": ()}

    @constant
    def _silent(self) -> dict[str, Any]:
        """Outputs of an idle clock."""
        return {port.name: port.filled(0) for port in self.ports.outputs}

    @constant
    def _schedule(self) -> Schedule:
        """Clocks of the product under way."""
        return Schedule()

    @constant
    def _planned(self) -> dict[tuple[Lanes, ...], Schedule]:
        """Clocks of the last product, by operands of TIMING."""
        return {}

    @constant
    def _in_step(self) -> DeclaredState | None:
        """The State whose registers the core and the schedule have now."""
        return None

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject with go=1 what harmonia_core rejects."""
        begins = inputs[0] != 0
        taken = []
        for port, array in zip(self.core.ports.inputs, inputs[1:], strict=True):
            none = self.core.start + np.arange(port.count) if port.name == "position" else np.zeros(port.shape, int)
            taken.append(np.where(begins.reshape(*begins.shape, *port.shape and (1,)), array, none).astype(port.dtype))
        self.core._require(*taken)

    @decides("D-arith-19")
    def begins(self, go: int) -> bool:
        """Whether this row begins a product: never while one is under way."""
        return bool(go) and not self.state.busy

    @decides("D-harmonia-49", "D-harmonia-50", "D-harmonia-64")
    def timeline(self) -> Timeline:
        """A timeline at clock 0, with the paper's rates."""
        return Timeline(Rates(passes=self.pitch))

    @decides("D-harmonia-54", "D-harmonia-55")
    def planned(self, operands: Sequence[Lanes]) -> Schedule:
        """Clocks of one product with these inputs of the core.

        A second core with the same operands counts them, since the array counts its cycles as it works.
        """
        ports = self.core.ports.inputs
        key = tuple(value for port, value in zip(ports, operands, strict=True) if port.name in TIMING)
        if key not in self._planned:
            core = copy(self.core)
            core.state = self.initial["core"]
            states = [core._open(*operands)]
            while core.busy:
                states.append(core._continue())
            self._planned = {key: scheduled(core, stepped(core, states), self.timeline())}
        return self._planned[key]

    def _open(self, *inputs: Any) -> DeclaredState:
        """Advance one clock."""
        before, (go, *operands) = self.state, inputs
        opens = self.begins(go)
        if not opens and not before.busy:
            return self._commit(IDLE, inputs, {**self._silent, **self.idle()})
        held = {}
        if opens:
            self._schedule, self.core.state = self.planned(operands), self.initial["core"]
            self.core.begin(operands)
            held = {f"{port.name}{HELD}": value for port, value in zip(self.core.ports.inputs, operands, strict=True)}
        elif before is not self._in_step:
            taken = {port.name: getattr(before, f"{port.name}{HELD}") for port in self.core.ports.inputs}
            self.core.state = replace(before.core, **taken, y=before.y, offset=before.offset)
            self._schedule = self.planned([*taken.values()])
        clock = 0 if opens else before.phase + 1
        ending, waiting = self._schedule.ending(clock), dict(() if opens else before.waiting)
        for number in ending:
            self._execute(number, waiting)
        core, closes = self.core.state, int(clock == self._schedule.length - 1)
        done = {"y": core.y, "offset": core.offset, "core": core, "waiting": tuple(waiting.items())}
        counts = {"clocks": 1, "events": len(ending), "products": closes}
        changes = {**self.wait(clock), **held, "busy": 1 - closes, "valid": closes, **done, **counts}
        self._in_step = self._commit(core.event if ending else WAIT, inputs, changes)
        return self._in_step

    @decides("D-arith-21")
    def idle(self) -> Changes:
        """Advance a clock without a product under way."""
        return {"valid": 0}  # D-arith-21: it is 1 only in the row that closes a product

    def wait(self, clock: int) -> Changes:
        """Advance a clock in which no event of the product ends; parts work, and columns leave."""
        working = tuple(self._schedule.working(clock))
        return {**self._silent, **self._leaving(clock), "working": working, "phase": clock}

    def _execute(self, number: int, waiting: dict[tuple[int, int], tuple[int, ...]]) -> None:
        """Execute an event of the core; blocks of sums may wait between the array and FP2Half."""
        core = self.core
        action = core.actions(core.state)[number]
        block, moves = (action.row, action.column), action.event in SUMS
        core.state = core.changed(sums=waiting.pop(block, ()) if moves else ())
        core.execute(number)
        if moves and core.state.sums:
            waiting[block] = core.state.sums

    def _leaving(self, clock: int) -> dict[str, Any]:
        """The column of C that leaves, with its first row in lane 0."""
        leaves = self._schedule.leaving.get(clock)
        if leaves is None:
            return {}
        done, height = self.core.state, len(self.state.sent)
        columns = {
            "sent": [1] * leaves.rows,
            "sign": [done.sign[place] for place in leaves.places],
            "mantissa": [done.mantissa[place] for place in leaves.places],
            "exponent": [done.exponent[group] for group in leaves.groups],
            "word": [done.y[place] for place in leaves.places],
        }
        filled = {name: tuple(values + [0] * (height - leaves.rows)) for name, values in columns.items()}
        return {"row": leaves.row, "column": leaves.column, **filled}


def _config(name: str, **others: Any) -> Config:
    return Config(**{**harmonia_core.UNIT.configs[name], **others})


UNIT: AnyUnit = Unit(
    unit_class=HarmoniaCoreClocked,
    paper="harmonia §IV-A, Fig. 12, §IV-C",
    meaning="one product through all steps of the accelerator, clock by clock",
    configs={
        "linear": _config("linear", rows=9, inner=2, columns=3),
        "k": _config("k", rows=3, inner=2, columns=4, head_dim=4, window=2, bias_add="after"),
        "decode": _config("decode", inner=2, columns=4, head_dim=4),
        "placed": _config("placed", rows=3, inner=2, columns=4, head_dim=4, window=2),
        "v": _config("v", rows=9, inner=2, columns=17),
        "keys": _config("keys", rows=2, inner=2, columns=3, start=1),
        "paper": _config("linear", rows=8, inner=33, columns=17, pitch="overlap"),
        "drain": _config("linear", rows=9, inner=2, columns=17, pitch="drain"),
    },
)
State: type[DeclaredState] = HarmoniaCoreClocked.State
run: RunFunction[Result] = UNIT.run
