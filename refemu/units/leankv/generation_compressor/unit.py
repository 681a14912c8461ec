"""Where the new token goes, and which stored token makes room for it: one decision per KV head and step.

Paper: [leankv §4, Algorithm 1]. Decides from the state before the step. Decisions: D-leankv-26 (policy), D-leankv-27
(what a threshold is compared with), D-leankv-28 (whom argmin ranges over, ties), D-leankv-29 (nothing is pruned when a
token comes to the low section), D-leankv-31 (the freed slot), D-leankv-32 (before attention), D-leankv-33 (planned),
D-leankv-47 (positions as the published code stores them), D-leankv-54 (equal budgets).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, require_choice, require_int
from refemu.arith.scalar32 import f32, value32
from refemu.units import generation_compressor_cases
from refemu.units.generation_compressor_parts import (
    COUNTERS,
    LARGEST,
    NAME,
    OUTPUTS,
    POLICIES,
    Decision,
    Result,
    State,
    lane_rank,
    ports,
    require,
)
from refemu.units.unit import Cases, Config, Stepped, Unit, admit, choices, collect
from refemu.units.unit_cases import Seeds

W, A1, A2, A3, B1, B2, C = range(7)  #: choices of `algorithm1`
APPEND, PRUNE, SWAP, DOWNGRADE = range(8, 12)  #: choices of `diffkv`
STATIC_APPEND, STATIC_DROP = 12, 13  #: choices of `static`


class GenerationCompressor(Stepped):
    """The block. An operation is `mean` for every stored slot, high ones first, then `argmin`, then `case`."""

    name = NAME

    def __init__(
        self,
        slots: int = 16,
        policy: str = "algorithm1",
        score_rule: str = "share",
        low: bool = True,
        keep_percent: int = 100,
        score_queries: int | None = None,
        include_self: bool = False,
        epoch: bool = False,
    ) -> None:
        """slots: most tokens that a head stores.

        policy: one of POLICIES. score_rule, of algorithm1: "share", or "cumulative" = the running sum of the shares up
        to a token's own. low: whether there is a low precision. keep_percent: the budget of `static`. score_queries,
        include_self: as for `Significance`, they say over how many queries a score was summed. epoch: `position` holds
        what the published code stores, so that n - position is that count and the age (D-leankv-47).
        """
        require_int(slots, 1, 1 << 24, self.name, "slots")
        require_choice(policy, POLICIES, self.name, "policy")
        require_choice(score_rule, ("share", "cumulative"), self.name, "score_rule")
        require_int(keep_percent, 0, 100, self.name, "keep_percent")
        if score_queries is not None:
            require_int(score_queries, 1, 1 << 24, self.name, "score_queries")
        for name, flag in (("low", low), ("include_self", include_self), ("epoch", epoch)):
            if not isinstance(flag, bool):
                raise RefusedType(f"{self.name}: {name} must be a bool, got {flag!r}")
        self.slots, self.policy, self.score_rule, self.low = slots, policy, score_rule, low
        self.keep_percent, self.epoch = keep_percent, epoch
        self.score_queries, self.include_self = score_queries, include_self
        self.ports = ports({"slots": slots, "policy": policy})
        zeros = (0,) * slots
        self.state = State("reset", -1, zeros, zeros, 0, 0, 0, 0, 1, (0, 0), *(0,) * 5, (), 0.0, (), (-1, -1), 0, 0)

    @property
    def busy(self) -> bool:
        """Whether a decision is on its way."""
        return self.state.event in ("mean", "argmin")

    def step(self, *inputs: Any) -> State:
        """With the inputs, in the order of the ports: the first event of a decision. Without: the next one.

        Refused: inputs while a decision is on its way, none while there is none, and what `require` refuses.
        """
        if bool(inputs) == self.busy:
            raise Refused(f"{self.name}: step takes {'no inputs' if self.busy else 'the inputs of an operation'} now")
        if inputs:
            given = self.accept(*inputs)
            given[:2] = (value if isinstance(value, tuple) else (value,) for value in given[:2])
            require(self.slots, self.policy, self.low, self.epoch, *(np.array(value)[None] for value in given))
            names = [port.name for port in self.ports.inputs]
            self.state = replace(
                self.state,
                event="mean",
                index=self.state.index + 1,
                means=(),
                total=0.0,
                shares=(),
                slots=(-1, -1),
                **dict.fromkeys(OUTPUTS, 0),
                **dict(zip(names, given, strict=True)),
            )
        if self.state.event == "argmin":
            self._case()
        elif len(self.state.means) < self.state.n_high + self.state.n_low:
            self._mean()
        else:
            self._argmin()
        return self.state

    def count(self, position: int) -> int:
        """Queries that a score was summed over when token n arrives."""
        n, prompt = self.state.n, self.state.prompt
        if self.epoch:
            return n - position
        first = position if self.include_self else position + 1
        if position < prompt:
            return n - max(first, prompt - (self.score_queries or prompt))
        return n - first

    def _mean(self) -> None:
        """The mean of the next slot, and their total in the order of the slots."""
        before = self.state
        slot = len(before.means)
        c = self.count(before.position[slot])
        mean = f32(value32(before.score[slot]) / f32(c)) if c else 0.0
        self.state = replace(
            before,
            event="mean",
            means=(*before.means, mean),
            total=f32(before.total + mean),
            divisions=before.divisions + (c > 0),
        )

    def _argmin(self) -> None:
        """Shares, and the least significant candidate of every section that the case will look at."""
        before = self.state
        shares, divisions = self._shares()
        self.state = replace(before, event="argmin", shares=shares)
        sections = [self._least(candidates) for candidates in self._candidates()]
        self.state = replace(
            self.state,
            slots=(sections[0][0], sections[1][0]),
            divisions=before.divisions + divisions,
            comparisons=before.comparisons + sections[0][1] + sections[1][1],
        )

    def _shares(self) -> tuple[tuple[float, ...], int]:
        """What thresholds are compared with, slot by slot (D-leankv-27), and the divisions it took."""
        state = self.state
        if self.policy != "algorithm1" or state.total == 0:
            return state.means, 0
        shares = [f32(mean / state.total) for mean in state.means]
        if self.score_rule == "share":
            return tuple(shares), len(shares)
        running, sums = 0.0, [0.0] * len(shares)
        border = state.n - state.window
        for slot in sorted(
            (s for s in range(len(shares)) if state.position[s] <= border), key=lambda s: (shares[s], state.position[s])
        ):
            running = sums[slot] = f32(running + shares[slot])
        return tuple(sums), len(shares)

    def oldest(self) -> int:
        """High slot of t_c, the oldest token of the window; -1 if the window is not full."""
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
        if t_c < 0 or state.shares[t_c] < t_low:
            return [], []
        return (high, []) if state.shares[t_c] >= t_high else ([], [*range(state.n_high, stored), t_c])

    def _least(self, candidates: Sequence[int]) -> tuple[int, int]:
        """The slot of least significance, -1 if there is none, and how many were looked at."""
        state = self.state
        if not candidates:
            return -1, 0
        if self.policy == "diffkv":
            best = min(candidates, key=lambda slot: (state.shares[slot], *lane_rank(self._inside(slot))))
        else:
            best = min(candidates, key=lambda slot: (state.shares[slot], state.position[slot]))
        return best, len(candidates)

    def _inside(self, slot: int) -> int:
        """Index of a slot within its section."""
        return slot if slot < self.state.n_high else slot - self.state.n_high

    def limits(self) -> tuple[float, float]:
        """The thresholds: T_l and T_h, or alpha_prune / n and alpha_quant / n."""
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
        s, (high, low) = state.shares, state.slots
        if s[t_c] < t_low:
            return Decision(C, t_c, -1, 0, 0)  # l. 18: t_c is pruned
        if s[t_c] >= t_high:
            if s[high] >= t_high:
                return self._append(A1)
            if s[high] >= t_low:
                return Decision(A2, high, state.n_low, 0, 1)  # l. 9, which ends the branch (D-leankv-29)
            return Decision(A3, high, -1, 0, 0)
        if s[low] >= t_low:
            return Decision(B1, t_c, state.n_low, 0, 1)
        return Decision(B2, t_c, low - state.n_high, 0, 0)

    def _append(self, choice: int) -> Decision:
        return Decision(choice, self.state.n_high, -1, 1, 0)

    def _diffkv(self) -> Decision:
        """The published code's rules, the first that holds (D-leankv-26)."""
        state, (prune, quant), (high, low) = self.state, self.limits(), self.state.slots
        least = [state.shares[slot] if slot >= 0 else value32(LARGEST) for slot in (high, low)]
        if state.n_high + state.n_low + 1 <= state.window:
            return self._append(APPEND)
        if least[0] < prune and least[0] < least[1]:
            return Decision(PRUNE, high, -1, 0, 0)
        if least[0] < quant and least[1] < prune:
            return Decision(SWAP, high, low - state.n_high, 0, 0)
        if least[0] < quant:
            return Decision(DOWNGRADE, high, state.n_low, 0, 1)
        return self._append(APPEND)

    def _static(self) -> Decision:
        """A budget of its own for every head, the same in all (D-leankv-54)."""
        state = self.state
        budget = max(state.window, (state.n + 1) * self.keep_percent // 100)
        if state.n_high + 1 > budget:
            return Decision(STATIC_DROP, state.slots[0], -1, 0, 0)
        return self._append(STATIC_APPEND)

    def admitted(self, *inputs: Any) -> list[np.ndarray]:
        """The inputs as arrays of one shape, checked."""
        arrays = admit(self.name, self.ports.inputs, inputs)
        rows = [
            array.reshape(-1, port.lanes) if port.lanes > 1 or port.name in ("score", "position") else array.ravel()
            for array, port in zip(arrays, self.ports.inputs, strict=True)
        ]
        require(self.slots, self.policy, self.low, self.epoch, *rows)
        return arrays

    def steps(
        self, score: Any, position: Any, n_high: Any, n_low: Any, n: Any, prompt: Any, window: Any, thresholds: Any
    ) -> Iterator[State]:
        """Yield the State after every event of every decision, in C order; arguments broadcast beside their lanes."""
        arrays = self.admitted(score, position, n_high, n_low, n, prompt, window, thresholds)
        columns = [
            array.reshape(-1, port.lanes).tolist() if port.lanes > 1 else array.ravel().tolist()
            for array, port in zip(arrays, self.ports.inputs, strict=True)
        ]
        for row in zip(*columns, strict=True):
            yield self.step(*row)
            while self.busy:
                yield self.step()

    def __repr__(self) -> str:
        return (
            f"GenerationCompressor(slots={self.slots}, policy={self.policy!r}, score_rule={self.score_rule!r}, "
            f"low={self.low}, keep_percent={self.keep_percent}, score_queries={self.score_queries}, "
            f"include_self={self.include_self}, epoch={self.epoch})"
        )


def run(
    score: Any,
    position: Any,
    n_high: Any,
    n_low: Any,
    n: Any,
    prompt: Any,
    window: Any,
    thresholds: Any,
    *,
    slots: int = 16,
    **parameters: Any,
) -> Result:
    """Decisions for any number of heads.

    score: float32 patterns (..., slots), accumulated up to step n - 1: high slots first, low ones right after them.
    position: (..., slots). n_high, n_low: tokens stored, n: position of the new token, prompt: tokens of the prompt,
    window: W, all (...). thresholds: float32 patterns (..., 2), T_l and T_h, or alpha_prune and alpha_quant. They
    broadcast beside their lanes. slots, parameters: as for GenerationCompressor. Returns the Result, arrays (...).
    Refuses positions that are not below n or stand twice, and window tokens in the low section.
    Paper: [leankv Algorithm 1].
    """
    device = GenerationCompressor(slots, **parameters)
    arrays = device.admitted(score, position, n_high, n_low, n, prompt, window, thresholds)
    states = [state for state in device.steps(*arrays) if state.event == "case"]
    return Result(
        **collect(states, device.ports.outputs, arrays[2].shape),
        **{name: getattr(device.state, name) for name in COUNTERS},
    )


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` as states that exist: distinct positions below n, the low section before the window, ordered limits."""
    return generation_compressor_cases.legal(config, inputs)


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see generation_compressor_cases.py."""
    return generation_compressor_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="generation_compressor",
    paper="leankv §4, Algorithm 1",
    meaning="where a new token goes, and who makes room",
    configs={
        "paper": Config(slots=16, policy="algorithm1", score_rule="share"),
        "cumulative": Config(slots=16, policy="algorithm1", score_rule="cumulative"),
        "diffkv": Config(slots=144, policy="diffkv", score_queries=64, include_self=True),
        "static": Config(slots=16, policy="static", keep_percent=50),
        "wide": Config(slots=256, policy="algorithm1", score_rule="share"),
        "wide_cumulative": Config(slots=256, policy="algorithm1", score_rule="cumulative"),
    },
    ports=ports,
    run=run,
    twin="refemu.units.generation_compressor_jit:run",
    unit_class=GenerationCompressor,
    cases=cases,
    legal=legal,
    alternatives=(
        *choices("D-leankv-26", "policy", *POLICIES[:2]),
        *choices("D-leankv-27", "score_rule", "share", "cumulative"),
    ),
)
