"""Bounds of names, narrowed by a test that holds."""

import ast
from typing import Any

from refemu.prove.calls import Calls
from refemu.prove.values import Bool, Int, bounds, integer

INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


class Narrowing(Calls):
    """Bounds of the names of the present call."""

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
        (p, q), (r, s) = bounds(a), bounds(b)
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
