"""Small changes of a Python source, by its syntax tree: wrong operators, constants, branches and others."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
OTHER = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "all": "any", "any": "all"}
#: no result depends on these: types, messages, imports
PASSED_OVER = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Mutation:
    """A piece of a source and its replacement. start, end: offsets in its UTF-8 bytes."""

    kind: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def apply(self, source: str) -> str:
        """The changed source."""
        text = source.encode()
        return (text[: self.start] + self.new.encode() + text[self.end :]).decode()


def mutations(source: str) -> list[Mutation]:
    """Every possible change of a source, in order."""
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    sites: dict[tuple[int, int, str], Mutation] = {}
    for kind, node, new in _sites(ast.parse(source)):
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        sites.setdefault((start, end, new), Mutation(kind, node.lineno, start, end, text[start:end].decode(), new))
    return [sites[place] for place in sorted(sites)]


Site = tuple[str, ast.expr | ast.stmt, str]


def _sites(node: ast.AST) -> Iterator[Site]:
    if isinstance(node, PASSED_OVER) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
        return
    for kind, change in KINDS.items():
        yield from ((kind, place, new) for place, new in change(node))
    annotations = {id(getattr(node, name, None)) for name in ("annotation", "returns")}
    for child in ast.iter_child_nodes(node):
        if id(child) not in annotations:
            yield from _sites(child)


Change = Iterator[tuple[ast.expr | ast.stmt, str]]


def _comparison(node: ast.AST) -> Change:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield node, _text(ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators))


def _operator(node: ast.AST) -> Change:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield node, _text(ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))
    if isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
        yield node, ast.unparse(ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value))


def _shift(node: ast.AST) -> Change:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift | ast.RShift):
        yield node.right, _text(ast.BinOp(node.right, ast.Add(), ast.Constant(1)))


def _constant(node: ast.AST) -> Change:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield node, str(node.value + 1)
        yield node, f"({node.value - 1})"


def _flag(node: ast.AST) -> Change:
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield node, str(not node.value)


def _negation(node: ast.AST) -> Change:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, _text(node.operand)


def _junction(node: ast.AST) -> Change:
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield node, _text(ast.BoolOp(other, node.values))


def _extreme(node: ast.AST) -> Change:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OTHER:
        yield node.func, OTHER[node.func.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OTHER:
        yield node.func, ast.unparse(ast.Attribute(node.func.value, OTHER[node.func.attr]))


def _result(node: ast.AST) -> Change:
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield node, "return 0"


def _statement(node: ast.AST) -> Change:
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    stored = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    if isinstance(node, ast.stmt) and (isinstance(node, ast.AugAssign) or call or stored):
        yield node, "pass"


def _default(node: ast.AST) -> Change:
    """Another default of a parameter, except strings, which name choices defined elsewhere."""
    if isinstance(node, ast.arguments):
        for value in (*node.defaults, *node.kw_defaults):
            known: Any = value.value if isinstance(value, ast.Constant) else ""
            if value is not None and (known is None or type(known) in (bool, int)):
                yield value, str(not known if type(known) is bool else (known or 0) + 1)


KINDS: dict[str, Callable[[ast.AST], Change]] = {
    "comparison": _comparison,
    "operator": _operator,
    "shift": _shift,
    "constant": _constant,
    "flag": _flag,
    "not": _negation,
    "and/or": _junction,
    "min/max": _extreme,
    "return": _result,
    "statement": _statement,
    "default": _default,
}


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"
