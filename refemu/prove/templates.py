"""Functions that are run once on fresh variables, and then instantiated: sub-units and other large functions.

A template belongs to a function, its constants, and bounds of its arguments. A call of it is one node, and each term of
its result another one, so that an array of 128 equal elements has 128 calls of one template.
"""

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refemu.prove import terms
from refemu.prove.frames import Closure, Dead, Unseen
from refemu.prove.merging import NEVER, Choice, is_symbolic, merge
from refemu.prove.terms import Term
from refemu.prove.values import Bool, Int, Symbolic, Unsupported
from refemu.units.declaration import DeclaredState
from refemu.units.stepping import Stepped

HEAVY = 300  #: expressions of a call that is worth a template
SMALL = 48  #: nodes of a template whose calls are written out
FEW = 8  #: nodes of a result that is written out

_numbers = itertools.count()


class _Odd(Exception):
    """A value that no template takes."""


@dataclass(eq=False)
class Template:
    """A function of terms."""

    variables: Sequence[Term]
    roots: Sequence[Term]
    result: Any  #: with terms of `roots`; NEVER if each path raises
    demands: Sequence[str]  #: what each of the last roots demands
    direct: frozenset[int]  #: places of roots that are written out, since they are small
    read: Sequence[Term]  #: variables of the other roots, which are arguments of a call

    def called(self, arguments: Sequence[Term]) -> list[Term]:
        """Terms of the results for these arguments."""
        values = {each.number: term for each, term in zip(self.variables, arguments, strict=True)}
        direct = iter(terms.substitute([self.roots[place] for place in sorted(self.direct)], values))
        if len(self.direct) == len(self.roots):
            return list(direct)
        call = terms.node("call", 0, *(values[each.number] for each in self.read), name=self)
        return [
            next(direct) if place in self.direct else terms.node("result", root.width, call, name=place)
            for place, root in enumerate(self.roots)
        ]


def key_of(value: Any, leaves: dict[int, Term], devices: list[Any]) -> Any:
    """Shape, constants and bounds of a value; its terms become leaves."""
    if isinstance(value, Symbolic):
        place = list(leaves).index(value.term.number) if value.term.number in leaves else len(leaves)
        leaves[value.term.number] = value.term
        return (type(value), value.term.width, place, *((value.low, value.high) if isinstance(value, Int) else ()))
    if isinstance(value, Choice):
        return Choice, *(
            (key_of(Bool(test), leaves, devices), key_of(each, leaves, devices)) for test, each in value.ways
        )
    if isinstance(value, tuple):
        return type(value), *(key_of(each, leaves, devices) for each in value)
    if isinstance(value, DeclaredState):
        return type(value), *(key_of(each, leaves, devices) for each in vars(value).values())
    if isinstance(value, Stepped):
        return Stepped, id(value), _state_key(value, leaves, devices)
    if isinstance(value, list | dict | set) or is_symbolic(value) or isinstance(value, Closure) or callable(value):
        raise _Odd
    try:
        {value}  # noqa: B018  whether it can be a key
    except TypeError:
        raise _Odd from None
    return type(value), repr(value) if isinstance(value, float) else value


def _state_key(device: Any, leaves: dict[int, Term], devices: list[Any]) -> Any:
    """The state of a device; those inside it must have none that counts."""
    if "state" not in vars(device) or any(map(_has_devices, vars(device).values())):
        raise _Odd
    devices.append(device)
    devices += [each for each in vars(device).values() if isinstance(each, Stepped)]
    return key_of(device.state, leaves, devices)


def _has_devices(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(each, Stepped) for each in value)


def mapped(value: Any, terms_of: Callable[[Term], Term]) -> Any:
    """A value with other terms."""
    if isinstance(value, Int) and not isinstance(value, Bool):
        return Int(terms_of(value.term), value.low, value.high)
    if isinstance(value, Symbolic):
        return type(value)(terms_of(value.term))  # type: ignore[call-arg]
    if isinstance(value, Choice):
        return Choice([(terms_of(test), mapped(each, terms_of)) for test, each in value.ways])
    if isinstance(value, DeclaredState):
        state = copy.copy(value)
        vars(state).update({name: mapped(each, terms_of) for name, each in vars(value).items()})
        return state
    if isinstance(value, dict):
        return {name: mapped(each, terms_of) for name, each in value.items()}
    if isinstance(value, tuple | list):
        parts = [mapped(each, terms_of) for each in value]
        return value._make(parts) if hasattr(value, "_make") else type(value)(parts)
    if is_symbolic(value) or isinstance(value, Closure | Stepped):
        raise _Odd
    return value


def call(run: Any, function: Any, args: Sequence[Any], named: Mapping[str, Any], plain: Callable[..., Any]) -> Any:
    """A call of a function by its template, or as it is.

    run: interpreter. plain: runs the text on arguments.
    """
    leaves: dict[int, Term] = {}
    devices: list[Any] = []
    try:
        key: Any = (
            function.__code__,
            key_of(tuple(args), leaves, devices),
            key_of(tuple(named.items()), leaves, devices),
        )
    except _Odd:
        return plain(args, named)
    if key not in run.templates:
        run.templates[key] = _made(run, args, named, list(leaves.values()), devices, plain) if leaves else None
        run.held += devices
    template = run.templates[key]
    if template is None:
        return plain(args, named)
    answers = template.called(list(leaves.values()))
    by_number = {root.number: answer for root, answer in zip(template.roots, answers, strict=True)}
    count = len(template.demands)
    run.illegal = terms.or_(run.illegal, terms.and_(run.now(), answers[-1]))
    for condition, what in zip(answers[len(answers) - 1 - count : -1], template.demands, strict=True):
        run.obligations.append((terms.or_(terms.not_(run.now()), condition), what))
    if template.result is NEVER:
        raise Dead
    result, states = mapped(template.result, lambda term: by_number[term.number])
    for device, state in zip(devices, states, strict=True):
        if state is not None:
            device.state = state if run.now() is terms.TRUE else merge(run.now(), state, device.state)
    return _owned(run, result)


def _owned(run: Any, value: Any) -> Any:
    """Lists and dicts of a result, which the present path has made."""
    if isinstance(value, list | dict) and run.frames:
        run.new(value)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        _owned(run, each)
    return value


def _made(
    run: Any, args: Sequence[Any], named: Mapping[str, Any], leaves: Sequence[Term], devices: Sequence[Any], plain: Any
) -> Template | None:
    """The template of a call; None if it has none: its text reads or changes more than its arguments."""
    number = next(_numbers)
    variables = [terms.variable(f"template{number}_{at}", each.width) for at, each in enumerate(leaves)]
    fresh = {leaf.number: variable for leaf, variable in zip(leaves, variables, strict=True)}
    before = [dict(vars(device)) for device in devices]
    subjects = [each for each in args if isinstance(each, Stepped)]
    for device, values in zip(devices, before, strict=True):
        mine = any(device is each for each in subjects)
        try:
            vars(device)["state"] = mapped(values["state"], lambda t: fresh[t.number]) if mine else Unseen("state")
        except (_Odd, KeyError):
            for each, old in zip(devices, before, strict=True):
                vars(each)["state"] = old["state"]
            return None
    outer = run.guard, run.frames, run.illegal, run.obligations, run.line
    run.guard, run.frames, run.illegal, run.obligations = terms.TRUE, [], terms.FALSE, []
    try:
        result = plain(
            [_leaf(each, fresh) for each in args], {name: _leaf(each, fresh) for name, each in named.items()}
        )
    except Dead:
        result = NEVER
    except (Unsupported, _Odd):
        return None
    finally:
        said = run.illegal, run.obligations
        run.guard, run.frames, run.illegal, run.obligations, run.line = outer
        unchanged, states = True, []
        for device, values in zip(devices, before, strict=True):
            after = vars(device)
            inner = isinstance(after["state"], Unseen)
            states.append(None if inner else after["state"])
            unchanged &= inner or any(device is each for each in subjects)
            unchanged &= all(after.get(name) is value for name, value in values.items() if name != "state")
            after["state"] = values["state"]
    whole = result if result is NEVER else (result, states)
    return _template(variables, whole, *said) if unchanged else None


def _leaf(value: Any, fresh: Mapping[int, Term]) -> Any:
    return value if isinstance(value, Stepped) else mapped(value, lambda term: fresh[term.number])


def _template(
    variables: Sequence[Term], result: Any, illegal: Term, demands: Sequence[tuple[Term, str]]
) -> Template | None:
    by_number: dict[int, Term] = {}

    def collect(term: Term) -> Term:
        by_number[term.number] = term
        return term

    try:
        mapped(result, collect)
    except _Odd:
        return None
    roots = [*by_number.values(), *(condition for condition, _ in demands), illegal]
    known = {each.number for each in variables}
    nodes = list(terms.order(roots))
    if any(each.op == "var" and each.number not in known for each in nodes):
        return None
    few = len(nodes) < SMALL
    direct = frozenset(
        place for place, root in enumerate(roots) if few or len(list(itertools.islice(terms.order([root]), FEW))) < FEW
    )
    read = {each.number for each in terms.order([root for place, root in enumerate(roots) if place not in direct])}
    arguments = [each for each in variables if each.number in read]
    return Template(variables, roots, result, [what for _, what in demands], direct, arguments)


__all__ = ["HEAVY", "Template", "call"]
