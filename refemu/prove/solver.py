"""Solvers: whether a condition on terms can hold, and values of the variables if it can.

Bitwuzla is asked; `z3` is the second one. A term is translated once for each question, so questions share nothing.
"""

import importlib.util
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from refemu.arith.checks import Refused
from refemu.prove import terms
from refemu.prove.terms import REAL, Term

Verdict = Literal["unsat", "sat", "unknown"]
ADVICE = "install refemu[formal]"


@dataclass(frozen=True)
class Answer:
    """Answer of a solver."""

    verdict: Verdict  #: `"sat"`: the condition can hold; `"unknown"`: the time ran out
    seconds: float
    solver: str  #: name and version
    values: Mapping[str, int] = field(default_factory=dict)  #: of the variables, where the condition holds


def available() -> list[str]:
    """Names of the solvers that are installed."""
    return [name for name in SOLVERS if importlib.util.find_spec(name) is not None]


def solve(conditions: Sequence[Term], seconds: float = 60, solver: str = "") -> Answer:
    """Ask whether some truth values can hold together.

    Parameters
    ----------
    conditions : sequence of Term
        Terms of one bit.
    seconds : float
        Time limit.
    solver : str
        "bitwuzla" or "z3"; by default the first that is installed.

    Returns
    -------
    Answer
        The result, and values of all variables if it is `"sat"`.

    Raises
    ------
    Refused
        No such solver is installed.
    """
    if any(each is terms.FALSE for each in conditions):
        return Answer("unsat", 0.0, "constant terms")
    if all(each is terms.TRUE for each in conditions):
        return Answer("sat", 0.0, "constant terms")
    answer = available()
    if not answer or (solver and solver not in answer):
        raise Refused(f"prove: solver {solver or 'bitwuzla or z3'} is not installed; {ADVICE}")
    began, conditions = time.monotonic(), terms.expanded(conditions)
    verdict, values, version = SOLVERS[solver or answer[0]](conditions, seconds)
    return Answer(verdict, time.monotonic() - began, version, values)


def _variables(conditions: Sequence[Term]) -> list[Term]:
    return [each for each in terms.order(conditions) if each.op == "var"]


KINDS = {
    "not": "BV_NOT",
    "and": "BV_AND",
    "xor": "BV_XOR",
    "add": "BV_ADD",
    "sub": "BV_SUB",
    "mul": "BV_MUL",
    "shl": "BV_SHL",
    "lshr": "BV_SHR",
    "ashr": "BV_ASHR",
    "udiv": "BV_UDIV",
    "urem": "BV_UREM",
    "concat": "BV_CONCAT",
}  #: operations that have the same name in bitwuzla
TESTS = {"eq": "EQUAL", "ult": "BV_ULT", "slt": "BV_SLT", "flt": "FP_LT", "fle": "FP_LEQ", "feq": "FP_EQUAL"}
TESTS |= {"isnan": "FP_IS_NAN", "isinf": "FP_IS_INF"}
ROUNDED = {
    "fadd": "FP_ADD",
    "fsub": "FP_SUB",
    "fmul": "FP_MUL",
    "fdiv": "FP_DIV",
    "fsqrt": "FP_SQRT",
    "frint": "FP_RTI",
}
FORMATS = {16: (5, 11), 32: (8, 24), 64: (11, 53)}  #: bits of exponent and significand
NANS = {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8 << 48}  #: the NaN of patterns


class _Bitwuzla:
    """Translation of terms."""

    def __init__(self, bitwuzla: Any) -> None:
        self.b = bitwuzla
        options = bitwuzla.Options()
        options.set(bitwuzla.Option.PRODUCE_MODELS, True)
        self.options, self.tm = options, bitwuzla.TermManager()
        self.known: dict[int, Any] = {}
        self.sides: list[Any] = []  #: conditions on variables that the translation adds
        self.nearest = self.tm.mk_rm_value(bitwuzla.RoundingMode.RNE)

    def make(self, kind: str, args: Sequence[Any], numbers: Sequence[int] = ()) -> Any:
        return self.tm.mk_term(getattr(self.b.Kind, kind), list(args), list(numbers))

    def bits(self, value: int, width: int) -> Any:
        return self.tm.mk_bv_value(self.tm.mk_bv_sort(width), value)

    def bit(self, test: Any) -> Any:
        return self.make("ITE", [test, self.bits(1, 1), self.bits(0, 1)])

    def test(self, bit: Any) -> Any:
        return self.make("EQUAL", [bit, self.bits(1, 1)])

    def of(self, roots: Sequence[Term]) -> list[Any]:
        for term in terms.order(roots):
            if term.number not in self.known:
                self.known[term.number] = self.translated(term, [self.known[each.number] for each in term.args])
        return [self.known[each.number] for each in roots]

    def float(self, word: Any, bits: int) -> Any:
        return self.make("FP_TO_FP_FROM_BV", [word], FORMATS[bits])

    def rounded(self, value: Any, bits: int) -> Any:
        return self.make("FP_TO_FP_FROM_FP", [self.nearest, value], FORMATS[bits])

    def pattern(self, value: Any, bits: int, number: int) -> Any:
        """A word whose value is this number: a new variable, which is the pattern for all but NaN."""
        word = self.tm.mk_const(self.tm.mk_bv_sort(bits), f"!pattern{number}")
        nan = self.make("FP_IS_NAN", [value])
        same = self.make("EQUAL", [self.float(word, bits), value])  # of sign and number; all NaN are one
        fixed = self.make("EQUAL", [word, self.bits(NANS[bits], bits)])
        self.sides.append(self.make("ITE", [nan, fixed, same]))
        return word

    def translated(self, term: Term, args: list[Any]) -> Any:
        op, width = term.op, term.width
        if op == "var":
            return self.tm.mk_const(self.tm.mk_bv_sort(width), term.name)
        if op == "const":
            return self.float(self.bits(term.name, 64), 64) if width == REAL else self.bits(term.name, width)
        if op in KINDS:
            return self.make(KINDS[op], args)
        if op in TESTS:
            return self.bit(self.make(TESTS[op], args))
        if op in ROUNDED:
            return self.make(ROUNDED[op], [self.nearest, *args])
        match op:
            case "ite":
                return self.make("ITE", [self.test(args[0]), *args[1:]])
            case "extract":
                return self.make("BV_EXTRACT", args, [term.name + width - 1, term.name])
            case "zext" | "sext":
                kind = "BV_ZERO_EXTEND" if op == "zext" else "BV_SIGN_EXTEND"
                return self.make(kind, args, [width - term.args[0].width])
            case "fneg":
                return self.make("FP_NEG", args)
            case "fabs":
                return self.make("FP_ABS", args)
            case "ffloor":
                return self.make("FP_RTI", [self.tm.mk_rm_value(self.b.RoundingMode.RTN), *args])
            case "f32":
                return self.rounded(self.rounded(args[0], 32), 64)
            case "value16" | "value32" | "value64":
                bits = int(op[5:])
                return self.rounded(self.float(args[0], bits), 64) if bits < 64 else self.float(args[0], 64)
            case "integer":
                return self.make("FP_TO_FP_FROM_SBV", [self.nearest, args[0]], FORMATS[64])
            case "pattern16" | "pattern32" | "pattern64":
                bits = int(op[7:])
                value = self.rounded(args[0], bits) if bits < 64 else args[0]
                return self.pattern(value, bits, term.number)
            case "truncate":
                zero = self.tm.mk_rm_value(self.b.RoundingMode.RTZ)
                return self.make("FP_TO_SBV", [zero, args[0]], [width])
        raise AssertionError(op)


def _bitwuzla(conditions: Sequence[Term], seconds: float) -> tuple[Verdict, dict[str, int], str]:
    bitwuzla: Any = importlib.import_module("bitwuzla")

    translator = _Bitwuzla(bitwuzla)
    translator.options.set(bitwuzla.Option.TIME_LIMIT_PER, max(1, int(seconds * 1000)))
    bits = translator.of(conditions)
    solver = bitwuzla.Bitwuzla(translator.tm, translator.options)
    for each in (*map(translator.test, bits), *translator.sides):
        solver.assert_formula(each)
    verdicts: dict[Any, Verdict] = {bitwuzla.Result.SAT: "sat", bitwuzla.Result.UNSAT: "unsat"}
    verdict = verdicts.get(solver.check_sat(), "unknown")
    values = {}
    if verdict == "sat":
        for each in _variables(conditions):
            values[each.name] = int(solver.get_value(translator.known[each.number]).value(10))
    return verdict, values, f"bitwuzla {_version('bitwuzla')}"


def _z3(conditions: Sequence[Term], seconds: float) -> tuple[Verdict, dict[str, int], str]:
    from refemu.prove.smtlib import script

    z3: Any = importlib.import_module("z3")
    solver = z3.Solver()
    solver.set("timeout", max(1, int(seconds * 1000)))
    solver.from_string(script(conditions))
    result = str(solver.check())
    verdict: Verdict = "sat" if result == "sat" else "unsat" if result == "unsat" else "unknown"
    values: dict[str, int] = {}
    if verdict == "sat":
        model = solver.model()
        for each in _variables(conditions):
            values[each.name] = model.eval(z3.BitVec(each.name, each.width), True).as_long()
    return verdict, values, f"z3 {z3.get_version_string()}"


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


SOLVERS = {"bitwuzla": _bitwuzla, "z3": _z3}
