"""Placement of the new token, and choice of the token that frees a slot: one decision per KV head and step.

Paper: [leankv §4, Algorithm 1]. Decides from the state before the step.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from refemu.arith.scalar32 import f32, pattern32, value32
from refemu.units import AnyUnit, Changes, Combinational, Config, DeclaredState, RunFunction, Unit, constant, decides
from refemu.units.leankv.generation_compressor.decisions import (
    LARGEST,
    NAME,
    OUTPUTS,
    Decision,
    Policy,
    ScoreRule,
    lane_rank,
    require,
)
from refemu.units.leankv.significance.significance import require_queries
from refemu.units.ports import Port, Ports, put
from refemu.units.stepping import Result

W, A1, A2, A3, B1, B2, C = range(7)  #: Choices of `algorithm1`, by the port `choice`
APPEND, PRUNE, SWAP, DOWNGRADE = range(8, 12)  #: Choices of `diffkv`
STATIC_APPEND, STATIC_DROP = 12, 13  #: Choices of `static`


class GenerationCompressor(Combinational):
    """Generation compressor: an operation is `mean` for every stored slot, high ones first, `argmin`, then `case`."""

    name = NAME
    events: ClassVar[tuple[str, ...]] = ("mean", "argmin", "case")
    counters: ClassVar[dict[str, str]] = {
        "divisions": "divisions: scores by their counts, means by their total",
        "comparisons": "candidates of argmin",
    }
    initial: ClassVar[dict[str, Any]] = {"window": 1, "slots": (-1, -1)}
    slots: Annotated[int, 1, 1 << 24] = 16  #: most tokens that a head stores, 1 to 2**24
    policy: Policy = "algorithm1"  #: rule of the decision (D-leankv-26)
    #: quantity of algorithm1: a token's share, or the running sum of the shares up to its own (D-leankv-27)
    score_rule: ScoreRule = "share"
    low: bool = True  #: whether a low precision exists
    keep_percent: Annotated[int, 0, 100] = 100  #: budget of `static`, 0 to 100
    score_queries: int | None = None  #: number of the prompt's last queries that a score was summed over; or all
    include_self: bool = False  #: whether a token's own query counted
    #: whether `position` is that of the published code, so that n - position is the count and the age (D-leankv-47)
    epoch: bool = False

    def check(self) -> None:
        require_queries(self.score_queries, self.name)

    @constant
    def ports(self) -> Ports:
        slots = self.slots
        most = 0x3F80_0000 if self.policy == "algorithm1" else LARGEST
        compared = "quantity by which a slot is compared: share, running sum or mean"
        return Ports(
            inputs=(
                Port("score", 32, slots, encoding="f32", least=0, most=LARGEST, meaning="score of every slot"),
                Port("position", 32, slots, most=(1 << 31) - 1, meaning="position of the token in every slot"),
                Port("n_high", 32, most=slots, meaning="tokens of the high section: slots 0 onwards"),
                Port("n_low", 32, most=slots, meaning="tokens of the low section: the slots after them"),
                Port("n", 32, most=(1 << 31) - 1, meaning="position of the new token"),
                Port("prompt", 32, most=(1 << 31) - 1, meaning="tokens of the prompt"),
                Port("window", 32, least=1, most=(1 << 31) - 1, meaning="W"),
                Port("thresholds", 32, 2, encoding="f32", least=0, most=most, meaning="T_l, T_h; or the two alphas"),
            ),
            outputs=(
                Port("choice", 4, meaning="W A1 A2 A3 B1 B2 C; 8 append prune swap downgrade; 12 append drop"),
                Port("victim", 32, meaning="high slot that the new token takes; on an append the section's length"),
                Port("low_slot", 32, signed=True, meaning="low slot that the victim moves to, or -1"),
                Port("delta_high", 1, meaning="the high section grows"),
                Port("delta_low", 1, meaning="the low section grows"),
            ),
            state=(
                Port("means", 32, slots, encoding="f32", meaning="mean of every stored slot"),
                Port("total", 32, encoding="f32", meaning="sum of the means, slot by slot"),
                Port("shares", 32, slots, encoding="f32", meaning=compared),
                Port(
                    "slots", 32, 2, signed=True, meaning="least slot of the high and of the low candidates; -1 for none"
                ),
                Port("done", slots.bit_length(), most=slots, meaning="slots with means so far"),
            ),
        )

    @property
    def busy(self) -> bool:
        """Whether a decision is under way."""
        return self.state.event in ("mean", "argmin")

    def _open(self, *operands: Any) -> DeclaredState:
        """Every event, the first one too, reads the operands in the State."""
        cleared = dict.fromkeys((*OUTPUTS, "total", "done"), 0)
        empty = dict.fromkeys(("means", "shares"), (0,) * self.slots)
        self._commit("mean", operands, {**cleared, **empty, "slots": (-1, -1)})
        return self._continue()

    def follows(self) -> str:
        before = self.state
        if before.event == "argmin":
            return "case"
        return "mean" if before.done < before.n_high + before.n_low else "argmin"

    @decides("D-leankv-32")
    def count(self, position: int) -> int:
        """Number of queries in the score of a stored position when token n arrives."""
        n, prompt = self.state.n, self.state.prompt
        if self.epoch:
            return n - position
        first = position if self.include_self else position + 1
        if position < prompt:
            return n - max(first, prompt - (self.score_queries or prompt))
        return n - first

    def mean(self) -> Changes:
        """Compute the mean score of one stored token and add it to the total."""
        before, slot = self.state, self.state.done
        c = self.count(before.position[slot])
        mean = self._divided(value32(before.score[slot]), f32(c)) if c else 0.0
        return {
            "means": put(before.means, slot, pattern32(mean)),
            "total": pattern32(self._added(value32(before.total), mean)),
            "done": slot + 1,
            "divisions": int(c > 0),
        }

    @decides("D-arith-2")
    def _added(self, a: float, b: float) -> float:
        """a + b rounded to float32."""
        return f32(a + b)

    @decides("D-arith-2")
    def _divided(self, a: float, b: float) -> float:
        """a / b rounded to float32; b is not 0."""
        return f32(a / b)

    def argmin(self) -> Changes:
        """Compute shares from the means, and find the least significant candidates of the sections."""
        shares, divisions = self._shares()
        patterns = [pattern32(share) for share in shares]
        self._commit("argmin", (), {"shares": (*patterns, *(0,) * (self.slots - len(patterns)))})
        (high, of_high), (low, of_low) = (self._least(candidates) for candidates in self._candidates())
        return {"slots": (high, low), "divisions": divisions, "comparisons": of_high + of_low}

    def share(self, slot: int) -> float:
        """Quantity by which a slot is compared: its share, running sum or mean."""
        return value32(self.state.shares[slot])

    @decides("D-leankv-27")
    def _shares(self) -> tuple[list[float], int]:
        """Quantities to compare with the thresholds, slot by slot, and the number of divisions."""
        state, total = self.state, value32(self.state.total)
        means = [value32(pattern) for pattern in state.means[: state.done]]
        if self.policy != "algorithm1" or total == 0:
            return means, 0
        shares = [self._divided(mean, total) for mean in means]
        if self.score_rule == "share":
            return shares, len(shares)
        running, sums = 0.0, [0.0] * len(shares)
        border = state.n - state.window
        for slot in sorted(
            (s for s in range(len(shares)) if state.position[s] <= border), key=lambda s: (shares[s], state.position[s])
        ):
            running = sums[slot] = self._added(running, shares[slot])
        return sums, len(shares)

    def oldest(self) -> int:
        """The high slot of t_c, the oldest token of the window; -1 if the window is not full."""
        border = self.state.n - self.state.window
        slots = [slot for slot in range(self.state.n_high) if self.state.position[slot] == border]
        return slots[0] if slots else -1

    @decides("D-leankv-28")
    def _candidates(self) -> tuple[list[int], list[int]]:
        """Slots that argmin ranges over: of the high section (with t_c, D-leankv-28), and of the low one (and t_c)."""
        state, stored = self.state, self.state.n_high + self.state.n_low
        old = [slot for slot in range(stored) if state.n - state.position[slot] >= state.window]
        high, low = [s for s in old if s < state.n_high], [s for s in old if s >= state.n_high]
        if self.policy != "algorithm1":
            return high, low
        t_c, (t_low, t_high) = self.oldest(), self.limits()
        if t_c < 0 or self._below(self.share(t_c), t_low):
            return [], []
        return (high, []) if not self._below(self.share(t_c), t_high) else ([], [*range(state.n_high, stored), t_c])

    def _least(self, candidates: Sequence[int]) -> tuple[int, int]:
        """The slot of least significance, -1 if there is none, and the number of candidates."""
        if not candidates:
            return -1, 0
        return min(candidates, key=lambda slot: (self.share(slot), self._tie(slot))), len(candidates)

    @decides("D-leankv-28", "D-leankv-54")
    def _tie(self, slot: int) -> tuple[int, ...]:
        """Rank of equal slots, of which the least is chosen: the position, or the lane."""
        return lane_rank(self._inside(slot)) if self.policy == "diffkv" else (self.state.position[slot],)

    @decides("D-leankv-27")
    def _below(self, value: float, threshold: float) -> bool:
        """Whether a share or a mean is below a threshold: strictly."""
        return value < threshold

    def _is_below(self, slot: int, threshold: float) -> bool:
        """Whether the share of a slot is below a threshold."""
        return self._below(self.share(slot), threshold)

    def _inside(self, slot: int) -> int:
        """Index of a slot within its section."""
        return slot if slot < self.state.n_high else slot - self.state.n_high

    def limits(self) -> tuple[float, float]:
        """Thresholds of the decision: T_l and T_h, or alpha_prune / n and alpha_quant / n."""
        low, high = (value32(pattern) for pattern in self.state.thresholds)
        if self.policy == "diffkv":
            base = f32(1 / f32(self.state.n)) if self.state.n else 0.0
            return f32(base * low), f32(base * high)
        return low, high if self.low else low

    def case(self) -> Changes:
        """Decide the case of Algorithm 1, or of the other policy."""
        decide = {"algorithm1": self._algorithm1, "diffkv": self._diffkv, "static": self._static}[self.policy]
        return vars(decide())

    def _algorithm1(self) -> Decision:
        """Decide by [leankv Algorithm 1]."""
        state, t_c, (t_low, t_high) = self.state, self.oldest(), self.limits()
        if t_c < 0:
            return self._append(W)
        (high, low), below = state.slots, self._is_below
        if below(t_c, t_low):
            return Decision(C, t_c, -1, 0, 0)  # l. 18: t_c is pruned
        if not below(t_c, t_high):
            if not below(high, t_high):
                return self._append(A1)
            if not below(high, t_low):
                return self._moved(high)
            return Decision(A3, high, -1, 0, 0)
        if not below(low, t_low):
            return Decision(B1, t_c, state.n_low, 0, 1)
        return Decision(B2, t_c, low - state.n_high, 0, 0)

    @decides("D-leankv-29")
    def _moved(self, high: int) -> Decision:
        """A2: move a high token after the low ones; l. 9, which ends the branch."""
        return Decision(A2, high, self.state.n_low, 0, 1)

    def _append(self, choice: int) -> Decision:
        return Decision(choice, self.state.n_high, -1, 1, 0)

    @decides("D-leankv-26")
    def _diffkv(self) -> Decision:
        """Decide by the published code: the first rule that applies."""
        state, (prune, quant), (high, low) = self.state, self.limits(), self.state.slots
        least = [self.share(slot) if slot >= 0 else value32(LARGEST) for slot in (high, low)]
        if state.n_high + state.n_low + 1 <= state.window:
            return self._append(APPEND)
        if self._below(least[0], prune) and least[0] < least[1]:
            return Decision(PRUNE, high, -1, 0, 0)
        if self._below(least[0], quant) and self._below(least[1], prune):
            return Decision(SWAP, high, low - state.n_high, 0, 0)
        if self._below(least[0], quant):
            return Decision(DOWNGRADE, high, state.n_low, 0, 1)
        return self._append(APPEND)

    @decides("D-leankv-54")
    def _static(self) -> Decision:
        """Decide with a separate budget for every head, equal in all."""
        if self.state.n_high + 1 > self._budget():
            return Decision(STATIC_DROP, self.state.slots[0], -1, 0, 0)
        return self._append(STATIC_APPEND)

    @decides("D-leankv-54")
    def _budget(self) -> int:
        """Tokens that "static" retains: the window, or the percentage rounded down."""
        return max(self.state.window, (self.state.n + 1) * self.keep_percent // 100)

    def _require(self, *inputs: np.ndarray) -> None:
        """Check the inputs with `require`."""
        require(self, [array.reshape(-1, *port.shape) for array, port in zip(inputs, self.ports.inputs, strict=True)])


UNIT: AnyUnit = Unit(
    unit_class=GenerationCompressor,
    paper="leankv §4, Algorithm 1",
    meaning="slot of a new token, and the token that frees it",
    configs={
        "paper": Config(slots=16, policy="algorithm1", score_rule="share"),
        "cumulative": Config(slots=16, policy="algorithm1", score_rule="cumulative"),
        "diffkv": Config(slots=144, policy="diffkv", score_queries=64, include_self=True),
        "static": Config(slots=16, policy="static", keep_percent=50),
        "wide": Config(slots=144, policy="algorithm1", score_rule="share"),
        "wide_cumulative": Config(slots=144, policy="algorithm1", score_rule="cumulative"),
    },
)
State: type[DeclaredState] = GenerationCompressor.State
run: RunFunction[Result] = UNIT.run
