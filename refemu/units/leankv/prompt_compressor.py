"""Which tokens of a prompt stay, at which precision, and in which order they enter the pages.

Paper: [leankv §4]. The last W tokens stay at the high precision; the others are sorted by their share of the attention.
Decisions: D-leankv-20 (rule), D-leankv-21 (what T_h's sum includes), D-leankv-22 (the token that reaches a threshold),
D-leankv-23 (equal shares, order in the pages), D-leankv-24 (short prompts), D-leankv-25 (where the window lives),
D-leankv-51 (thresholds), D-leankv-54 (equal budgets).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, at, first_index, require_choice, require_int
from refemu.arith.scalar32 import f32, value32
from refemu.units import prompt_compressor_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, choices, collect
from refemu.units.unit_cases import Seeds

PRUNED, LOW, HIGH, WINDOW = range(4)  #: classes of a token
RULES = ("cumulative", "per_token", "static")
#: parameters by preset
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"rule": "cumulative", "order": "stable"},
    "diffkv": {"rule": "per_token", "order": "bitonic"},
}
#: thresholds by preset: the paper's T_l and T_h, the code's alpha_prune and alpha_quant (D-leankv-51)
THRESHOLDS = {"paper": (0.0, 0.01), "diffkv": (0.02, 1.0)}
LARGEST = 0x7F7F_FFFF  #: pattern of the largest finite float32: pads of the sorting network, above every share


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "sort", "compare_exchange" or "classify"
    index: int  #: number of the operation, -1 for the reset
    share: tuple[int, ...]  #: float32 patterns
    window: int
    thresholds: tuple[int, int]  #: float32 patterns: T_l and T_h, or alpha_prune and alpha_quant
    cls: tuple[int, ...]
    order: tuple[int, ...]  #: positions, the pruned ones first, then low, high, window
    n_pruned: int
    n_low: int
    n_high: int
    keys: tuple[float, ...]  #: what is sorted: shares, 1 for the window, pads
    sorted: tuple[int, ...]  #: positions as the sort has them so far
    size: int  #: of the blocks that the network merges, 0 = sorted
    distance: int  #: of the elements it compares
    lower: int  #: next element it compares with one above
    rank: int  #: tokens classified
    running: float  #: sum of the shares classified, or of those after the pruned
    comparisons: int  #: of the network
    exchanges: int
    classified: int


COUNTERS = ("comparisons", "exchanges", "classified")


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """One value per prompt, `cls` and `order` one per token."""

    cls: np.ndarray  #: (..., N) uint8
    order: np.ndarray  #: (..., N) uint32
    n_pruned: np.ndarray  #: (...) uint32
    n_low: np.ndarray
    n_high: np.ndarray
    comparisons: int
    exchanges: int
    classified: int


class PromptCompressor(Stepped):
    """The block. An operation is one `sort`, or a `compare_exchange` per pair of a network; `classify` per token.

    A short prompt, N <= W, is not sorted.
    """

    name = "prompt_compressor"

    def __init__(
        self,
        tokens: int = 16,
        rule: str = "cumulative",
        order: str = "stable",
        low_cumsum: str = "total",
        keep_percent: int = 100,
    ) -> None:
        """tokens: N of a prompt.

        rule: "cumulative" = sums of shares below T_l, T_h; "per_token" = shares below alpha / N; "static" = the same
        number in every head, `keep_percent` of the prompt, thresholds not read. order: "stable" = by share, position,
        the window last by position; or the "bitonic" network. It never changes a class: the sums go by (share,
        position) in both. low_cumsum: T_h's sum is the "total", or "restart" after
        the pruned tokens.
        """
        require_int(tokens, 1, 1 << 24, self.name, "tokens")
        require_choice(rule, RULES, self.name, "rule")
        require_choice(order, ("stable", "bitonic"), self.name, "order")
        require_choice(low_cumsum, ("total", "restart"), self.name, "low_cumsum")
        require_int(keep_percent, 0, 100, self.name, "keep_percent")
        self.tokens, self.rule, self.order = tokens, rule, order
        self.low_cumsum, self.keep_percent = low_cumsum, keep_percent
        self.ports = ports({"tokens": tokens, "rule": rule})
        zeros = (0,) * tokens
        self.state = State("reset", -1, zeros, 1, (0, 0), zeros, zeros, *(0,) * 3, (), (), *(0,) * 4, 0.0, 0, 0, 0)

    @property
    def busy(self) -> bool:
        """Whether the network is on its way or tokens are still to be classified."""
        return self.state.event != "reset" and self.state.rank < self.tokens

    def step(self, *inputs: Any) -> State:
        """With inputs (share, window, thresholds): the sort, or its first pair. Without: the next event.

        Refused: inputs while an operation is on its way, none while there is none, thresholds out of order.
        """
        if bool(inputs) == self.busy:
            raise Refused(f"{self.name}: step takes {'no inputs' if self.busy else 'the inputs of an operation'} now")
        if inputs:
            share, window, thresholds = self.accept(*inputs)
            share = share if isinstance(share, tuple) else (share,)
            self.require(np.array(window), np.array(thresholds))
            self._begin(share, window, thresholds)
        elif self.state.size:
            self._compare_exchange()
        else:
            self._classify()
        return self.state

    def _begin(self, share: tuple[int, ...], window: int, thresholds: tuple[int, int]) -> None:
        n, zeros = self.tokens, (0,) * self.tokens
        short = n <= window  # all high, by position (D-leankv-24)
        keys = [1.0 if t >= n - window else value32(pattern) for t, pattern in enumerate(share)]
        outside = range(max(n - window, 0))
        self.state = replace(
            self.state,
            event="sort",
            index=self.state.index + 1,
            share=share,
            window=window,
            thresholds=thresholds,
            cls=zeros,
            order=zeros,
            n_pruned=0,
            n_low=0,
            n_high=0,
            rank=0,
            running=0.0,
            size=0,
        )
        if short or self.order == "stable":
            ranked = sorted(outside, key=lambda t: (keys[t], t))
            self.state = replace(self.state, keys=tuple(keys), sorted=(*ranked, *range(len(outside), n)))
            return
        padded = 1 << (n - 1).bit_length()
        pads = [value32(LARGEST)] * (padded - n)
        self.state = replace(self.state, keys=(*keys, *pads), sorted=tuple(range(padded)), size=2, distance=1, lower=0)
        self._compare_exchange()

    def _compare_exchange(self) -> None:
        """One pair of the network: exchanged if strictly out of order (D-leankv-23)."""
        before, i = self.state, self.state.lower
        j, ranked = i ^ before.distance, list(before.sorted)
        left, right = before.keys[ranked[i]], before.keys[ranked[j]]
        exchanged = left > right if i & before.size == 0 else left < right
        if exchanged:
            ranked[i], ranked[j] = ranked[j], ranked[i]
        self.state = replace(
            before,
            event="compare_exchange",
            sorted=tuple(ranked),
            comparisons=before.comparisons + 1,
            exchanges=before.exchanges + exchanged,
            **self._next_pair(before),
        )

    def _next_pair(self, state: State) -> dict[str, int]:
        """Registers of the network for the pair after this one; size 0 after the last."""
        padded, lower = len(state.keys), state.lower + 1
        while lower < padded and lower & state.distance:
            lower += 1
        if lower < padded:
            return {"lower": lower}
        if state.distance > 1:
            return {"lower": 0, "distance": state.distance // 2}
        size = 2 * state.size
        return {"lower": 0, "distance": size // 2, "size": size if size <= padded else 0}

    def _classify(self) -> None:
        """The next token in order: its place after those before it, and the class of its rank by (share, position)."""
        before = self.state
        ranked = [t for t in before.sorted if t < self.tokens]
        t = ranked[before.rank]
        own = self._next_of_equals(t, ranked[: before.rank])
        cls, running = self._class_of(own, before)
        counts = {
            "n_pruned": before.n_pruned + (cls == PRUNED),
            "n_low": before.n_low + (cls == LOW),
            "n_high": before.n_high + (cls == HIGH),
        }
        self.state = replace(
            before,
            event="classify",
            rank=before.rank + 1,
            running=running,
            cls=(*before.cls[:own], cls, *before.cls[own + 1 :]),
            order=(*before.order[: before.rank], t, *before.order[before.rank + 1 :]),
            classified=before.classified + 1,
            **counts,
        )

    def _next_of_equals(self, t: int, done: Sequence[int]) -> int:
        """The token that takes the class of t's rank: of equal shares the lowest position first, whatever `order` is.

        done: the tokens before t in order. The network may swap equal shares; a threshold between them must not notice.
        """
        border, keys = max(self.tokens - self.state.window, 0), self.state.keys
        if t >= border or self.rule == "per_token":  # a share alone decides there
            return t
        equal = [u for u in range(border) if keys[u] == keys[t]]
        return equal[len([u for u in done if u in equal])]

    def _class_of(self, t: int, state: State) -> tuple[int, float]:
        """Class of token t, and the running sum with it."""
        if t >= self.tokens - state.window:
            return WINDOW, state.running
        share, (low, high) = state.keys[t], (value32(pattern) for pattern in state.thresholds)
        if self.rule == "static":
            budget = max(state.window, self.tokens * self.keep_percent // 100)
            return (PRUNED if state.n_pruned < self.tokens - budget else HIGH), state.running
        if self.rule == "per_token":
            base = f32(1 / f32(self.tokens))
            return (PRUNED if share < f32(base * low) else LOW if share < f32(base * high) else HIGH), state.running
        total = f32(state.running + share)
        pruning = state.n_low == state.n_high == 0
        if pruning and total < low:
            return PRUNED, total  # strictly: the token that reaches T is kept (D-leankv-22)
        if self.low_cumsum == "restart" and pruning:
            total = share
        return (LOW if state.n_high == 0 and total < high else HIGH), total

    def require(self, window: np.ndarray, thresholds: np.ndarray) -> None:
        """Refuse thresholds that are out of order: T_l and T_h, or the alphas divided by N where N > W."""
        if self.rule == "static":
            return
        values = np.asarray(thresholds, np.uint32).view(np.float32)
        if self.rule == "per_token":
            values = (np.float32(1) / np.float32(self.tokens)) * values
        bad = ~((values[..., 0] >= 0) & (values[..., 0] <= values[..., 1]) & (values[..., 1] <= 1))
        if self.rule == "per_token":
            bad &= np.asarray(window) < self.tokens
        if bad.any():
            index = first_index(np.asarray(bad))
            got = values[index]
            names = "T_l <= T_h" if self.rule == "cumulative" else "alpha_prune / N <= alpha_quant / N"
            raise Refused(f"{self.name}: thresholds must be 0 <= {names} <= 1, got {got[0]}, {got[1]}{at(index)}")

    def admitted(self, share: Any, window: Any, thresholds: Any) -> list[np.ndarray]:
        """The inputs as arrays of one shape, checked."""
        arrays = admit(self.name, self.ports.inputs, (share, window, thresholds))
        self.require(arrays[1], arrays[2])
        return arrays

    def steps(self, share: Any, window: Any, thresholds: Any) -> Iterator[State]:
        """Yield the State after every event of every operation, in C order; arguments broadcast beside their lanes."""
        yield from self.operations(self.admitted(share, window, thresholds))

    def __repr__(self) -> str:
        return (
            f"PromptCompressor(tokens={self.tokens}, rule={self.rule!r}, order={self.order!r}, "
            f"low_cumsum={self.low_cumsum!r}, keep_percent={self.keep_percent})"
        )


def run(share: Any, window: Any, thresholds: Any, *, tokens: int = 16, **parameters: Any) -> Result:
    """Classes and order of the tokens of prompts.

    share: float32 patterns (..., tokens), finite, not negative. window: W, at least 1, (...). thresholds: float32
    patterns (..., 2), T_l and T_h, or alpha_prune and alpha_quant. They broadcast beside their lanes. tokens,
    parameters: as for PromptCompressor. Returns the Result. Refuses thresholds out of order.
    Paper: [leankv §4].
    """
    device = PromptCompressor(tokens, **parameters)
    arrays = device.admitted(share, window, thresholds)
    shape, states = arrays[1].shape, list[State]()
    for state in device.steps(*arrays):
        if not device.busy:
            states.append(state)
    return Result(
        **collect(states, device.ports.outputs, shape), **{name: getattr(device.state, name) for name in COUNTERS}
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    tokens = config["tokens"]
    most = 0x3F80_0000 if config.get("rule", "cumulative") == "cumulative" else LARGEST
    return Ports(
        inputs=(
            Port("share", 32, tokens, encoding="f32", least=0, most=LARGEST, meaning="significance of each token"),
            Port("window", 32, least=1, meaning="W: tokens at the end that stay as they are"),
            Port("thresholds", 32, 2, encoding="f32", least=0, most=most, meaning="T_l, T_h; or the two alphas"),
        ),
        outputs=(
            Port("cls", 2, tokens, meaning="0 pruned, 1 low, 2 high, 3 window"),
            Port("order", 32, tokens, meaning="positions: pruned, low, high ascending, then the window"),
            *(Port(f"n_{name}", 32, meaning=f"tokens of class {name}") for name in ("pruned", "low", "high")),
        ),
    )


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` without signs, with thresholds in order and alphas that are at most N; windows around N."""
    share, window, thresholds = (np.asarray(inputs[name]) for name in ("share", "window", "thresholds"))
    pair = np.sort(thresholds & thresholds.dtype.type(0x7FFF_FFFF), axis=-1, kind="stable")
    top = int(np.float32(config["tokens"]).view(np.uint32)) if config.get("rule") == "per_token" else 0x3F80_0000
    return {
        "share": share & share.dtype.type(0x7FFF_FFFF),
        "window": (window % (config["tokens"] + 2) + 1).astype(window.dtype),
        "thresholds": np.minimum(pair, top).astype(pair.dtype),
    }


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see prompt_compressor_cases.py."""
    return prompt_compressor_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="prompt_compressor",
    version=2,
    paper="leankv §4",
    meaning="which tokens of a prompt are pruned, low, high, in order",
    configs={
        "paper": Config(tokens=16, low_cumsum="total", **PRESETS["paper"]),
        "diffkv": Config(tokens=16, **PRESETS["diffkv"]),
        "static": Config(tokens=16, rule="static", order="stable", keep_percent=50),
    },
    ports=ports,
    run=run,
    twin="refemu.units.prompt_compressor_jit:run",
    unit_class=PromptCompressor,
    cases=cases,
    legal=legal,
    alternatives=(
        *choices("D-leankv-20", "rule", *RULES[:2]),
        *choices("D-leankv-21", "low_cumsum", "restart"),
        *choices("D-leankv-23", "order", "stable", "bitonic"),
    ),
)
