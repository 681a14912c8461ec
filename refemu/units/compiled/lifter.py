"""Turns the methods of a declared unit into functions that numba compiles.

`self.width` becomes an argument, `self.state.acc` a register, a string such as "saturate" a number, and `return {...}`
a tuple of registers; vectors are written into their arrays. A line without a compiled form raises with file and number.
"""

import ast
import builtins
import functools
import inspect
import math
import sys
import textwrap
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from refemu.arith.checks import Refused
from refemu.units.compiled.scalars import NAMES, RETURNED
from refemu.units.ports import Port
from refemu.units.stepping import Stepped

BUILTINS = (
    *("abs", "all", "any", "bool", "enumerate", "float", "int", "len", "max", "min", "range", "sum", "tuple", "zip"),
)
STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.Pass)
EXPRESSIONS = (
    *(ast.Attribute, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.IfExp, ast.List, ast.ListComp, ast.Name),
    *(ast.Starred, ast.Subscript, ast.Tuple, ast.UnaryOp),
)
NUMBERS = (int, bool, float)
FOLDS = {"sum": "0", "any": "False", "all": "True"}  #: builtins over a generator, with their initial value
CONSTANTS, STATE = "_c", "_s"  #: arguments of every method
PLACE = "_p"  #: argument of every event: arrays of vectors, and the row
GIVEN_UP = "GivenUp"  #: exception that replaces those of the text
WRITE, KEEP = "write_", "keep_"  #: prefixes of statements that write a vector to its row, and the row to the register


def number(word: str) -> int:
    """The number that represents a string in compiled code."""
    return zlib.crc32(word.encode())


def constant(value: Any) -> Any:
    """A constant for compiled code: a number, a short tuple of integers or an array; None if it is none of these."""
    value = value.value if isinstance(value, Enum) else value
    if isinstance(value, str):
        return number(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, tuple) and value and all(isinstance(each, int) for each in value):
        return value if len(value) <= 4 else np.array(value, np.int64)
    if isinstance(value, tuple) and value and all(isinstance(constant(each), tuple) for each in value):
        return np.array(value, np.int64)
    return None


def unique(function: FunctionType, name: str) -> str:
    """A unique name for a name in the module of a function."""
    return f"{function.__module__}.{name}".replace(".", "_")


def attribute(device: object, path: Sequence[str]) -> Any:
    """The value at a path of attributes."""
    return functools.reduce(getattr, path, device)


@dataclass
class Lifted:
    """Functions of the events of one class, by the names of their calls."""

    device: Any  #: example device, which shows what attributes are
    registers: Sequence[Port]  #: outputs and registers
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)  #: names that the functions use in their modules
    constants: dict[str, tuple[str, ...]] = field(default_factory=dict)  #: name -> path from the device
    read: set[str] = field(default_factory=set)  #: registers and latched inputs that events read, or do not change

    def method(self, name: str, path: tuple[str, ...] = (), event: str = "") -> str:
        """Lift a method of the device, or of the sub-unit at a path; return its name. event: that of its changes."""
        function = inspect.getattr_static(type(attribute(self.device, path)), name)
        function = function.fget if isinstance(function, property) else function
        if not isinstance(function, FunctionType):
            raise Refused(f"{self.device.name}: {'.'.join([*path, name])} is not a method in Python")
        return self._lift("_".join([*path, name]), function, path, event)

    def function(self, function: FunctionType) -> str:
        """Lift a function of a module; return its name."""
        return self._lift(unique(function, function.__name__), function, None, "")

    def _lift(self, name: str, function: FunctionType, path: tuple[str, ...] | None, event: str) -> str:
        name = f"{event}_{name}" if event else f"of_{name}"
        if name not in self.functions:
            lines, first = inspect.getsourcelines(function)
            (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
            assert isinstance(tree, ast.FunctionDef)
            self.functions[name] = tree  # before its text, which may call it
            place = f"{inspect.getsourcefile(function)}", first - 1
            _Text(self, function, path, tree, place).rewrite(name, event)
        return name


class _Text(ast.NodeTransformer):
    """Rewrites one function."""

    def __init__(
        self,
        lifted: Lifted,
        function: FunctionType,
        path: tuple[str, ...] | None,
        tree: ast.FunctionDef,
        place: tuple[str, int],
    ) -> None:
        self.lifted, self.function, self.path, self.tree, self.place = lifted, function, path, tree, place
        stored = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        self.stored, self.locals = stored, {*stored, *(each.arg for each in arguments)}
        self.event, self.changes = "", dict[str, dict[str, ast.expr]]()
        self.kept: set[str] = set()  # texts of values of changes, already rewritten
        self.states = {"self.state"}  # texts that denote the State
        self.records: dict[str, dict[str, str]] = {}  # lists of named tuples: name of the list of each part
        self.before: list[ast.stmt] = []  # statements needed before the present one
        self.count = 0

    def refuse(self, node: ast.AST, what: str) -> NoReturn:
        """Raise with the line that has no compiled form."""
        file, first = self.place
        line = first + getattr(node, "lineno", 1)
        raise Refused(
            f"{self.lifted.device.name}: {file}:{line}: {what} has no compiled form: {ast.unparse(node)}; "
            "write one, or state compiled_run='none'"
        )

    def rewrite(self, name: str, event: str) -> None:
        """Rewrite the function in place."""
        tree = self.tree
        self.event = event
        tree.name, tree.returns, tree.decorator_list, tree.args.defaults = name, None, [], []
        for each in [*tree.args.args, *tree.args.kwonlyargs]:
            each.annotation = None
        if tree.args.vararg:
            tree.args.vararg.annotation = None
        if self.path is not None:
            tree.args.args[:1] = [ast.arg(CONSTANTS), ast.arg(STATE), *[ast.arg(PLACE)] * bool(event)]
        if ast.get_docstring(tree) is not None:
            del tree.body[0]
        tree.body = self.block(tree.body)
        ast.fix_missing_locations(tree)

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements of a block, each after the statements that it needs."""
        out: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            out += [*self.before, *(new if isinstance(new, list) else [new])]
            self.before = []
        return out

    def fresh(self, stem: str) -> str:
        """A name that is not in the text."""
        self.count += 1
        return f"_{stem}_{self.count}"

    # statements

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.If | ast.For):
            if isinstance(node, ast.For) and node.orelse:
                self.refuse(node, "for and else")
            head = "test" if isinstance(node, ast.If) else "iter"
            setattr(node, head, self.visit(getattr(node, head)))
            needs, self.before = self.before, []
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            self.before = needs
            return node
        if isinstance(node, ast.stmt | ast.expr) and not isinstance(node, STATEMENTS + EXPRESSIONS):
            self.refuse(node, type(node).__name__)
        return super().generic_visit(node)

    def visit_For(self, node: ast.For) -> Any:
        """Rewrite zip and enumerate with indices, which is faster."""
        match node.iter, node.target:
            case ast.Call(func=ast.Name(id="zip" as name), args=[*vectors_of], keywords=[equal]), ast.Tuple() as target:
                if ast.unparse(equal) != "strict=True":
                    self.refuse(node, "a zip of several lengths")
            case ast.Call(func=ast.Name(id="enumerate" as name), args=[_] as vectors_of), ast.Tuple() as target:
                pass
            case _:
                return self.generic_visit(node)
        if node.orelse:
            self.refuse(node, "for and else")
        place = self.fresh("place") if name == "zip" else ast.unparse(target.elts[0])
        vectors = [self.fresh("vector") for _ in vectors_of]
        pairs = zip(vectors, vectors_of, strict=True)
        first = [ast.Assign([ast.Name(vector, ast.Store())], each) for vector, each in pairs]
        parts = zip(target.elts[name == "enumerate" :], vectors, strict=True)
        taken = [ast.parse(f"{ast.unparse(part)} = {vector}[{place}]").body[0] for part, vector in parts]
        self.locals |= {place, *vectors}
        places = ast.parse(f"range(len({vectors[0]}))", mode="eval").body
        return self.block([*first, ast.For(ast.Name(place, ast.Store()), places, [*taken, *node.body], [])])

    def visit_Raise(self, node: ast.Raise) -> Any:
        """Give up: the readable form runs again, for its message."""
        return ast.Raise(ast.Name(GIVEN_UP, ast.Load()))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return ast.Pass()
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        if (
            isinstance(target, ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and "self.state" in map(ast.unparse, node.value.elts)
        ):
            pairs = zip(target.elts, node.value.elts, strict=True)
            return self.block([ast.copy_location(ast.Assign([part], value), node) for part, value in pairs])
        if ast.unparse(node.value) == "self.state" and isinstance(target, ast.Name):
            if self.stored.count(target.id) > 1:
                self.refuse(node, "a State that is another later")
            self.states.add(target.id)
            return ast.Pass()
        if self.event and isinstance(node.value, ast.Dict) and isinstance(target, ast.Name):
            return self._keep(target.id, node.value)
        once = isinstance(target, ast.Name) and self.stored.count(target.id) == 1
        if once and isinstance(node.value, ast.ListComp) and (kind := self._tuples(node.value)):
            return self._listed_tuples(ast.unparse(target), node.value, kind)
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Subscript):
            return self._unpacked(target, node.value)
        return self.generic_visit(node)

    def _tuples(self, node: ast.ListComp) -> Any:
        """The class of the named tuples of numbers in a list of one call for each element; None for other lists."""
        if not isinstance(node.elt, ast.Call):
            return None
        kind = _returned(self._function(node.elt))
        return kind if hasattr(kind, "_fields") and set(kind.__annotations__.values()) <= set(NUMBERS) else None

    def _listed_tuples(self, name: str, node: ast.ListComp, kind: Any) -> list[ast.stmt]:
        """Rewrite a list of tuples as a list for each part."""
        record = self.fresh("record")
        parts = dict(kind.__annotations__)
        self.records[name] = {part: f"{name}__{part}" for part in parts}
        needs, element = self._inside(node.elt)
        needs.append(ast.Assign([ast.Name(record, ast.Store())], element))
        values = [ast.parse(f"{record}[{place}]", mode="eval").body for place in range(len(parts))]
        return self._lists(node, list(self.records[name].values()), needs, values, list(parts.values()))

    def _unpacked(self, target: ast.Tuple, row: ast.Subscript) -> list[ast.stmt]:
        """Unpack a row of a table, which numba cannot do."""
        name = self.fresh("row")
        places = enumerate(target.elts)
        parts = [ast.parse(f"{ast.unparse(part)} = {name}[{place}]").body[0] for place, part in places]
        return [ast.Assign([ast.Name(name, ast.Store())], self.visit(row)), *parts]

    def _keep(self, name: str, values: ast.Dict) -> list[ast.stmt]:
        """Rewrite a dict of changes in a local name: a local name for each change."""
        out: list[ast.stmt] = []
        self.changes[name] = {}
        for key, value in self._pairs(values).items():
            new = f"{name}__{key}"
            known = value if ast.unparse(value) in self.kept else self.visit(value)
            out.append(ast.Assign([ast.Name(new, ast.Store())], known))
            self.changes[name][key] = ast.Name(new, ast.Load())
            self.kept.add(new)
        return out

    def _pairs(self, node: ast.expr) -> dict[str, ast.expr]:
        """Names and values of a dict of changes."""
        if isinstance(node, ast.Name) and node.id in self.changes:
            return dict(self.changes[node.id])
        if not isinstance(node, ast.Dict):
            self.refuse(node, "this way to say what changes")
        pairs: dict[str, ast.expr] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                pairs |= self._pairs(value)
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                pairs[key.value] = value
            else:
                self.refuse(key, "a computed name of a change")
        return pairs

    def visit_Return(self, node: ast.Return) -> Any:
        if not self.event or node.value is None:
            return self.generic_visit(node)
        match node.value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=method)) as call if self.path is not None:
                answer = self._called(self.lifted.method(method, self.path, self.event), call)
                answer.args.insert(2, ast.Name(PLACE, ast.Load()))
                return ast.Return(answer)
        return self._changed(self._pairs(node.value))

    def _changed(self, pairs: Mapping[str, ast.expr]) -> list[ast.stmt]:
        """Write vectors into their registers; return the event, the scalars and the counters."""
        out: list[ast.stmt] = []
        for name, value in pairs.items():
            new = value if ast.unparse(value) in self.kept else self.visit(value)
            out.append(ast.Assign([ast.Name(f"_new_{name}", ast.Store())], new))
        out = [*self.before, *out]
        self.before = []
        scalars = ["f_shown(_new_event)" if "event" in pairs else str(number(self.event))]
        for port in self.lifted.registers:
            if port.lanes is None:
                scalars.append(f"f_shown(_new_{port.name})" if port.name in pairs else self.register(port.name))
            else:
                vector = f"_new_{port.name}" if port.name in pairs else self.register(port.name)
                out += ast.parse(f"{WRITE}{port.name}({vector})").body
        # after all of them: a value may be another register
        out += [each for port in self.lifted.registers if port.lanes for each in ast.parse(f"{KEEP}{port.name}()").body]
        scalars += [f"f_shown(_new_{name})" if name in pairs else "0" for name in type(self.lifted.device).counters]
        return [*out, *ast.parse(f"return {', '.join(scalars)},").body]

    def register(self, name: str) -> str:
        """Name of a register, or of an input that was latched, in the text."""
        self.lifted.read.add(name)
        return f"s_{name}"

    # expressions

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        value = node.value
        if isinstance(value, str):
            return ast.copy_location(ast.Constant(number(value)), node)
        if value is not None and constant(value) is None:
            self.refuse(node, f"{type(value).__name__}")
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.records:
            self.refuse(node, "this use of a list of tuples")
        known = node.id in self.locals or node.id in BUILTINS or node.id in self.lifted.names
        if known or not isinstance(node.ctx, ast.Load):
            return node
        if node.id not in self.function.__globals__:
            self.refuse(node, "this name")
        return self._value(node, self.function.__globals__[node.id])

    def _value(self, node: ast.expr, value: Any) -> ast.expr:
        """A constant of a module."""
        known = constant(value)
        if known is None:
            self.refuse(node, f"{type(value).__name__}")
        if isinstance(known, int | float):
            return ast.copy_location(ast.Constant(known), node)
        name = f"g_{unique(self.function, ast.unparse(node))}"
        self.lifted.names[name] = known
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _reached(self, node: ast.AST, owner: object, names: Sequence[str]) -> Any:
        """The value at a path of attributes; raises Refused if there is none."""
        try:
            return attribute(owner, names)
        except AttributeError:
            self.refuse(node, "this attribute")

    def _path(self, node: ast.expr) -> list[str]:
        """Names of `a.b.c`."""
        if isinstance(node, ast.Attribute):
            return [*self._path(node.value), node.attr]
        if not isinstance(node, ast.Name):
            self.refuse(node, "an attribute of a value")
        return [node.id]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            self.refuse(node, "an assignment to an attribute")
        if ast.unparse(node.value) in self.states:
            if self.path:
                self.refuse(node, "the State of a sub-unit")
            return ast.Name(self.register(node.attr), ast.Load())
        value = node.value
        while isinstance(value, ast.Attribute):
            value = value.value
        if not isinstance(value, ast.Name) or value.id in self.locals - {"self"}:  # field of a named tuple
            node.value = self.visit(node.value)
            return node
        root, *names = self._path(node)
        if root == "self" and self.path is not None:
            return ast.copy_location(self._of_self(node, names), node)
        if root not in self.function.__globals__:
            self.refuse(node, "an attribute of a value")
        return self._value(node, self._reached(node, self.function.__globals__[root], names))

    def _of_self(self, node: ast.Attribute, names: list[str]) -> ast.expr:
        if names[0] == "state":
            self.refuse(node, "the whole State")
        path = (*(self.path or ()), *names)
        owner = self._reached(node, self.lifted.device, path[:-1])
        is_unit = isinstance(owner, Stepped)  # its attributes may depend on its State
        if is_unit and isinstance(inspect.getattr_static(type(owner), path[-1], None), property):
            method = self.lifted.method(path[-1], path[:-1])
            return ast.Call(ast.Name(method, ast.Load()), self._context(), [])
        value = self._reached(node, owner, path[-1:])
        if value is not None and constant(value) is None:
            self.refuse(node, type(value).__name__)
        return self._parameter(path)

    def _parameter(self, path: tuple[str, ...]) -> ast.expr:
        """A constant of a device."""
        name = "_".join(["c", *path])
        self.lifted.constants[name] = path
        return ast.Name(name, ast.Load())

    def _context(self) -> list[ast.expr]:
        return [ast.Name(CONSTANTS, ast.Load()), ast.Name(STATE, ast.Load())]

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            self.refuse(node, "an assignment to an element")
        return super().generic_visit(node)  # type: ignore[return-value]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id in BUILTINS and node.func.id not in self.locals:
            return self._builtin(node, node.func.id)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "bit_length":
            return _call("f_bit_length", self.visit(node.func.value))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "count":
            return _call("f_count", self.visit(node.func.value), self.visit(node.args[0]))
        if (known := self._compiled(node.func)) is not None:
            return _call(NAMES[known], *map(self.visit, node.args))
        root, *names = self._path(node.func)
        if root == "self" and self.path is not None:
            return self._called(self.lifted.method(names[-1], (*self.path, *names[:-1])), node)
        if root in self.locals or root not in self.function.__globals__:
            self.refuse(node, "this call")
        called = self._reached(node, self.function.__globals__[root], names)
        if isinstance(called, type) and issubclass(called, tuple) and hasattr(called, "_fields"):
            return self._record(node, called)
        if not isinstance(called, FunctionType) or called.__module__.partition(".")[0] in sys.stdlib_module_names:
            self.refuse(node, "this call")  # a text of Python's library differs between its versions
        return self._called(self.lifted.function(called), self._in_order(node, called), method=False)

    def _compiled(self, node: ast.expr) -> Any:
        """A function with a compiled form; None for others."""
        if not isinstance(node, ast.Name | ast.Attribute) or self._path(node)[0] in self.locals:
            return None
        root, *names = self._path(node)
        try:
            called = attribute(self.function.__globals__.get(root, vars(builtins).get(root)), names)
        except AttributeError:
            return None
        return called if isinstance(called, Hashable) and called in NAMES else None

    def _in_order(self, node: ast.Call, function: FunctionType) -> ast.Call:
        """A call with all arguments by position, defaults included."""
        taken = list(inspect.signature(function).parameters.values())[len(node.args) :]
        if any(isinstance(each, ast.Starred) for each in node.args):
            taken = []
        named = {each.arg: each.value for each in node.keywords}
        for each in taken:
            if each.name in named:
                node.args.append(named[each.name])
            elif each.default is not each.empty:
                if constant(each.default) is None:
                    self.refuse(node, f"the default of {each.name}")
                name = f"d_{unique(function, function.__name__)}_{each.name}"
                self.lifted.names[name] = constant(each.default)
                node.args.append(ast.Name(name, ast.Load()))
        return ast.Call(node.func, node.args, [])

    def _record(self, node: ast.Call, kind: Any) -> ast.expr:
        """A named tuple with all its fields by position."""
        values = kind._field_defaults | dict(zip(kind._fields, node.args, strict=False))
        values |= {each.arg: each.value for each in node.keywords if each.arg}
        parts = [each if isinstance(each, ast.expr) else ast.Constant(each) for each in map(values.get, kind._fields)]
        return ast.Call(ast.Name(self._class(kind), ast.Load()), [self.visit(each) for each in parts], [])

    def _class(self, kind: Any) -> str:
        """The name of a class of named tuples."""
        name = f"r_{kind.__module__}_{kind.__name__}".replace(".", "_")
        self.lifted.names[name] = kind
        return name

    def _called(self, name: str, node: ast.Call, method: bool = True) -> ast.Call:
        arguments = [self.visit(each) for each in node.args]
        if node.keywords:
            self.refuse(node, "an argument by name")
        return ast.Call(ast.Name(name, ast.Load()), [*(self._context() if method else []), *arguments], [])

    def _builtin(self, node: ast.Call, name: str) -> ast.expr:
        if name == "int":
            return _call("f_whole", *map(self.visit, node.args))
        if node.args and isinstance(node.args[0], ast.GeneratorExp):
            if name in FOLDS:
                return self._fold(name, node.args[0])
            vector = self._listed(node.args[0])
            return vector if name == "tuple" else _call(name, vector)
        if name == "tuple":  # a list serves: no text sets its elements
            return self.visit(node.args[0])
        node.keywords = [each for each in node.keywords if each.arg != "strict"]
        if name in ("all", "any"):
            return _call(f"f_{name}_of", self.visit(node.args[0]))
        return super().generic_visit(node)  # type: ignore[return-value]

    def _fold(self, name: str, generator: ast.GeneratorExp) -> ast.expr:
        """Rewrite sum, any or all of a generator as a loop before the statement."""
        total, loop = self.fresh(name), self._only_loop(generator)
        needs, element = self._inside(generator.elt)
        step: ast.stmt = {
            "sum": ast.AugAssign(ast.Name(total, ast.Store()), ast.Add(), element),
            "any": ast.AugAssign(ast.Name(total, ast.Store()), ast.BitOr(), _call("bool", element)),
            "all": ast.AugAssign(ast.Name(total, ast.Store()), ast.BitAnd(), _call("bool", element)),
        }[name]
        body = [*needs, step]
        for test in reversed(loop.ifs):
            needs, condition = self._inside(test)
            body = [*needs, ast.If(condition, body, [])]
        self.before += [*ast.parse(f"{total} = {FOLDS[name]}").body, *self._looped(loop, body)]
        return ast.Name(total, ast.Load())

    def _inside(self, node: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        """An expression in the body of a loop, and the statements that it needs there."""
        outer, self.before = self.before, []
        expression = self.visit(node)
        needs, self.before = self.before, outer
        return needs, expression

    def _only_loop(self, node: ast.GeneratorExp | ast.ListComp) -> ast.comprehension:
        if len(node.generators) > 1:
            self.refuse(node, "a comprehension of two loops")
        (loop,) = node.generators
        self.locals |= {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
        return loop

    def _looped(self, loop: ast.comprehension, body: list[ast.stmt]) -> list[ast.stmt]:
        """A loop with an already rewritten body."""
        before, self.before = self.before, []
        (*first, rewritten) = self.block([ast.For(loop.target, loop.iter, [], [])])
        assert isinstance(rewritten, ast.For)
        rewritten.body += body
        self.before = before
        return [*first, rewritten]

    def _listed(self, node: ast.GeneratorExp | ast.ListComp) -> ast.expr:
        """Rewrite a list as an array that a loop before the statement fills; a list of tuples stays a list."""
        loop = self._only_loop(node)
        match node.elt, loop:
            case ast.Attribute(ast.Name(part), field), ast.comprehension(ast.Name(each), ast.Name(name), []):
                if part == each and name in self.records:
                    return ast.Name(self.records[name][field], ast.Load())
        if loop.ifs or self._kind(node.elt) not in NUMBERS:
            count = len(self.before)
            whole = super().generic_visit(ast.ListComp(node.elt, [loop]))
            if len(self.before) > count:
                self.refuse(node, "a comprehension within one of tuples")
            return whole  # type: ignore[return-value]
        vector = self.fresh("list")
        needs, element = self._inside(node.elt)
        self.before += self._lists(node, [vector], needs, [element], [self._kind(node.elt)])
        return ast.Name(vector, ast.Load())

    def _lists(
        self,
        node: ast.GeneratorExp | ast.ListComp,
        lists: Sequence[str],
        needs: list[ast.stmt],
        values: list[ast.expr],
        kinds: Sequence[Any],
    ) -> list[ast.stmt]:
        """A loop that fills lists, and the statements that it needs. needs, values: those in its body."""
        (loop,) = node.generators
        place = self.fresh("place")
        body = [
            _Put(value).visit(ast.parse(f"{name}[{place}] = _").body[0])
            for name, value in zip(lists, values, strict=True)
        ]
        looped = self._looped(loop, [*needs, *body, *ast.parse(f"{place} += 1").body])
        length = looped[-1].iter if isinstance(looped[-1], ast.For) else loop.iter
        begin = [
            f"{name} = f_empty{'_reals' * (kind is float)}(len({ast.unparse(length)}))"
            for name, kind in zip(lists, kinds, strict=True)
        ]
        return [*looped[:-1], *ast.parse("\n".join([*begin, f"{place} = 0"])).body, looped[-1]]

    def _kind(self, node: ast.expr) -> Any:
        """The type of an element of a list, from the annotation of its function; int without a call."""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("bit_length", "count"):
                return int
            if ast.unparse(node.func) in BUILTINS:
                return float if ast.unparse(node.func) == "float" else int
            return _returned(self._function(node))
        return tuple if isinstance(node, ast.Tuple) else int

    def _function(self, node: ast.Call) -> Any:
        """The called function or method; None if unknown."""
        root, *names = self._path(node.func)
        if root == "self" and self.path is not None:
            return getattr(type(attribute(self.lifted.device, (*self.path, *names[:-1]))), names[-1])
        return attribute(self.function.__globals__[root], names) if root in self.function.__globals__ else None

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._listed(node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if isinstance(node.ops[0], ast.In | ast.NotIn) and isinstance(node.comparators[0], ast.Tuple):
            tests = [ast.Compare(node.left, [ast.Eq()], [each]) for each in node.comparators[0].elts]
            either = self.visit(ast.BoolOp(ast.Or(), list(tests)))
            return ast.UnaryOp(ast.Not(), either) if isinstance(node.ops[0], ast.NotIn) else either
        return super().generic_visit(node)  # type: ignore[return-value]

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Tests that may all be made: without branches, a loop of them is twice as fast."""
        whole = super().generic_visit(node)
        assert isinstance(whole, ast.BoolOp)
        if not all(map(_is_test, whole.values)):
            return whole
        operation = ast.BitAnd() if isinstance(whole.op, ast.And) else ast.BitOr()
        return functools.reduce(lambda a, b: ast.BinOp(a, operation, b), whole.values)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Tuple):
            times = self.visit(node.right)
            if not isinstance(times, ast.Constant) or not isinstance(times.value, int):
                self.refuse(node, "a tuple of unknown length")
            return ast.Tuple([self.visit(each) for each in node.left.elts] * times.value, ast.Load())
        if isinstance(node.op, ast.Div | ast.Pow | ast.MatMult):
            self.refuse(node, "this operation")
        return super().generic_visit(node)  # type: ignore[return-value]


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _is_test(node: ast.expr) -> bool:
    """Whether an expression is 0 or 1, and has no place, divisor or call that only a test before it makes right."""
    match node:
        case ast.BinOp(left=a, op=ast.BitAnd() | ast.BitOr(), right=b):
            return _is_test(a) and _is_test(b)
        case ast.Compare(left=left, comparators=[right]):
            return _is_plain(left) and _is_plain(right)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_plain(operand) or _is_test(operand)
    return False


def _is_plain(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(left=left, op=ast.LShift() | ast.RShift(), right=ast.Constant()):
            return _is_plain(left)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.BitAnd() | ast.BitOr() | ast.BitXor(), right=right):
            return _is_plain(left) and _is_plain(right)
    return isinstance(node, ast.Name | ast.Constant)


def _returned(function: Any) -> Any:
    """The annotated result of a function."""
    return getattr(function, "__annotations__", {}).get("return", RETURNED.get(function))


class _Put(ast.NodeTransformer):
    """Replaces `_` by an expression."""

    def __init__(self, expression: ast.expr) -> None:
        self.expression = expression

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.expression if node.id == "_" else node
