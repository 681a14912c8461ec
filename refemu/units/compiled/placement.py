"""Places of the vectors of events: the row of an output, or an array shared by all events."""

import ast
import copy
from collections.abc import Sequence
from typing import Any

from refemu.units.compiled.lifter import KEEP, WRITE

REALS = "x_"  #: prefix of the name of an array of real numbers


def shared(event: str, list_of: ast.stmt) -> str:
    """The name of the shared array of a list of an event. list_of: the statement that creates the list."""
    begin = REALS if "= f_empty_reals(" in ast.unparse(list_of) else "w_"
    return f"{begin}{event}_{_assigned(list_of)}"


class Placed(ast.NodeTransformer):
    """Replaces the statements that write and retain vectors by loops."""

    def __init__(self, tree: ast.FunctionDef, held: Sequence[str], shared: Sequence[str]) -> None:
        self.event, self.held, self.shared = tree.name, held, shared
        self.rows: dict[str, str] = {}  #: lists that are written as they are filled, with their port
        self.within = 0  #: loops
        self.body = self.block(copy.deepcopy(tree.body))

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a function, or of a branch of it."""
        empty = {_assigned(each) for each in body if _is_empty(each)}
        taken: set[str] = set()  # names of changes whose list is written as it is filled
        for each in body:
            match each:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=vector)) if vector in empty:
                    writes = [line for line in body if ast.unparse(line).endswith(f"({name})") and _is_write(line)]
                    if len(writes) == _uses(body, vector) == _uses(body, name) == 1:
                        self.rows[vector] = _port(writes[0])
                        taken.add(name)
        left_out = {*taken, *self.rows}
        return [line for each in body if _assigned(each) not in left_out for line in self._statement(each, taken)]

    def _statement(self, node: ast.stmt, taken: set[str]) -> list[ast.stmt]:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[vector])) if name.startswith(WRITE):
                return [] if ast.unparse(vector) in taken else _write(_port(node), ast.unparse(vector))
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[])) if name.startswith(KEEP):
                return _keep(_port(node)) if _port(node) in self.held else []
            case ast.If():
                node.body, node.orelse = self.block(node.body), self.block(node.orelse)
                return [node]
            case ast.For():
                self.within += 1
                node.body = self.block(node.body)
                self.within -= 1
                return [self.visit(node)]
        if not self.within and _is_empty(node) and (name := shared(self.event, node)) in self.shared:
            return ast.parse(f"{_assigned(node)} = {name}").body
        return [self.visit(node)]

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Element of a list that is written as it is filled."""
        if isinstance(node.value, ast.Name) and node.value.id in self.rows:
            port, place = self.rows[node.value.id], ast.unparse(node.slice)
            return ast.parse(f"y_{port}[_d, _e, {place}] = 0").body[0].targets[0]  # type: ignore[attr-defined]
        return super().generic_visit(node)


def _assigned(node: ast.stmt) -> str:
    """The name that a statement sets; "" if it sets none."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def _is_empty(node: ast.stmt) -> Any:
    """Whether a statement creates an empty list."""
    return bool(_assigned(node)) and ast.unparse(node).startswith(f"{_assigned(node)} = f_empty")


def _is_write(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith(WRITE)


def _port(node: ast.stmt) -> str:
    """The port of a statement that writes or retains a vector."""
    return ast.unparse(node).partition("(")[0].partition("_")[2]


def _uses(body: Sequence[ast.stmt], name: str) -> int:
    """Number of reads of a list, except to set its elements."""
    return sum(_reads(statement, name) for statement in body)


def _reads(node: ast.AST, name: str) -> int:
    match node:
        case ast.Subscript(value=ast.Name(id=known), ctx=ast.Store()) if known == name:
            return _reads(node.slice, name)
        case ast.Name(id=known, ctx=ast.Load()):
            return int(known == name)
    return sum(_reads(each, name) for each in ast.iter_child_nodes(node))


def _write(port: str, vector: str) -> list[ast.stmt]:
    return ast.parse(f"for _lane in range(y_{port}.shape[2]): y_{port}[_d, _e, _lane] = {vector}[_lane]").body


def _keep(port: str) -> list[ast.stmt]:
    return ast.parse(f"for _lane in range(s_{port}.size): s_{port}[_lane] = y_{port}[_d, _e, _lane]").body
