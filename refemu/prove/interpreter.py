"""Runs the text of functions on values that depend on inputs, along all paths at once.

Where a test depends on inputs, both branches run and their values are merged. `raise` makes the inputs of its path
illegal; what Python would reject implicitly, such as an index out of range, is an obligation that must never occur.
"""

import ast
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from refemu.prove import merging, terms
from refemu.prove.expressions import window
from refemu.prove.frames import Closure, Dead, OutOfTime
from refemu.prove.loops import Loops
from refemu.prove.merging import Choice, is_symbolic, merge
from refemu.prove.sources import assigned, is_fresh
from refemu.prove.values import Int, Unsupported, demand, integer, same, truth


class Interpreter(Loops):
    """Statements of a text, by the names of their nodes."""

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Run statements until no path is left."""
        frame = self.frames[-1]
        if body and isinstance(body[-1], ast.Raise) and all(map(_is_plain, body[:-1])):
            body = body[-1:]  # the others only make its message
        for statement in body:
            if frame.path is terms.FALSE:
                return
            self.line = f"{frame.file}:{statement.lineno}"
            if self.late():
                raise OutOfTime(self.line)
            try:
                getattr(self, f"do_{type(statement).__name__}", self.unsupported)(statement)
            except Dead:
                self.leave()
            except Unsupported as error:
                error.line = error.line or f"{frame.file}:{statement.lineno}"
                error.term = error.term or self.now()
                raise
            except ValueError as error:
                try:
                    self.rejected(error)
                except ValueError:
                    raise self._failed(error, frame.file, statement.lineno) from error
                self.leave()
            except (TypeError, AttributeError, KeyError, IndexError, ArithmeticError) as error:
                raise self._failed(error, frame.file, statement.lineno) from error

    def _failed(self, error: Exception, file: str, line: int) -> Unsupported:
        raised = Unsupported(f"{type(error).__name__}: {error}", self.now())
        raised.line = f"{file}:{line}"
        return raised

    def leave(self) -> None:
        """End the present path."""
        frame = self.frames[-1]
        frame.path, frame.gone = terms.FALSE, frame.gone + 1

    def do_Return(self, node: ast.Return) -> None:
        value = self.value(node.value) if node.value else None
        frame = self.frames[-1]
        if frame.path is not terms.TRUE:
            value = _snapshot(value)  # other paths may change its lists
        frame.returned.append((frame.path, value))
        self.leave()

    def do_Raise(self, node: ast.Raise) -> None:
        if self.trying:
            raise Unsupported("a raise inside a try", self.now())
        self.illegal = terms.or_(self.illegal, self.now())
        self.leave()

    def do_Assert(self, node: ast.Assert) -> None:
        test = truth(self.value(node.test))
        if test is not terms.TRUE:
            self.demand(test, "an assertion")

    def do_Pass(self, node: ast.Pass) -> None:
        pass

    def do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def do_Import(self, node: ast.stmt) -> None:
        space: dict[str, Any] = {}
        exec(compile(ast.Module([node], []), self.frames[-1].file, "exec"), space)
        self.frames[-1].names.update({name: value for name, value in space.items() if name != "__builtins__"})

    do_ImportFrom = do_Import

    def do_FunctionDef(self, node: ast.FunctionDef) -> None:
        defaults = [self.value(each) for each in node.args.defaults]
        self.frames[-1].names[node.name] = Closure(self.frames[-1], node, defaults)

    def do_With(self, node: ast.With) -> None:
        for item in node.items:
            if not any(name in ast.unparse(item.context_expr) for name in ("errstate", "quiet()")):
                self.unsupported(node)
        self.block(node.body)

    def do_Try(self, node: ast.Try) -> None:
        """Run the body; a handler where Python itself raises an exception, whatever the inputs are."""
        caught = False
        self.trying += 1
        try:
            self.block(node.body)
        except Unsupported as error:
            cause = error.__cause__
            for handler in node.handlers if cause is not None else []:
                if handler.type is None or isinstance(cause, self.value(handler.type)):
                    self.block(handler.body)
                    caught = True
                    break
            else:
                raise
        finally:
            self.trying -= 1
        self.block([*([] if caught else node.orelse), *node.finalbody])

    def do_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        written = isinstance(value, np.ndarray) and value.dtype != object and is_fresh(node.value)
        for target in node.targets:
            if written and isinstance(target, ast.Name) and target.id in self.frames[-1].changed:
                value = self.as_array(value)
            self.store(target, value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.value(node.value))

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript) and self._each_element(node, node.target):
            return None
        load = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node)
        value, more = self.value(load), self.value(node.value)
        if isinstance(value, list) and isinstance(node.op, ast.Add):
            self.call(value.extend, more)
            return self.store(node.target, value)
        if isinstance(value, set):
            raise Unsupported("a set that changes")
        if self.is_array(value) and not isinstance(value, list | tuple):
            value[...] = self.operate(type(node.op).__name__, value, more)  # in place, also for its other names
            return self.store(node.target, value)
        if isinstance(value, dict) and isinstance(node.op, ast.BitOr):
            more = merging.united(more)
        joins = isinstance(value, dict) and isinstance(node.op, ast.BitOr) and isinstance(more, dict)
        if joins and (self.certain(value) or not set(more) - set(value)):
            for key, each in merging.joined(value, more).items():
                if key in more:
                    self.put(value, key, each)
            return self.store(node.target, value)
        self.store(node.target, self.operate(type(node.op).__name__, value, more))
        return None

    def _each_element(self, node: ast.AugAssign, target: ast.Subscript) -> bool:
        """Change the element of a list of integers that an index chooses: each one where it is chosen, read nowhere."""
        owner, index = self.value(target.value), self.value(target.slice)
        if not isinstance(owner, list) or not isinstance(index, Int) or not 0 <= index.low <= index.high < len(owner):
            return False
        places = range(index.low, index.high + 1)
        if any(integer(owner[at]) is None for at in places):
            return False
        more = self.value(node.value)
        for at in places:
            with self.under(same(index, at)):
                self.put(owner, at, self.operate(type(node.op).__name__, owner[at], more))
        return True

    def store(self, target: ast.expr, value: Any) -> None:
        """Assign to a name, a tuple of targets, an attribute or an element."""
        frame = self.frames[-1]
        match target:
            case ast.Name():
                frame.names[target.id] = value
            case ast.Tuple() | ast.List():
                self._unpack(target, value)
            case ast.Attribute():
                owner = self.value(target.value)
                before = vars(owner).get(target.attr, value) if hasattr(owner, "__dict__") else value
                setattr(owner, target.attr, merge(self.now(), value, before))
            case ast.Subscript():
                owner, index = self.value(target.value), self.value(target.slice)
                if isinstance(owner, Choice):
                    for condition, each in owner.ways:
                        with self.under(condition):
                            self.put(each, index, value)
                else:
                    self.put(owner, index, value)
            case _:
                self.unsupported(target)

    def _unpack(self, target: ast.Tuple | ast.List, value: Any) -> None:
        if isinstance(value, Choice):
            lengths = {len(each) for _, each in value.ways}
            value = [self.each_way(value, itemgetter(at)) for at in range(min(lengths))]
        values = list(value)
        star = next((at for at, each in enumerate(target.elts) if isinstance(each, ast.Starred)), None)
        if star is not None:
            after = len(target.elts) - star - 1
            last = len(values) - after
            values[star:last] = [values[star:last]]
        for each, part in zip(target.elts, values, strict=True):
            self.store(each.value if isinstance(each, ast.Starred) else each, part)

    def put(self, container: Any, index: Any, value: Any) -> None:
        """Assign an element, under the present condition."""
        now = terms.TRUE if self.certain(container) else self.now()
        if isinstance(index, slice | tuple) and not is_symbolic(index) and now is terms.TRUE and not is_symbolic(value):
            container[index] = value
        elif isinstance(index, slice) and (part := window(container, index)) is not None:
            if len(value) != part[1]:
                raise Unsupported("a part that gets another length")
            for at, each in enumerate(value):
                self.put(container, part[0] + at, each)
        elif isinstance(index, (Choice, Int)):
            low, high = (0, 0) if isinstance(index, Choice) else (index.low, index.high)
            if isinstance(index, Int) and (low < 0 or high >= len(container)):
                demand(terms.and_(truth(index >= 0), truth(index < len(container))), "an index out of range")
            ways = (
                [(same(index, at), at) for at in range(max(low, 0), min(high, len(container) - 1) + 1)]
                if isinstance(index, Int)
                else index.ways
            )
            for condition, at in ways:
                container[at] = merge(terms.and_(now, condition), value, container[at])
        elif isinstance(container, dict) and index not in container and now is not terms.TRUE:
            container[index] = merge(now, value, merging.ABSENT)
        else:
            container[index] = value if now is terms.TRUE else merge(now, value, container[index])

    def do_If(self, node: ast.If) -> None:
        frame = self.frames[-1]
        test = truth(self.value(node.test))
        if test.op == "const":
            return self.block(node.body if test.name else node.orelse)
        path, gone, branch, before, outs = frame.path, frame.gone, frame.branch, frame.names, self._outs()
        ways = []
        for condition, body in ((test, node.body), (terms.not_(test), node.orelse)):
            frame.path, frame.branch = terms.and_(path, condition), (*branch, self.fresh())
            frame.names = dict(before)
            if frame.path is not terms.FALSE and self.narrow(node.test, condition is test):
                self.block(body)
            else:
                frame.path = terms.FALSE
            ways.append((frame.path, frame.names))
        changed = assigned([*node.body, *node.orelse])
        frame.path = (
            path
            if frame.gone == gone and all(p is not terms.FALSE for p, _ in ways)
            else terms.or_(ways[0][0], ways[1][0])
        )
        if _raises(node) and ways[1][0] is terms.and_(path, terms.not_(test)):
            frame.path, frame.gone = path, gone  # the others are illegal, whatever follows
        # a list that a break or continue takes along must not change for it
        frame.branch = branch if self._outs() == outs else (*branch, self.fresh())
        frame.names = self._joined(before, [(test, ways[0]), (terms.not_(test), ways[1])], changed)
        return None


def _raises(node: ast.If) -> bool:
    """Whether the body of a test does nothing but raise."""
    return isinstance(node.body[-1], ast.Raise) and all(map(_is_plain, node.body[:-1]))


def _snapshot(value: Any) -> Any:
    """A value whose lists and dicts are copies."""
    if isinstance(value, dict):
        return {name: _snapshot(each) for name, each in value.items()}
    if not isinstance(value, tuple | list):
        return value
    parts = [_snapshot(each) for each in value]
    return value._make(parts) if hasattr(value, "_make") else type(value)(parts)


def _is_plain(statement: ast.stmt) -> bool:
    """Whether a statement only sets names."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    plain = isinstance(statement, ast.Assign | ast.AnnAssign) and all(
        isinstance(t, ast.Name | ast.Tuple) for t in targets
    )
    return plain and not any(isinstance(node, ast.NamedExpr | ast.Yield) for node in ast.walk(statement))


__all__ = ["Interpreter"]
