"""Expressions of a text on values that depend on inputs."""

import ast
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from refemu.prove import merging, terms
from refemu.prove.frames import Closure, Dead, Filtered, SymbolicRange, Unseen
from refemu.prove.merging import Choice, Members, choice, is_symbolic, merge, spread, ways_of
from refemu.prove.narrowing import Narrowing
from refemu.prove.sources import assigned
from refemu.prove.terms import Term
from refemu.prove.values import OPERATORS, Bool, Int, Real, Symbolic, Unsupported, demand, fit, integer, truth, truth_of

ENUMERATED = 12  #: bits of variables whose values are all tried
FEW = 8  #: values of a bound of a slice whose other bound has as many


class Expressions(Narrowing):
    """Values of expressions, by the names of their nodes."""

    def value(self, node: ast.expr) -> Any:
        """Value of an expression."""
        self.work += 1
        return getattr(self, f"of_{type(node).__name__}", self.unsupported)(node)

    def of_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def of_Name(self, node: ast.Name) -> Any:
        names = self.frames[-1].names
        if node.id in names:
            return names[node.id]
        try:
            return self.frames[-1].scope(node.id)
        except AttributeError:
            raise Unsupported(f"{node.id}, which is set on no path") from None

    def of_NamedExpr(self, node: ast.NamedExpr) -> Any:
        value = self.value(node.value)
        self.store(node.target, value)
        return value

    def of_Tuple(self, node: ast.Tuple) -> Any:
        values = [self.value(each.value if isinstance(each, ast.Starred) else each) for each in node.elts]
        unseen = [each for each in values if isinstance(each, Unseen)]
        if unseen:
            return unseen[0]  # as little known as its part
        return tuple(
            part
            for each, value in zip(node.elts, values, strict=True)
            for part in (self.parts(value) if isinstance(each, ast.Starred) else [value])
        )

    def of_List(self, node: ast.List) -> Any:
        pairs = [
            pair
            for each in node.elts
            for pair in (
                self.iterate(self.value(each.value))
                if isinstance(each, ast.Starred)
                else [(terms.TRUE, self.value(each))]
            )
        ]
        if all(condition is terms.TRUE for condition, _ in pairs):
            return self.new([value for _, value in pairs])
        return Filtered(pairs)

    def of_Set(self, node: ast.Set) -> Any:
        values = self.items(node.elts)
        return Members(values) if is_symbolic(values) else self.new(set(values))

    def items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        """Values of expressions, of which some may be starred."""
        answer: list[Any] = []
        for each in nodes:
            if isinstance(each, ast.Starred):
                answer += self.parts(self.value(each.value))
            else:
                answer.append(self.value(each))
        return answer

    def parts(self, values: Any) -> list[Any]:
        """Elements whose number does not depend on inputs, as a list."""
        return [value for _, value in self.whole(values)]

    def whole(self, values: Any) -> Iterator[tuple[Term, Any]]:
        """Elements whose number does not depend on inputs."""
        for condition, value in self.iterate(values):
            if condition is not terms.TRUE:
                raise Unsupported("a list whose length depends on inputs", condition)
            yield condition, value

    def of_Dict(self, node: ast.Dict) -> Any:
        parts = [
            self.value(value) if key is None else {self.value(key): self.value(value)}
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return self.new(functools.reduce(merging.joined, map(merging.united, parts), {}))

    def of_JoinedStr(self, node: ast.JoinedStr) -> Any:
        parts = []
        for each in node.values:
            if isinstance(each, ast.Constant):
                parts.append(each.value)
                continue
            assert isinstance(each, ast.FormattedValue)
            value = self.value(each.value)
            spec = self.value(each.format_spec) if each.format_spec else ""
            if is_symbolic(value):
                value = choice(ways_of(value))
            parts.append(spread([value], lambda each, spec=spec: format(each, spec)))
        return spread(parts, lambda *each: "".join(each))

    def of_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.value(node.value)
        return spread([owner], lambda each: self.attribute(each, node.attr))

    def attribute(self, owner: Any, name: str) -> Any:
        """An attribute; a property runs."""
        answer = inspect.getattr_static(type(owner), name, None) if not isinstance(owner, type | super) else None
        if isinstance(answer, property) and isinstance(answer.fget, FunctionType):
            return self.call(answer.fget, owner)
        return getattr(owner, name)

    def of_Subscript(self, node: ast.Subscript) -> Any:
        container, index = self.value(node.value), self.value(node.slice)
        if isinstance(container, Choice):
            return self.each_way(container, lambda each: spread([each, index], self.item))
        return spread([container, index], self.item)

    def item(self, container: Any, index: Any) -> Any:
        """An element, a part or an entry."""
        if isinstance(container, dict) and is_symbolic(index):
            return self._entry(merging.whole(container), index)
        if isinstance(container, dict) and index in container:
            value = container[index]
            demand(terms.not_(merging.absence(value)), f"an entry {index!r} that is missing")
            return value if merging.absence(value) is terms.FALSE else merging.given(value)
        if isinstance(index, Int) and not isinstance(container, dict):
            values = container.tolist() if isinstance(container, np.ndarray) else container
            if not len(values) and self.now() is not terms.TRUE:
                self.demand(terms.FALSE, "an element of an empty list")
                raise Dead
            return merging.element(values, index)
        if self.is_array(index) and isinstance(container, np.ndarray):
            values = container.tolist()
            return index.map(lambda each: merging.element(values, each), container.dtype)
        if isinstance(index, slice) and is_symbolic([index.start, index.stop, index.step]):
            return self._slice(container, index)
        if isinstance(container, Symbolic):
            raise Unsupported("an element of a number")
        if isinstance(container, Filtered) and index == 0:
            demand(container.condition(), "an element of an empty selection")
            return _chosen(container)
        return container[index]

    def _slice(self, container: Any, index: slice) -> Any:
        """A part between bounds with few values, of which each gives another length."""
        if (part := window(container, index)) is not None:
            return type(container)(merging.element(container, part[0] + at) for at in range(part[1]))
        bounds = [choice(ways_of(each)) for each in (index.start, index.stop)]
        if all(isinstance(each, Choice) and len(each.ways) > FEW for each in bounds):
            raise Unsupported("a slice of which both bounds depend on inputs", integer(index.start).term)
        if any(isinstance(each, Int) for each in bounds):
            raise Unsupported(
                "a slice whose bounds depend on inputs", next(b.term for b in bounds if isinstance(b, Int))
            )
        return spread(bounds, lambda start, stop: container[start : stop : index.step])

    def _entry(self, container: dict[Any, Any], key: Any) -> Any:
        tests = [(merging.equal(key, known), value) for known, value in list(container.items())]
        tests = [(test, value) for test, value in tests if test is not terms.FALSE]
        demand(terms.any_of(test for test, _ in tests), "a key that is missing")
        result = tests[-1][1]
        for test, value in tests[-2::-1]:
            result = merge(test, value, result)
        return result

    def of_Slice(self, node: ast.Slice) -> Any:
        return slice(*(self.value(each) if each else None for each in (node.lower, node.upper, node.step)))

    def of_Starred(self, node: ast.Starred) -> Any:
        return self.unsupported(node)

    def of_Lambda(self, node: ast.Lambda) -> Any:
        return Closure(self.frames[-1], node, [self.value(each) for each in node.args.defaults])

    def of_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return spread([value], lambda each: truth_of(terms.not_(truth(each))) if is_symbolic(each) else not each)
        return spread([value], OPERATORS[type(node.op).__name__])

    def of_BinOp(self, node: ast.BinOp) -> Any:
        return self.operate(type(node.op).__name__, self.value(node.left), self.value(node.right))

    def operate(self, name: str, a: Any, b: Any) -> Any:
        """An arithmetic or bitwise operation, or one of lists and dicts."""
        if name == "Mult" and isinstance(a, tuple | list | str) and isinstance(b, Int):
            raise Unsupported("a list whose length depends on inputs", b.term)
        if name == "BitOr":
            a, b = merging.united(a), merging.united(b)
        both = name == "BitOr" and isinstance(a, dict) and isinstance(b, dict)
        result = merging.joined(a, b) if both else spread([a, b], OPERATORS[name])
        return self.new(result) if isinstance(result, list | dict) else result

    def of_BoolOp(self, node: ast.BoolOp) -> Any:
        return self._logical(list(node.values), isinstance(node.op, ast.And))

    def _logical(self, nodes: list[ast.expr], both: bool) -> Any:
        first = self.value(nodes[0])
        if len(nodes) == 1:
            return first
        test = spread([first], lambda each: truth_of(truth(each))) if is_symbolic(first) else bool(first)
        condition = truth(test)
        goes_on = condition if both else terms.not_(condition)
        if goes_on.op == "const":
            return self._logical(nodes[1:], both) if goes_on.name else first
        names = self.frames[-1].names
        with self.under(goes_on):
            self.frames[-1].names = dict(names)
            fits = self.narrow(nodes[0], both)
            rest = self.alive(lambda: self._logical(nodes[1:], both)) if fits else first
            self._rejoin(names, goes_on, nodes[1:])
        return merge(goes_on, rest, test if isinstance(rest, bool | Bool) else first)

    def _rejoin(self, before: dict[str, Any], test: Term, nodes: Sequence[ast.expr]) -> None:
        """Names after expressions that run where a test holds."""
        frame = self.frames[-1]
        ways = [(test, (test, frame.names)), (terms.not_(test), (terms.TRUE, before))]
        frame.names = self._joined(before, ways, frozenset().union(*(assigned([each]) for each in nodes)))

    def of_IfExp(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        condition = truth(spread([test], lambda each: truth_of(truth(each)))) if is_symbolic(test) else truth(test)
        if condition.op == "const":
            return self.value(node.body if condition.name else node.orelse)
        names, results = self.frames[-1].names, []
        for held, part in ((True, node.body), (False, node.orelse)):
            with self.under(condition if held else terms.not_(condition)):
                self.frames[-1].names = dict(names)
                results.append([self.alive(partial(self.value, part))] if self.narrow(node.test, held) else [])
                self._rejoin(names, condition if held else terms.not_(condition), [part])
                names = self.frames[-1].names
        both, neither = results
        return merge(condition, both[0], neither[0]) if both and neither else (both or neither)[0]

    def of_Compare(self, node: ast.Compare) -> Any:
        left, result = self.value(node.left), terms.TRUE
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator)
            arrays = any(self.is_array(each) or isinstance(each, np.ndarray) for each in (left, right))
            if arrays and type(op).__name__ in OPERATORS:
                each = OPERATORS[type(op).__name__](left, right)
                if len(node.ops) == 1:
                    return each
                result = terms.and_(result, truth(each))
            else:
                result = terms.and_(result, self.compare(type(op).__name__, left, right))
            if result is terms.FALSE:
                return False
            left = right
        return truth_of(result)

    def compare(self, name: str, a: Any, b: Any) -> Term:
        """Whether a comparison holds."""
        if name in ("Eq", "NotEq"):
            answer = merging.equal(a, b)
        elif name in ("In", "NotIn"):
            answer = merging.contained(a, b)
        elif name in ("Is", "IsNot"):
            answer = truth(spread([a, b], _identical))
        elif isinstance(a, Members) or isinstance(b, Members):
            if name != "LtE":
                raise Unsupported(f"{name} of sets that depend on inputs")
            return terms.all_of(merging.contained(each, b) for each in a)
        elif isinstance(a, tuple | list):
            x, y = (a, b) if name in ("Lt", "GtE") else (b, a)
            answer = merging.ordered(x, y)
            return terms.not_(answer) if name in ("GtE", "LtE") else answer
        else:
            return truth(spread([a, b], OPERATORS[name]))
        return terms.not_(answer) if name in ("NotEq", "NotIn", "IsNot") else answer

    def of_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            frame = self.frames[-1]
            return super(frame.scope("__class__"), next(iter(frame.names.values())))
        function = self.value(node.func)
        args = self.items(node.args)
        named: dict[str, Any] = {}
        for each in node.keywords:
            value = self.value(each.value)
            named.update({each.arg: value} if each.arg else value)
        return self.call(function, *args, **named)

    def _comprehended(self, node: Any, element: Callable[[], Any]) -> Any:
        if any(isinstance(each, ast.NamedExpr) for each in ast.walk(node)):
            self.unsupported(node)
        outer = self.frames[-1].names
        self.frames[-1].names = dict(outer)
        answer: list[tuple[Term, Any]] = []

        def level(generators: list[ast.comprehension], condition: Term) -> None:
            if not generators:
                answer.append((condition, element()))
                return
            first, *rest = generators
            for present, value in self.iterate(self.value(first.iter)):
                self.store(first.target, value)
                test = present
                for each in first.ifs:
                    with self.under(test):
                        test = terms.and_(test, truth(self.value(each)))
                if test is not terms.FALSE:
                    with self.under(test):
                        level(rest, terms.and_(condition, test))

        level(list(node.generators), terms.TRUE)
        self.frames[-1].names = outer
        if all(condition is terms.TRUE for condition, _ in answer):
            values: list[Any] = self.new([value for _, value in answer])
            return values
        return Filtered(answer)

    def of_ListComp(self, node: ast.ListComp) -> Any:
        return self._comprehended(node, lambda: self.value(node.elt))

    of_GeneratorExp = of_ListComp

    def of_SetComp(self, node: ast.SetComp) -> Any:
        values = self._comprehended(node, lambda: self.value(node.elt))
        if isinstance(values, Filtered):
            raise Unsupported("a set whose members depend on inputs", _first(values))
        return Members(values) if is_symbolic(values) else self.new(set(values))

    def of_DictComp(self, node: ast.DictComp) -> Any:
        pairs = self._comprehended(node, lambda: (self.value(node.key), self.value(node.value)))
        if isinstance(pairs, Filtered):
            raise Unsupported("a dict whose keys depend on inputs")
        return self.new(dict(pairs))

    def of_Yield(self, node: ast.Yield) -> Any:
        frame = self.frames[-1]
        if frame.path is not terms.TRUE or frame.yielded is None:
            raise Unsupported("a yield under a condition that depends on inputs")
        frame.yielded.append(self.value(node.value) if node.value else None)

    def of_YieldFrom(self, node: ast.YieldFrom) -> Any:
        frame = self.frames[-1]
        if frame.path is not terms.TRUE or frame.yielded is None:
            raise Unsupported("a yield under a condition that depends on inputs")
        frame.yielded += [value for _, value in self.whole(self.value(node.value))]

    def iterate(self, values: Any) -> Iterator[tuple[Term, Any]]:
        """Elements of a loop, with the condition under which there is each."""
        if isinstance(values, Filtered):
            yield from values.pairs
            return
        if isinstance(values, SymbolicRange):
            for number in range(values.start, values.most):
                yield truth(values.stop > number), number
            return
        if isinstance(values, Members):
            raise Unsupported("a loop over a set that depends on inputs")
        if isinstance(values, Choice):
            raise Unsupported("a loop over lists of which one is chosen", values.ways[0][0])
        for each in merging.whole(values):
            yield terms.TRUE, each

    def _joined(self, before: dict[str, Any], ways: Sequence[Any], changed: frozenset[str]) -> dict[str, Any]:
        """Names after several ways, of which some may have ended."""
        open_ = [(condition, names) for condition, (path, names) in ways if path is not terms.FALSE]
        names = dict(before)
        for name in sorted(changed):
            values = [(condition, each[name]) for condition, each in open_ if name in each]
            if not values:
                continue
            result = values[-1][1]
            for condition, value in values[-2::-1]:
                result = merge(condition, value, result)
            names[name] = result
        return names

    def store(self, target: ast.expr, value: Any) -> None:
        """Assign to a name, a tuple of targets, an attribute or an element."""
        raise NotImplementedError


def window(container: Any, index: Any) -> tuple[Any, int] | None:
    """Start and length of a part that must stay inside; None if the length depends on inputs."""
    start, stop = index.start, index.stop
    if not (isinstance(start, Int) and isinstance(stop, Int) and type(container) in (tuple, list) and not index.step):
        return None
    length = _difference(stop, start)
    if length is None or length < 0 or not len(container):
        return None
    demand(terms.and_(truth(start >= 0), truth(start + length <= len(container))), "a part beyond its end")
    return start, length


def _difference(a: Int, b: Int) -> int | None:
    """The difference of two integers, if it is one number for all values of their variables, which are few."""
    roots = [a.term, b.term]
    chosen = {each.number for each in terms.order([b.term]) if each.op == "ite" and each.width <= ENUMERATED}
    common = [each for each in terms.order([a.term]) if each.number in chosen]
    if common:  # any values of it, which is more than it takes
        top = common[-1]
        roots = terms.substitute(roots, {top.number: terms.variable("part", top.width)})
    free = [each for each in terms.order(roots) if each.op == "var"]
    rows, low = dict[str, np.ndarray](), 0
    if len(free) > ENUMERATED or functools.reduce(lambda total, each: total + each.width, free, 0) > ENUMERATED:
        return None
    count = 1 << functools.reduce(lambda total, each: total + each.width, free, 0)
    for each in free:
        rows[each.name] = (np.arange(count, dtype=np.uint64) >> np.uint64(low)) & np.uint64((1 << each.width) - 1)
        low += each.width
    width = max(each.width for each in roots) + 1
    (values,) = terms.evaluate([terms.sub(*(fit(each, width) for each in roots))], rows, count)
    value = int(values[0])
    return value - ((value >> (width - 1)) << width) if width <= 64 and (values == values[0]).all() else None


def _identical(a: Any, b: Any) -> Any:
    """As `is`, of truth values and objects; two numbers may be one object or not."""
    if isinstance(a, bool | Bool) and isinstance(b, bool | Bool):
        return truth_of(merging.equal(a, b))
    numbers = all(integer(each) is not None or isinstance(each, float | Real) for each in (a, b))
    if numbers and is_symbolic([a, b]) and not any(isinstance(each, bool | Bool) for each in (a, b)):
        raise Unsupported("whether two numbers are one object")
    return a is b


def _chosen(values: Filtered) -> Any:
    """The first element of a selection that has one."""
    result = values.pairs[-1][1]
    for condition, value in reversed(values.pairs):
        result = merge(condition, value, result)
    return result


def _first(values: Filtered) -> Term:
    return next(condition for condition, _ in values.pairs if condition.op != "const")
