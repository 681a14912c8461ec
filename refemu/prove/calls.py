"""Calls of functions on values that depend on inputs, and the condition under which each statement runs."""

import ast
import builtins
import dataclasses
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any, ClassVar

from refemu.prove import merging, templates, terms
from refemu.prove.frames import Closure, Dead, Frame
from refemu.prove.merging import NEVER, Choice, is_symbolic, merge
from refemu.prove.sources import changed, tree_of, yields
from refemu.prove.terms import Term
from refemu.prove.values import Obligations, Unsupported
from refemu.units.stepping import Stepped

LARGE = 10_000  #: expressions of a text whose functions become templates
CONTAINERS = (list, dict, set, bytearray, deque)
MUTATING = frozenset(  #: methods of containers that change them
    name
    for kind in CONTAINERS
    for name in vars(kind)
    if not name.startswith("_") and name not in ("copy", "count", "index", "get", "keys", "values", "items")
) - frozenset(name for kind in (str, bytes, tuple, frozenset) for name in vars(kind))


class Calls(Obligations):
    """One run. `illegal` and `obligations` collect what `raise` and library functions say."""

    handlers: ClassVar[dict[Any, Callable[..., Any]]] = {}  #: function -> its form on values that depend on inputs
    is_array: ClassVar[Any]  #: function of a value, set by `arrays`
    as_array: ClassVar[Any]  #: an array whose elements may depend on inputs, from one of NumPy
    function_of: ClassVar[Any]  #: the form of a function of NumPy
    composes: ClassVar[bool] = True  #: whether functions become templates; not where names of their locals count
    inside: ClassVar[bool] = True  #: whether the State of a unit without registers gets terms, or only its outputs

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
        self.work: int = 0  #: expressions so far
        self.heavy: set[Any] = set()  #: code of functions that are worth a template
        self.templates: dict[Any, templates.Template | None] = {}
        self.held: list[Any] = []  #: devices whose ids are in the keys of templates
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

    def call(self, function: Any, *args: Any, **named: Any) -> Any:
        """Call a function, a method or a class."""
        if named and getattr(function, "__func__", function) is not Stepped.changed:
            merging.whole(named)
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
        if isinstance(function, partial):
            return self.call(function.func, *function.args, *args, **{**function.keywords, **named})
        home = getattr(function, "__module__", None) or ""
        if home.startswith("refemu.prove.") or home.partition(".")[0] in sys.stdlib_module_names:
            return function(*args, **named)
        if isinstance(function, MethodType):
            if self._native(function.__func__, (function.__self__, *args), named):
                return function(*args, **named)
            return self.call(function.__func__, function.__self__, *args, **named)
        if hasattr(function, "cache_info") and (rows := merging.combined(args)) and not named:
            return merging.table([(condition, function(*each)) for condition, each in rows])
        wrapped = getattr(function, "__wrapped__", None)
        if not isinstance(function, FunctionType) and isinstance(wrapped, FunctionType):
            return (
                function(*args, **named) if self._native(wrapped, args, named) else self.call(wrapped, *args, **named)
            )
        if isinstance(function, FunctionType) and not self._native(function, args, named):
            return self._interpret(function, args, named)
        if dataclasses.is_dataclass(function) and isinstance(getattr(function, "__post_init__", None), FunctionType):
            return self._record(function, args, named)
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
            merging.whole(owner)
            if function.__name__ in MUTATING and isinstance(owner, CONTAINERS) and not self.certain(owner):
                raise Unsupported(f"a {type(owner).__name__} that changes under a condition ({function.__name__})")
        return None

    @staticmethod
    def _native(function: Any, args: Sequence[Any], named: dict[str, Any]) -> bool:
        """Whether Python may run a call itself: nothing that it reads depends on inputs."""
        if any(map(Calls.is_array, (*args, *named.values()))):
            return False
        if not isinstance(function, FunctionType):
            return False
        if function.__closure__ or any(isinstance(each, Stepped | Closure) for each in (*args, *named.values())):
            return False
        return not any(is_symbolic(each) or callable(each) or _holds(each) for each in (*args, *named.values()))

    def _interpret(self, function: FunctionType, args: Sequence[Any], named: dict[str, Any]) -> Any:
        cells: dict[str, CellType] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

        def scope(name: str) -> Any:
            if name in cells:
                return cells[name].cell_contents
            if name in function.__globals__:
                return function.__globals__[name]
            return getattr(builtins, name)

        def plain(args: Sequence[Any], named: dict[str, Any]) -> Any:
            return self._run(tree_of(function), scope, function.__code__.co_filename, function, args, named)

        if function.__code__ in self.heavy:
            return templates.call(self, function, args, named, plain)
        before = self.work
        answer = plain(args, named)
        if self.composes and self.work - before > templates.HEAVY and self.work > LARGE:
            self.heavy.add(function.__code__)
        return answer

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
        frame.changed = changed(tree)
        self._bind(frame, tree, function, args, named)
        if len(self.frames) > 400:
            raise Unsupported("a recursion that depends on inputs")
        outer, line = self.guard, self.line
        self.guard = self.now()
        self.frames.append(frame)
        try:
            if isinstance(tree, ast.Lambda):
                return self.value(tree.body)
            if yields(tree):
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

    def _record(self, kind: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
        """An object of a dataclass, whose own text runs after its fields are set."""
        if not any(is_symbolic(each) or self.is_array(each) for each in (*args, *named.values())):
            return kind(*args, **named)
        bound = inspect.signature(kind).bind(*args, **named)
        bound.apply_defaults()
        answer = object.__new__(kind)
        for name, value in bound.arguments.items():
            object.__setattr__(answer, name, value)
        self.call(kind.__post_init__, answer)
        return answer

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
        except ValueError as error:
            self.rejected(error)
            return NEVER

    def rejected(self, error: ValueError) -> None:
        """What `zip` rejects here must never occur; other errors are raised again."""
        if not str(error).startswith("zip()") or self.trying or self.now() is terms.TRUE:
            raise error
        self.demand(terms.FALSE, str(error))

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

    def unsupported(self, node: ast.AST) -> Any:
        """Refuse a statement or an expression."""
        raise Unsupported(f"{type(node).__name__}, in {ast.unparse(node).splitlines()[0][:80]}")

    def certain(self, container: Any) -> bool:
        """Whether a change of a container needs no condition: it was made on the present path."""
        self.require_change(container)
        creation = self.created.get(id(container))
        return (
            not self.frames
            or self.now() is terms.TRUE
            or (creation is not None and creation[1] is self.frames[-1] and creation[2] == self.frames[-1].branch)
        )

    def require_change(self, container: Any) -> None:
        """Require a container that no merge has copied, and no `next` has read."""
        if id(container) in self.frozen:
            raise Unsupported("a change of a list or dict that was copied or read before")

    def new(self, container: Any) -> Any:
        """A list or dict that the present path has made."""
        frame = self.frames[-1]
        self.created[id(container)] = container, frame, frame.branch
        return container

    def value(self, node: ast.expr) -> Any:
        """Value of an expression."""
        raise NotImplementedError

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Run statements until no path is left."""
        raise NotImplementedError


def _holds(value: Any) -> bool:
    """Whether an object of a class of the text has an attribute that depends on inputs."""
    if not type(value).__module__.startswith("refemu.units.") or not hasattr(value, "__dict__"):
        return False
    return any(map(is_symbolic, vars(value).values()))
