"""Placement of the new token, and choice of the stored token that makes room: one decision per KV head and step.

Paper: [leankv §4, Algorithm 1]. Decides from the state before the step. Decisions: D-leankv-26 (policy), D-leankv-27
(what a threshold is compared with), D-leankv-28 (whom argmin ranges over, ties), D-leankv-29 (nothing is pruned when a
token comes to the low section), D-leankv-31 (the freed slot), D-leankv-32 (before attention), D-leankv-33 (planned),
D-leankv-47 (positions as the published code stores them), D-leankv-54 (equal budgets), D-arith-2 (rounding).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from refemu.arith.checks import require_bool, require_choice, require_int
from refemu.arith.scalar32 import f32, pattern32, value32
from refemu.units.leankv.cases import generation_compressor as generation_compressor_cases
from refemu.units.leankv.generation_compressor.decisions import (
    LARGEST,
    NAME,
    OUTPUTS,
    POLICIES,
    Decision,
    Policy,
    Result,
    ScoreRule,
    State,
    lane_rank,
    ports,
    require,
)
from refemu.units.leankv.significance import put, require_queries
from refemu.units.ports import Ports, fields, lanes
from refemu.units.stepped import Stepped
from refemu.units.unit import Config, RunFunction, Unit

W, A1, A2, A3, B1, B2, C = range(7)  #: Choices of `algorithm1`, by the port `choice`
APPEND, PRUNE, SWAP, DOWNGRADE = range(8, 12)  #: Choices of `diffkv`
STATIC_APPEND, STATIC_DROP = 12, 13  #: Choices of `static`


class GenerationCompressor(Stepped[State]):
    """Generation compressor: an operation is `mean` for every stored slot, high ones first, then `argmin`, then `case`.

    References
    ----------
    [leankv §4, Algorithm 1]
    """

    name = NAME

    def __init__(
        self,
        slots: int = 16,
        policy: Policy = "algorithm1",
        score_rule: ScoreRule = "share",
        low: bool = True,
        keep_percent: int = 100,
        score_queries: int | None = None,
        include_self: bool = False,
        epoch: bool = False,
    ) -> None:
        """Configure the compressor.

        Parameters
        ----------
        slots : int
            Most tokens that a head stores, 1 to 2**24.
        policy : {"algorithm1", "diffkv", "static"}
            Rule of the decision (D-leankv-26).
        score_rule : {"share", "cumulative"}
            Of algorithm1: a token's share, or the running sum of the shares up to its own (D-leankv-27).
        low : bool
            Whether there is a low precision.
        keep_percent : int
            Budget of `static`, 0 to 100.
        score_queries : int, optional
            Number of the prompt's last queries that a score was summed over; by default all.
        include_self : bool
            Whether a token's own query counted.
        epoch : bool
            `position` holds what the published code stores, so that n - position is the count and the age
            (D-leankv-47).

        Raises
        ------
        Refused
            A parameter is out of range or an option unknown.
        """
        self.slots: int = require_int(slots, 1, 1 << 24, self.name, "slots")
        self.policy = require_choice(policy, POLICIES, self.name, "policy")
        self.score_rule = require_choice(score_rule, get_args(ScoreRule), self.name, "score_rule")
        self.low: bool = require_bool(low, self.name, "low")
        self.keep_percent: int = require_int(keep_percent, 0, 100, self.name, "keep_percent")
        self.score_queries: int | None = require_queries(score_queries, self.name)
        self.include_self: bool = require_bool(include_self, self.name, "include_self")
        self.epoch: bool = require_bool(epoch, self.name, "epoch")
        self.ports: Ports = ports({"slots": self.slots, "policy": self.policy})
        zeros = (0,) * self.slots
        empty = {name: lanes(zeros) for name in ("means", "shares")}
        self.state: State = self.reset(State, score=zeros, position=zeros, window=1, slots=(-1, -1), **empty)

    @property
    def busy(self) -> bool:
        """Whether a decision is on its way."""
        return self.state.event in ("mean", "argmin")

    def step(
        self,
        score: Sequence[int] | int | None = None,
        position: Sequence[int] | int | None = None,
        n_high: int | None = None,
        n_low: int | None = None,
        n: int | None = None,
        prompt: int | None = None,
        window: int | None = None,
        thresholds: Sequence[int] | None = None,
    ) -> State:
        """Begin a decision with its first event; without inputs, execute the next one."""
        return self._stepped(
            score=score,
            position=position,
            n_high=n_high,
            n_low=n_low,
            n=n,
            prompt=prompt,
            window=window,
            thresholds=thresholds,
        )

    def _open(self, score: tuple[int, ...] | int, position: tuple[int, ...] | int, *others: Any) -> State:
        cleared = dict.fromkeys((*OUTPUTS, "total", "done"), 0)
        empty = dict.fromkeys(("means", "shares"), lanes((0,) * self.slots))
        self.state = self.latched(
            fields(score),
            fields(position),
            *others,
            event="mean",
            slots=(-1, -1),
            **cleared,
            **empty,
        )
        return self._continue()

    def _continue(self) -> State:
        if self.state.event == "argmin":
            self._case()
        elif self.state.done < self.state.n_high + self.state.n_low:
            self._mean()
        else:
            self._argmin()
        return self.state

    def count(self, position: int) -> int:
        """Number of queries that a score was summed over when token n arrives.

        Parameters
        ----------
        position : int
            Stored position of the token.

        Returns
        -------
        int
            Queries.
        """
        n, prompt = self.state.n, self.state.prompt
        if self.epoch:
            return n - position
        first = position if self.include_self else position + 1
        if position < prompt:
            return n - max(first, prompt - (self.score_queries or prompt))
        return n - first

    def _mean(self) -> None:
        """The mean of the next slot, and their total in the order of the slots."""
        before, slot = self.state, self.state.done
        c = self.count(before.position[slot])
        mean = self._divided(value32(before.score[slot]), f32(c)) if c else 0.0
        self.state = replace(
            before,
            event="mean",
            means=lanes(put(fields(before.means), slot, pattern32(mean))),
            total=pattern32(self._added(value32(before.total), mean)),
            done=slot + 1,
            divisions=before.divisions + (c > 0),
        )

    def _added(self, a: float, b: float) -> float:
        """a + b rounded to float32 (D-arith-2)."""
        return f32(a + b)

    def _divided(self, a: float, b: float) -> float:
        """a / b rounded to float32 (D-arith-2); b is not 0."""
        return f32(a / b)

    def _argmin(self) -> None:
        """Shares, and the least significant candidate of every section that the case will look at."""
        before = self.state
        shares, divisions = self._shares()
        patterns = [pattern32(share) for share in shares]
        padded = lanes((*patterns, *(0,) * (self.slots - len(patterns))))
        self.state = replace(before, event="argmin", shares=padded)
        sections = [self._least(candidates) for candidates in self._candidates()]
        self.state = replace(
            self.state,
            slots=(sections[0][0], sections[1][0]),
            divisions=before.divisions + divisions,
            comparisons=before.comparisons + sections[0][1] + sections[1][1],
        )

    def share(self, slot: int) -> float:
        """Quantity to compare with the thresholds.

        Parameters
        ----------
        slot : int
            Stored slot.

        Returns
        -------
        float
            Share, running sum or mean.
        """
        return value32(fields(self.state.shares)[slot])

    def _shares(self) -> tuple[list[float], int]:
        """Quantities to compare with the thresholds, slot by slot (D-leankv-27), and the divisions made."""
        state, total = self.state, value32(self.state.total)
        means = [value32(pattern) for pattern in fields(state.means)[: state.done]]
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
        """Find the high slot of t_c, the oldest token of the window.

        Returns
        -------
        int
            Slot, -1 if the window is not full.
        """
        border = self.state.n - self.state.window
        slots = [slot for slot in range(self.state.n_high) if self.state.position[slot] == border]
        return slots[0] if slots else -1

    def _candidates(self) -> tuple[list[int], list[int]]:
        """Slots that argmin ranges over: of the high section (with t_c, D-leankv-28), of the low one (and t_c)."""
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
        """The slot of least significance, -1 if there is none, and how many were looked at."""
        if not candidates:
            return -1, 0
        return min(candidates, key=lambda slot: (self.share(slot), self._tie(slot))), len(candidates)

    def _tie(self, slot: int) -> tuple[int, ...]:
        """Of equal slots the one with the least of these: its position, or its lane (D-leankv-28)."""
        return lane_rank(self._inside(slot)) if self.policy == "diffkv" else (self.state.position[slot],)

    def _below(self, value: float, threshold: float) -> bool:
        """Whether a share or a mean is below a threshold: strictly (D-leankv-27)."""
        return value < threshold

    def _is_below(self, slot: int, threshold: float) -> bool:
        """Whether the share of a slot is below a threshold."""
        return self._below(self.share(slot), threshold)

    def _inside(self, slot: int) -> int:
        """Index of a slot within its section."""
        return slot if slot < self.state.n_high else slot - self.state.n_high

    def limits(self) -> tuple[float, float]:
        """Thresholds of the decision: T_l and T_h, or alpha_prune / n and alpha_quant / n.

        Returns
        -------
        low, high : float
            float32 values.
        """
        low, high = (value32(pattern) for pattern in self.state.thresholds)
        if self.policy == "diffkv":
            base = f32(1 / f32(self.state.n)) if self.state.n else 0.0
            return f32(base * low), f32(base * high)
        return low, high if self.low else low

    def _case(self) -> None:
        decide = {"algorithm1": self._algorithm1, "diffkv": self._diffkv, "static": self._static}[self.policy]
        decision = decide()
        self.state = replace(
            self.state,
            event="case",
            choice=decision.choice,
            victim=decision.victim,
            low_slot=decision.low_slot,
            delta_high=decision.delta_high,
            delta_low=decision.delta_low,
        )

    def _algorithm1(self) -> Decision:
        """[leankv Algorithm 1]."""
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

    def _moved(self, high: int) -> Decision:
        """A2: a high token goes behind the low ones; l. 9, which ends the branch (D-leankv-29)."""
        return Decision(A2, high, self.state.n_low, 0, 1)

    def _append(self, choice: int) -> Decision:
        return Decision(choice, self.state.n_high, -1, 1, 0)

    def _diffkv(self) -> Decision:
        """The published code's rules, the first that holds (D-leankv-26)."""
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

    def _static(self) -> Decision:
        """A budget of its own for every head, the same in all (D-leankv-54)."""
        if self.state.n_high + 1 > self._budget():
            return Decision(STATIC_DROP, self.state.slots[0], -1, 0, 0)
        return self._append(STATIC_APPEND)

    def _budget(self) -> int:
        """Tokens that "static" keeps: the window, or the percentage rounded down (D-leankv-54)."""
        return max(self.state.window, (self.state.n + 1) * self.keep_percent // 100)

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse what `require` does."""
        rows = [
            array.reshape(-1, port.lanes) if port.lanes > 1 or port.name in ("score", "position") else array.ravel()
            for array, port in zip(inputs, self.ports.inputs, strict=True)
        ]
        require(self.slots, self.policy, self.low, self.epoch, *rows)


UNIT: Unit[State, Result] = Unit(
    name="generation_compressor",
    paper="leankv §4, Algorithm 1",
    meaning="where a new token goes, and who makes room",
    configs={
        "paper": Config(slots=16, policy="algorithm1", score_rule="share"),
        "cumulative": Config(slots=16, policy="algorithm1", score_rule="cumulative"),
        "diffkv": Config(slots=144, policy="diffkv", score_queries=64, include_self=True),
        "static": Config(slots=16, policy="static", keep_percent=50),
        "wide": Config(slots=144, policy="algorithm1", score_rule="share"),
        "wide_cumulative": Config(slots=144, policy="algorithm1", score_rule="cumulative"),
    },
    ports=ports,
    unit_class=GenerationCompressor,
    cases=generation_compressor_cases.cases,
    counters=("divisions", "comparisons"),
    result=Result,
    legal=generation_compressor_cases.legal,
)
run: RunFunction[Result] = UNIT.run
