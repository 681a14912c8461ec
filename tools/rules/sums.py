"""The rule of sums: no sum of floats in a library's order. Sums of integers are exact in any order.

`sum(...)` passes if its terms are visibly integers; `np.sum(...)`, `x.sum(...)` and `prod` if `dtype=` is an integer
type or the array is visibly of integers. By syntax, these are visibly integers:

- int literals, comparisons, `not`, bit operations (floats have none), sizes of arrays, results of `len`,
  `int` and others of COUNTS, and `+ - * // % min max abs sum` of integers;
- lists, tuples and comprehensions of integers, `range`, `map(len, ...)`, and `sorted`, `list` and the like of these;
- parameters, variables and functions of refemu with such annotations: `int`, `Sequence[int]`, `Mapping[str, int]`.

Other sums need `refemu.arith.sums`, which states its order, or a true `int(...)` or annotation.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tools.rules.house import House, Module, Place, called, last_of, root_of, rule, stored

REDUCTIONS = {"mean", "var", "std", "average", "nansum", "nanmean", "fsum"}  #: always sums of floats
SUMS = {"sum", "prod"}  #: exact for integers
INT = re.compile(r"int|bool")
INTS = re.compile(r"(list|set|Sequence|Iterable|Iterator|Collection)\[(int|bool)\]|tuple\[int(, (int|\.\.\.))*\]|range")
MAPS = re.compile(r"(dict|Mapping)\[\w+, int\]|Counter\[\w+\]")
TYPE = re.compile(r"(np\.)?u?int(\d+)?")
BITS = (ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor)
EXACT = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
#: functions and methods whose result is always an integer
COUNTS = {
    *("len", "int", "ord", "bool", "any", "all", "isinstance", "bit_length", "bit_count", "count", "index", "find"),
    *("ceil", "floor", "gcd", "lcm", "isqrt", "comb", "count_nonzero"),
}
KEEPING = {"sorted", "list", "tuple", "set", "iter", "reversed"}  #: functions that return the same elements
SIZES = {"size", "ndim", "nbytes", "itemsize"}  #: attributes of arrays


@rule("sum visible integers (tools/rules/sums.py says which), or use refemu.arith.sums")
def float_sum(house: House) -> Iterator[Place]:
    """No sum or mean of floats in a library's order; sums of visible integers are exact."""
    for module in house.modules.values():
        for call, name, owner in module.calls:
            if name in REDUCTIONS and (owner is not None or name == "fsum"):
                yield module.path, call.lineno, f"reduction {name}"
            elif name in SUMS and (owner, name) not in ((None, "prod"), ("math", "prod")):
                visible = Visible(house, module, _local(module, call))
                if not visible.sum(call):
                    yield module.path, call.lineno, "builtin sum" if owner is None else f"reduction {name}"


class Visible(NamedTuple):
    """The visible type of an expression. local: annotations of variables, "" if there is none."""

    house: House
    module: Module
    local: Mapping[str, str]

    def sum(self, call: ast.Call) -> bool:
        """Whether `sum(terms)`, `np.sum(array)` or `array.sum()` adds visible integers."""
        if not isinstance(call.func, ast.Attribute):
            starts = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
            return bool(call.args) and self.integers(call.args[0]) and all(map(self.integer, starts))
        of_library = ast.unparse(call.func.value) in ("np", "numpy") and call.args
        array = call.args[0] if of_library else call.func.value
        types = [keyword.value for keyword in call.keywords if keyword.arg == "dtype"]
        types += array.args[:1] if isinstance(array, ast.Call) and last_of(array) == "astype" else []
        return TYPE.fullmatch(ast.unparse(types[0])) is not None if types else self.integer(array)

    def integer(self, node: ast.expr) -> bool:
        """Whether an expression is visibly an integer, or an array of integers."""
        match node:
            case ast.Constant(value):
                return isinstance(value, int)
            case ast.Compare() | ast.UnaryOp(op=ast.Not() | ast.Invert()):
                return True
            case ast.UnaryOp(operand=value) | ast.NamedExpr(value=value):
                return self.integer(value)
            case ast.BinOp(left, op, right):
                return isinstance(op, BITS) or (isinstance(op, EXACT) and self.integer(left) and self.integer(right))
            case ast.IfExp(body=body, orelse=other):
                return self.integer(body) and self.integer(other)
            case ast.Subscript(value, index):
                return not isinstance(index, ast.Slice) and (self.integers(value) or self.says(value, MAPS))
            case ast.Call(ast.Name("sum"), [_, *_]):
                return self.sum(node)
            case ast.Call(ast.Name("min" | "max"), [alone]):
                return self.integers(alone)
            case ast.Call(ast.Name("min" | "max" | "abs"), arguments):
                return all(map(self.integer, arguments))
            case ast.Call(function) if self.text(function) is None and last_of(function) in COUNTS:
                return last_of(function) == "count_nonzero" or called(node)[1] not in ("np", "numpy")
            case ast.Attribute(attr=name) if name in SIZES:
                return True
        return self.says(node, INT)

    def integers(self, node: ast.expr) -> bool:
        """Whether the elements of an expression are visibly integers."""
        match node:
            case ast.List(elements) | ast.Tuple(elements) | ast.Set(elements):
                return all(map(self.integer, elements))
            case ast.GeneratorExp(element, loops) | ast.ListComp(element, loops) | ast.SetComp(element, loops):
                return self.within(loops).integer(element)
            case ast.Subscript(value, ast.Slice()):
                return self.integers(value)
            case ast.Call(ast.Name(name), [value]) if name in KEEPING:
                return self.integers(value)
            case ast.Call(ast.Name("map"), [function, *_]):
                return self.integer(ast.Call(function, [ast.Constant(None)], []))
            case ast.Call(ast.Attribute(value, "values"), []):
                return self.says(value, MAPS)
            case ast.Call(ast.Name("range")) | ast.Attribute(attr="shape"):
                return True
        return self.says(node, INTS)

    def within(self, loops: list[ast.comprehension]) -> "Visible":
        """The visible type of the element of a comprehension."""
        inner = self
        for loop in loops:
            text = "int" if isinstance(loop.target, ast.Name) and inner.integers(loop.iter) else ""
            inner = inner._replace(local={**inner.local, **dict.fromkeys(stored(loop.target), text)})
        return inner

    def says(self, node: ast.expr, wanted: re.Pattern[str]) -> bool:
        """Whether the annotation of a variable or of a function's result is wanted."""
        return wanted.fullmatch(self.text(node.func if isinstance(node, ast.Call) else node) or "") is not None

    def text(self, node: ast.expr) -> str | None:
        """The annotation of a variable of refemu or of the result of a function; None for others."""
        if isinstance(node, ast.Name) and node.id in self.local:
            return self.local[node.id]
        place = self.house.definition(self.module, root_of(node) or "")
        if place and isinstance(node, ast.Attribute):
            return annotation(place[0].defined.get(node.attr)) if place[1] is None else None
        return annotation(place[1]) if place else None


def annotation(node: ast.AST | None) -> str:
    """The annotation of a variable or of a function's result, or ""."""
    text = getattr(node, "annotation", None) or getattr(node, "returns", None)
    return ast.unparse(text).strip("'") if text else ""


def _local(module: Module, call: ast.Call) -> dict[str, str]:
    """Annotations of the names of the functions around a call."""
    around = [node for node in module.of(ast.FunctionDef) if node.lineno <= call.lineno <= node.end_lineno]
    names = dict.fromkeys(stored(*around), "")
    for node in (inner for function in around for inner in ast.walk(function)):
        if isinstance(node, ast.arg | ast.AnnAssign):
            names[node.arg if isinstance(node, ast.arg) else last_of(node.target)] = annotation(node)
    return names
