"""Terms in C: unsigned integers of 64 bits, or of 128 where a term is wider, whose bits above its width are 0."""

from collections.abc import Sequence

from refemu.arith.checks import Refused
from refemu.prove.statements import Language, Statement
from refemu.prove.terms import Term

WORD, WIDE = 64, 128
SAME = {"and": "&", "or": "|", "xor": "^"}
WRAPPED = {"add": "+", "sub": "-", "mul": "*"}


def type_of(width: int) -> str:
    """Type of a term; rejects terms of more than 128 bits."""
    if width > WIDE:
        raise Refused(
            f"export formal: an integer must have at most {WIDE} bits in C, got {width}; choose a smaller unit"
        )
    return "uint64_t" if width <= WORD else "uint128_t"


def constant(value: int, width: int) -> str:
    """A constant of the type of its width."""
    if width <= WORD:
        return f"{value:#x}ull"
    type_of(width)
    return f"((uint128_t){value >> WORD:#x}ull << 64 | {value & (1 << WORD) - 1:#x}ull)"


def _ones(width: int) -> str:
    return constant((1 << width) - 1, width)


def _sign(width: int) -> str:
    return constant(1 << (width - 1), width)


def _operation(op: str, term: Term, args: Sequence[Term], texts: Sequence[str]) -> str:
    width, of, kind = term.width, args[0].width, type_of(term.width)
    mask = "" if width in (WORD, WIDE) else f" & {_ones(width)}"
    a, *rest = texts
    if op in SAME:
        return f"{a} {SAME[op]} {rest[0]}"
    if op in WRAPPED:
        return f"({a} {WRAPPED[op]} {rest[0]}){mask}"
    match op:
        case "not":
            return f"{a} ^ {_ones(width)}"
        case "shl":
            return f"{rest[0]} < {width} ? ({a} << {rest[0]}){mask} : 0"
        case "lshr":
            return f"{rest[0]} < {width} ? {a} >> {rest[0]} : 0"
        case "ashr":
            far = f"({rest[0]} < {width} ? {rest[0]} : {width - 1})"
            return f"{a} >> {width - 1} ? (({a} ^ {_ones(width)}) >> {far}) ^ {_ones(width)} : {a} >> {far}"
        case "udiv":
            return f"{rest[0]} ? {a} / {rest[0]} : {_ones(width)}"
        case "urem":
            return f"{rest[0]} ? {a} % {rest[0]} : {a}"
        case "eq" | "ult":
            return f"(uint64_t)({a} {'==' if op == 'eq' else '<'} {rest[0]})"
        case "slt":
            return f"(uint64_t)(({a} ^ {_sign(of)}) < ({rest[0]} ^ {_sign(of)}))"
        case "ite":
            return f"{a} ? {rest[0]} : {rest[1]}"
        case "concat":
            return f"(({kind}){a} << {args[1].width}) | {rest[0]}"
        case "extract":
            shifted = f"{a} >> {term.name}" if term.name else a
            return f"({kind})({shifted}){'' if term.name + width == of else f' & {_ones(width)}'}"
        case "zext":
            return f"({kind}){a}"
        case "sext":
            return f"((({kind}){a} ^ {_sign(of)}) - {_sign(of)}){mask}"
    raise AssertionError(op)


LANGUAGE = Language(constant, _operation, {"shl": (1,), "lshr": (1,), "ashr": (0, 1), "udiv": (0, 1), "urem": (0, 1)})


def declared(statement: Statement) -> str:
    """A local and its value."""
    return f"const {type_of(statement.width)} {statement.name} = {statement.text};"
