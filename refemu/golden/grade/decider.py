"""Faults that no row tried shows, decided by a solver: equal for all legal inputs, or an input that shows the fault.

The right unit and the device are terms of one event. Without registers, or where the registers stay equal, one question
decides. Else events from reset are tried. An input of the solver counts only if the device, run on it, differs.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from time import monotonic

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.faults.fault import Fault
from refemu.golden.files import fields
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.alike import Alike
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.invariants import lasting
from refemu.golden.grade.term_devices import Device, Lanes, at_reset, counted, of_fault, registers_read, right
from refemu.golden.grade.time_limit import StoppedAfter
from refemu.prove import equivalence, selfcheck, solver, terms
from refemu.prove.lift import Lift, lift, name_of
from refemu.prove.terms import Term, substitute
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Cases, Config

SECONDS = 20.0  #: of the solver, for a fault
STEPS = 8  #: events from reset, at most
LIFTED = 60.0  #: seconds for the terms of the unit, and for facts about its registers
CHECKED = 2_000  #: drawn rows of the self-check
EVENT = "@{}"  #: suffix of the variables of an event


@dataclass(frozen=True)
class Decision:
    """What a solver says of a fault: equivalent, or rows that show it, or neither."""

    equivalent: bool
    reason: str
    rows: Answers | None = None


class Decider:
    """Terms of a unit in a configuration, made when a fault first needs them."""

    unit: AnyUnit
    config: Config
    seconds: float

    def __init__(self, unit: AnyUnit, config: Config, seconds: float = SECONDS) -> None:
        self.unit, self.config, self.seconds = unit, config, seconds
        if not solver.available():
            raise Refused(f"grade: --prove needs a solver, got none; {solver.ADVICE}")

    @cached_property
    def _lift(self) -> Lift | str:
        """Terms that agree with the unit, or why there are none."""
        try:
            with StoppedAfter(LIFTED):
                lifted = lift(self.unit, self.config)
            if equivalence.demands(lifted, self.seconds).outcome != "proved":
                return f"{self.unit.name}: terms that hold for all legal inputs are not proved"
            selfcheck.check(lifted, CHECKED)
            if hidden := [name for name in registers_read(lifted) if name not in lifted.terms]:
                return f"{self.unit.name}: register {hidden[0]} is not a port"
        except Refused as error:
            return str(error)
        return lifted

    @cached_property
    def _invariant(self) -> Term:
        """Facts about registers that hold in all cases."""
        return lasting(self._lift, LIFTED) if isinstance(self._lift, Lift) else terms.TRUE

    @cached_property
    def _alike(self) -> Alike | None:
        """Lanes of a unit without registers whose outputs all count."""
        lifted = self._lift
        return None if isinstance(lifted, str) or lifted.before or counted(lifted) else Alike(lifted)

    def decide(self, fault: Fault, answers: Answers) -> Decision:
        """Decide a fault. answers: rows of the unit; the first gives inputs that do not matter."""
        lifted = self._lift
        if isinstance(lifted, str):
            return Decision(False, f"no terms: {lifted}")
        try:
            with StoppedAfter(LIFTED):
                device = of_fault(lifted, answers, fault)
        except (Refused, RefusedType) as error:
            return Decision(False, f"no terms of the device: {error}")
        except Exception as error:  # a mutant may raise anything
            return Decision(False, f"no terms of the device: {type(error).__name__}")
        search = _Search(
            lifted, device, fault, answers, self._invariant, self._alike if device.inputs else None, self.seconds
        )
        return search.by_events() if lifted.before else search.at_once()


class _Search:
    """The questions about one device."""

    def __init__(
        self,
        lifted: Lift,
        device: Device,
        fault: Fault,
        answers: Answers,
        invariant: Term,
        alike: Alike | None,
        seconds: float,
    ) -> None:
        self.lifted, self.right, self.device, self.fault, self.answers = lifted, right(lifted), device, fault, answers
        self.invariant, self.alike = terms.and_(invariant, device.invariant), alike
        self.counted = counted(lifted)
        self.end = monotonic() + seconds
        self.solver = ""

    def at_once(self) -> Decision:
        """Whether one event from any registers, equal in both, may differ."""
        assumed = [self.lifted.legal, *self._stimuli("")]
        if self._is_untouched(assumed) or self._is_equal_where_alike(assumed):
            return self._equal()
        part = self._ask([*assumed, self._differs(self.right, self.device)], 2)
        if part.outcome == "undecided":
            part = self._lane_by_lane(assumed)
        if part.outcome == "refuted" and self.device.runs:
            return self._shown([part.values], "")
        return self._equal() if part.outcome == "proved" else Decision(False, f"{part.solver} does not decide it")

    def by_events(self) -> Decision:
        """Equal by induction, or the first event from reset that differs."""
        registers = {port.name for port in self.lifted.device.ports.outputs + self.lifted.device.ports.state}
        differs = terms.any_of(
            [self._differs(self.right, self.device), *self._unequal(self.right.after, self.device.after, registers)]
        )
        kept = terms.not_(substitute([self.device.invariant], self._states(self.device.after))[0])
        assumed = [self.lifted.legal, self.invariant, *self._stimuli("")]
        if self._is_untouched(assumed) or self._ask([*assumed, terms.or_(differs, kept)]).outcome == "proved":
            return self._equal()
        if not self.device.runs:
            return Decision(False, f"{self.solver} does not show that it is equivalent")
        start = at_reset(self.lifted)
        before: tuple[Lanes, Lanes] = (start, start)
        assumed = []
        for event in range(STEPS):
            suffix = EVENT.format(event)
            now = [self._at(each, state, suffix) for each, state in zip((self.right, self.device), before, strict=True)]
            assumed = [*assumed, now[0].legal, *self._stimuli(suffix)]
            part = self._ask([*assumed, self._differs(*now)])
            if part.outcome == "refuted":
                return self._shown([part.values] * (event + 1), EVENT)
            if part.outcome == "undecided":
                return self._later(event) if event else Decision(False, f"{part.solver} does not decide it")
            before = now[0].after, now[1].after
        return self._later(STEPS)

    @staticmethod
    def _later(steps: int) -> Decision:
        return Decision(False, f"it needs more than {steps} step{'s' * (steps != 1)} from reset, or is equivalent")

    def _is_untouched(self, assumed: Sequence[Term]) -> bool:
        """Whether the device changes nothing; a simpler question than whether what it changes matters."""
        return self.device.equal is not terms.FALSE and (
            self._ask([*assumed, terms.not_(self.device.equal)]).outcome == "proved"
        )

    def _is_equal_where_alike(self, assumed: Sequence[Term]) -> bool:
        """Whether other inputs change nothing, since lanes are alike wherever the unit takes both."""
        if self.alike is None:
            return False
        both = [*assumed, self.device.legal]
        same = self.alike.lanes(both, self.device.inputs, self._is_never)
        return bool(same) and self._is_never(substitute([*both, self._differs(self.right, self.device)], same))

    def _is_never(self, conditions: Sequence[Term]) -> bool:
        return self._ask(conditions, 4).outcome == "proved"

    def _lane_by_lane(self, assumed: Sequence[Term]) -> equivalence.Part:
        """One question for each lane and demand: the first that is not proved, or the last."""
        part = equivalence.Part("", "undecided", 0.0, self.solver)
        for each in self._differences(self.right, self.device):
            part = self._ask([*assumed, each])
            if part.outcome != "proved":
                break
        return part

    def _ask(self, conditions: Sequence[Term], share: int = 1) -> equivalence.Part:
        """Whether conditions never hold together. share: the part of the time that is left, 2 for a half."""
        part = equivalence.ask("", conditions, max(0.1, (self.end - monotonic()) / share))
        self.solver = part.solver if part.seconds else self.solver or "simplification"
        return part

    def _equal(self) -> Decision:
        return Decision(True, f"equal for all legal inputs by {self.solver}")

    def _differs(self, a: Device, b: Device) -> Term:
        """Whether an output differs, or what the terms of the device demand does not hold."""
        return terms.any_of(self._differences(a, b))

    def _differences(self, a: Device, b: Device) -> list[Term]:
        wrong = [*self._unequal(a.outputs, b.outputs, a.outputs), *(terms.not_(each) for each, _ in b.demands)]
        if b.rejects:
            return [*wrong, terms.not_(b.legal)]
        return [terms.and_(each, b.legal) for each in wrong]

    def _unequal(self, a: Lanes, b: Lanes, names: Container[str]) -> list[Term]:
        return [
            terms.and_(terms.not_(terms.eq(left, right)), counts)
            for name in a
            if name in names
            for left, right, counts in zip(a[name], b[name], self.counted.get(name, repeat(terms.TRUE)), strict=False)
            if left is not right
        ]

    def _states(self, after: Lanes) -> dict[int, Term]:
        """Registers in the place of the variables of those before."""
        return {
            variable.number: term
            for name, lanes in self.lifted.before.items()
            if name in after
            for variable, term in zip(lanes, after[name], strict=True)
        }

    def _at(self, device: Device, before: Lanes, suffix: str) -> Device:
        """The device in an event after given registers, with inputs of its own."""
        values = self._states(before)
        for lanes in self.lifted.inputs.values():
            values |= {lane.number: terms.variable(f"{lane.name}{suffix}", lane.width) for lane in lanes}
        groups: list[tuple[str, Sequence[Term]]] = [*device.outputs.items(), *device.after.items()]
        demands = [each for each, _ in device.demands]
        changed = iter(substitute([device.legal, *demands, *(lane for _, lanes in groups for lane in lanes)], values))
        legal, held = next(changed), [(next(changed), "") for _ in demands]
        new = [(name, [next(changed) for _ in lanes]) for name, lanes in groups]
        count = len(device.outputs)
        return Device(dict(new[:count]), dict(new[count:]), legal, demands=held, rejects=device.rejects)

    def _stimuli(self, suffix: str) -> list[Term]:
        """Words that sets have: one NaN only (D-arith-1)."""
        conditions = []
        for port in self.lifted.device.ports.inputs:
            if fields.holds_floats(port) and not port.payload:
                infinity, nan = (terms.const(each, port.bits) for each in (fields.infinity(port), fields.nan(port)))
                for lane in self.lifted.inputs[port.name]:
                    word = terms.variable(f"{lane.name}{suffix}", port.bits)
                    magnitude = terms.and_(word, terms.const(fields.mask_of(port.bits - 1), port.bits))
                    conditions.append(terms.or_(terms.not_(terms.ult(infinity, magnitude)), terms.eq(word, nan)))
        return conditions

    def _shown(self, values: Sequence[Mapping[str, int]], suffix: str) -> Decision:
        """Rows of a solver's inputs, if the device differs there."""
        unit, config = self.lifted.unit, self.lifted.config
        inputs = {}
        for port in self.lifted.device.ports.inputs:
            first = self.answers.blocks[0].arrays[f"in.{port.name}"][0, 0]
            rows = [self._words(port, first, each, suffix.format(event)) for event, each in enumerate(values)]
            array = fields.decode(np.array(rows, fields.dtype_of(port.bits)).reshape(len(rows), *first.shape), port)
            inputs[port.name] = array[None] if unit.timing == "event" else array
        try:
            rows_ = answers_of.of_cases(unit, Config(**config), [Cases("edge", "found by a solver", inputs)])
            if self.fault.wrong(rows_).any():
                return Decision(False, f"an input that {self.solver} found detects it", rows_)
        except (Refused, RefusedType) as error:
            return Decision(False, f"the input that {self.solver} found is invalid for the device: {error}")
        return Decision(False, f"the input that {self.solver} found does not show it")

    @staticmethod
    def _words(port: Port, first: np.ndarray, values: Mapping[str, int], suffix: str) -> list[int]:
        usual = np.reshape(first, -1).tolist()
        return [values.get(f"{name_of(port, lane)}{suffix}", usual[lane]) for lane in range(port.count)]
