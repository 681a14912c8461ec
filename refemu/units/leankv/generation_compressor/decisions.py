"""Decisions, ports, states and results of generation_compressor, and its refusals of stored tokens.

Paper: [leankv §4, Algorithm 1]. Decision: D-leankv-28 (ties).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from refemu.arith.checks import Refused, at, first_index
from refemu.units import stepped
from refemu.units.ports import Lanes, Port, Ports

NAME = "generation_compressor"
Policy = Literal["algorithm1", "diffkv", "static"]  #: Rule of a decision (D-leankv-26)
ScoreRule = Literal["share", "cumulative"]  #: Quantity that Algorithm 1 compares (D-leankv-27)
POLICIES = get_args(Policy)
LARGEST = 0x7F7F_FFFF  #: Pattern of the largest finite float32: a section without a candidate
LANES, LANE_BITS = 128, 7  #: of the published code's search for a minimum
OUTPUTS = ("choice", "victim", "low_slot", "delta_high", "delta_low")


@dataclass(frozen=True)
class Decision:
    """Changes to the pages of one head. The new token always enters at the high precision."""

    choice: int
    victim: int  #: high slot that the new token takes; on an append the length of the section
    low_slot: int  #: where the token of that slot goes, requantized; -1 = nowhere, it is dropped or there is none
    delta_high: int  #: 1 if the high section grows
    delta_low: int  #: 1 if the low section grows


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    #: "reset": no decision yet; "mean": the mean score of one stored token is computed and added to the total;
    #: "argmin": shares are made of the means, and the least significant candidates are found; "case": the case of
    #: Algorithm 1, or of the other policy, is decided
    event: str
    index: int  #: number of the decision since reset, from 0; all its events have it; -1 at reset
    score: tuple[int, ...]
    position: tuple[int, ...]
    n_high: int
    n_low: int
    n: int
    prompt: int
    window: int
    thresholds: tuple[int, int]
    choice: int
    victim: int
    low_slot: int
    delta_high: int
    delta_low: int
    means: Lanes  #: float32 patterns, of the slots so far
    total: int  #: pattern of the sum of the means so far
    shares: Lanes  #: patterns of what thresholds are compared with, once all means are there
    slots: tuple[int, int]  #: what argmin found in the high and in the low section; -1 = nothing
    done: int  #: slots whose means are there
    divisions: int  #: divisions: of scores by their counts, and of means by their total
    comparisons: int  #: candidates that argmin looked at


@dataclass(frozen=True, eq=False)
class Result(stepped.Result):
    """One decision per row."""

    choice: np.ndarray  #: uint8
    victim: np.ndarray  #: uint32
    low_slot: np.ndarray  #: int32
    delta_high: np.ndarray  #: bool
    delta_low: np.ndarray  #: bool
    means: np.ndarray  #: uint32, slots
    total: np.ndarray  #: uint32
    shares: np.ndarray  #: uint32, slots
    slots: np.ndarray  #: int32, 2
    done: np.ndarray  #: slots whose means are there
    divisions: int
    comparisons: int


def lane_rank(index: int) -> tuple[int, int]:
    """Rank of a slot in a tie of the published code: the lowest bit-reversed lane, in a lane the lowest index."""
    return int(f"{index % LANES:0{LANE_BITS}b}"[::-1], 2), index


def require(
    slots: int,
    policy: Policy,
    low: bool,
    epoch: bool,
    score: np.ndarray,
    position: np.ndarray,
    n_high: np.ndarray,
    n_low: np.ndarray,
    n: np.ndarray,
    prompt: np.ndarray,
    window: np.ndarray,
    thresholds: np.ndarray,
) -> None:
    """Refuse, for (rows, ...): too many tokens, positions not below n or twice, low tokens of the window, limits.

    With `epoch` tokens share what is stored for their positions (D-leankv-47).
    """
    stored = n_high.astype(np.int64) + n_low
    _refuse(stored > slots, lambda i: f"{stored[i]} tokens in {slots} slots")
    _refuse(prompt > n, lambda i: f"prompt of {prompt[i]} tokens before token {n[i]}")
    if not low or policy == "static":
        _refuse(n_low > 0, lambda i: f"{n_low[i]} low tokens without a low precision")
    slot, at64 = np.arange(slots), position.astype(np.int64)
    used = slot < stored[:, None]
    late = used & (at64 >= n[:, None])
    _refuse(late.any(1), lambda i: f"position {at64[i, np.argmax(late[i])]} is not older than token {n[i]}")
    if not epoch:
        _require_distinct(at64, used)
    if policy == "algorithm1":
        border = n.astype(np.int64) - window
        inside = used & (slot >= n_high[:, None]) & (at64 >= border[:, None])
        _refuse(inside.any(1), lambda i: f"position {at64[i, np.argmax(inside[i])]} of the window is low")
    limits = np.ascontiguousarray(thresholds, np.uint32).view(np.float32)
    if policy == "algorithm1":
        bad = (limits[:, 0] > limits[:, 1]) | (limits[:, 1] > 1)
        _refuse(bad, lambda i: f"thresholds must be 0 <= T_l <= T_h <= 1, got {limits[i, 0]}, {limits[i, 1]}")
    if policy == "diffkv" and not low:
        _refuse(
            limits[:, 0] != limits[:, 1],
            lambda i: f"without a low precision alpha_quant must be alpha_prune, got {limits[i, 1]} and {limits[i, 0]}",
        )


def _require_distinct(position: np.ndarray, used: np.ndarray) -> None:
    """Refuse a position in two of the `used` slots of a row; the index is that of the later slot."""
    distinct = np.where(used, position, -1 - np.arange(position.shape[1]))
    order = np.argsort(distinct, axis=1, kind="stable")
    ranked, again = np.take_along_axis(distinct, order, axis=1), np.zeros_like(used)
    np.put_along_axis(again, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    if again.any():
        _, slot = index = first_index(again)
        raise Refused(
            f"{NAME}: positions of stored tokens must differ, got {position[index]} twice"
            f"{at(index if len(again) > 1 else (slot,))}"
        )


def _refuse(bad: np.ndarray, message: Any) -> None:
    if bad.any():
        row = int(first_index(bad)[0])
        raise Refused(f"{NAME}: {message(row)}{at((row,)) if len(bad) > 1 else ''}")


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    slots = config["slots"]
    most = LARGEST if config.get("policy") != "algorithm1" else 0x3F80_0000
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
            Port("victim", 32, meaning="high slot that the new token takes; its length on an append"),
            Port("low_slot", 32, signed=True, meaning="low slot that the victim moves to, or -1"),
            Port("delta_high", 1, meaning="the high section grows"),
            Port("delta_low", 1, meaning="the low section grows"),
        ),
        state=(
            Port("means", 32, slots, encoding="f32", meaning="mean of every stored slot"),
            Port("total", 32, encoding="f32", meaning="sum of the means, slot by slot"),
            Port("shares", 32, slots, encoding="f32", meaning="what a slot is compared by: share, running sum or mean"),
            Port("slots", 32, 2, signed=True, meaning="least slot of the high and of the low candidates; -1 for none"),
            Port("done", slots.bit_length(), most=slots, meaning="slots whose means are there"),
        ),
    )
