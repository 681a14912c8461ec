"""One matrix product through the whole accelerator with a clock: parts work side by side, columns of C leave.

Paper: [harmonia §IV-A, Fig. 12, §IV-C]. Composed of harmonia_core, whose events are executed in the clocks in which its
Timeline ends them. Decisions: D-harmonia-49 (what overlaps), D-harmonia-50 (widths and rates), D-harmonia-54 (clocks in
which results leave), D-harmonia-55 (when a product is closed), D-arith-19 (`go` while busy), D-arith-21 (`valid`
lasts one row).
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.units.harmonia import harmonia_core
from refemu.units.harmonia.bfp_accumulator import Precision
from refemu.units.harmonia.cases import harmonia_core_clocked as harmonia_core_clocked_cases
from refemu.units.harmonia.harmonia_core import (
    Activation,
    Bias,
    BType,
    Codes,
    HarmoniaCore,
    Kind,
    Positions,
    Rotation,
    Schedule,
    Timeline,
    scheduled,
    stepped,
)
from refemu.units.harmonia.harmonia_core_clocked.registers import COUNTERS, HELD, PARAMETERS, Result, State, ports
from refemu.units.harmonia.k_offset import WINDOW
from refemu.units.ports import Ports, fields, lanes
from refemu.units.stepped import Clocked
from refemu.units.unit import Config, RunFunction, Unit

__all__ = ["COUNTERS", "UNIT", "HarmoniaCoreClocked", "Result", "State", "run"]

IDLE, WAIT = "idle", "wait"
TIMING = ("wide", "position")  #: the only operands on which clocks depend: passes of the array, and its window
SUMS = ("compute", "bias", "fp2half")  #: events that read or write sums on their way from the array to FP2Half


class HarmoniaCoreClocked(Clocked[State]):
    """Accelerator at one product after the other, a clock a step.

    References
    ----------
    [harmonia §IV-A, Fig. 12, §IV-C]
    """

    name = "harmonia_core_clocked"

    def __init__(
        self,
        kind: Kind = "linear",
        rows: int = 8,
        inner: int = 32,
        columns: int = 32,
        b_type: BType = "int4",
        m: int = 8,
        tile_m: int = 64,
        tile_k: int = 64,
        head_dim: int = 32,
        start: int = 0,
        base: int = 10000,
        activation: Activation = "none",
        force: int = 0,
        partial: Precision = "fp16",
        rotation: Rotation = "half",
        window: int = WINDOW,
        positions: Positions = "start",
        bias_add: Bias = "none",
        codes: Codes = "sets",
    ) -> None:
        """Configure the accelerator and its products.

        Parameters
        ----------
        kind : {"q", "k", "v", "score", "context", "linear", "final"}
            Kind of C.
        rows, inner, columns : int
            M, N and K.
        b_type : {"int4", "bfp8", "bfp4", "mixed"}
            As for `HarmoniaCore`, as all others are.
        m : int
            Mantissa bits of the result, 1 to 11.
        tile_m, tile_k : int
            Rows and columns of a tile.
        head_dim : int
            Head dimension of q and k.
        start : int
            Position of row 0, or the least one.
        base : int
            Base of the rotary angles.
        activation : {"none", "silu", "relu", "gelu_erf", "gelu_tanh"}
            Activation of kinds "linear" and "final".
        force : int
            0, or the dataflow.
        partial : {"fp16", "fp32"}
            As for `Accumulator`.
        rotation : {"half", "interleaved", "none"}
            Pairs of q and k that rotate.
        window : int
            Tokens of the prompt that choose the offsets of kind "k".
        positions : {"start", "port"}
            Where the rows stand.
        bias_add : {"none", "after", "accumulator"}
            Where port `bias` is added.
        codes : {"sets", "rows"}
            Rows of a "mixed" pass that see other codes.

        Raises
        ------
        Refused
            A parameter is out of range, an option unknown, or one does not go with the kind.
        """
        parameters = locals()
        self.core: HarmoniaCore = HarmoniaCore(**{name: parameters[name] for name in PARAMETERS})
        for name in PARAMETERS:
            setattr(self, name, getattr(self.core, name))
        self.ports: Ports = ports({name: getattr(self.core, name) for name in PARAMETERS})
        self._reset = self.core.state
        self._schedule = Schedule()
        self._planned: dict[tuple[Any, ...], Schedule] = {}  # of the last product, by operands of TIMING
        missing = [name for name, value in vars(self._reset).items() if value == () and name != "sums"]
        none = [*missing, *(f"{name}{HELD}" for name in missing if name != "offset")]
        self.state: State = self.reset(State, **dict.fromkeys(none, ()), core=self._reset, waiting=())
        self._in_step = self.state  # the State that the core and the schedule belong to

    def step(
        self,
        go: int,
        a_sign: Sequence[int] | int,
        a_mag: Sequence[int] | int,
        a_exp: Sequence[int] | int,
        b: Sequence[int] | int,
        b_sign: Sequence[int] | int,
        b_exp: Sequence[int] | int,
        w_scale: Sequence[int] | int,
        frozen: Sequence[int] | int | None = None,
        position: Sequence[int] | int | None = None,
        wide: Sequence[int] | int | None = None,
        bias: Sequence[int] | int | None = None,
    ) -> State:
        """Execute one clock: of the product under way, else with go=1 the first one of another.

        The last four belong to some configurations only, as for `HarmoniaCore`.
        """
        more = {"frozen": frozen, "position": position, "wide": wide, "bias": bias}
        return self._open(
            *self.accept(
                go=go,
                a_sign=a_sign,
                a_mag=a_mag,
                a_exp=a_exp,
                b=b,
                b_sign=b_sign,
                b_exp=b_exp,
                w_scale=w_scale,
                **{name: value for name, value in more.items() if value is not None},
            )
        )

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse beside go=1 what harmonia_core refuses."""
        begins = inputs[0] != 0
        taken = []
        for port, array in zip(self.core.ports.inputs, inputs[1:], strict=True):
            none = self.core.start + np.arange(port.lanes) if port.name == "position" else np.zeros(port.lanes, int)
            there = begins[..., None] if port.lanes > 1 else begins
            taken.append(np.where(there, array, none if port.lanes > 1 else none[0]).astype(port.dtype))
        self.core._require(*taken)

    def begins(self, go: int) -> bool:
        """Whether this row begins a product.

        Parameters
        ----------
        go : int
            The port.

        Returns
        -------
        bool
            Never while one is under way (D-arith-19).
        """
        return bool(go) and not self.state.busy

    def stays_valid(self) -> int:
        """Value of `valid` in an idle row.

        Returns
        -------
        int
            0: it is 1 only in the row that closes a product (D-arith-21).
        """
        return 0

    def timeline(self) -> Timeline:
        """Begin a timeline.

        Returns
        -------
        Timeline
            At clock 0, with the paper's rates (D-harmonia-50).
        """
        return Timeline()

    def planned(self, operands: Sequence[Any]) -> Schedule:
        """Place the events of one product.

        Parameters
        ----------
        operands : sequence
            Inputs of the core.

        Returns
        -------
        Schedule
            Its clocks: those of another core with the same operands, for the array counts its cycles as it works.
        """
        ports = self.core.ports.inputs
        key = tuple(value for port, value in zip(ports, operands, strict=True) if port.name in TIMING)
        if key not in self._planned:
            core = copy(self.core)
            core.state = self._reset
            states = [core._open(*operands)]
            while core.busy:
                states.append(core._continue())
            self._planned = {key: scheduled(core, stepped(core, states), self.timeline())}
        return self._planned[key]

    def _open(self, *inputs: Any) -> State:
        """One clock."""
        before, (go, *operands) = self.state, inputs
        opens = self.begins(go)
        if not opens and not before.busy:
            self.state = self._shown(inputs, event=IDLE, valid=self.stays_valid())
            return self.state
        if opens:
            self._schedule, self.core.state = self.planned(operands), self._reset
            self.core.begin(operands)
        elif before is not self._in_step:
            held = {port.name: getattr(before, f"{port.name}{HELD}") for port in self.core.ports.inputs}
            self.core.state = replace(before.core, **held, y=before.y, offset=before.offset)
            self._schedule = self.planned([*held.values()])
        clock = 0 if opens else before.phase + 1
        ending, waiting = self._schedule.ending(clock), dict(() if opens else before.waiting)
        for number in ending:
            self._execute(number, waiting)
        closes = clock == self._schedule.length - 1
        self.state = self._in_step = self._shown(
            inputs,
            **self._leaving(clock),
            **({f"{name}{HELD}": value for name, value in self._named(operands).items()} if opens else {}),
            event=self.core.state.event if ending else WAIT,
            working=lanes(self._schedule.working(clock)),
            busy=int(not closes),
            valid=int(closes),
            phase=clock,
            y=self.core.state.y,
            offset=self.core.state.offset,
            core=self.core.state,
            waiting=tuple(waiting.items()),
            clocks=before.clocks + 1,
            events=before.events + len(ending),
            products=before.products + closes,
        )
        return self.state

    def _named(self, operands: Sequence[Any]) -> dict[str, Any]:
        return {port.name: value for port, value in zip(self.core.ports.inputs, operands, strict=True)}

    def _shown(self, inputs: Sequence[Any], **changed: Any) -> State:
        """The next State: outputs are 0 but for those that change."""
        zeros = {port.name: lanes([0] * port.lanes) for port in self.ports.outputs}
        return self.latched(*inputs, **{**zeros, **changed})

    def _execute(self, number: int, waiting: dict[tuple[int, int], tuple[int, ...]]) -> None:
        """An event of the core: sums go from the array to FP2Half block by block, however many wait between them."""
        core = self.core
        action = core.actions(core.state)[number]
        block, moves = (action.row, action.column), action.event in SUMS
        core.state = core.changed(sums=waiting.pop(block, ()) if moves else ())
        core.execute(number)
        if moves and core.state.sums:
            waiting[block] = core.state.sums

    def _leaving(self, clock: int) -> dict[str, Any]:
        """The column of C that leaves, of its rows the first in lane 0."""
        leaves = self._schedule.leaving.get(clock)
        if leaves is None:
            return {}
        done, height = self.core.state, len(fields(self.state.sent))
        columns = {
            "sent": [1] * leaves.rows,
            "sign": [fields(done.sign)[place] for place in leaves.places],
            "mantissa": [fields(done.mantissa)[place] for place in leaves.places],
            "exponent": [fields(done.exponent)[group] for group in leaves.groups],
            "word": [fields(done.y)[place] for place in leaves.places],
        }
        filled = {name: lanes(values + [0] * (height - leaves.rows)) for name, values in columns.items()}
        return {"row": leaves.row, "column": leaves.column, **filled}


def _config(name: str, **others: Any) -> Config:
    return Config(**{**harmonia_core.UNIT.configs[name], **others})


UNIT: Unit[State, Result] = Unit(
    name="harmonia_core_clocked",
    paper="harmonia §IV-A, Fig. 12, §IV-C",
    meaning="one product through all steps of the accelerator, clock by clock",
    configs={
        "linear": _config("linear", rows=9, inner=2, columns=3),
        "k": _config("k", rows=3, inner=2, columns=4, head_dim=4, window=2, bias_add="after"),
        "decode": _config("decode", inner=2, columns=4, head_dim=4),
        "placed": _config("placed", rows=3, inner=2, columns=4, head_dim=4, window=2),
        "v": _config("v", rows=9, inner=2, columns=17),
        "keys": _config("keys", rows=2, inner=2, columns=3, start=1),
    },
    ports=ports,
    unit_class=HarmoniaCoreClocked,
    cases=harmonia_core_clocked_cases.cases,
    counters=COUNTERS,
    result=Result,
    legal=harmonia_core_clocked_cases.legal,
)
run: RunFunction[Result] = UNIT.run
