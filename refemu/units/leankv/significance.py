"""How significant a token is: the attention that later tokens pay to it, summed, averaged, and as a share of all.

Paper: [leankv §3.1 Eq. (3), §3.2, §4]. Decisions: D-leankv-16 (which queries count), D-leankv-17 (a token's attention
to itself), D-leankv-18 (normalization), D-leankv-19 (heads that share a KV head).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, first_index, require_choice, require_int
from refemu.arith.orders import Sequential
from refemu.arith.scalar32 import div32, f32, pattern32, value32
from refemu.arith.sums import total32
from refemu.units import significance_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, choices, collect
from refemu.units.unit_cases import Seeds

#: parameters by preset
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"score_queries": None, "include_self": False, "normalize": True},
    "diffkv": {"score_queries": 64, "include_self": True, "normalize": False},
}
LARGEST = 0x3F80_0001  #: pattern of the largest p on a port: a reciprocal may make 1 one place too large


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset. Values are float32 patterns."""

    event: str  #: "reset", "query", "mean" or "share"
    index: int  #: number of the operation, -1 for the reset
    p: tuple[int, ...]
    sum: tuple[int, ...]
    mean: tuple[int, ...]
    share: tuple[int, ...]
    count: tuple[int, ...]
    of_heads: tuple[int, ...]  #: sums so far, head by head; of all heads where queries are aggregated first
    total: int  #: sum of the means so far
    row: int  #: queries added so far
    token: int  #: tokens finished in this phase
    adds: int
    comparisons: int  #: of the maximum over heads
    divisions: int


COUNTERS = ("adds", "comparisons", "divisions")


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """One value per token of every prompt; `sum`, `mean`, `share` are float32 patterns."""

    sum: np.ndarray  #: (..., N) uint32
    mean: np.ndarray  #: (..., N) uint32
    share: np.ndarray  #: (..., N) uint32
    count: np.ndarray  #: (..., N) uint32
    adds: int
    comparisons: int
    divisions: int


class Significance(Stepped):
    """The block of [leankv §4]. An operation: `query` for every row of p, `mean` for every token, `share` likewise."""

    name = "significance"

    def __init__(
        self,
        tokens: int = 8,
        heads: int = 2,
        score_queries: int | None = None,
        include_self: bool = False,
        normalize: bool = True,
        gqa: str = "max",
        gqa_order: str = "sums",
    ) -> None:
        """tokens: N of a prompt. heads: query heads G of the KV head.

        score_queries: only the last so many queries count; None = all. include_self: whether a token's own query does.
        normalize: whether shares add up to 1; else a share is the mean. gqa: heads joined by "max" or "mean".
        gqa_order: "sums" = after the sums of each head, "queries" = query by query before.
        """
        require_int(tokens, 1, 1 << 24, self.name, "tokens")
        require_int(heads, 1, 1 << 10, self.name, "heads")
        if score_queries is not None:
            require_int(score_queries, 1, 1 << 24, self.name, "score_queries")
        for name, flag in (("include_self", include_self), ("normalize", normalize)):
            if not isinstance(flag, bool):
                raise RefusedType(f"{self.name}: {name} must be a bool, got {flag!r}")
        require_choice(gqa, ("max", "mean"), self.name, "gqa")
        require_choice(gqa_order, ("sums", "queries"), self.name, "gqa_order")
        self.tokens, self.heads = tokens, heads
        self.score_queries, self.include_self, self.normalize = score_queries, include_self, normalize
        self.gqa, self.gqa_order = gqa, gqa_order
        self.ports = ports({"tokens": tokens, "heads": heads})
        self.counts = tuple(counts(tokens, score_queries, include_self).tolist())
        self.sums = heads if gqa_order == "sums" else 1  #: of one token

    @cached_property
    def state(self) -> State:  # made on demand: p of a model's prompt has 10^7 lanes
        """Ports and registers."""
        zeros = (0,) * self.tokens
        return State(
            "reset",
            -1,
            (0,) * (self.tokens * self.heads * self.tokens),
            zeros,
            zeros,
            zeros,
            zeros,
            (0,) * (self.sums * self.tokens),
            0,
            0,
            0,
            0,
            0,
            0,
        )

    @property
    def busy(self) -> bool:
        """Whether rows are still to be added or tokens to be finished."""
        return self.state.event in ("query", "mean") or (self.state.event == "share" and self.state.token < self.tokens)

    def step(self, *inputs: Any) -> State:
        """With the input p: add the row of query 0. Without: the next event of the operation."""
        if bool(inputs) == self.busy:
            raise Refused(f"{self.name}: step takes {'no inputs' if self.busy else 'the input of an operation'} now")
        before, zeros = self.state, (0,) * self.tokens
        if inputs:
            (p,) = self.accept(*inputs)
            p = p if isinstance(p, tuple) else (p,)
            self.state = replace(
                before,
                index=before.index + 1,
                p=p,
                sum=zeros,
                mean=zeros,
                share=zeros,
                total=0,
                count=zeros,
                of_heads=(0,) * (self.sums * self.tokens),
                row=0,
                token=0,
            )
        if self.state.row < self.tokens:
            self._query()
        elif before.event == "query" or (before.event == "mean" and before.token < self.tokens):
            self._mean(0 if before.event == "query" else before.token)
        else:
            self._share(0 if before.event == "mean" else before.token)
        return self.state

    def _query(self) -> None:
        """Row `row` of p, added for every token that it counts for (D-leankv-16, D-leankv-17)."""
        before = self.state
        row, n = before.row, self.tokens
        sums, counters = [value32(pattern) for pattern in before.of_heads], dict.fromkeys(COUNTERS, 0)
        for t in range(row + 1 if self.include_self else row):
            if row < n - (self.score_queries or n):
                continue
            p = [value32(before.p[(row * self.heads + h) * n + t]) for h in range(self.heads)]
            if self.gqa_order == "queries":
                p = [self.joined(p, counters)]
            for h, value in enumerate(p):
                sums[h * n + t] = f32(sums[h * n + t] + value)
                counters["adds"] += 1
        self._next("query", counters, of_heads=tuple(pattern32(s) for s in sums), row=row + 1)

    def joined(self, values: list[float], counters: dict[str, int]) -> float:
        """One value of those of all heads (D-leankv-19)."""
        result = 0.0
        for value in values:
            result = max(result, value) if self.gqa == "max" else f32(result + value)
            counters["comparisons" if self.gqa == "max" else "adds"] += 1
        if self.gqa == "max":
            return result
        counters["divisions"] += 1
        return f32(result / len(values))

    def _mean(self, t: int) -> None:
        """The sum of token t over heads, its mean, and the running total of means."""
        before, counters, c = self.state, dict.fromkeys(COUNTERS, 0), self.counts[t]
        sums = [value32(before.of_heads[h * self.tokens + t]) for h in range(self.sums)]
        s = self.joined(sums, counters) if self.gqa_order == "sums" else sums[0]
        mean = f32(s / f32(c)) if c else 0.0
        counters["divisions"] += c > 0
        counters["adds"] += self.normalize
        total = f32(value32(before.total) + mean) if self.normalize else 0.0
        self._next(
            "mean",
            counters,
            sum=put(before.sum, t, pattern32(s)),
            mean=put(before.mean, t, pattern32(mean)),
            count=put(before.count, t, c),
            total=pattern32(total),
            token=t + 1,
        )

    def _share(self, t: int) -> None:
        """The share of token t: its mean, of the total where shares are normalized (D-leankv-18)."""
        before, mean, total = self.state, value32(self.state.mean[t]), value32(self.state.total)
        divides = self.normalize and total != 0
        share = (div32(mean, total) if divides else 0.0) if self.normalize else mean
        self._next("share", {"divisions": int(divides)}, share=put(before.share, t, pattern32(share)), token=t + 1)

    def _next(self, event: str, counters: dict[str, int], **registers: Any) -> None:
        counted = {name: getattr(self.state, name) + count for name, count in counters.items()}
        self.state = replace(self.state, event=event, **registers, **counted)

    def steps(self, p: Any) -> Iterator[State]:
        """Yield the State after every event of every operation; p: patterns (..., N * G * N)."""
        yield from self.operations(admit(self.name, self.ports.inputs, (p,)))

    def __repr__(self) -> str:
        return (
            f"Significance(tokens={self.tokens}, heads={self.heads}, score_queries={self.score_queries}, "
            f"include_self={self.include_self}, normalize={self.normalize}, gqa={self.gqa!r}, "
            f"gqa_order={self.gqa_order!r})"
        )


def put(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    """`values` with one replaced."""
    return (*values[:at], value, *values[at + 1 :])


def counts(tokens: int, score_queries: int | None = None, include_self: bool = False) -> np.ndarray:
    """How many queries of a prompt count for each of its tokens: (N,) int64."""
    t = np.arange(tokens)
    first = np.maximum(t if include_self else t + 1, tokens - (score_queries or tokens))
    return tokens - first


def counts_at(
    n: int, position: Any, prompt: int, score_queries: int | None = None, include_self: bool = False
) -> np.ndarray:
    """Queries that counted for stored tokens when token `n` arrives, int64 in the shape of `position`.

    position: of the tokens, each below n. prompt: tokens of the prompt, N.
    """
    at = np.asarray(position, np.int64)
    first = np.maximum(at if include_self else at + 1, prompt - (score_queries or prompt))
    return np.where(at < prompt, prompt - first + (n - prompt), n - at - (0 if include_self else 1))


def update(score: np.ndarray, p: np.ndarray, gqa: str = "max") -> np.ndarray:
    """Scores after a step: fl(S + the heads' p joined). score: (..., T) float32; p: (..., G, T) float32.

    Call it with the tokens that the step counts for: without the new one where a token's own query does not count.
    """
    with np.errstate(all="ignore"):
        return score + join_heads(p, gqa)


def join_heads(p: np.ndarray, gqa: str = "max") -> np.ndarray:
    """Values of G heads (..., G, T), joined: the maximum from 0 on, or the sequential sum divided by G. float32."""
    result = np.zeros((*p.shape[:-2], p.shape[-1]), np.float32)
    for h in range(p.shape[-2]):
        result = np.maximum(result, p[..., h, :]) if gqa == "max" else result + p[..., h, :]
    return result if gqa == "max" else result / np.float32(p.shape[-2])


def critical_tokens(share: np.ndarray, x: float) -> np.ndarray:
    """How many tokens, the most significant first, it takes to reach `x` of the sum of shares [leankv §3.2, Fig. 2].

    share: (..., N) float32. Ties: the lower position first; fp32 running sum. Returns int64 (...).
    """
    require_p(share[..., None, :, None, :] if share.ndim > 1 else share[None, None, :], "share")
    if not 0 <= x <= 1:
        raise Refused(f"critical_tokens: x must be in [0, 1], got {x}")
    ordered = np.take_along_axis(share, np.argsort(-share, axis=-1, kind="stable"), axis=-1)
    running = np.add.accumulate(ordered, axis=-1, dtype=np.float32)
    wanted = np.float32(x) * running[..., -1:]
    return np.where(wanted[..., 0] == 0, 0, np.argmax(running >= wanted, axis=-1) + 1)


def coefficients(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Contribution of every token to the output [leankv §3.1 Eq. (3)]: fl(p * |v|), float32 (..., N).

    p: (..., N) float32. v: (N, F) float32; |v| is the root of the sequential float32 sum of squares.
    """
    return p * np.sqrt(total32(v * v, order=Sequential()))


def require_p(p: Any, name: str = "p") -> np.ndarray:
    """`p` (..., queries, G, tokens) as float32; refuses other shapes and what is negative, NaN or infinite."""
    array = np.asarray(p)
    if array.dtype != np.float32 or array.ndim < 3:
        raise RefusedType(
            f"significance: {name} must be float32 of shape (queries, heads, tokens), got {array.dtype} "
            f"of shape {array.shape}"
        )
    bad = ~(array >= 0) | (array == np.inf)
    if bad.any():
        *_, query, head, token = index = first_index(bad)
        raise Refused(
            f"significance: {name} must be finite and not negative, got {array[index]} at query {query}, "
            f"head {head}, token {token}"
        )
    return array


def require_prompt(p: Any) -> np.ndarray:
    """`p` (..., N, G, N) as float32: one row of heads for every token."""
    array = require_p(p)
    if array.shape[-3] != array.shape[-1]:
        raise RefusedType(f"significance: p must hold a query for every token, got shape {array.shape}")
    return array


def run(p: Any, **parameters: Any) -> Result:
    """Significance of the tokens of prompts.

    p: (..., N, G, N) float32, by query, head and token; what a query may not see is not read. parameters: those of
    Significance but for its sizes. Returns the Result, arrays (..., N). Refuses negative values, NaN and infinity.
    Paper: [leankv §4].
    """
    array = require_prompt(p)
    device = Significance(array.shape[-1], array.shape[-2], **parameters)
    last = [s for one in array.reshape(-1, *array.shape[-3:]) for s in _drained(device, one)]
    fields: dict[str, Any] = {
        port.name: np.array([getattr(state, port.name) for state in last], port.result_dtype).reshape(
            *array.shape[:-3], array.shape[-1]
        )
        for port in device.ports.outputs
    }
    return Result(**fields, **{name: getattr(device.state, name) for name in COUNTERS})


def _drained(device: Significance, p: np.ndarray) -> list[State]:
    """The last State of one operation, without the limit of the port."""
    device.state = replace(
        device.state,
        index=device.state.index + 1,
        row=0,
        token=0,
        total=0,
        p=tuple(p.view(np.uint32).ravel().tolist()),
        of_heads=(0,) * (device.sums * device.tokens),
    )
    device._query()
    while device.busy:
        device.step()
    return [device.state]


def run_ports(p: Any, *, tokens: int = 8, heads: int = 2, **parameters: Any) -> Result:
    """As `run` on patterns (..., N * G * N), at most LARGEST each, of prompts of `tokens` tokens."""
    device = Significance(tokens, heads, **parameters)
    (patterns,) = admit(device.name, device.ports.inputs, (p,))
    shape, states = patterns.shape[:-1] if device.ports.inputs[0].lanes > 1 else patterns.shape, list[State]()
    for state in device.steps(patterns):
        if not device.busy:
            states.append(state)
    return Result(
        **collect(states, device.ports.outputs, shape), **{name: getattr(device.state, name) for name in COUNTERS}
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    tokens, heads = config["tokens"], config["heads"]
    values = [
        Port(name, 32, tokens, encoding="f32", meaning=meaning)
        for name, meaning in (
            ("sum", "attention that counted queries pay to each token"),
            ("mean", "sum / count"),
            ("share", "mean / sum of the means; or the mean"),
        )
    ]
    return Ports(
        inputs=(
            Port(
                "p",
                32,
                tokens * heads * tokens,
                encoding="f32",
                least=0,
                most=LARGEST,
                meaning="probabilities by query, head and token",
            ),
        ),
        outputs=(*values, Port("count", 32, tokens, meaning="queries that count for each token")),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see significance_cases.py."""
    return significance_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="significance",
    paper="leankv §4, §3.2",
    meaning="attention paid to each token: sums, means, shares",
    configs={
        "paper": Config(tokens=8, heads=2, **PRESETS["paper"]),
        "diffkv": Config(tokens=8, heads=2, **{**PRESETS["diffkv"], "score_queries": 4}),
    },
    ports=ports,
    run=run_ports,
    twin="refemu.units.significance_jit:run_ports",
    unit_class=Significance,
    cases=cases,
    alternatives=(
        *choices("D-leankv-16", "score_queries", None, 64),
        *choices("D-leankv-17", "include_self", True, False),
        *choices("D-leankv-18", "normalize", True, False),
        *choices("D-leankv-19", "gqa", "mean"),
    ),
)
