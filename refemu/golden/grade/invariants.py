"""Facts about registers that hold at reset and that each event keeps: constant bits, floats that are never NaN."""

from collections import defaultdict
from collections.abc import Sequence
from time import monotonic

import numpy as np

from refemu.golden.files import fields
from refemu.golden.grade.term_devices import at_reset, registers_read
from refemu.prove import solver, terms
from refemu.prove.lift import Lift
from refemu.prove.terms import Term
from refemu.units.ports import Port

Pair = tuple[Term, Term]  #: a fact before and after an event


def lasting(lifted: Lift, seconds: float) -> Term:
    """Whether the registers before an event have all lasting facts; true if the time is too short.

    Of all candidates those are dropped that an event ends, until no event ends one.
    """
    pairs, end = _pairs(lifted), monotonic() + seconds
    while pairs:
        broken = terms.any_of(terms.not_(after) for _, after in pairs)
        answer = solver.solve([lifted.legal, *(before for before, _ in pairs), broken], max(0.1, end - monotonic()))
        if answer.verdict == "unknown":
            return terms.TRUE
        if answer.verdict == "unsat":
            break
        pairs = _kept(pairs, dict(answer.values))
    return terms.all_of(before for before, _ in pairs)


def _pairs(lifted: Lift) -> list[Pair]:
    """Candidates: each bit of the registers that are read, and kinds of numbers that floats at reset are not."""
    read = registers_read(lifted)
    ports = {port.name: port for port in lifted.device.ports.outputs + lifted.device.ports.state}
    pairs: list[Pair] = []
    for name, lanes in at_reset(lifted).items() if lifted.before else ():
        for variable, after, start in zip(lifted.before[name], lifted.terms[name], lanes, strict=True):
            if name in read:
                pairs += zip(_facts(variable, start, ports[name]), _facts(after, start, ports[name]), strict=True)
    return pairs


def _facts(word: Term, start: Term, port: Port) -> list[Term]:
    """Facts that hold of a register at reset, said of a word of it."""
    facts = [terms.eq(terms.extract(word, bit, 1), terms.extract(start, bit, 1)) for bit in range(port.bits)]
    if fields.holds_floats(port) and terms.is_const(start) and start.name == 0:
        infinity = fields.infinity(port)
        size = terms.and_(word, terms.const(fields.mask_of(port.bits - 1), port.bits))
        least = terms.const(infinity & -infinity, port.bits)
        facts.append(terms.not_(terms.ult(terms.const(infinity, port.bits), size)))  # no NaN
        facts.append(terms.not_(terms.eq(word, terms.const(1 << (port.bits - 1), port.bits))))  # no -0
        zero = terms.eq(size, terms.const(0, port.bits))
        facts.append(terms.or_(zero, terms.not_(terms.ult(size, least))))  # no subnormal number
    return facts


def _kept(pairs: Sequence[Pair], values: dict[str, int]) -> list[Pair]:
    """Pairs that hold after an event with these values of the variables."""
    rows = defaultdict(
        lambda: np.zeros(1, np.uint64), {name: np.array([word], object) for name, word in values.items()}
    )
    held = terms.evaluate([after for _, after in pairs], rows, 1)
    return [pair for pair, holds in zip(pairs, held, strict=True) if holds[0]]
