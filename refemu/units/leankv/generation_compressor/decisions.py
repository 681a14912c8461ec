"""Decisions of generation_compressor, and checks of stored tokens. [leankv §4, Algorithm 1]"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from refemu.arith.checks import Refused, at, first_index

NAME = "generation_compressor"
Policy = Literal["algorithm1", "diffkv", "static"]  #: Rule of a decision (D-leankv-26)
ScoreRule = Literal["share", "cumulative"]  #: Quantity that Algorithm 1 compares (D-leankv-27)
POLICIES = get_args(Policy)
LARGEST = 0x7F7F_FFFF  #: Pattern of the largest finite float32: a section without a candidate
LANES, LANE_BITS = 128, 7  #: lanes of the published code's search for a minimum
OUTPUTS = ("choice", "victim", "low_slot", "delta_high", "delta_low")


@dataclass(frozen=True)
class Decision:
    """Changes to the pages of one head. The new token always enters at the high precision."""

    choice: int
    victim: int  #: high slot of the new token; on an append the length of the section
    low_slot: int  #: low slot of that slot's requantized token; -1 if it is dropped or there is none
    delta_high: int  #: 1 if the high section grows
    delta_low: int  #: 1 if the low section grows


def lane_rank(index: int) -> tuple[int, int]:
    """Rank of a slot in a tie of the published code: the lowest bit-reversed lane, in a lane the lowest index."""
    return int(f"{index % LANES:0{LANE_BITS}b}"[::-1], 2), index


def require(device: Any, rows: Sequence[np.ndarray]) -> None:
    """Reject, for (rows, ...): too many tokens, positions not below n or repeated, low tokens of the window, limits.

    With `epoch` tokens may share stored positions (D-leankv-47).
    """
    _, position, n_high, n_low, n, prompt, window, thresholds = rows
    slots, policy, low = device.slots, device.policy, device.low
    stored = n_high.astype(np.int64) + n_low
    _refuse(stored > slots, lambda i: f"{stored[i]} tokens in {slots} slots")
    _refuse(prompt > n, lambda i: f"prompt of {prompt[i]} tokens before token {n[i]}")
    if not low or policy == "static":
        _refuse(n_low > 0, lambda i: f"{n_low[i]} low tokens without a low precision")
    slot, at64 = np.arange(slots), position.astype(np.int64)
    used = slot < stored[:, None]
    late = used & (at64 >= n[:, None])
    _refuse(late.any(1), lambda i: f"position {at64[i, np.argmax(late[i])]} is not older than token {n[i]}")
    if not device.epoch:
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
    """Reject a position in two of the `used` slots of a row; the index is that of the later slot."""
    distinct = np.where(used, position, -1 - np.arange(position.shape[1]))
    ranked = np.sort(distinct, axis=1, kind="stable")
    if (ranked[:, 1:] == ranked[:, :-1]).any():
        again = _again(distinct)
        index = first_index(again)
        raise Refused(
            f"{NAME}: positions of stored tokens must differ, got {position[index]} twice"
            f"{at(index if len(again) > 1 else index[1:])}"
        )


def _again(values: np.ndarray) -> np.ndarray:
    """Whether an earlier place of a row has the same value."""
    order = np.argsort(values, axis=1, kind="stable")
    ranked, again = np.take_along_axis(values, order, axis=1), np.zeros(values.shape, bool)
    np.put_along_axis(again, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    return again


def _refuse(bad: np.ndarray, message: Any) -> None:
    if bad.any():
        row = int(first_index(bad)[0])
        raise Refused(f"{NAME}: {message(row)}{at((row,)) if len(bad) > 1 else ''}")
