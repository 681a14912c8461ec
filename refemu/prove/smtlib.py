"""Terms as a script of SMT-LIB 2.6: declarations, one definition for each node, and assertions."""

from collections.abc import Mapping, Sequence

from refemu.prove import terms
from refemu.prove.terms import REAL, Term

SAME = {
    "not": "bvnot",
    "and": "bvand",
    "xor": "bvxor",
    "add": "bvadd",
    "sub": "bvsub",
    "mul": "bvmul",
    "shl": "bvshl",
    "lshr": "bvlshr",
    "ashr": "bvashr",
    "udiv": "bvudiv",
    "urem": "bvurem",
    "concat": "concat",
    "fneg": "fp.neg",
    "fabs": "fp.abs",
}
TESTS = {"eq": "=", "ult": "bvult", "slt": "bvslt", "flt": "fp.lt", "fle": "fp.leq", "feq": "fp.eq"}
TESTS |= {"isnan": "fp.isNaN", "isinf": "fp.isInfinite"}
ROUNDED = {"fadd": "fp.add", "fsub": "fp.sub", "fmul": "fp.mul", "fdiv": "fp.div", "fsqrt": "fp.sqrt"}
ROUNDED |= {"frint": "fp.roundToIntegral"}
FORMATS = {16: "5 11", 32: "8 24", 64: "11 53"}
NANS = {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8 << 48}


def script(conditions: Sequence[Term], about: Sequence[str] = (), defined: Mapping[str, Term] | None = None) -> str:
    """A script that asserts some truth values. about: lines of comment at its head. defined: more terms by symbols."""
    lines = [*(f"; {line}" for line in about), "(set-logic ALL)"]
    more = defined or {}
    for term in terms.order([*conditions, *more.values()]):
        lines += _lines(term)
    lines += [f"(define-fun {symbol} () (_ BitVec {each.width}) {name(each)})" for symbol, each in more.items()]
    lines += [f"(assert (= {name(each)} #b1))" for each in conditions]
    return "\n".join(lines) + "\n"


def name(term: Term) -> str:
    """How later lines call a term."""
    if term.op == "var":
        return f"|{term.name}|"
    if term.op == "const":
        return _float(f"(_ bv{term.name} 64)", 64) if term.width == REAL else f"(_ bv{term.name} {term.width})"
    return f"t{term.number}"


def _float(word: str, bits: int) -> str:
    return f"((_ to_fp {FORMATS[bits]}) {word})"


def _round(value: str, bits: int) -> str:
    return f"((_ to_fp {FORMATS[bits]}) RNE {value})"


def _lines(term: Term) -> list[str]:
    if term.op == "var":
        return [f"(declare-const |{term.name}| (_ BitVec {term.width}))"]
    if term.op == "const":
        return []
    args = [name(each) for each in term.args]
    if term.op.startswith("pattern"):
        bits = int(term.op[7:])
        value = _round(args[0], bits) if bits < 64 else args[0]
        return [
            f"(declare-const {name(term)} (_ BitVec {bits}))",
            f"(assert (ite (fp.isNaN {value}) (= {name(term)} (_ bv{NANS[bits]} {bits})) "
            f"(= {_float(name(term), bits)} {value})))",
        ]
    sort = "(_ FloatingPoint 11 53)" if term.width == REAL else f"(_ BitVec {term.width})"
    return [f"(define-fun {name(term)} () {sort} {_text(term, args)})"]


def _text(term: Term, args: Sequence[str]) -> str:
    op, joined = term.op, " ".join(args)
    if op in SAME:
        return f"({SAME[op]} {joined})"
    if op in TESTS:
        return f"(ite ({TESTS[op]} {joined}) #b1 #b0)"
    if op in ROUNDED:
        return f"({ROUNDED[op]} RNE {joined})"
    match op:
        case "ite":
            return f"(ite (= {args[0]} #b1) {args[1]} {args[2]})"
        case "extract":
            return f"((_ extract {term.name + term.width - 1} {term.name}) {joined})"
        case "zext" | "sext":
            kind = "zero_extend" if op == "zext" else "sign_extend"
            return f"((_ {kind} {term.width - term.args[0].width}) {joined})"
        case "ffloor":
            return f"(fp.roundToIntegral RTN {joined})"
        case "f32":
            return _round(_round(args[0], 32), 64)
        case "value64":
            return _float(args[0], 64)
        case "value16" | "value32":
            return _round(_float(args[0], int(op[5:])), 64)
        case "integer":
            return _round(args[0], 64)
        case "truncate":
            return f"((_ fp.to_sbv {term.width}) RTZ {joined})"
    raise AssertionError(op)
