"""Loops of a text: turns that come under a condition, breaks and continues."""

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from refemu.prove import terms
from refemu.prove.expressions import Expressions
from refemu.prove.frames import Filtered
from refemu.prove.terms import Term
from refemu.prove.values import Unsupported, truth, truth_of

MOST_TURNS = 1 << 16  #: turns of a loop whose end depends on inputs


class Loops(Expressions):
    """Loops, and what leaves them."""

    def _outs(self) -> int:
        """Number of breaks and continues that have left the loops around."""
        frame = self.frames[-1]
        return sum(map(len, (*frame.exits, *frame.turns)))

    def do_Break(self, node: ast.Break) -> None:
        self._out(self.frames[-1].exits)

    def do_Continue(self, node: ast.Continue) -> None:
        self._out(self.frames[-1].turns)

    def _out(self, places: list[list[tuple[Term, dict[str, Any]]]]) -> None:
        frame = self.frames[-1]
        places[-1].append((frame.path, frame.names))
        frame.gone += 1
        frame.path = terms.FALSE

    def do_For(self, node: ast.For) -> None:
        values = self.value(node.iter)
        if isinstance(values, Filtered):
            self._selection(node, values)
        else:
            turns = self.iterate(values)
            self._loop(node, ((condition, partial(self.store, node.target, value)) for condition, value in turns))

    def _selection(self, node: ast.For, values: Filtered) -> None:
        """A loop over a selection: each turn runs under the condition of its element."""
        names = ast.Tuple([ast.Name("$kept", ast.Store()), ast.Name("$value", ast.Store())], ast.Store())
        element = ast.Assign([node.target], ast.Name("$value", ast.Load()))
        body: list[ast.stmt] = [ast.If(ast.Name("$kept", ast.Load()), [element, *node.body], [])]
        pairs = [(truth_of(condition), value) for condition, value in values.pairs]
        every = ast.For(names, ast.Name("$pairs", ast.Load()), body, node.orelse)
        ast.copy_location(every, node)
        for each in ast.walk(every):
            ast.copy_location(each, node) if not hasattr(each, "lineno") else None
        self.frames[-1].names["$pairs"] = pairs
        self.do_For(every)

    def do_While(self, node: ast.While) -> None:
        def turns() -> Iterator[tuple[Term, Callable[[], Any]]]:
            for _ in range(MOST_TURNS):
                test = truth(self.value(node.test))
                if test is terms.FALSE:
                    return
                yield test, partial(self._enters, node, test)
            raise Unsupported("a loop without an end")

        self._loop(node, turns())

    def _enters(self, node: ast.While, test: Term) -> bool:
        """Narrow bounds at the start of a turn; False if it never comes."""
        return test is terms.TRUE or self.narrow(node.test, True)

    def _loop(self, node: Any, turns: Iterator[tuple[Term, Callable[[], Any]]]) -> None:
        """Run a loop; turns: the condition of each turn, and what begins it."""
        if node.orelse:
            self.unsupported(node)
        frame = self.frames[-1]
        path, gone, branch, before = frame.path, frame.gone, frame.branch, frame.names
        exits: list[tuple[Term, dict[str, Any]]] = []
        frame.exits.append(exits)
        left = 0
        for condition, begin in turns:
            if condition is not terms.TRUE:
                exits.append((terms.and_(frame.path, terms.not_(condition)), frame.names))
                frame.path, frame.names = terms.and_(frame.path, condition), dict(frame.names)
                frame.branch = (*branch, self.fresh())
                if frame.path is terms.FALSE:
                    break
            began, inner, outs, turn = frame.path, frame.gone, len(exits), frame.branch
            frame.turns.append([])
            if begin() is False:
                frame.path = terms.FALSE
                frame.turns.pop()
                break
            frame.names = dict(frame.names)
            self.block(node.body)
            ends = [*frame.turns.pop(), (frame.path, frame.names)]
            left += frame.gone - inner
            if len(ends) > 1:
                frame.names = self._exit(before, ends)
                left -= len(ends) - 1
                frame.path = began if frame.gone - inner == len(ends) - 1 else terms.any_of(p for p, _ in ends)
            left -= len(exits) - outs
            frame.branch = turn if len(exits) == outs else (*branch, self.fresh())
            if frame.path is terms.FALSE:
                break
        frame.exits.pop()
        if exits:
            exits.append((frame.path, frame.names))
            frame.names = self._exit(before, exits)
            frame.path = path if not left else terms.any_of(p for p, _ in exits)
        frame.branch = branch
        frame.gone = gone + left

    def _exit(self, before: dict[str, Any], ways: Sequence[tuple[Term, dict[str, Any]]]) -> dict[str, Any]:
        every = frozenset().union(*(names for _, names in ways))
        return self._joined(before, [(path, (path, names)) for path, names in ways], every)
