"""Significance of tokens: the attention from later tokens to each, summed, averaged, and as a share of all.

Paper: [leankv §3.1 Eq. (3), §3.2, §4].
"""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, first_index, require_int
from refemu.arith.orders import Sequential
from refemu.arith.scalar32 import div32, f32, pattern32, value32
from refemu.arith.sums import total32
from refemu.units import AnyUnit, Changes, Combinational, Config, DeclaredState, Result, Unit, constant, decides
from refemu.units.ports import Port, Ports, collect, put
from refemu.units.unit import RunFunction

__all__ = [
    "LARGEST",
    "PRESETS",
    "UNIT",
    "Gqa",
    "GqaOrder",
    "Significance",
    "State",
    "coefficients",
    "counts",
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
LARGEST = 0x3F80_0001  #: pattern of the largest p on a port: a reciprocal may be one place above 1


class Significance(Combinational):
    """Significance of tokens: an operation is `query` for every row of p, `mean` for every token, then `share`.

    Values are float32 patterns. [leankv §3.1, §4]
    """

    name = "significance"
    events: ClassVar[tuple[str, ...]] = ("query", "mean", "share")
    counters: ClassVar[dict[str, str]] = {
        "adds": "additions in float32",
        "comparisons": "comparisons for the largest value over query heads",
        "divisions": "divisions: of sums by counts, of means by their total, and for the mean over query heads",
    }
    tokens: Annotated[int, 1, 1 << 24] = 8  #: N, tokens of a prompt, 1 to 2**24
    heads: Annotated[int, 1, 1 << 10] = 2  #: G, query heads of the KV head, 1 to 1024
    score_queries: int | None = None  #: number of last queries that count; by default all (D-leankv-16)
    include_self: bool = False  #: whether a token's own query counts (D-leankv-17)
    normalize: bool = True  #: whether shares sum to 1; else a share is the mean (D-leankv-18)
    gqa: Gqa = "max"  #: join of the heads (D-leankv-19)
    gqa_order: GqaOrder = "sums"  #: join after the sums of each head, or query by query before

    def check(self) -> None:
        require_queries(self.score_queries, self.name)

    @constant
    def counts(self) -> tuple[int, ...]:
        """Queries that count for each token."""
        return tuple(counts(self.tokens, self.score_queries, self.include_self).tolist())

    @constant
    def sums(self) -> int:
        """Sums of one token."""
        return self.heads if self.gqa_order == "sums" else 1

    @constant
    def ports(self) -> Ports:
        tokens, p = self.tokens, "probabilities by query, head and token"
        joined = "sums head by head; sums of all heads joined before"
        return Ports(
            inputs=(Port("p", 32, tokens * self.heads * tokens, encoding="f32", least=0, most=LARGEST, meaning=p),),
            outputs=(
                Port("sum", 32, tokens, encoding="f32", meaning="attention from counted queries to each token"),
                Port("mean", 32, tokens, encoding="f32", meaning="sum / count"),
                Port("share", 32, tokens, encoding="f32", meaning="mean / sum of the means; or the mean"),
                Port("count", 32, tokens, meaning="queries that count for each token"),
            ),
            state=(
                Port("of_heads", 32, self.sums * tokens, encoding="f32", meaning=joined),
                Port("total", 32, encoding="f32", meaning="sum of the means; 0 if shares are not normalized"),
                Port("row", tokens.bit_length(), most=tokens, meaning="queries added"),
                Port("token", tokens.bit_length(), most=tokens, meaning="finished tokens: means, then shares"),
            ),
        )

    @constant
    def _cleared(self) -> dict[str, Any]:
        """Outputs and registers before an operation."""
        zeros = (0,) * self.tokens
        lanes = dict.fromkeys(("sum", "mean", "share", "count"), zeros) | {"of_heads": zeros * self.sums}
        return {**lanes, "total": 0, "row": 0, "token": 0}

    def _reset(self) -> None:
        """Reset lazily: the State is built on access, since p of a model's prompt has 10^7 lanes."""

    @cached_property
    def state(self) -> DeclaredState:  # type: ignore[override]  # see `_reset`
        """Ports and registers."""
        p = self.ports.inputs[0].filled(0)
        return self.reset(self.State, p=p, **self._cleared)

    @property
    def busy(self) -> bool:
        """Whether rows to add or tokens to finish remain."""
        return self.state.event in ("query", "mean") or (self.state.event == "share" and self.state.token < self.tokens)

    def _open(self, *inputs: Any) -> DeclaredState:
        """Every query, the first one too, reads p in the State."""
        self._commit("query", (inputs[0],), self._cleared)
        return self._continue()

    def follows(self) -> str:
        before = self.state
        if before.row < self.tokens:
            return "query"
        return "mean" if before.event == "query" or (before.event == "mean" and before.token < self.tokens) else "share"

    def query(self) -> Changes:
        """Add the attention from one token to the sums of the tokens that it attends to."""
        return self._row(self.state.p)

    def _row(self, patterns: Any) -> Changes:
        """`query`, of the probabilities of all queries."""
        before = self.state
        row, n = before.row, self.tokens
        sums, counted = [value32(pattern) for pattern in before.of_heads], dict.fromkeys(self.counters, 0)
        for t in range(row + 1 if self.include_self else row):  # D-leankv-17
            if row < n - (self.score_queries or n):  # D-leankv-16
                continue
            p = [value32(patterns[(row * self.heads + h) * n + t]) for h in range(self.heads)]
            if self.gqa_order == "queries":
                p = [self.joined(p, counted)]
            for h, value in enumerate(p):
                sums[h * n + t] = self._added(sums[h * n + t], value)
                counted["adds"] += 1
        return {**counted, "of_heads": tuple(pattern32(s) for s in sums), "row": row + 1}

    @decides("D-leankv-19")
    def joined(self, values: list[float], counted: dict[str, int]) -> float:
        """The float32 values of all heads joined: the largest, or the mean by a sequential sum."""
        result = 0.0
        for value in values:
            result = max(result, value) if self.gqa == "max" else self._added(result, value)
            counted["comparisons" if self.gqa == "max" else "adds"] += 1
        if self.gqa == "max":
            return result
        counted["divisions"] += 1
        return self._divided(result, len(values))

    @decides("D-arith-2")
    def _added(self, a: float, b: float) -> float:
        """a + b rounded to float32."""
        return f32(a + b)

    @decides("D-arith-2")
    def _divided(self, a: float, b: float) -> float:
        """a / b rounded to float32."""
        return div32(a, b)

    def mean(self) -> Changes:
        """Join the query heads, and divide the sum of one token by its count."""
        before, counted = self.state, dict.fromkeys(self.counters, 0)
        t, c = before.token, self.counts[before.token]
        sums = [value32(before.of_heads[h * self.tokens + t]) for h in range(self.sums)]
        s = self.joined(sums, counted) if self.gqa_order == "sums" else sums[0]
        mean = self._divided(s, f32(c)) if c else 0.0
        counted["divisions"] += c > 0
        counted["adds"] += self.normalize
        total = self._added(value32(before.total), mean) if self.normalize else 0.0
        return {
            **counted,
            "sum": put(before.sum, t, pattern32(s)),
            "mean": put(before.mean, t, pattern32(mean)),
            "count": put(before.count, t, c),
            "total": pattern32(total),
            "token": t + 1,
        }

    def share(self) -> Changes:
        """Divide the mean of one token by the total of all."""
        t = self.state.token if self.state.event == "share" else 0
        mean, total = value32(self.state.mean[t]), value32(self.state.total)
        divides = self.normalize and total != 0  # D-leankv-18
        share = (self._divided(mean, total) if divides else 0.0) if self.normalize else mean
        return {"share": put(self.state.share, t, pattern32(share)), "token": t + 1, "divisions": int(divides)}


def require_queries(value: int | None, thing: str) -> int | None:
    """`score_queries` as a Python int, or None; rejects anything but a positive number."""
    return None if value is None else require_int(value, 1, 1 << 24, thing, "score_queries")


def counts(tokens: int, score_queries: int | None = None, include_self: bool = False) -> np.ndarray:
    """Count the queries of a prompt that count for each of its tokens. [leankv §4]

    include_self: whether a token's own query counts. Returns int64 (N,): queries.
    """
    t = np.arange(tokens)
    first = np.maximum(t if include_self else t + 1, tokens - (score_queries or tokens))
    return tokens - first


def update(score: np.ndarray, p: np.ndarray, gqa: Gqa = "max") -> np.ndarray:
    """Add the attention of a step to the scores: fl(S + the heads' p joined). [leankv §4]

    Without the new token if its own query does not count.

    score: float32 (..., T), scores of the tokens that the step counts for. p: float32 (..., G, T), attention of every
    query head. Returns float32 (..., T): scores.
    """
    with np.errstate(all="ignore"):
        return score + join_heads(p, gqa)


def join_heads(p: np.ndarray, gqa: Gqa = "max") -> np.ndarray:
    """Join the values of the query heads: the maximum from 0 on, or the sequential sum divided by G. [leankv §4]

    p: float32 (..., G, T), values. Returns float32 (..., T): joined values.
    """
    result = np.zeros((*p.shape[:-2], p.shape[-1]), np.float32)
    for h in range(p.shape[-2]):
        result = np.maximum(result, p[..., h, :]) if gqa == "max" else result + p[..., h, :]
    return result if gqa == "max" else result / np.float32(p.shape[-2])


def critical_tokens(share: np.ndarray, x: float) -> np.ndarray:
    """Count the tokens, the most significant first, that reach a part of the sum of shares. [leankv §3.2, Fig. 2]

    The lower position of equal shares comes first; the running sum is fp32.

    share: float32 (..., N), shares, at least 0. Returns int64 (...): tokens. Raises Refused: `x` is out of range, or a
    share negative, NaN or infinite. Raises RefusedType: `share` is not float32.
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
    [leankv §3.1 Eq. (3)]

    p: float32 (..., N), attention. v: float32 (N, F), values. Returns float32 (..., N): contributions.
    """
    return p * np.sqrt(total32(v * v, order=Sequential()))


def require_p(p: Any, name: str = "p") -> np.ndarray:
    """`p` (..., queries, G, tokens) as float32; rejects other shapes, and negative, NaN or infinite values."""
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
            f"significance: {name} must be finite and at least 0, got {array[index]} at query {query}, "
            f"head {head}, token {token}"
        )
    return array


def require_prompt(p: Any) -> np.ndarray:
    """`p` (..., N, G, N) as float32: one row of heads for every token."""
    array = require_p(p)
    if array.shape[-3] != array.shape[-1]:
        raise RefusedType(f"significance: p must have a query for every token, got shape {array.shape}")
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
    """Compute the significance of the tokens of prompts, without the upper limit of the port. [leankv §4]

    p: float32 (..., N, G, N), attention by query, head and token; values beyond a query's own token are not read.
    include_self: whether a token's own query counts. normalize: whether shares sum to 1; else a share is the mean.
    Raises Refused: a value is negative, NaN or infinite, or a parameter out of range. Raises RefusedType: `p` is not
    float32 of that shape.
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
    result: Callable[..., Result] = UNIT.result
    return result(**shaped, **{name: getattr(device.state, name) for name in device.counters})


UNIT: AnyUnit = Unit(
    unit_class=Significance,
    paper="leankv §4, §3.2",
    meaning="attention paid to each token: sums, means, shares",
    configs={
        "paper": Config(tokens=8, heads=2, **PRESETS["paper"]),
        "diffkv": Config(tokens=8, heads=2, **{**PRESETS["diffkv"], "score_queries": 4}),
    },
)
State: type[DeclaredState] = Significance.State
run: RunFunction[Result] = UNIT.run
