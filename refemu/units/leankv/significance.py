"""Significance of tokens: the attention that later tokens pay to each, summed, averaged, and as a share of all.

Paper: [leankv §3.1 Eq. (3), §3.2, §4]. Decisions: D-leankv-16 (which queries count), D-leankv-17 (a token's attention
to itself), D-leankv-18 (normalization), D-leankv-19 (heads that share a KV head), D-arith-2 (rounding of sums and
quotients).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, first_index, require_bool, require_choice, require_int
from refemu.arith.orders import Sequential
from refemu.arith.scalar32 import div32, f32, pattern32, value32
from refemu.arith.sums import total32
from refemu.units import stepped
from refemu.units.leankv.cases import significance as significance_cases
from refemu.units.ports import Port, Ports, collect, fields
from refemu.units.stepped import Stepped
from refemu.units.unit import Config, RunFunction, Unit

__all__ = [
    "COUNTERS",
    "LARGEST",
    "PRESETS",
    "UNIT",
    "Gqa",
    "GqaOrder",
    "Result",
    "Significance",
    "State",
    "coefficients",
    "counts",
    "counts_at",
    "critical_tokens",
    "join_heads",
    "of_prompts",
    "run",
    "update",
]


Gqa = Literal["max", "mean"]  #: Join of the query heads of a KV head (D-leankv-19)
GqaOrder = Literal["sums", "queries"]  #: Order of the join: after the sums of every head, or query by query before
#: Parameters by preset
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"score_queries": None, "include_self": False, "normalize": True},
    "diffkv": {"score_queries": 64, "include_self": True, "normalize": False},
}
LARGEST = 0x3F80_0001  #: Pattern of the largest p on a port: a reciprocal may make 1 one place too large


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset. Values are float32 patterns."""

    #: "reset": no prompt yet; "query": the attention that one token pays is added to the sums of the tokens that it is
    #: paid to; "mean": query heads are joined, and the sum of one token is divided by its count; "share": the mean of
    #: one token is divided by the total of all
    event: str
    index: int  #: number of the prompt since reset, from 0; all its events have it; -1 at reset
    p: tuple[int, ...]
    sum: tuple[int, ...]
    mean: tuple[int, ...]
    share: tuple[int, ...]
    count: tuple[int, ...]
    of_heads: tuple[int, ...]  #: sums so far, head by head; of all heads where queries are aggregated first
    total: int  #: sum of the means so far
    row: int  #: queries added so far
    token: int  #: tokens finished in this phase
    adds: int  #: additions in float32
    comparisons: int  #: comparisons for the largest value over query heads
    divisions: int  #: divisions: of sums by counts, of means by their total, and for the mean over query heads


COUNTERS = ("adds", "comparisons", "divisions")  #: Counters of a run


@dataclass(frozen=True, eq=False)
class Result(stepped.Result):
    """One value per token of every prompt; `sum`, `mean`, `share` are float32 patterns."""

    sum: np.ndarray  #: (..., N) uint32
    mean: np.ndarray  #: (..., N) uint32
    share: np.ndarray  #: (..., N) uint32
    count: np.ndarray  #: (..., N) uint32
    of_heads: np.ndarray  #: (..., heads * N) uint32, or (..., N)
    total: np.ndarray  #: (...) uint32
    row: np.ndarray  #: (...), N
    token: np.ndarray  #: (...), N
    adds: int
    comparisons: int
    divisions: int


class Significance(Stepped[State]):
    """Significance of tokens: an operation is `query` for every row of p, `mean` for every token, then `share`.

    References
    ----------
    [leankv §3.1, §4]
    """

    name = "significance"

    def __init__(
        self,
        tokens: int = 8,
        heads: int = 2,
        score_queries: int | None = None,
        include_self: bool = False,
        normalize: bool = True,
        gqa: Gqa = "max",
        gqa_order: GqaOrder = "sums",
    ) -> None:
        """Configure the block.

        Parameters
        ----------
        tokens : int
            N, tokens of a prompt, 1 to 2**24.
        heads : int
            G, query heads of the KV head, 1 to 1024.
        score_queries : int, optional
            Number of last queries that count; by default all (D-leankv-16).
        include_self : bool
            Whether a token's own query counts (D-leankv-17).
        normalize : bool
            Whether shares add up to 1; else a share is the mean (D-leankv-18).
        gqa : {"max", "mean"}
            Join of the heads (D-leankv-19).
        gqa_order : {"sums", "queries"}
            Join after the sums of each head, or query by query before.

        Raises
        ------
        Refused
            A parameter is out of range or an option unknown.
        """
        self.tokens: int = require_int(tokens, 1, 1 << 24, self.name, "tokens")
        self.heads: int = require_int(heads, 1, 1 << 10, self.name, "heads")
        self.score_queries: int | None = require_queries(score_queries, self.name)
        self.include_self: bool = require_bool(include_self, self.name, "include_self")
        self.normalize: bool = require_bool(normalize, self.name, "normalize")
        self.gqa = require_choice(gqa, get_args(Gqa), self.name, "gqa")
        self.gqa_order = require_choice(gqa_order, get_args(GqaOrder), self.name, "gqa_order")
        self.ports: Ports = ports({"tokens": self.tokens, "heads": self.heads, "gqa_order": self.gqa_order})
        self.counts: tuple[int, ...] = tuple(counts(self.tokens, self.score_queries, self.include_self).tolist())
        self.sums: int = self.heads if self.gqa_order == "sums" else 1  #: of one token

    @cached_property
    def state(self) -> State:  # type: ignore[override]  # made on demand: p of a model's prompt has 10^7 lanes
        """Ports and registers."""
        p = (0,) * (self.tokens * self.heads * self.tokens)
        return self.reset(State, p=p, **self._cleared())

    def _cleared(self) -> dict[str, tuple[int, ...]]:
        """Registers of an operation that has not begun."""
        zeros = (0,) * self.tokens
        return dict.fromkeys(("sum", "mean", "share", "count"), zeros) | {"of_heads": zeros * self.sums}

    @property
    def busy(self) -> bool:
        """Whether rows are still to be added or tokens to be finished."""
        return self.state.event in ("query", "mean") or (self.state.event == "share" and self.state.token < self.tokens)

    def step(self, p: Sequence[int] | int | None = None) -> State:
        """Add the row of query 0 of a prompt's p; without inputs, execute the next event of the operation."""
        return self._stepped(p=p)

    def _open(self, p: tuple[int, ...] | int) -> State:
        self.state = self.latched(fields(p), total=0, row=0, token=0, **self._cleared())
        self._query()
        return self.state

    def _continue(self) -> State:
        before = self.state
        if before.row < self.tokens:
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
                sums[h * n + t] = self._added(sums[h * n + t], value)
                counters["adds"] += 1
        self._next("query", counters, of_heads=tuple(pattern32(s) for s in sums), row=row + 1)

    def joined(self, values: list[float], counters: dict[str, int]) -> float:
        """Join the values of all heads (D-leankv-19).

        Parameters
        ----------
        values : list of float
            One per head, float32 values.
        counters : dict of int
            Counters, which go up.

        Returns
        -------
        float
            Maximum, or mean of the sequential sum.
        """
        result = 0.0
        for value in values:
            result = max(result, value) if self.gqa == "max" else self._added(result, value)
            counters["comparisons" if self.gqa == "max" else "adds"] += 1
        if self.gqa == "max":
            return result
        counters["divisions"] += 1
        return self._divided(result, len(values))

    def _added(self, a: float, b: float) -> float:
        """a + b rounded to float32 (D-arith-2)."""
        return f32(a + b)

    def _divided(self, a: float, b: float) -> float:
        """a / b rounded to float32 (D-arith-2)."""
        return div32(a, b)

    def _mean(self, t: int) -> None:
        """The sum of token t over heads, its mean, and the running total of means."""
        before, counters, c = self.state, dict.fromkeys(COUNTERS, 0), self.counts[t]
        sums = [value32(before.of_heads[h * self.tokens + t]) for h in range(self.sums)]
        s = self.joined(sums, counters) if self.gqa_order == "sums" else sums[0]
        mean = self._divided(s, f32(c)) if c else 0.0
        counters["divisions"] += c > 0
        counters["adds"] += self.normalize
        total = self._added(value32(before.total), mean) if self.normalize else 0.0
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
        share = (self._divided(mean, total) if divides else 0.0) if self.normalize else mean
        self._next("share", {"divisions": int(divides)}, share=put(before.share, t, pattern32(share)), token=t + 1)

    def _next(self, event: str, counters: dict[str, int], **registers: Any) -> None:
        counted = {name: getattr(self.state, name) + count for name, count in counters.items()}
        self.state = replace(self.state, event=event, **registers, **counted)


def put(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    """`values` with the one at index `at` replaced."""
    return (*values[:at], value, *values[at + 1 :])


def require_queries(value: int | None, thing: str) -> int | None:
    """`score_queries` as Python's int, or None; refuses what is no positive number of queries."""
    return None if value is None else require_int(value, 1, 1 << 24, thing, "score_queries")


def counts(tokens: int, score_queries: int | None = None, include_self: bool = False) -> np.ndarray:
    """Count the queries of a prompt that count for each of its tokens.

    Parameters
    ----------
    tokens : int
        N.
    score_queries : int, optional
        Number of last queries that count; by default all.
    include_self : bool
        Whether a token's own query counts.

    Returns
    -------
    ndarray of int64 (N,)
        Queries.

    References
    ----------
    [leankv §4]
    """
    t = np.arange(tokens)
    first = np.maximum(t if include_self else t + 1, tokens - (score_queries or tokens))
    return tokens - first


def counts_at(
    n: int, position: ArrayLike, prompt: int, score_queries: int | None = None, include_self: bool = False
) -> np.ndarray:
    """Count the queries that counted for stored tokens when token `n` arrives.

    Parameters
    ----------
    n : int
        Position of the new token.
    position : array_like of integers
        Positions of the tokens, each below `n`.
    prompt : int
        N, tokens of the prompt.
    score_queries : int, optional
        Number of the prompt's last queries that count; by default all.
    include_self : bool
        Whether a token's own query counts.

    Returns
    -------
    ndarray of int64, shape of `position`
        Queries.

    References
    ----------
    [leankv §4]
    """
    at = np.asarray(position, np.int64)
    first = np.maximum(at if include_self else at + 1, prompt - (score_queries or prompt))
    return np.where(at < prompt, prompt - first + (n - prompt), n - at - (0 if include_self else 1))


def update(score: np.ndarray, p: np.ndarray, gqa: Gqa = "max") -> np.ndarray:
    """Add the attention of a step to the scores: fl(S + the heads' p joined).

    Without the new token where its own query does not count.

    Parameters
    ----------
    score : ndarray of float32 (..., T)
        Scores of the tokens that the step counts for.
    p : ndarray of float32 (..., G, T)
        Attention of every query head.
    gqa : {"max", "mean"}
        Join of the heads.

    Returns
    -------
    ndarray of float32 (..., T)
        Scores.

    References
    ----------
    [leankv §4]
    """
    with np.errstate(all="ignore"):
        return score + join_heads(p, gqa)


def join_heads(p: np.ndarray, gqa: Gqa = "max") -> np.ndarray:
    """Join the values of the query heads: the maximum from 0 on, or the sequential sum divided by G.

    Parameters
    ----------
    p : ndarray of float32 (..., G, T)
        Values.
    gqa : {"max", "mean"}
        Join of the heads (D-leankv-19).

    Returns
    -------
    ndarray of float32 (..., T)
        Joined values.

    References
    ----------
    [leankv §4]
    """
    result = np.zeros((*p.shape[:-2], p.shape[-1]), np.float32)
    for h in range(p.shape[-2]):
        result = np.maximum(result, p[..., h, :]) if gqa == "max" else result + p[..., h, :]
    return result if gqa == "max" else result / np.float32(p.shape[-2])


def critical_tokens(share: np.ndarray, x: float) -> np.ndarray:
    """Count the tokens, the most significant first, that reach a part of the sum of shares.

    Of equal shares the lower position comes first; the running sum is fp32.

    Parameters
    ----------
    share : ndarray of float32 (..., N)
        Shares, not negative.
    x : float
        Part of the sum, 0 to 1.

    Returns
    -------
    ndarray of int64 (...)
        Tokens.

    Raises
    ------
    Refused
        `x` is out of range, or a share negative, NaN or infinite.
    RefusedType
        `share` is not float32.

    References
    ----------
    [leankv §3.2, Fig. 2]
    """
    require_p(share[..., None, :, None, :] if share.ndim > 1 else share[None, None, :], "share")
    if not 0 <= x <= 1:
        raise Refused(f"critical_tokens: x must be in [0, 1], got {x}")
    ordered = np.take_along_axis(share, np.argsort(-share, axis=-1, kind="stable"), axis=-1)
    running = np.add.accumulate(ordered, axis=-1, dtype=np.float32)
    wanted = np.float32(x) * running[..., -1:]
    return np.where(wanted[..., 0] == 0, 0, np.argmax(running >= wanted, axis=-1) + 1)


def coefficients(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Contribution of every token to the output, fl(p * |v|); |v| is the root of the sequential float32 sum of squares.

    Parameters
    ----------
    p : ndarray of float32 (..., N)
        Attention.
    v : ndarray of float32 (N, F)
        Values.

    Returns
    -------
    ndarray of float32 (..., N)
        Contributions.

    References
    ----------
    [leankv §3.1 Eq. (3)]
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


def of_prompts(
    p: ArrayLike,
    *,
    score_queries: int | None = None,
    include_self: bool = False,
    normalize: bool = True,
    gqa: Gqa = "max",
    gqa_order: GqaOrder = "sums",
) -> Result:
    """Compute the significance of the tokens of prompts, without the upper limit of the port.

    Parameters
    ----------
    p : array_like of float32 (..., N, G, N)
        Attention by query, head and token; what a query may not see is not read.
    score_queries : int, optional
        Number of last queries that count; by default all.
    include_self : bool
        Whether a token's own query counts.
    normalize : bool
        Whether shares add up to 1; else a share is the mean.
    gqa : {"max", "mean"}
        Join of the heads.
    gqa_order : {"sums", "queries"}
        Join after the sums of each head, or query by query before.

    Returns
    -------
    Result
        Arrays (..., N).

    Raises
    ------
    Refused
        A value is negative, NaN or infinite, or a parameter out of range.
    RefusedType
        `p` is not float32 of that shape.

    References
    ----------
    [leankv §4]
    """
    array = require_prompt(p)
    *lead, tokens, heads, _ = array.shape
    device = Significance(tokens, heads, score_queries, include_self, normalize, gqa, gqa_order)
    patterns = np.ascontiguousarray(array).view(np.uint32).reshape(-1, tokens * heads * tokens)
    states = [state for state in device.operations([patterns]) if not device.busy]
    columns = collect(states, device.ports.outputs + device.ports.state, (len(states),))
    shaped = {
        name: column.reshape(tuple(lead) if name in ("total", "row", "token") else (*lead, column[0].size))
        for name, column in columns.items()
    }
    return Result(**shaped, **{name: getattr(device.state, name) for name in COUNTERS})


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    tokens, heads = config["tokens"], config["heads"]
    sums = heads if config.get("gqa_order", "sums") == "sums" else 1
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
        state=(
            Port(
                "of_heads", 32, sums * tokens, encoding="f32", meaning="sums head by head; of all heads joined before"
            ),
            Port("total", 32, encoding="f32", meaning="sum of the means; 0 where shares are not normalized"),
            Port("row", tokens.bit_length(), most=tokens, meaning="queries added"),
            Port("token", tokens.bit_length(), most=tokens, meaning="tokens finished, of means and then of shares"),
        ),
    )


UNIT: Unit[State, Result] = Unit(
    name="significance",
    paper="leankv §4, §3.2",
    meaning="attention paid to each token: sums, means, shares",
    configs={
        "paper": Config(tokens=8, heads=2, **PRESETS["paper"]),
        "diffkv": Config(tokens=8, heads=2, **{**PRESETS["diffkv"], "score_queries": 4}),
    },
    ports=ports,
    unit_class=Significance,
    cases=significance_cases.cases,
    counters=COUNTERS,
    result=Result,
)
run: RunFunction[Result] = UNIT.run
