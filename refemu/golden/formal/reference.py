"""The reference of a unit: checked terms with names, the registers that they read, and the bits that count."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from refemu.arith.checks import Refused
from refemu.prove import equivalence, selfcheck, terms
from refemu.prove.arrays import Array
from refemu.prove.floats.lowering import lowered
from refemu.prove.interpreter import Interpreter
from refemu.prove.lift import Lift, name_of, short
from refemu.prove.naming import Names, named_lift, real_line
from refemu.prove.sequential import reset_words
from refemu.prove.terms import Term
from refemu.prove.values import Bool, Int, Unsupported, truth
from refemu.units import parameters
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit

SECONDS = 60.0  #: time limit of the solver, for lines that are exact only in a domain


@dataclass(frozen=True)
class Register:
    """A register of the clocked reference."""

    port: Port
    reset: int  #: word
    read: bool  #: whether terms read it
    kind: str  #: "output", "state", "input": the value of the last event; "number": whether there was an event


@dataclass(frozen=True)
class Reference:
    """Everything that the files are written from."""

    unit: AnyUnit
    config: str
    lifted: Lift
    names: Names
    checked: int  #: rows of the self-check
    registers: tuple[Register, ...]
    care: Mapping[str, list[Term]] = field(default_factory=dict)  #: output -> a mask for each lane

    @property
    def set(self) -> str:
        """Name of the golden set of this configuration."""
        return parameters.set_name(self.unit, self.config)


def reference(unit: AnyUnit, config: str) -> Reference:
    """Lift a unit, check its terms, and collect what the files need.

    Parameters
    ----------
    unit : Unit
        Descriptor.
    config : str
        Text of a configuration.

    Returns
    -------
    Reference
        Terms that equal the compiled form on golden cases and drawn rows.

    Raises
    ------
    Refused
        A line has no terms or needs binary64 numbers, or a solver is needed and missing.
    Disagrees
        The terms and the unit differ: an error inside refemu.
    """
    lifted, names = named_lift(unit, unit.config(config))
    lifted = _integers(unit, lifted, names)
    checked = selfcheck.check(lifted)
    proof = equivalence.demands(lifted, SECONDS)
    if proof.outcome != "proved":
        failed = next(part for part in proof.parts if part.outcome != "proved")
        raise Refused(f"{unit.name}: {short(failed.what)}: not shown to be impossible; the unit cannot be exported")
    care = _care(unit, lifted)
    return Reference(unit, config, lifted, names, checked, _registers(lifted, care), care)


def _integers(unit: AnyUnit, lifted: Lift, names: Names) -> Lift:
    """The lift with integers in the place of binary64 numbers, which its checks then see."""
    roots = [*lifted.roots, lifted.legal]
    line = real_line(names, roots)
    if line is None:
        return lifted
    try:
        return lowered(lifted, names)
    except KeyError as error:
        op = error.args[0]
        of_op = [each.number for each in terms.order(roots) if each.op == op]
        places = [*(names.real[number][1] for number in of_op if number in names.real), line]
        where = f"{short(places[0])}: " if places[0] else ""
        raise Refused(f"{unit.name}: {where}{op} of binary64, which has no form in integers") from error


def _registers(lifted: Lift, care: Mapping[str, list[Term]]) -> tuple[Register, ...]:
    if not lifted.before:
        return ()
    roots = [*lifted.roots, lifted.legal, *(each for lanes in care.values() for each in lanes)]
    read = {each.name for each in terms.order(roots) if each.op == "var"}
    ports, words, answer = lifted.device.ports, reset_words(lifted), []
    for kind, group in (("output", ports.outputs), ("state", ports.state), ("input", ports.inputs)):
        for port in group:
            used = any(each.name in read for each in lifted.before[port.name])
            if used or kind != "input":
                answer.append(Register(port, words[port.name].name, used, kind))
    number = lifted.device.number
    if any(each.name in read for each in lifted.before.get(number, ())):
        answer.append(Register(Port(number, 1), 0, True, "number"))
    return tuple(answer)


def _care(unit: AnyUnit, lifted: Lift) -> dict[str, list[Term]]:
    """Masks of outputs: `care` of the unit on the terms of one row."""
    if unit.care is None:
        return {}
    if lifted.before:
        raise Refused(f"{unit.name}: its outputs that need not match depend on events, which have no terms yet")
    ports, run = lifted.device.ports, Interpreter()
    result = SimpleNamespace(**{port.name: _array(port, lifted.terms[port.name]) for port in ports.outputs})
    inputs = {port.name: _array(port, lifted.inputs[port.name]) for port in ports.inputs}
    try:
        with run.running():
            masks = run.call(unit.care, lifted.config, inputs, result)
    except (Unsupported, AttributeError, TypeError, ValueError) as error:
        raise Refused(f"{unit.name}: {short(run.line)}: {error}") from error
    answer = {}
    for port in ports.outputs:
        mask = masks.get(f"out.{port.name}")
        if mask is not None:
            lanes = [truth(each) for each in mask.values.reshape(-1)]
            answer[port.name] = [terms.sext(each, port.bits) for each in lanes]
    return answer


def _array(port: Port, lanes: list[Term]) -> Array:
    """The values of a port in one row, with the dtype of a Result."""
    values: list[Any] = []
    for term in lanes:
        low, high = port.limits
        wide = term if port.signed else terms.zext(term, port.bits + 1)
        values.append(Bool(term) if port.bits == 1 else Int(wide, low, high))
    return Array([values] if port.lanes else values, port.result_dtype)


def variable_names(group: tuple[Port, ...], prefix: str = "") -> list[str]:
    """Names of the variables of ports."""
    return [name_of(port, lane, prefix) for port in group for lane in range(port.count)]
