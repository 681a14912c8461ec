"""The Functional Unit: exponentials, roots and reciprocals of fp16 values, and the softmax made of them.

Paper: [kllm §IV-A, Fig. 6]: one unit with 8 exponential units per chip; every value is a correctly rounded table entry.
Softmax takes the fp16 logits that are never quantized [kllm §III-A] and makes three passes over a row: the maximum, the
exponentials with their sum, the divisions. Decision: D-kllm-20 (the sum is float32).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refemu.arith import fp16, fp32
from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice, require_int
from refemu.arith.tables import table16
from refemu.units import functional_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, collect, fields, lanes
from refemu.units.unit_cases import Seeds

WIDTH = 8  #: exponential units: values of one cycle
OPS = {"exp": "exps", "sqrt": "roots", "recip": "divides"}  #: functions of one value, and what counts them
PASSES = ("max", "exp", "divide")  #: of softmax
SOFTMAX = ("fp16", "softmax32")  #: the steps in fp16 but the sum; or all in float32, rounded once
MINUS_INF = 0xFC00


@dataclass(frozen=True)
class State:
    """Ports and registers after one cycle, and what happened since reset."""

    event: str  #: "reset", the function, or one of PASSES
    index: int  #: cycle of the operation, -1 for the reset
    x: Any  #: words; a tuple of lanes, an int where a port has one lane, here and below
    y: Any
    top: int  #: word of the largest value of the row so far
    terms: tuple[float, ...]  #: exponentials of the row so far
    total: float  #: their float32 sum in order
    exps: int
    roots: int
    divides: int
    cycles: int


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit. From `run` y is float16, between the ports it holds words."""

    y: np.ndarray
    exps: int
    roots: int
    divides: int
    cycles: int  #: 8 values a pass and cycle


class Functional(Stepped):
    """The block of [kllm Fig. 6]: an operation is a function of t values, or the softmax of a row of t values."""

    name = "functional"

    def __init__(self, op: str = "exp", t: int = 1, softmax: str = "fp16") -> None:
        """op: "exp", "sqrt", "recip" or "softmax". t: values of an operation. softmax: one of SOFTMAX."""
        self.op = require_choice(op, (*OPS, "softmax"), self.name, "op")
        require_int(t, 1, 1 << 22, self.name, "t")
        self.t, self.softmax = t, require_choice(softmax, SOFTMAX, self.name, "softmax")
        self.ports = ports({"t": t})
        zeros = lanes((0,) * t)
        self.state = State("reset", -1, zeros, zeros, MINUS_INF, (), 0.0, 0, 0, 0, 0)

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

    def step(self, *inputs: Any) -> State:
        """With inputs (x,): the first cycle of an operation. Without: the next one.

        Refused: inputs while an operation is on its way, none while there is none, NaN, +Inf, a row of -Inf only.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: cycle {self.state.index} came last" if self.busy else "the inputs of an operation"
            raise Refused(f"{self.name}: step takes {wanted}")
        before = self.state
        if inputs:
            (x,) = self.accept(*inputs)
            require_values(fp16.values(np.array(fields(x))), self.op)
            before = replace(before, index=-1, x=x, y=lanes((0,) * self.t), top=MINUS_INF, terms=(), total=0.0)
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
        return replace(_written(before, here, words), **{counter: getattr(before, counter) + len(words)})

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
            words = fp16.bits(fp16.narrow(fp16.sub16(x, top)))
            terms = fp16.values(table16("exp")[words]).astype(np.float32)
        else:
            terms = fp32.exp32(x.astype(np.float32) - top.astype(np.float32))
        total = np.float32(before.total)
        for term in terms:
            total = total + term
        return replace(
            before, terms=before.terms + tuple(terms.tolist()), total=float(total), exps=before.exps + len(terms)
        )

    def _divide(self, before: State, here: slice) -> State:
        """One float32 division and one rounding to fp16 each."""
        quotients = np.array(before.terms[here], np.float32) / np.float32(before.total)
        words = fp16.bits(fp16.to_f16(quotients)).tolist()
        return replace(_written(before, here, words), divides=before.divides + len(words))

    def steps(self, x: Any) -> Iterator[State]:
        """Yield the State after every cycle of every operation, in C order; x: (..., t) words."""
        yield from self.operations(admit(self.name, self.ports.inputs, (x,)))

    def __repr__(self) -> str:
        return f"Functional(op={self.op!r}, t={self.t}, softmax={self.softmax!r})"


def _written(before: State, here: slice, words: list[int]) -> State:
    y = list(fields(before.y))
    y[here] = words
    return replace(before, y=lanes(y))


def require_values(x: np.ndarray, op: str) -> None:
    """Refuse NaN and +Inf among float16 values, and for softmax a row that holds -Inf only."""
    bad = np.isnan(x) | (x == np.inf)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"functional: x must hold neither NaN nor +Inf, got {x[index]!s}{at(index)}")
    if op == "softmax" and x.size:
        empty = (x == -np.inf).all(axis=-1)
        if empty.any():
            raise Refused(f"functional: a row of softmax without a finite value{at(first_index(empty))}")


def require_rows(x: Any, op: str) -> np.ndarray:
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


def run(x: Any, *, op: str = "exp", softmax: str = "fp16") -> Result:
    """A function of every value of `x`, or the softmax of every row.

    x: float16 of any shape, (..., t) for softmax; no NaN, no +Inf, -Inf only beside finite values in softmax, where it
    masks. op: "exp", "sqrt", "recip", "softmax". softmax: "fp16" (d = r16(x - max), e = exp(d) rounded to fp16, the sum
    in float32, p = r16(r32(e / sum))) or "softmax32" (all float32, then r16). Returns y as float16, shape of x.
    Counters are those of the rows as they stand: a function takes the last axis 8 values a cycle.
    """
    array = require_rows(x, require_choice(op, (*OPS, "softmax"), "functional", "op"))
    require_values(array, op)
    t = array.shape[-1] if array.ndim else 1
    if not t:
        return Result(array.copy(), 0, 0, 0, 0)
    answer = run_ports(
        fp16.bits(array).reshape(array.shape if t > 1 else array.shape[:-1]), op=op, t=t, softmax=softmax
    )
    return replace(answer, y=fp16.values(answer.y).reshape(array.shape))


def run_ports(x: Any, *, op: str = "exp", t: int = 1, softmax: str = "fp16") -> Result:
    """`run` between the ports: x (..., t) words, no axis of lanes for t = 1; y words."""
    device = Functional(op, t, softmax)
    (words,) = admit(device.name, device.ports.inputs, (x,))
    shape = words.shape[:-1] if t > 1 else words.shape
    require_values(fp16.values(words if t > 1 else words[..., None]), op)
    states = [state for state in device.steps(words) if state.index == device.last]
    last = device.state
    return Result(
        **collect(states, device.ports.outputs, shape),
        exps=last.exps,
        roots=last.roots,
        divides=last.divides,
        cycles=last.cycles,
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    return Ports(
        inputs=(Port("x", 16, config["t"], encoding="f16", meaning="arguments, or the logits of a row"),),
        outputs=(Port("y", 16, config["t"], encoding="f16", meaning="results"),),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see functional_cases.py."""
    return functional_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
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
    run=run_ports,
    twin="refemu.units.functional_jit:run_ports",
    unit_class=Functional,
    cases=cases,
)
