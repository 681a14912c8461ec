"""Variants of the decisions of bit_allocator."""

from refemu.units.declaration import Changes
from refemu.units.harmonia.bit_allocator import BitAllocator
from refemu.units.variant import Variant, choices, overriding


def _first_prompt(old: BitAllocator, self: BitAllocator, prefill: int) -> Changes:
    low = self.low_tokens(prefill)
    groups = (low.stop - 1) // self.group - low.start // self.group + 1 if low else 0
    return {**old.prefill(prefill), "low_groups": groups}


def _first_falls(self: BitAllocator, token: int) -> int:
    group = token // self.group
    return group if token == max(group * self.group, self.n_initial) else -1


def _last_prompt(old: BitAllocator, self: BitAllocator, prefill: int) -> Changes:
    low = self.low_tokens(prefill)
    groups = max(low.stop // self.group - low.start // self.group, 0) if low else 0
    return {**old.prefill(prefill), "low_groups": groups}


def _last_falls(self: BitAllocator, token: int) -> int:
    group, place = divmod(token, self.group)
    return group if place == self.group - 1 else -1


def _whole_prompt(old: BitAllocator, self: BitAllocator, prefill: int) -> Changes:
    full = prefill // self.group * self.group
    low_tokens, low_groups = len(self.low_tokens(full)), len(self.low_groups(full))
    return {**old.prefill(prefill), "low_tokens": low_tokens, "low_groups": low_groups}


def _opens_group(self: BitAllocator, prefill: int) -> str:
    full = (self.state.tokens + 1) // self.group * self.group
    more = len(self.low_tokens(full)) > self.state.low_tokens
    return "prefill" if prefill else "demote" if more else "append"


def _demotes_group(self: BitAllocator, prefill: int) -> Changes:
    before, tokens = self.state, self.state.tokens + 1
    full = tokens // self.group * self.group
    low, groups = self.low_tokens(full), self.low_groups(full)
    v = int(len(groups) > before.low_groups)
    ports = {"demote_k": 1, "k_token": low.stop - 1, "demote_v": v, "v_group": (groups.stop - 1) * v}
    return {**ports, "tokens": tokens, "low_tokens": len(low), "low_groups": len(groups)}


def _reporting(old: BitAllocator, self: BitAllocator, prefill: int) -> Changes:
    low, groups = self.low_tokens(prefill), self.low_groups(prefill)
    k, v = int(bool(low)), int(bool(groups))
    ports = {"demote_k": k, "k_token": (low.stop - 1) * k, "demote_v": v, "v_group": (groups.stop - 1) * v}
    return {**old.prefill(prefill), **ports}


_device = overriding(BitAllocator)
VARIANTS: tuple[Variant, ...] = (
    _device(
        "D-harmonia-17: a group of V falls with its first ordinary token", prefill=_first_prompt, _falling=_first_falls
    ),
    _device("D-harmonia-17: initial tokens do not delay their group of V", prefill=_last_prompt, _falling=_last_falls),
    *choices("D-harmonia-18", "n_local", 32, 95),
    _device(
        "D-harmonia-18: the local tokens do not include the residual",
        prefill=_whole_prompt,
        opens=_opens_group,
        demote=_demotes_group,
    ),
    _device(
        "D-harmonia-19: the tokens of a prompt stay at 8 bits",
        prefill=lambda old, self, prefill: {**old.prefill(prefill), "low_tokens": 0, "low_groups": 0},
    ),
    _device("D-harmonia-19: a prompt reports its last demotion", prefill=_reporting),
)
