"""Runs the text of functions on values that depend on inputs, along all paths at once.

Where a test depends on inputs, both branches run and their values are merged. `raise` makes the inputs of its path
illegal; what Python would refuse implicitly, such as an index out of range, is an obligation that must never occur.
"""

import ast
import builtins
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any, ClassVar

import numpy as np

from refemu.prove import merging, terms
from refemu.prove.merging import NEVER, Choice, Members, choice, is_symbolic, merge, spread, ways_of
from refemu.prove.sources import assigned, tree_of
from refemu.prove.terms import Term
from refemu.prove.values import (
    OPERATORS,
    Bool,
    Int,
    Obligations,
    Real,
    Symbolic,
    Unsupported,
    demand,
    integer,
    same,
    truth,
    truth_of,
)
from refemu.prove.values import bounds as limits
from refemu.units.stepping import Stepped

CONTAINERS = (list, dict, set, bytearray, deque)
MUTATING = frozenset(  #: methods of containers that change them
    name
    for kind in CONTAINERS
    for name in vars(kind)
    if not name.startswith("_") and name not in ("copy", "count", "index", "get", "keys", "values", "items")
) - frozenset(name for kind in (str, bytes, tuple, frozenset) for name in vars(kind))
MOST_TURNS = 1 << 16  #: turns of a loop whose end depends on inputs


class Dead(Exception):
    """No path is left: every one has raised."""


class OutOfTime(Exception):
    """A lift has taken longer than its limit; the message is the line."""


class Filtered:
    """Elements of a comprehension whose `if` depends on inputs; no list, so that nothing takes their number as fixed."""

    def __init__(self, pairs: Sequence[tuple[Term, Any]]) -> None:
        self.pairs: Sequence[tuple[Term, Any]] = pairs

    def condition(self) -> Term:
        """What a test takes of the elements: whether there is one."""
        return terms.any_of(condition for condition, _ in self.pairs)


class Closure:
    """A function defined in a text that is run."""

    def __init__(self, frame: "Frame", tree: Any, defaults: Sequence[Any] = ()) -> None:
        self.frame: Frame = frame
        self.tree: Any = tree
        self.defaults: Sequence[Any] = defaults
        if tree.args.kwonlyargs or tree.args.kwarg:
            raise Unsupported("a local function with arguments by keyword only")


class Frame:
    """A call: its names, and the condition under which the present statement runs."""

    def __init__(self, function: Any, scope: Callable[[str], Any], file: str) -> None:
        self.function: Any = function
        self.scope: Callable[[str], Any] = scope
        self.file: str = file
        self.names: dict[str, Any] = {}
        self.path: Term = terms.TRUE
        self.returned: list[tuple[Term, Any]] = []
        self.yielded: list[Any] | None = None
        self.gone: int = 0  #: returns and raises met so far
        self.branch: tuple[int, ...] = ()  #: branches and partial iterations that the present statement is in
        self.exits: list[list[tuple[Term, dict[str, Any]]]] = []  #: breaks of each loop around
        self.turns: list[list[tuple[Term, dict[str, Any]]]] = []  #: continues of each loop around


class Interpreter(Obligations):
    """One run. `illegal` and `obligations` collect what `raise` and library functions say."""

    handlers: ClassVar[dict[Any, Callable[..., Any]]] = {}  #: function -> its form on values that depend on inputs
    is_array: ClassVar[Any]  #: function of a value, set by `arrays`
    function_of: ClassVar[Any]  #: the form of a function of NumPy

    def __init__(self) -> None:
        self.guard: Term = terms.TRUE  #: condition under which the present call runs
        self.frames: list[Frame] = []
        self.illegal: Term = terms.FALSE
        self.obligations: list[tuple[Term, str]] = []  #: conditions that must hold, with the line
        self.count: int = 0
        self.trying: int = 0  #: try statements around
        self.created: dict[int, tuple[Any, Frame, tuple[int, ...]]] = {}  #: lists and dicts, by their id
        self.frozen: dict[int, Any] = {}  #: lists and dicts that a merge has read or made, by their id
        self.line: str = ""
        self.late: Callable[[], bool] = lambda: False  #: whether the time limit is over

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make this the run that library functions report to."""
        before, Obligations.current = Obligations.current, self
        try:
            yield
        finally:
            Obligations.current = before

    def now(self) -> Term:
        """The condition under which the present statement runs."""
        return terms.and_(self.guard, self.frames[-1].path) if self.frames else self.guard

    def demand(self, condition: Term, what: str) -> None:
        self.obligations.append((terms.or_(terms.not_(self.now()), condition), f"{self.line}: {what}"))

    def freeze(self, *containers: Any) -> None:
        self.frozen.update((id(each), each) for each in containers)

    # calls

    def call(self, function: Any, *args: Any, **named: Any) -> Any:
        """Call a function, a method or a class."""
        if isinstance(function, Choice):
            return self.each_way(function, lambda each: self.call(each, *args, **named))
        if any(map(self.is_array, (*args, *named.values()))) or (
            any(map(is_symbolic, args))
            and "numpy" in (type(function).__module__, getattr(function, "__module__", None))
        ):
            form = self.function_of(function)
            if form is not None:
                return form(*args, **named)
        handler = self._handler(function)
        if handler is not None:
            return handler(self, *args, **named)
        if isinstance(function, Closure):
            return self._run(function.tree, function.frame.scope, function.frame.file, function, args, named)
        home = getattr(function, "__module__", None) or ""
        if home.startswith("refemu.prove.") or home.partition(".")[0] in sys.stdlib_module_names:
            return function(*args, **named)
        if isinstance(function, MethodType):
            if self._native(function.__func__, (function.__self__, *args), named):
                return function(*args, **named)
            return self.call(function.__func__, function.__self__, *args, **named)
        wrapped = getattr(function, "__wrapped__", None)
        if not isinstance(function, FunctionType) and isinstance(wrapped, FunctionType):
            return (
                function(*args, **named) if self._native(wrapped, args, named) else self.call(wrapped, *args, **named)
            )
        if isinstance(function, FunctionType) and not self._native(function, args, named):
            return self._interpret(function, args, named)
        if hasattr(function, "func") and hasattr(function, "keywords"):  # functools.partial
            return self.call(function.func, *function.args, *args, **{**function.keywords, **named})
        return function(*args, **named)

    def _handler(self, function: Any) -> Callable[..., Any] | None:
        try:
            if function in self.handlers:
                return self.handlers[function]
        except TypeError:
            return None
        owner = getattr(function, "__self__", None)
        if isinstance(function, BuiltinFunctionType | MethodType) or type(function).__name__ == "method-wrapper":
            method = self.handlers.get((type(owner), function.__name__))
            if method is not None:
                return lambda run, *args, **named: method(run, owner, *args, **named)
            if function.__name__ in MUTATING and isinstance(owner, CONTAINERS) and not self.certain(owner):
                raise Unsupported(f"a {type(owner).__name__} that changes under a condition ({function.__name__})")
        return None

    @staticmethod
    def _native(function: Any, args: Sequence[Any], named: dict[str, Any]) -> bool:
        """Whether Python may run a call itself: nothing that it reads depends on inputs."""
        if any(map(Interpreter.is_array, (*args, *named.values()))):
            return False
        if not isinstance(function, FunctionType):
            return False
        if function.__closure__ or any(isinstance(each, Stepped | Closure) for each in (*args, *named.values())):
            return False
        return not any(is_symbolic(each) or callable(each) for each in (*args, *named.values()))

    def _interpret(self, function: FunctionType, args: Sequence[Any], named: dict[str, Any]) -> Any:
        cells: dict[str, CellType] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

        def scope(name: str) -> Any:
            if name in cells:
                return cells[name].cell_contents
            if name in function.__globals__:
                return function.__globals__[name]
            return getattr(builtins, name)

        return self._run(tree_of(function), scope, function.__code__.co_filename, function, args, named)

    def _run(
        self,
        tree: Any,
        scope: Callable[[str], Any],
        file: str,
        function: Any,
        args: Sequence[Any],
        named: dict[str, Any],
    ) -> Any:
        frame = Frame(function, scope, file)
        if isinstance(function, Closure):
            frame.names = dict(function.frame.names)
        self._bind(frame, tree, function, args, named)
        if len(self.frames) > 400:
            raise Unsupported("a recursion that depends on inputs")
        outer, line = self.guard, self.line
        self.guard = self.now()
        self.frames.append(frame)
        try:
            if isinstance(tree, ast.Lambda):
                return self.value(tree.body)
            if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(tree)):
                frame.yielded = []
            self.block(tree.body)
            if frame.yielded is not None:
                return frame.yielded
            if frame.path is not terms.FALSE:
                frame.returned.append((frame.path, None))
            if not frame.returned:  # every path raises
                raise Dead
            result = frame.returned[-1][1]
            for condition, value in frame.returned[-2::-1]:
                result = merge(condition, value, result)
            return result
        finally:
            self.frames.pop()
            self.guard, self.line = outer, line

    def _bind(self, frame: Frame, tree: Any, function: Any, args: Sequence[Any], named: dict[str, Any]) -> None:
        taken = tree.args
        if isinstance(function, FunctionType):
            plain = FunctionType(
                function.__code__, function.__globals__, "plain", function.__defaults__, function.__closure__
            )
            plain.__kwdefaults__ = function.__kwdefaults__
            bound = inspect.signature(plain).bind(*args, **named)
            bound.apply_defaults()
            frame.names.update(bound.arguments)
            return
        names = [each.arg for each in (*taken.posonlyargs, *taken.args)]
        for name, default in zip(names[len(names) - len(function.defaults) :], function.defaults, strict=True):
            frame.names[name] = default
        frame.names.update(zip(names, args, strict=False))
        if taken.vararg:
            frame.names[taken.vararg.arg] = tuple(args[len(names) :])
        frame.names.update(named)

    def each_way(self, value: Any, operation: Callable[[Any], Any]) -> Any:
        """An operation on every way of a Choice, each under its condition."""

        def of(pair: tuple[Term, Any]) -> Any:
            with self.under(pair[0]):
                return self.alive(lambda: operation(pair[1]))

        ways = [(condition, (condition, each)) for condition, each in value.ways]
        return merging.of_ways(ways, of)

    def alive(self, operation: Callable[[], Any]) -> Any:
        """The result of an operation, or NEVER if each of its paths raises."""
        try:
            return operation()
        except Dead:
            return NEVER

    @contextmanager
    def under(self, condition: Term) -> Iterator[None]:
        """Run an expression under a condition."""
        if condition is terms.TRUE:
            yield
            return
        frame = self.frames[-1] if self.frames else None
        if frame is None:
            guard, self.guard = self.guard, terms.and_(self.guard, condition)
            try:
                yield
            finally:
                self.guard = guard
            return
        path, branch = frame.path, frame.branch
        frame.path, frame.branch = terms.and_(path, condition), (*branch, self.fresh())
        try:
            yield
        finally:
            frame.path, frame.branch = path, branch

    def fresh(self) -> int:
        """A number for a branch."""
        self.count += 1
        return self.count

    # statements

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
            except (TypeError, AttributeError, ValueError, KeyError, IndexError, ArithmeticError) as error:
                raised = Unsupported(f"{type(error).__name__}: {error}", self.now())
                raised.line = f"{frame.file}:{statement.lineno}"
                raise raised from error

    def unsupported(self, node: ast.AST) -> Any:
        """Refuse a statement or an expression."""
        raise Unsupported(f"{type(node).__name__}, in {ast.unparse(node).splitlines()[0][:80]}")

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
            if "errstate" not in ast.unparse(item.context_expr):
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
        for target in node.targets:
            self.store(target, value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.value(node.value))

    def do_AugAssign(self, node: ast.AugAssign) -> None:
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
        joins = isinstance(value, dict) and isinstance(node.op, ast.BitOr) and isinstance(more, dict)
        if joins and (self.certain(value) or not set(more) - set(value)):
            for key, each in more.items():
                self.put(value, key, each)
            return self.store(node.target, value)
        self.store(node.target, self.operate(type(node.op).__name__, value, more))
        return None

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

    def certain(self, container: Any) -> bool:
        """Whether a change of a container needs no condition: it was made on the present path."""
        self.require_change(container)
        made = self.created.get(id(container))
        return not self.frames or self.now() is terms.TRUE or (
            made is not None and made[1] is self.frames[-1] and made[2] == self.frames[-1].branch
        )

    def require_change(self, container: Any) -> None:
        """Require a container that no merge has copied, and no `next` has read."""
        if id(container) in self.frozen:
            raise Unsupported("a change of a list or dict that was copied or read before")

    def put(self, container: Any, index: Any, value: Any) -> None:
        """Assign an element, under the present condition."""
        now = terms.TRUE if self.certain(container) else self.now()
        if isinstance(index, slice | tuple) and not is_symbolic(index) and now is terms.TRUE and not is_symbolic(value):
            container[index] = value
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
            raise Unsupported("a new key under a condition that depends on inputs")
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
        # a list that a break or continue takes along must not change for it
        frame.branch = branch if self._outs() == outs else (*branch, self.fresh())
        frame.names = self._joined(before, [(test, ways[0]), (terms.not_(test), ways[1])], changed)
        return None

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

    def iterate(self, values: Any) -> Iterator[tuple[Term, Any]]:
        """Elements of a loop, with the condition under which there is each."""
        if isinstance(values, Filtered):
            raise Unsupported("a loop over a selection that depends on inputs", _first(values))
        if isinstance(values, SymbolicRange):
            for number in range(values.start, values.most):
                yield truth(values.stop > number), number
            return
        if isinstance(values, Members):
            raise Unsupported("a loop over a set that depends on inputs")
        if isinstance(values, Choice):
            raise Unsupported("a loop over lists of which one is chosen", values.ways[0][0])
        for each in values:
            yield terms.TRUE, each

    def narrow(self, test: ast.expr, held: bool) -> bool:
        """Narrow bounds of names by a test that held, or did not; False if no value is left."""
        names = self.frames[-1].names
        match test:
            case ast.UnaryOp(op=ast.Not()):
                return self.narrow(test.operand, not held)
            case ast.BoolOp():
                if isinstance(test.op, ast.And) == held:
                    return all(self.narrow(each, held) for each in test.values)
            case ast.Name() if (
                isinstance(names.get(test.id), Int) and not isinstance(names[test.id], Bool) and not held
            ):
                names[test.id] = 0
            case ast.Compare() if held or len(test.ops) == 1:
                operands = [test.left, *test.comparators]
                if any(isinstance(each, ast.Call | ast.NamedExpr) for part in operands for each in ast.walk(part)):
                    return True
                return all(
                    self._bound(operands[at], INVERSE[type(op)] if not held else type(op), operands[at + 1])
                    for at, op in enumerate(test.ops)
                    if type(op) in INVERSE
                )
        return True

    def _bound(self, left: ast.expr, op: type[ast.cmpop], right: ast.expr) -> bool:
        """Narrow the bounds of both sides of a comparison that holds."""
        if not any(isinstance(each, ast.Name) for each in (left, right)):
            return True
        a, b = integer(self.value(left)), integer(self.value(right))
        if a is None or b is None:
            return True
        (p, q), (r, s) = limits(a), limits(b)
        if op in (ast.Gt, ast.GtE):
            return self._bound(right, ast.Lt if op is ast.Gt else ast.LtE, left)
        if op in (ast.Lt, ast.LtE):
            less = int(op is ast.Lt)
            p, q, r, s = p, min(q, s - less), max(r, p + less), s
        elif op is ast.Eq:
            p, q = max(p, r), min(q, s)
            r, s = p, q
        elif op is ast.NotEq:
            p, q = (p + (p == r), q - (q == r)) if r == s else (p, q)
        return self._set(left, a, p, q) and self._set(right, b, r, s)

    def _set(self, name: ast.expr, value: Any, low: int, high: int) -> bool:
        if low > high:
            return False
        known = isinstance(name, ast.Name) and isinstance(value, Int) and name.id in self.frames[-1].names
        if known and (low, high) != (value.low, value.high):
            self.frames[-1].names[name.id] = low if low == high else Int(value.term, low, high)  # type: ignore[attr-defined]
        return True

    # expressions

    def value(self, node: ast.expr) -> Any:
        """Value of an expression."""
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
        return tuple(self.items(node.elts))

    def of_List(self, node: ast.List) -> Any:
        return self.new(self.items(node.elts))

    def of_Set(self, node: ast.Set) -> Any:
        values = self.items(node.elts)
        return Members(values) if is_symbolic(values) else self.new(set(values))

    def items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        """Values of expressions, of which some may be starred."""
        answer: list[Any] = []
        for each in nodes:
            if isinstance(each, ast.Starred):
                answer += [value for _, value in self.whole(self.value(each.value))]
            else:
                answer.append(self.value(each))
        return answer

    def whole(self, values: Any) -> Iterator[tuple[Term, Any]]:
        """Elements whose number does not depend on inputs."""
        for condition, value in self.iterate(values):
            if condition is not terms.TRUE:
                raise Unsupported("a list whose length depends on inputs", condition)
            yield condition, value

    def new(self, container: Any) -> Any:
        """A list or dict that the present path has made."""
        frame = self.frames[-1]
        self.created[id(container)] = container, frame, frame.branch
        return container

    def of_Dict(self, node: ast.Dict) -> Any:
        parts = [
            self.value(value) if key is None else {self.value(key): self.value(value)}
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return self.new(spread(parts, lambda *dicts: {name: value for each in dicts for name, value in each.items()}))

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
        return spread([self.value(node.value), self.value(node.slice)], self.item)

    def item(self, container: Any, index: Any) -> Any:
        """An element, a part or an entry."""
        if isinstance(container, dict) and is_symbolic(index):
            return self._entry(container, index)
        if isinstance(index, Int) and not isinstance(container, dict):
            values = container.tolist() if isinstance(container, np.ndarray) else container
            return merging.element(values, index)
        if self.is_array(index) and isinstance(container, np.ndarray):
            values = container.tolist()
            return index.map(lambda each: merging.element(values, each), container.dtype)
        if isinstance(index, slice) and is_symbolic([index.start, index.stop, index.step]):
            return self._slice(container, index)
        if isinstance(container, Symbolic):
            raise Unsupported("an element of a number")
        return container[index]

    def _slice(self, container: Any, index: slice) -> Any:
        """A part between bounds with few values, of which each gives another length."""
        bounds = [choice(ways_of(each)) for each in (index.start, index.stop)]
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
        result = spread([a, b], OPERATORS[name])
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


def _identical(a: Any, b: Any) -> Any:
    """As `is`, of truth values and objects; two numbers may be one object or not."""
    if isinstance(a, bool | Bool) and isinstance(b, bool | Bool):
        return truth_of(merging.equal(a, b))
    if any(isinstance(each, Symbolic) for each in (a, b)) and type(a) is not bool and type(b) is not bool:
        if all(integer(each) is not None or isinstance(each, float | Real) for each in (a, b)):
            raise Unsupported("whether two numbers are one object")
    return a is b


def _snapshot(value: Any) -> Any:
    """A value whose lists and dicts are copies."""
    if isinstance(value, dict):
        return {name: _snapshot(each) for name, each in value.items()}
    if not isinstance(value, tuple | list):
        return value
    parts = [_snapshot(each) for each in value]
    return value._make(parts) if hasattr(value, "_make") else type(value)(parts)


def _first(values: Filtered) -> Term:
    return next(condition for condition, _ in values.pairs if condition.op != "const")


def _is_plain(statement: ast.stmt) -> bool:
    """Whether a statement only sets names."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    plain = isinstance(statement, ast.Assign | ast.AnnAssign) and all(
        isinstance(t, ast.Name | ast.Tuple) for t in targets
    )
    return plain and not any(isinstance(node, ast.NamedExpr | ast.Yield) for node in ast.walk(statement))


class SymbolicRange:
    """A range whose end depends on inputs."""

    def __init__(self, start: int, stop: Any) -> None:
        self.start: int = start
        self.stop: Any = stop
        self.most: int = max(integer(stop).high, start)


INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
__all__ = ["Closure", "Filtered", "Interpreter", "Real", "SymbolicRange"]
