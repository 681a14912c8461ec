"""Other answers to the decisions of bit_allocator."""

from dataclasses import replace

from refemu.units.alternative import Alternative, choices
from refemu.units.harmonia.bit_allocator import BitAllocator, State


class FirstToken(BitAllocator):
    """A group of V falls with the first of its tokens that does."""

    def _prompt(self, tokens: int) -> State:
        low = self.rule.low_tokens(tokens)
        groups = (low.stop - 1) // self.group - low.start // self.group + 1 if low else 0
        return replace(super()._prompt(tokens), low_groups=groups)

    def _falling(self, token: int) -> int:
        group = token // self.group
        return group if token == max(group * self.group, self.n_initial) else -1


class LastToken(BitAllocator):
    """A group of V falls with its last token, even if initial tokens are in it."""

    def _prompt(self, tokens: int) -> State:
        low = self.rule.low_tokens(tokens)
        groups = max(low.stop // self.group - low.start // self.group, 0) if low else 0
        return replace(super()._prompt(tokens), low_groups=groups)

    def _falling(self, token: int) -> int:
        group, place = divmod(token, self.group)
        return group if place == self.group - 1 else -1


class Beside(BitAllocator):
    """The local tokens are those before the residual, so that 32 tokens fall when a group of V is full."""

    def _prompt(self, tokens: int) -> State:
        whole = super()._prompt(tokens // self.group * self.group)
        return replace(whole, prefill=tokens, tokens=tokens)

    def _append(self) -> State:
        before, tokens = self.state, self.state.tokens + 1
        full = tokens // self.group * self.group
        low, groups = self.rule.low_tokens(full), self.rule.low_groups(full)
        k, v = int(len(low) > before.low_tokens), int(len(groups) > before.low_groups)
        return self.latched(
            0,
            event="demote" if k else "append",
            tokens=tokens,
            demote_k=k,
            k_token=(low.stop - 1) * k,
            demote_v=v,
            v_group=(groups.stop - 1) * v,
            low_tokens=len(low),
            low_groups=len(groups),
        )


class HighPrompt(BitAllocator):
    """A prompt keeps its bits; only later tokens fall."""

    def _prompt(self, tokens: int) -> State:
        return replace(super()._prompt(tokens), low_tokens=0, low_groups=0)


class Reporting(BitAllocator):
    """A prompt reports its last demotion at the ports."""

    def _prompt(self, tokens: int) -> State:
        after = super()._prompt(tokens)
        low, groups = self.rule.low_tokens(tokens), self.rule.low_groups(tokens)
        k, v = int(bool(low)), int(bool(groups))
        return replace(after, demote_k=k, k_token=(low.stop - 1) * k, demote_v=v, v_group=(groups.stop - 1) * v)


ALTERNATIVES: tuple[Alternative, ...] = (
    Alternative("D-harmonia-17", "a group of V falls with its first ordinary token", variant=FirstToken),
    Alternative("D-harmonia-17", "initial tokens do not hold up their group of V", variant=LastToken),
    *choices("D-harmonia-18", "n_local", 32, 95),
    Alternative("D-harmonia-18", "the local tokens do not include the residual", variant=Beside),
    Alternative("D-harmonia-19", "the tokens of a prompt keep 8 bits", variant=HighPrompt),
    Alternative("D-harmonia-19", "a prompt reports its last demotion", variant=Reporting),
)
