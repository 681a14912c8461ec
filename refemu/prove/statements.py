"""Terms as statements of a language: one for each node that has a name of the readable text, or several readers."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from refemu.prove import terms
from refemu.prove.naming import Names
from refemu.prove.terms import Term

LONG = 60  #: characters of an expression that gets a statement of its own


@dataclass(frozen=True)
class Language:
    """How a language writes operations; every text has exactly the bits of its term."""

    constant: Callable[[int, int], str]  #: value, width
    operation: Callable[[str, Term, Sequence[Term], Sequence[str]], str]  #: operation, term, operands, their texts
    by_name: Mapping[str, Collection[int]]  #: operation -> operands that must be names


@dataclass(frozen=True)
class Statement:
    """A named signal."""

    name: str
    width: int
    text: str


def view(term: Term) -> tuple[str, tuple[Term, ...]]:
    """Operation and operands; not-and of inverted operands is "or"."""
    if term.op == "not" and term.args[0].op == "and" and all(each.op == "not" for each in term.args[0].args):
        return "or", tuple(each.args[0] for each in term.args[0].args)
    return term.op, term.args


def _order(roots: Iterable[Term]) -> list[Term]:
    """Every viewed node, each after its operands."""
    answer: dict[int, Term] = {}
    for root in roots:
        stack = [(root, False)]
        while stack:
            term, ready = stack.pop()
            if term.number in answer:
                continue
            if ready:
                answer[term.number] = term
            else:
                stack.append((term, True))
                stack += [(each, False) for each in reversed(view(term)[1])]
    return list(answer.values())


def free_name(wanted: str, taken: set[str]) -> str:
    """A name that is not taken, which now is."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name


def statements(
    roots: Sequence[Term], names: Names, variables: Mapping[str, str], taken: set[str], language: Language
) -> tuple[list[Statement], list[str]]:
    """Statements that compute terms, and the text of each term.

    Parameters
    ----------
    roots : sequence of Term
        Bit vectors.
    names : Names
        Names of the readable text.
    variables : Mapping
        Text of each variable.
    taken : set of str
        Names that no statement may have; gets those of the statements.
    language : Language
        What the texts are written in.

    Returns
    -------
    tuple of list of Statement and list of str
        Statements in an order in which each reads earlier ones only, and the text of each term.
    """
    nodes = _order(roots)
    uses = Counter(each.number for group in (roots, *(view(term)[1] for term in nodes)) for each in group)
    named = {term.number for term in nodes if term.number in names.known or uses[term.number] > 1}
    for term in nodes:
        op, args = view(term)
        named |= {args[at].number for at in language.by_name.get(op, ())}
    texts: dict[int, str] = {}
    answer: list[Statement] = []
    for term in nodes:
        op, args = view(term)
        if op == "var":
            texts[term.number] = variables[term.name]
        elif op == "const":
            texts[term.number] = language.constant(term.name, term.width)
        else:
            text = language.operation(op, term, args, [texts[each.number] for each in args])
            if term.number in named or len(text) > LONG:
                known = names.known.get(term.number)
                name = free_name(known[1] if known else f"of_{op}", taken)
                answer.append(Statement(name, term.width, text))
                texts[term.number] = name
            else:
                texts[term.number] = f"({text})"
    return answer, [texts[root.number] for root in roots]


def variables(roots: Iterable[Term]) -> list[str]:
    """Names of the variables of some terms."""
    return [each.name for each in terms.order(roots) if each.op == "var"]
