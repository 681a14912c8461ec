"""The Functional Unit: exponentials, roots and reciprocals of fp16 values, and softmax from them.

Paper: [kllm §IV-A, Fig. 6]: one unit with 8 exponential units per chip; every value is a correctly rounded table entry.
Softmax takes the fp16 logits that are never quantized [kllm §III-A] and makes three passes over a row: the maximum, the
exponentials with their sum, the divisions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, fp32
from refemu.arith.checks import Refused, RefusedType, reject, require_choice
from refemu.arith.tables import table16
from refemu.units import Changes, Combinational, Config, Port, Ports, RunFunction, Unit, constant, decides, stepping
from refemu.units.declaration import DeclaredState
from refemu.units.ports import Lanes

__all__ = ["OPS", "PASSES", "UNIT", "WIDTH", "Functional", "Op", "Result", "Softmax", "State", "apply", "run"]

Op = Literal["exp", "sqrt", "recip", "softmax"]  #: Function of the unit
#: rounding of softmax: all steps except the sum in fp16, or all in float32 and rounded once
Softmax = Literal["fp16", "softmax32"]

WIDTH = 8  #: Exponential units: values of one cycle
OPS = {"exp": "exps", "sqrt": "roots", "recip": "divides"}  #: Functions of one value, with the counter of each
PASSES = ("max", "exp", "divide")  #: Passes of softmax over a row
MINUS_INF = 0xFC00


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepping.Result):
    """Outputs of a run: y as words from `run`, as float16 from `apply`. Registers of softmax: None from `apply`."""

    y: np.ndarray  #: uint16 words from `run`, float16 from `apply`; shape of x
    top: np.ndarray | None = None  #: words of the largest values of the rows
    terms: np.ndarray | None = None  #: words of the exponentials
    total: np.ndarray | None = None  #: words of the float32 sums
    exps: int
    roots: int
    divides: int
    cycles: int  #: cycles, of up to 8 values in a pass


def require_softmax(softmax: Softmax, function: str, thing: str, name: str) -> Softmax:
    """Reject a rounding of softmax for another function. name: parameter that names the function."""
    softmax = require_choice(softmax, get_args(Softmax), thing, "softmax")
    if softmax != "fp16" and function != "softmax":
        raise Refused(
            f"{thing}: softmax={softmax!r} needs {name}='softmax', got {name}={function!r}; leave softmax at 'fp16'"
        )
    return softmax


class Functional(Combinational):
    """Functional Unit: an operation is a function of t values, or the softmax of a row of t values."""

    name = "functional"
    events: ClassVar[tuple[str, ...]] = ("exp", "sqrt", "recip", "max", "divide")
    counters: ClassVar[dict[str, str]] = {
        "exps": "exponentials computed",
        "roots": "square roots computed",
        "divides": "reciprocals computed, and divisions of softmax",
        "cycles": "cycles since reset, each of which takes up to eight values",
    }
    registers: ClassVar[dict[str, str]] = {
        "top": "in softmax, the largest value of the row so far, an fp16 word",
        "terms": 'in softmax, the exponentials of the row so far: fp16 words, float32 words with softmax="softmax32"',
        "total": "in softmax, the sum of the exponentials so far, added in order: a float32 word",
        "cycle": "number of the last cycle in its operation, from 0",
    }
    op: Op = "exp"  #: function
    t: Annotated[int, 1, 1 << 22] = 1  #: values of an operation, 1 to 2**22
    softmax: Softmax = "fp16"  #: steps of softmax that round to fp16; for softmax only

    def check(self) -> None:
        require_softmax(self.softmax, self.op, self.name, "op")

    @constant
    def ports(self) -> Ports:
        """Registers between cycles, for softmax only."""
        width = 32 if self.softmax == "softmax32" else 16
        registers = (
            Port("top", 16, encoding="f16", meaning="largest logit of the row"),
            Port("terms", width, self.t, encoding=f"f{width}", meaning="exponentials of the row"),
            Port("total", 32, encoding="f32", meaning="sum of the exponentials"),
        )
        return Ports(
            inputs=(Port("x", 16, self.t, encoding="f16", meaning="arguments, or the logits of a row"),),
            outputs=(Port("y", 16, self.t, encoding="f16", meaning="results"),),
            state=registers if self.op == "softmax" else (),
        )

    @constant
    def initial(self) -> Mapping[str, Any]:
        """Registers of an operation before its first cycle."""
        none = (0,) * self.t
        return {"y": none, "top": MINUS_INF, "terms": none, "total": 0}

    @constant
    def groups(self) -> int:
        """Cycles of a pass."""
        return -(-self.t // WIDTH)

    @constant
    def last(self) -> int:
        """Number of the last cycle of an operation."""
        return self.groups * (len(PASSES) if self.op == "softmax" else 1) - 1

    @property
    def busy(self) -> bool:
        """Whether cycles of the operation remain."""
        return self.state.event != "reset" and self.state.cycle < self.last

    def opens(self, *inputs: Lanes) -> str:
        return PASSES[0] if self.op == "softmax" else self.op

    def follows(self) -> str:
        return PASSES[(self.state.cycle + 1) // self.groups] if self.op == "softmax" else self.op

    def _cycle(self, *inputs: Lanes) -> tuple[tuple[int, ...], slice, dict[str, Any]]:
        """Words of a cycle, their places, and changes that every event makes; inputs begin an operation."""
        x, cycle = (inputs[0], 0) if inputs else (self.state.x, self.state.cycle + 1)
        first = cycle % self.groups * WIDTH
        here = slice(first, min(first + WIDTH, self.t))
        return x[here], here, {**(self.initial if inputs else {}), "cycle": cycle, "cycles": 1}

    def _function(self, *inputs: Lanes) -> Changes:
        """Entries of a table."""
        words, here, changes = self._cycle(*inputs)
        entries = [int(table16(self.op)[word]) for word in words]
        y = _written(changes.get("y", self.state.y), here, entries)
        return {**changes, "y": y, OPS[self.op]: len(words)}

    def exp(self, *inputs: Lanes) -> Changes:
        """Take the exponentials of up to eight values, in softmax of their distances to the largest, and sum them.

        The sum is float32, in order (D-kllm-20).
        """
        if self.op == "exp":
            return self._function(*inputs)
        before, (words, here, changes) = self.state, self._cycle()
        terms = self.exponentials(fp16.values(np.array(words)), fp16.values(before.top))
        total = self.added(_value32(before.total), self.term_values(terms))
        terms_so_far = _written(before.terms, here, terms.tolist())
        return {**changes, "terms": terms_so_far, "total": int(total.view(np.uint32)), "exps": len(words)}

    def sqrt(self, *inputs: Lanes) -> Changes:
        """Take the square roots of up to eight values."""
        return self._function(*inputs)

    def recip(self, *inputs: Lanes) -> Changes:
        """Take the reciprocals of up to eight values."""
        return self._function(*inputs)

    def max(self, *inputs: Lanes) -> Changes:
        """In softmax, search up to eight values for the largest of the row; the first of zeros stays."""
        words, _, changes = self._cycle(*inputs)
        top = changes.get("top", self.state.top)
        for word in words:
            if fp16.order_key(word) > fp16.order_key(top):
                top = word
        return {**changes, "top": top}

    def divide(self) -> Changes:
        """In softmax, divide up to eight exponentials by their sum, and round to fp16."""
        before, (words, here, changes) = self.state, self._cycle()
        terms = self.term_values(np.array(before.terms[here]))
        quotients = fp16.bits(fp16.to_f16(self.quotients(terms, _value32(before.total)))).tolist()
        return {**changes, "y": _written(before.y, here, quotients), "divides": len(words)}

    def exponentials(self, x: np.ndarray, top: np.ndarray) -> np.ndarray:
        """Words of the exponentials of the distances of float16 values to the maximum."""
        if self.softmax == "fp16":
            return table16("exp")[fp16.bits(fp16.narrow(fp16.sub16(x, top)))]
        return fp32.exp32(x.astype(np.float32) - top.astype(np.float32)).view(np.uint32)

    def term_values(self, words: np.ndarray) -> np.ndarray:
        """Exponentials as float32, from their words."""
        if self.softmax == "softmax32":
            return words.astype(np.uint32).view(np.float32)
        return fp16.values(words).astype(np.float32)

    @decides("D-kllm-20")
    def added(self, total: np.float32, terms: np.ndarray) -> np.float32:
        """The sum so far, float32, and the exponentials of one cycle."""
        for term in terms:
            total = total + term
        return total

    @decides("D-kllm-20")
    def quotients(self, terms: np.ndarray, total: np.float32) -> np.ndarray:
        """Exponentials divided by their sum, one float32 division each."""
        return terms / total

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject NaN, +Inf, and for softmax a row of -Inf only."""
        (x,) = inputs
        require_values(fp16.values(x), self.op)


def _written(before: Lanes, here: slice, words: list[int]) -> Lanes:
    """Lanes with `words` in the positions `here`."""
    after = list(before)
    after[here] = words
    return tuple(after)


def _value32(word: int) -> np.float32:
    """float32 of a word."""
    return np.uint32(word).view(np.float32)


def require_values(x: np.ndarray, op: Op) -> None:
    """Reject NaN and +Inf among float16 values, and for softmax a row of -Inf only."""
    reject(np.isnan(x) | (x == np.inf), "functional: x must not be NaN or +Inf", x)
    if op == "softmax" and x.size:
        empty = (x == -np.inf).all(axis=-1)
        reject(empty, "functional: a row of softmax must have a finite value", "-Inf only")


def require_rows(x: ArrayLike, op: Op) -> np.ndarray:
    """Check dtype and shape: `x` as float16, of rows for softmax."""
    array = np.asarray(x)
    if array.dtype != np.float16 or (op == "softmax" and array.ndim < 1):
        raise RefusedType(
            f"functional: x must be float16{' (..., t)' if op == 'softmax' else ''}, got {array.dtype} "
            f"of shape {array.shape}"
        )
    if op == "softmax" and not array.shape[-1]:
        raise Refused(f"functional: softmax needs rows of at least one value, got shape {array.shape}")
    return array


def apply(x: ArrayLike, *, op: Op = "exp", softmax: Softmax = "fp16") -> Result:
    """Apply a function to every value of `x`, float16 of any shape, or softmax to each row (..., t). [kllm §IV-A]

    With softmax "fp16", d = r16(x - max), e = exp(d) rounded to fp16, the sum is float32 (D-kllm-20), and p = r16(r32(e
    / sum)); with "softmax32" all is float32, then r16. -Inf masks a value, but not a whole row. A function takes the
    last axis 8 values a cycle. Raises Refused for NaN, +Inf, or a row of softmax that is empty or has no finite value,
    RefusedType for another dtype or a scalar in softmax.
    """
    array = require_rows(x, require_choice(op, get_args(Op), "functional", "op"))
    require_values(array, op)
    t = array.shape[-1] if array.ndim else 1
    if not t:
        return Result(y=array.copy(), exps=0, roots=0, divides=0, cycles=0)
    words = fp16.bits(array)
    answer = run(words if array.ndim else words[None], op=op, t=t, softmax=softmax)
    return replace(answer, y=fp16.values(answer.y).reshape(array.shape), top=None, terms=None, total=None)


UNIT: Unit[DeclaredState, Result] = Unit(
    unit_class=Functional,
    paper="kllm §IV-A, Fig. 6",
    meaning="exponential, root, reciprocal; softmax of a row of logits",
    configs={
        "exp": Config(op="exp", t=1, softmax="fp16"),
        "sqrt": Config(op="sqrt", t=1, softmax="fp16"),
        "recip": Config(op="recip", t=1, softmax="fp16"),
        "softmax": Config(op="softmax", t=20, softmax="fp16"),
        "softmax32": Config(op="softmax", t=20, softmax="softmax32"),
    },
    result=Result,
)
State: type[DeclaredState] = Functional.State
run: RunFunction[Result] = UNIT.run
