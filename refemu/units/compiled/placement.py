"""Lists of events are arrays that every event uses; vectors are written into their rows and registers."""

import ast
import copy
from collections.abc import Sequence

from refemu.units.compiled.lifter import KEEP, WRITE

REALS, INTEGERS = "x_", "w_"  #: prefixes of names of arrays, by their numbers


def shared(event: str, list_of: ast.Assign) -> str:
    """The name of the array that a list of an event is in, at every event. list_of: the statement that makes it."""
    begin = REALS if "= f_empty_reals(" in ast.unparse(list_of) else INTEGERS
    return f"{begin}{event}_{ast.unparse(list_of.targets[0])}"


class Placed:
    """Puts loops in the place of the statements that write and keep vectors."""

    def __init__(self, tree: ast.FunctionDef, held: Sequence[str], shared: Sequence[str]) -> None:
        self.event, self.held, self.shared = tree.name, held, shared
        self.within = 0  #: loops
        self.body = self.block(copy.deepcopy(tree.body))

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a function, or of a branch of it."""
        return [line for each in body for line in self._statement(each)]

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[vector])) if name.startswith(WRITE):
                port = name.removeprefix(WRITE)
                return _loop(f"len({ast.unparse(vector)})", f"y_{port}[_d, _e, _lane] = {ast.unparse(vector)}[_lane]")
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[])) if name.startswith(KEEP):
                port = name.removeprefix(KEEP)
                kept = port in self.held
                return _loop(f"s_{port}.size", f"s_{port}[_lane] = y_{port}[_d, _e, _lane]") if kept else []
            case ast.If():
                node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            case ast.For():
                self.within += 1
                node.body = self.block(node.body)
                self.within -= 1
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if ast.unparse(value).startswith("f_empty"):
                if not self.within and shared(self.event, node) in self.shared:
                    return ast.parse(f"{name} = {shared(self.event, node)}").body
        return [node]


def _loop(lanes: str, statement: str) -> list[ast.stmt]:
    return ast.parse(f"for _lane in range({lanes}): {statement}").body
