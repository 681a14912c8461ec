"""Terms in Verilog. Operands of an operator have the width of its result, so no context widens them."""

from collections.abc import Sequence

from refemu.prove.statements import Language, Statement
from refemu.prove.terms import Term

INFIX = {"and": "&", "or": "|", "xor": "^", "add": "+", "sub": "-", "mul": "*", "shl": "<<", "lshr": ">>", "eq": "=="}
INFIX |= {"ult": "<"}


def constant(value: int, width: int) -> str:
    """A sized constant."""
    return f"{width}'h{value:x}"


def _operation(op: str, term: Term, args: Sequence[Term], texts: Sequence[str]) -> str:
    if op in INFIX:
        return f"{texts[0]} {INFIX[op]} {texts[1]}"
    a, *rest = texts
    match op:
        case "not":
            return f"~{a}"
        case "ashr":
            return f"$unsigned($signed({a}) >>> {rest[0]})"
        case "slt":
            return f"$signed({a}) < $signed({rest[0]})"
        case "udiv":
            ones = constant((1 << term.width) - 1, term.width)
            return f"({rest[0]} == {constant(0, term.width)}) ? {ones} : {a} / {rest[0]}"
        case "urem":
            return f"({rest[0]} == {constant(0, term.width)}) ? {a} : {a} % {rest[0]}"
        case "ite":
            return f"{a} ? {rest[0]} : {rest[1]}"
        case "concat":
            return f"{{{a}, {rest[0]}}}"
        case "extract":
            return f"{a}[{term.name}]" if term.width == 1 else f"{a}[{term.name + term.width - 1}:{term.name}]"
        case "zext":
            return f"{{{constant(0, term.width - args[0].width)}, {a}}}"
        case "sext":
            sign = a if args[0].width == 1 else f"{a}[{args[0].width - 1}]"
            return f"{{{{{term.width - args[0].width}{{{sign}}}}}, {a}}}"
    raise AssertionError(op)


LANGUAGE = Language(constant, _operation, {"extract": (0,), "sext": (0,), "udiv": (0, 1), "urem": (0, 1)})


def declared(statement: Statement) -> str:
    """A wire and its value."""
    bits = f"[{statement.width - 1}:0] " if statement.width > 1 else ""
    return f"wire {bits}{statement.name} = {statement.text};"
