"""Conditions of `refemu step --break`: comparisons and integer operators over ports, registers and counters.

This module evaluates the syntax tree itself and limits values to BITS, so every condition ends quickly.
"""

import ast
import dataclasses
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from refemu.arith.checks import Refused, lookup
from refemu.arith.reader_errors import reading

BITS = 1 << 12  #: largest value; a port has 64 bits, all lanes of a word a few hundred
LONGEST = 1 << 12  #: most characters of a condition
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.Not: operator.not_, ast.USub: operator.neg}
_OPERATIONS = (ast.Expression, ast.Compare, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.BinOp)
_OPERANDS = (ast.Name, ast.Load, ast.Constant, ast.Subscript)
_ALLOWED = (*_OPERATIONS, *_OPERANDS, *_BINARY, *_COMPARE, *_UNARY)


@dataclass(frozen=True)
class Condition:
    """A parsed condition."""

    text: str
    tree: ast.Expression

    def holds(self, state: Any) -> bool:
        """Whether a State meets the condition. Refused: an unknown name, or an operation that fails."""
        names = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name):
                lookup("port, register or counter", node.id, names)
        try:
            return bool(_value(self.tree.body, names))
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise Refused(
                f"step: --break {self.text!r} fails at event {state.index}: {error}; write port[0], port[1], "
                "... for the lanes of a port"
            ) from None


def parse(text: str) -> Condition:
    """Parse a condition. Refused: a syntax error, or anything except comparisons and integer operators."""
    if len(text) > LONGEST:
        raise Refused(f"step: --break takes at most {LONGEST} characters, got {len(text)}")
    with reading(f"step: --break {text!r}", "a condition"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of Python about style
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError as error:
            raise Refused(
                f"step: --break {text!r}: {error.msg}; compare with ==, !=, <, <=, > or >=, as in 'illegal == 1'"
            ) from None
        except MemoryError:  # the stack of Python's parser is full
            raise Refused(f"step: --break {text!r}: nested too deep") from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise Refused(
                f"step: --break may compare ports, registers and counters, got {type(node).__name__} in {text!r}"
            )
    return Condition(text, tree)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.Subscript(value=of, slice=at):
            return _value(of, names)[_value(at, names)]
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_value(operand, names))
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(op, _value(left, names), _value(right, names))
        case ast.BoolOp(op=op, values=values):
            return _joined(isinstance(op, ast.And), values, names)
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compared(_value(left, names), ops, others, names)
    raise AssertionError(f"{type(node).__name__} is allowed and not evaluated")


def _computed(op: ast.operator, left: Any, right: Any) -> Any:
    """Apply an operator to two numbers. Raises: a result that might have more than BITS."""
    for operand in (left, right):
        if not isinstance(operand, int | float):
            raise TypeError(f"a number is needed, got {type(operand).__name__}")
    if isinstance(left, int) and isinstance(right, int):
        grown = {ast.Mult: left.bit_length() + right.bit_length(), ast.LShift: left.bit_length() + max(right, 0)}
        bits = grown.get(type(op), max(left.bit_length(), right.bit_length()))
        if bits > BITS:
            raise ValueError(f"a value would have more than {BITS} bits")
    return _BINARY[type(op)](left, right)


def _joined(every: bool, values: list[ast.expr], names: Mapping[str, Any]) -> Any:
    """Evaluate `and` (every) or `or` as Python does: return the value that decides."""
    value: Any = every
    for node in values:
        value = _value(node, names)
        if bool(value) != every:
            break
    return value


def _compared(left: Any, ops: list[ast.cmpop], others: list[ast.expr], names: Mapping[str, Any]) -> bool:
    """Evaluate a chain of comparisons, up to the first that fails."""
    for op, node in zip(ops, others, strict=True):
        right = _value(node, names)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True
