"""Variants of the decisions of bit_allocator."""

from refemu.units.declaration import Changes
from refemu.units.harmonia.bit_allocator import BitAllocator
from refemu.units.variant import Variant, choices


class FirstToken(BitAllocator):
    """A group of V falls with the first of its tokens that falls."""

    def prefill(self, prefill: int) -> Changes:
        """Store a prompt."""
        low = self.low_tokens(prefill)
        groups = (low.stop - 1) // self.group - low.start // self.group + 1 if low else 0
        return {**super().prefill(prefill), "low_groups": groups}

    def _falling(self, token: int) -> int:
        group = token // self.group
        return group if token == max(group * self.group, self.n_initial) else -1


class LastToken(BitAllocator):
    """A group of V falls with its last token, even if initial tokens are in it."""

    def prefill(self, prefill: int) -> Changes:
        """Store a prompt."""
        low = self.low_tokens(prefill)
        groups = max(low.stop // self.group - low.start // self.group, 0) if low else 0
        return {**super().prefill(prefill), "low_groups": groups}

    def _falling(self, token: int) -> int:
        group, place = divmod(token, self.group)
        return group if place == self.group - 1 else -1


class Beside(BitAllocator):
    """The local tokens are those before the residual, so that 32 tokens fall when a group of V is full."""

    def prefill(self, prefill: int) -> Changes:
        """Store a prompt."""
        full = prefill // self.group * self.group
        low_tokens, low_groups = len(self.low_tokens(full)), len(self.low_groups(full))
        return {**super().prefill(prefill), "low_tokens": low_tokens, "low_groups": low_groups}

    def opens(self, prefill: int) -> str:
        full = (self.state.tokens + 1) // self.group * self.group
        more = len(self.low_tokens(full)) > self.state.low_tokens
        return "prefill" if prefill else "demote" if more else "append"

    def demote(self, prefill: int) -> Changes:
        """Store a token; some fall."""
        before, tokens = self.state, self.state.tokens + 1
        full = tokens // self.group * self.group
        low, groups = self.low_tokens(full), self.low_groups(full)
        v = int(len(groups) > before.low_groups)
        return {
            "tokens": tokens,
            "demote_k": 1,
            "k_token": low.stop - 1,
            "demote_v": v,
            "v_group": (groups.stop - 1) * v,
            "low_tokens": len(low),
            "low_groups": len(groups),
        }


class HighPrompt(BitAllocator):
    """Tokens of a prompt stay at `high` bits; only later tokens fall."""

    def prefill(self, prefill: int) -> Changes:
        """Store a prompt."""
        return {**super().prefill(prefill), "low_tokens": 0, "low_groups": 0}


class Reporting(BitAllocator):
    """A prompt reports its last demotion at the ports."""

    def prefill(self, prefill: int) -> Changes:
        """Store a prompt."""
        low, groups = self.low_tokens(prefill), self.low_groups(prefill)
        k, v = int(bool(low)), int(bool(groups))
        ports = {"demote_k": k, "k_token": (low.stop - 1) * k, "demote_v": v, "v_group": (groups.stop - 1) * v}
        return {**super().prefill(prefill), **ports}


VARIANTS: tuple[Variant, ...] = (
    Variant("D-harmonia-17", "a group of V falls with its first ordinary token", unit_class=FirstToken),
    Variant("D-harmonia-17", "initial tokens do not delay their group of V", unit_class=LastToken),
    *choices("D-harmonia-18", "n_local", 32, 95),
    Variant("D-harmonia-18", "the local tokens do not include the residual", unit_class=Beside),
    Variant("D-harmonia-19", "the tokens of a prompt stay at 8 bits", unit_class=HighPrompt),
    Variant("D-harmonia-19", "a prompt reports its last demotion", unit_class=Reporting),
)
