"""The Functional Unit: exponentials, roots and reciprocals of fp16 values, and the softmax made of them.

Paper: [kllm §IV-A, Fig. 6]: one unit with 8 exponential units per chip; every value is a correctly rounded table entry.
Softmax takes the fp16 logits that are never quantized [kllm §III-A] and makes three passes over a row: the maximum, the
exponentials with their sum, the divisions. Decision: D-kllm-20 (the sum is float32).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, fp32
from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice, require_int
from refemu.arith.tables import table16
from refemu.units import stepped
from refemu.units.kllm.cases import functional as functional_cases
from refemu.units.ports import Lanes, Port, Ports, fields, lanes
from refemu.units.stepped import Stepped
from refemu.units.unit import Config, RunFunction, Unit

__all__ = ["OPS", "PASSES", "UNIT", "WIDTH", "Functional", "Op", "Result", "Softmax", "State", "apply", "run"]


Op = Literal["exp", "sqrt", "recip", "softmax"]  #: Function of the unit
#: Rounding of softmax: all steps but the sum in fp16, or all in float32 and rounded once
Softmax = Literal["fp16", "softmax32"]

WIDTH = 8  #: Exponential units: values of one cycle
OPS = {"exp": "exps", "sqrt": "roots", "recip": "divides"}  #: Functions of one value, with the counter of each
PASSES = ("max", "exp", "divide")  #: Passes of softmax over a row
MINUS_INF = 0xFC00


@dataclass(frozen=True)
class State:
    """Ports and registers after one cycle, and what happened since reset."""

    #: "reset": no operation yet; "exp", "sqrt", "recip": up to eight values go through that function; "max", "exp",
    #: "divide": the passes of softmax, up to eight values a cycle: find the largest value of the row, make and add up
    #: the exponentials of the distances to it, divide each by their sum
    event: str
    index: int  #: number of the cycle in its operation, from 0; -1 at reset
    x: Lanes  #: words
    y: Lanes  #: words of the results
    top: int  #: in softmax, the largest value of the row so far, an fp16 word
    terms: Lanes  #: in softmax, the exponentials of the row so far: fp16 words, float32 words with softmax="softmax32"
    total: int  #: in softmax, the sum of the exponentials so far, added in order: a float32 word
    exps: int  #: exponentials computed
    roots: int  #: square roots computed
    divides: int  #: reciprocals computed, and divisions of softmax
    cycles: int  #: cycles since reset, each of which takes up to eight values


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepped.Result):
    """Outputs of a run: y as words from `run`, as float16 from `apply`. Registers of softmax: None from `apply`."""

    y: np.ndarray  #: uint16 words from `run`, float16 from `apply`; shape of x
    top: np.ndarray | None = None  #: words of the largest values of the rows
    terms: np.ndarray | None = None  #: words of the exponentials
    total: np.ndarray | None = None  #: words of the float32 sums
    exps: int
    roots: int
    divides: int
    cycles: int  #: 8 values a pass and cycle


def require_softmax(softmax: Softmax, function: str, thing: str, name: str) -> Softmax:
    """Refuse a rounding of softmax where another function is computed. name: parameter that names the function."""
    softmax = require_choice(softmax, get_args(Softmax), thing, "softmax")
    if softmax != "fp16" and function != "softmax":
        raise Refused(
            f"{thing}: softmax={softmax!r} needs {name}='softmax', got {name}={function!r}; leave softmax at 'fp16'"
        )
    return softmax


class Functional(Stepped[State]):
    """Functional Unit: an operation is a function of t values, or the softmax of a row of t values.

    References
    ----------
    [kllm §IV-A, Fig. 6]
    """

    name = "functional"

    def __init__(self, op: Op = "exp", t: int = 1, softmax: Softmax = "fp16") -> None:
        """Configure the unit.

        Parameters
        ----------
        op : {"exp", "sqrt", "recip", "softmax"}
            Function.
        t : int
            Values of an operation, 1 to 2**22.
        softmax : {"fp16", "softmax32"}
            Which steps of softmax round to fp16; of no other function.

        Raises
        ------
        Refused
            A parameter is out of range or an option unknown.
        """
        self.op = require_choice(op, get_args(Op), self.name, "op")
        self.t: int = require_int(t, 1, 1 << 22, self.name, "t")
        self.softmax = require_softmax(softmax, self.op, self.name, "op")
        self.ports: Ports = ports({"op": self.op, "t": self.t, "softmax": self.softmax})
        self.state: State = self.reset(State, top=MINUS_INF, terms=lanes((0,) * self.t))

    @property
    def groups(self) -> int:
        """Cycles of a pass."""
        return -(-self.t // WIDTH)

    @property
    def last(self) -> int:
        """Number of the last cycle of an operation."""
        return self.groups * (len(PASSES) if self.op == "softmax" else 1) - 1

    @property
    def busy(self) -> bool:
        """Whether cycles of the operation are left."""
        return 0 <= self.state.index < self.last

    def step(self, x: Sequence[int] | int | None = None) -> State:
        """Execute the first cycle of an operation on the fp16 words `x`; without inputs, the next one."""
        return self._stepped(x=x)

    def _open(self, x: Any) -> State:
        none = lanes((0,) * self.t)
        return self._cycle(replace(self.state, index=-1, x=x, y=none, top=MINUS_INF, terms=none, total=0))

    def _continue(self) -> State:
        return self._cycle(self.state)

    def _cycle(self, before: State) -> State:
        index = before.index + 1
        which, group = divmod(index, self.groups)
        event = PASSES[which] if self.op == "softmax" else self.op
        here = slice(group * WIDTH, min((group + 1) * WIDTH, self.t))
        work = {"max": self._max, "exp": self._exp, "divide": self._divide} if self.op == "softmax" else {}
        after = work.get(event, self._function)(before, here)
        self.state = replace(after, event=event, index=index, cycles=before.cycles + 1)
        return self.state

    def _function(self, before: State, here: slice) -> State:
        words = [int(table16(self.op)[word]) for word in fields(before.x)[here]]
        counter = OPS[self.op]
        y = _written(before.y, here, words)
        return replace(before, y=y, **{counter: getattr(before, counter) + len(words)})

    def _max(self, before: State, here: slice) -> State:
        """On integer keys; of zeros the first one stays."""
        top = before.top
        for word in fields(before.x)[here]:
            if fp16.order_key(word) > fp16.order_key(top):
                top = word
        return replace(before, top=top)

    def _exp(self, before: State, here: slice) -> State:
        """Exponentials of the distances to the maximum, added in order in float32 (D-kllm-20)."""
        x, top = fp16.values(np.array(fields(before.x)[here])), fp16.values(before.top)
        if self.softmax == "fp16":
            words = table16("exp")[fp16.bits(fp16.narrow(fp16.sub16(x, top)))]
        else:
            words = fp32.exp32(x.astype(np.float32) - top.astype(np.float32)).view(np.uint32)
        after = replace(before, terms=_written(before.terms, here, words.tolist()), exps=before.exps + len(words))
        total = self.added(_value32(before.total), self.term_values(after, here))
        return replace(after, total=int(total.view(np.uint32)))

    def added(self, total: np.float32, terms: np.ndarray) -> np.float32:
        """Add exponentials to the sum.

        Parameters
        ----------
        total : float32
            Sum so far.
        terms : ndarray of float32
            Exponentials of one cycle.

        Returns
        -------
        float32
            Sum behind them.
        """
        for term in terms:
            total = total + term
        return total

    def term_values(self, state: State, here: slice) -> np.ndarray:
        """Exponentials of some positions, float32.

        Parameters
        ----------
        state : State
            State that holds them.
        here : slice
            Positions.

        Returns
        -------
        ndarray of float32
            Values.
        """
        words = np.array(fields(state.terms)[here], np.uint32)
        if self.softmax == "softmax32":
            return words.view(np.float32)
        return fp16.values(words).astype(np.float32)

    def _divide(self, before: State, here: slice) -> State:
        """One float32 division and one rounding to fp16 each."""
        quotients = self.quotients(self.term_values(before, here), _value32(before.total))
        words = fp16.bits(fp16.to_f16(quotients)).tolist()
        return replace(before, y=_written(before.y, here, words), divides=before.divides + len(words))

    def quotients(self, terms: np.ndarray, total: np.float32) -> np.ndarray:
        """Divide exponentials by their sum.

        Parameters
        ----------
        terms : ndarray of float32
            Exponentials.
        total : float32
            Sum of all of the row.

        Returns
        -------
        ndarray of float32
            Quotients, rounded once.
        """
        return terms / total

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse NaN, +Inf, and for softmax a row of -Inf only."""
        (x,) = inputs
        require_values(fp16.values(x if self.t > 1 else x[..., None]), self.op)


def _written(before: Lanes, here: slice, words: list[int]) -> Lanes:
    """Lanes with `words` in the positions `here`."""
    after = list(fields(before))
    after[here] = words
    return lanes(after)


def _value32(word: int) -> np.float32:
    """float32 of a word."""
    return np.uint32(word).view(np.float32)


def require_values(x: np.ndarray, op: Op) -> None:
    """Refuse NaN and +Inf among float16 values, and for softmax a row that holds -Inf only."""
    bad = np.isnan(x) | (x == np.inf)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"functional: x must hold neither NaN nor +Inf, got {x[index]!s}{at(index)}")
    if op == "softmax" and x.size:
        empty = (x == -np.inf).all(axis=-1)
        if empty.any():
            raise Refused(f"functional: a row of softmax without a finite value{at(first_index(empty))}")


def require_rows(x: ArrayLike, op: Op) -> np.ndarray:
    """`x` as float16, of rows for softmax; its values may still be refused."""
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
    """Apply a function to every value, or softmax to every row.

    With softmax "fp16", d = r16(x - max), e = exp(d) rounded to fp16, the sum is float32 (D-kllm-20), and p = r16(r32(e
    / sum)); with "softmax32" all is float32, then r16. Counters are those of the rows as they stand: a function takes
    the last axis 8 values a cycle.

    Parameters
    ----------
    x : array_like of float16, any shape, (..., t) for softmax
        No NaN, no +Inf; in softmax -Inf masks, beside finite values only.
    op : {"exp", "sqrt", "recip", "softmax"}
        Function.
    softmax : {"fp16", "softmax32"}
        Which steps of softmax round to fp16.

    Returns
    -------
    Result
        `y` as float16 of the shape of x, and the counters.

    Raises
    ------
    Refused
        An option is unknown, a value is NaN or +Inf, or a row of softmax is empty or has no finite value.
    RefusedType
        `x` is not float16, or a scalar in softmax.

    References
    ----------
    [kllm §IV-A, Fig. 6]
    """
    array = require_rows(x, require_choice(op, get_args(Op), "functional", "op"))
    require_values(array, op)
    t = array.shape[-1] if array.ndim else 1
    if not t:
        return Result(y=array.copy(), exps=0, roots=0, divides=0, cycles=0)
    words = fp16.bits(array).reshape(array.shape if t > 1 else array.shape[:-1])
    answer = run(words, op=op, t=t, softmax=softmax)
    return replace(answer, y=fp16.values(answer.y).reshape(array.shape), top=None, terms=None, total=None)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration; only softmax has registers between its cycles."""
    width = 32 if config["softmax"] == "softmax32" else 16
    registers = (
        Port("top", 16, encoding="f16", meaning="largest logit of the row"),
        Port("terms", width, config["t"], encoding=f"f{width}", meaning="exponentials of the row"),
        Port("total", 32, encoding="f32", meaning="sum of the exponentials"),
    )
    return Ports(
        inputs=(Port("x", 16, config["t"], encoding="f16", meaning="arguments, or the logits of a row"),),
        outputs=(Port("y", 16, config["t"], encoding="f16", meaning="results"),),
        state=registers if config["op"] == "softmax" else (),
    )


UNIT: Unit[State, Result] = Unit(
    name="functional",
    paper="kllm §IV-A, Fig. 6",
    meaning="exponential, root, reciprocal; softmax of a row of logits",
    configs={
        "exp": Config(op="exp", t=1, softmax="fp16"),
        "sqrt": Config(op="sqrt", t=1, softmax="fp16"),
        "recip": Config(op="recip", t=1, softmax="fp16"),
        "softmax": Config(op="softmax", t=20, softmax="fp16"),
        "softmax32": Config(op="softmax", t=20, softmax="softmax32"),
    },
    ports=ports,
    unit_class=Functional,
    cases=functional_cases.cases,
    counters=("exps", "roots", "divides", "cycles"),
    result=Result,
)
run: RunFunction[Result] = UNIT.run
