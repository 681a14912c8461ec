"""Rows of golden cases as values of variables, and what they show of inputs."""

from collections.abc import Mapping, Sequence

import numpy as np

from refemu.arith import prng
from refemu.prove import selfcheck, terms
from refemu.prove.equivalence import ask
from refemu.prove.lift import Lift
from refemu.prove.terms import Term
from refemu.units.config import Config

ROWS = 200  #: of each block of golden cases
CASES = 3  #: bits of all short inputs whose values are cases
MIXED = 600  #: rows whose variables are those of several golden rows
SECONDS = 3.0  #: of the solver


def holding(rows: Mapping[str, np.ndarray], assumed: Sequence[Term], count: int) -> dict[str, np.ndarray]:
    """Rows for which the assumptions hold."""
    holds = np.all([values == 1 for values in terms.evaluate(assumed, rows, count)], axis=0)
    return {name: values[holds] for name, values in rows.items()}


def mixed(rows: Mapping[str, np.ndarray], assumed: Sequence[Term]) -> dict[str, np.ndarray]:
    """More rows, each variable from a row of its own: words that are equal by chance in few rows differ in these."""
    count = len(next(iter(rows.values())))
    more = MIXED if count else 0
    places = prng.words_of(range(len(rows)), 0, more) % max(count, 1)
    drawn = {name: values[at] for (name, values), at in zip(rows.items(), places, strict=True)}
    drawn = holding(drawn, assumed, more)
    return {name: np.concatenate([values, drawn[name]]) for name, values in rows.items()}


def zeros(
    roots: Sequence[Term], assumed: Sequence[Term], rows: Mapping[str, np.ndarray], solver: str
) -> dict[int, Term]:
    """Slices of inputs whose upper bits are 0 in all rows, and wherever the assumptions hold, without these bits."""
    answer: dict[int, Term] = {}
    for name, values in rows.items():
        ones = int(np.bitwise_or.reduce(values)) if len(values) else -1
        slices = [each for each in terms.order(roots) if _reads(each, name)]
        short = {
            each: (ones >> (each.name if each.args else 0) & (1 << each.width) - 1).bit_length() for each in slices
        }
        short = {each: bits for each, bits in short.items() if bits < each.width}
        above = terms.any_of(
            terms.not_(terms.eq(terms.extract(each, bits, each.width - bits), terms.const(0, each.width - bits)))
            for each, bits in short.items()
        )
        if short and ask("upper bits", [*assumed, above], SECONDS, solver).outcome == "proved":
            answer |= {
                each.number: terms.zext(terms.extract(each, 0, bits), each.width)
                if bits
                else terms.const(0, each.width)
                for each, bits in short.items()
            }
    return answer


def _reads(term: Term, name: str) -> bool:
    """Whether a term is a variable, or a slice of it."""
    return (term.op == "var" and term.name == name) or (
        term.op == "extract" and term.args[0].op == "var" and term.args[0].name == name
    )


def narrow(lift: Lift) -> list[Term]:
    """Inputs of few values, of which each is a case."""
    answer: list[Term] = []
    bits = 0
    for port in lift.device.ports.inputs:
        if port.count == 1 and port.bits + bits <= CASES:
            bits += port.bits
            answer.append(lift.inputs[port.name][0])
    return answer


def of_cases(lift: Lift, more: Mapping[str, Term]) -> dict[str, np.ndarray]:
    """Values of the variables of a lift for golden cases, and of words of them by the names of more variables."""
    blocks = []
    for kind in selfcheck.KINDS:
        for block in lift.unit.stimuli(Config(**lift.config), kind, 0):
            inputs = {name: array[:ROWS] for name, array in block.inputs.items()}
            blocks.append(selfcheck.variables(lift, inputs, lift.unit.evaluate(lift.config, inputs)))
    rows = {name: np.concatenate([each[name] for each in blocks]) for name in blocks[0]}
    words = terms.evaluate(list(more.values()), rows, len(next(iter(rows.values()))))
    return rows | dict(zip(more, words, strict=True))


__all__ = ["holding", "mixed", "narrow", "of_cases", "zeros"]
