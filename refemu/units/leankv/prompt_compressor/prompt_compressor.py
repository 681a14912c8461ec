"""The classes of a prompt's tokens - pruned, low or high precision, window - and their order in the pages.

Paper: [leankv §4]. The last W tokens stay at the high precision; the others are sorted by their share of the attention.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np

from refemu.arith.checks import Refused, at, first_index
from refemu.arith.scalar32 import f32, pattern32, value32
from refemu.units import AnyUnit, Config, Lanes, Port, Ports, Result, RunFunction, Unit
from refemu.units.declaration import Changes, Combinational, DeclaredState, constant, decides

__all__ = [
    "HIGH",
    "LOW",
    "PRESETS",
    "PRUNED",
    "RULES",
    "THRESHOLDS",
    "UNIT",
    "WINDOW",
    "LowCumsum",
    "Order",
    "PromptCompressor",
    "Rule",
    "State",
    "run",
]


PRUNED, LOW, HIGH, WINDOW = range(4)  #: Classes of a token
Rule = Literal["cumulative", "per_token", "static"]  #: Rule of the classes (D-leankv-20, D-leankv-54)
Order = Literal["stable", "bitonic"]  #: Sort of the tokens (D-leankv-23)
LowCumsum = Literal["total", "restart"]  #: Start of T_h's sum (D-leankv-21)
RULES = get_args(Rule)  #: The choices of `Rule`
#: Parameters by preset
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"rule": "cumulative", "order": "stable"},
    "diffkv": {"rule": "per_token", "order": "bitonic"},
}
#: Thresholds by preset: the paper's T_l and T_h, the code's alpha_prune and alpha_quant (D-leankv-51)
THRESHOLDS = {"paper": (0.0, 0.01), "diffkv": (0.02, 1.0)}
LARGEST = 0x7F7F_FFFF  #: pattern of the largest finite float32: pads of the sorting network, above every share
ONE = 0x3F80_0000  #: pattern of 1: the key of a token in the window


class PromptCompressor(Combinational):
    """Prompt compressor: an operation is a `sort`, or a `compare_exchange` per pair; then `classify` per token.

    A short prompt, N <= W, is not sorted. The order never changes a class: sums follow (share, position) in both.
    """

    name = "prompt_compressor"
    events: ClassVar[tuple[str, ...]] = ("sort", "compare_exchange", "classify")
    counters: ClassVar[dict[str, str]] = {
        "comparisons": "pairs that the sorting network compared",
        "exchanges": "pairs that the sorting network exchanged",
        "classified": "tokens classified",
    }
    registers: ClassVar[dict[str, str]] = {
        "size": ("elements of the blocks that the sorting network merges; 0 if sorted, or without a network"),
        "distance": "distance of the two elements that the sorting network compares next",
        "lower": "lower one of the two elements that the sorting network compares next",
    }
    initial: ClassVar[dict[str, int]] = {"window": 1}
    tokens: Annotated[int, 1, 1 << 24] = 16  #: N, tokens of a prompt, 1 to 2**24
    #: sums of shares below T_l, T_h; shares below alpha / N; or the same number in every head, without thresholds
    rule: Rule = "cumulative"
    order: Order = "stable"  #: by share, then position, the window last by position; or a sorting network
    low_cumsum: LowCumsum = "total"  #: T_h's sum is that of all shares, or of those after the pruned tokens
    keep_percent: Annotated[int, 0, 100] = 100  #: percentage of the prompt that "static" retains, 0 to 100

    @constant
    def ports(self) -> Ports:
        tokens, wide = self.tokens, places(self.tokens, self.order)
        sorting = "sort keys: shares, 1 for the window, pads of a network"
        summed = "sum of the shares outside the window, for the comparison with T_h"
        network = (
            Port("size", wide.bit_length(), meaning="size of the blocks that the network merges; 0 = sorted"),
            Port("distance", wide.bit_length(), meaning="distance of the elements that the network compares"),
            Port("lower", max((wide - 1).bit_length(), 1), meaning="lower element of the network's next pair"),
        )
        most = ONE if self.rule == "cumulative" else LARGEST
        return Ports(
            inputs=(
                Port("share", 32, tokens, encoding="f32", least=0, most=LARGEST, meaning="significance of each token"),
                Port("window", 32, least=1, meaning="W: unchanged tokens at the end"),
                Port("thresholds", 32, 2, encoding="f32", least=0, most=most, meaning="T_l, T_h; or the two alphas"),
            ),
            outputs=(
                Port("cls", 2, tokens, meaning="0 pruned, 1 low, 2 high, 3 window"),
                Port("order", 32, tokens, meaning="positions: pruned, low, high ascending, then the window"),
                *(Port(f"n_{name}", 32, meaning=f"tokens of class {name}") for name in ("pruned", "low", "high")),
            ),
            state=(
                Port("keys", 32, wide, encoding="f32", meaning=sorting),
                Port("sorted", 32, wide, meaning="positions after the sort, pads of a network included"),
                Port("running", 32, encoding="f32", meaning=summed),
                Port("rank", tokens.bit_length(), most=tokens, meaning="tokens classified"),
                *(network if self.order == "bitonic" else ()),
            ),
        )

    @property
    def busy(self) -> bool:
        """Whether the network is under way or tokens to classify remain."""
        return self.state.event != "reset" and self.state.rank < self.tokens

    def opens(self, share: Lanes, window: int, thresholds: tuple[int, int]) -> str:
        return "compare_exchange" if self.order == "bitonic" and self._border(window) else "sort"

    def follows(self) -> str:
        return "compare_exchange" if self.state.size else "classify"

    def sort(self, share: Lanes, window: int, thresholds: tuple[int, int]) -> Changes:
        """Sort the tokens outside the window by share, in one event."""
        n, zeros = self.tokens, (0,) * self.tokens
        outside = range(self._border(window))
        keys = [pattern if t in outside else ONE for t, pattern in enumerate(share)]
        ranked = sorted(outside, key=lambda t: (keys[t], t))  # patterns have the order of their values: none has a sign
        pads = range(n, places(n, self.order))
        return {
            "share": share,
            "cls": zeros,
            "order": zeros,
            "keys": (*keys, *(LARGEST for _ in pads)),
            "sorted": (*(outside if self.order == "bitonic" else ranked), *range(len(outside), n), *pads),
            **dict.fromkeys(("n_pruned", "n_low", "n_high", "rank", "size", "distance", "lower", "running"), 0),
        }

    @decides("D-leankv-24")
    def _border(self, window: int) -> int:
        """The first token of the window; 0 if the prompt is within the window (nothing is pruned)."""
        return max(self.tokens - window, 0)

    def compare_exchange(self, share: Lanes = (), window: int = 0, thresholds: tuple[int, int] = (0, 0)) -> Changes:
        """Compare one pair of the sorting network, and exchange it if out of order; blocks of two come first."""
        begun: Changes = self.sort(share, window, thresholds) if window else {}
        before: Mapping[str, Any] = {**begun, "size": 2, "distance": 1} if begun else vars(self.state)
        keys, ranked, size, i = before["keys"], list(before["sorted"]), before["size"], before["lower"]
        j = i ^ before["distance"]
        left, right = keys[ranked[i]], keys[ranked[j]]
        exchanged = self._exchanges(left, right) if i & size == 0 else self._exchanges(right, left)
        if exchanged:
            ranked[i], ranked[j] = ranked[j], ranked[i]
        pair = dict(zip(("size", "distance", "lower"), next_pair(len(keys), size, before["distance"], i), strict=True))
        return {**begun, **pair, "sorted": tuple(ranked), "comparisons": 1, "exchanges": int(exchanged)}

    @decides("D-leankv-23")
    def _exchanges(self, left: float, right: float) -> bool:
        """Whether the network exchanges an ascending pair: strictly out of order."""
        return left > right

    def classify(self) -> Changes:
        """Classify the next token in order, by its rank in (share, position)."""
        before = self.state
        ranked = [t for t in before.sorted if t < self.tokens]
        t = ranked[before.rank]
        equal = self._next_of_equals(t, ranked[: before.rank])
        cls, running = self._class_of(equal, before)
        return {
            "n_pruned": before.n_pruned + (cls == PRUNED),
            "n_low": before.n_low + (cls == LOW),
            "n_high": before.n_high + (cls == HIGH),
            "rank": before.rank + 1,
            "running": running,
            "cls": (*before.cls[:equal], cls, *before.cls[equal + 1 :]),
            "order": (*before.order[: before.rank], t, *before.order[before.rank + 1 :]),
            "classified": 1,
        }

    @decides("D-leankv-54")
    def _next_of_equals(self, t: int, done: Sequence[int]) -> int:
        """The token that takes the class of t's rank: the lowest position of equal shares first, for any `order`.

        done: the tokens before t in order. The network may swap equal shares, also with a threshold between them.
        """
        border, keys = self._border(self.state.window), self.state.keys
        if t >= border or self.rule == "per_token":  # a share alone decides
            return t
        equal = [u for u in range(border) if keys[u] == keys[t]]
        return equal[len([u for u in done if u in equal])]

    def _class_of(self, t: int, state: DeclaredState) -> tuple[int, int]:
        """Class of token t, and the pattern of the running sum with it."""
        if t >= self._border(state.window):
            return WINDOW, state.running
        share, (low, high) = value32(state.keys[t]), (value32(pattern) for pattern in state.thresholds)
        if self.rule == "static":
            return (PRUNED if state.n_pruned < self.tokens - self._budget() else HIGH), state.running
        if self.rule == "per_token":
            base = f32(1 / f32(self.tokens))
            pruned, is_low = self._below(share, f32(base * low)), self._below(share, f32(base * high))
            return (PRUNED if pruned else LOW if is_low else HIGH), state.running
        total = self._added(value32(state.running), share)
        pruning = state.n_low == state.n_high == 0
        if pruning and self._below(total, low):
            return PRUNED, pattern32(total)
        if self.low_cumsum == "restart" and pruning:
            total = share
        return (LOW if state.n_high == 0 and self._below(total, high) else HIGH), pattern32(total)

    @decides("D-leankv-22")
    def _below(self, value: float, threshold: float) -> bool:
        """Whether a sum or a share is below T: strictly, a token at T is retained."""
        return value < threshold

    @decides("D-arith-2")
    def _added(self, running: float, share: float) -> float:
        """The running sum with a share, rounded to float32."""
        return f32(running + share)

    @decides("D-leankv-54")
    def _budget(self) -> int:
        """Tokens that "static" retains: the window, or the percentage rounded down."""
        return max(self.state.window, self.tokens * self.keep_percent // 100)

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject thresholds that are out of order: T_l and T_h, or the alphas divided by N if N > W."""
        if self.rule == "static":
            return
        _, window, thresholds = inputs
        values = np.ascontiguousarray(thresholds).view(np.float32)
        if self.rule == "per_token":
            values = (np.float32(1) / np.float32(self.tokens)) * values
        bad = ~((values[..., 0] >= 0) & (values[..., 0] <= values[..., 1]) & (values[..., 1] <= 1))
        if self.rule == "per_token":
            bad &= window < self.tokens
        if bad.any():
            index = first_index(np.asarray(bad))
            got = values[index]
            names = "T_l <= T_h" if self.rule == "cumulative" else "alpha_prune / N <= alpha_quant / N"
            raise Refused(f"{self.name}: thresholds must be 0 <= {names} <= 1, got {got[0]}, {got[1]}{at(index)}")


@decides("D-leankv-23")
def places(tokens: int, order: str) -> int:
    """Places of the sort: a power of two for a network."""
    return 1 << (tokens - 1).bit_length() if order == "bitonic" else tokens


def next_pair(padded: int, size: int, distance: int, lower: int) -> tuple[int, int, int]:
    """Size, distance and lower element of the next pair of a network; size 0 after the last."""
    lower += 1
    while lower < padded and lower & distance:
        lower += 1
    if lower < padded:
        return size, distance, lower
    if distance > 1:
        return size, distance // 2, 0
    return (2 * size if 2 * size <= padded else 0), size, 0


UNIT: AnyUnit = Unit(
    unit_class=PromptCompressor,
    version=2,
    paper="leankv §4",
    meaning="which tokens of a prompt are pruned, low, high, in order",
    configs={
        "paper": Config(tokens=32, low_cumsum="total", **PRESETS["paper"]),
        "diffkv": Config(tokens=16, **PRESETS["diffkv"]),
        "static": Config(tokens=16, rule="static", order="stable", keep_percent=50),
        "odd": Config(tokens=17, low_cumsum="total", **PRESETS["paper"]),
        "odd_diffkv": Config(tokens=17, **PRESETS["diffkv"]),
        "odd_static": Config(tokens=17, rule="static", order="stable", keep_percent=50),
    },
)
State: type[DeclaredState] = PromptCompressor.State
run: RunFunction[Result] = UNIT.run
