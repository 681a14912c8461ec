"""Initial-local bit allocation: the first and the latest tokens have `high` bits, all others `low`.

Paper: [harmonia §III-B, Fig. 8].
"""

from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np

from refemu.arith.checks import Refused, require_int
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.units import AnyUnit, Changes, Config, DeclaredState, Flag, Port, Ports, Sequential, Unit, constant, decides
from refemu.units.stepping import Result
from refemu.units.unit import RunFunction

__all__ = ["GROUP", "UNIT", "Allocation", "BitAllocator", "State", "run"]


GROUP = 32  #: Tokens of a V group


@parameters
class Allocation:
    """Rule: token i of T is ordinary iff n_initial <= i < T - n_local; ordinary ones have `low` bits.

    A V group is low iff its `group` tokens exist and are all ordinary (D-harmonia-17). With high = low nothing is
    demoted.
    """

    n_initial: Annotated[int, 0, 1 << 24] = 32  #: first tokens, which stay at `high` bits
    #: latest tokens, which stay at `high` bits, the residual included (D-harmonia-18)
    n_local: Annotated[int, 0, 1 << 24] = 64
    high: Annotated[int, 1, 11] = 8  #: mantissa bits of a token when it is stored, 1 to 11
    low: int = 4  #: mantissa bits of ordinary tokens, 1 to `high`
    group: Annotated[int, 1, 1 << 16] = GROUP  #: tokens of a V group

    def __post_init__(self) -> None:
        plain_fields(self)
        self.check()

    def check(self) -> None:
        """Check sizes and widths. Raises Refused: a size or width is out of range."""
        require_options(self, "bit_allocator")
        require_int(self.low, 1, self.high, "bit_allocator", "low")

    def low_tokens(self, tokens: int) -> range:
        """Tokens whose K has `low` bits."""
        if self.high == self.low:
            return range(0)
        return range(self.n_initial, max(tokens - self.n_local, self.n_initial))

    def low_groups(self, tokens: int) -> range:
        """Groups whose V has `low` bits."""
        ordinary = self.low_tokens(tokens)
        first = -(-ordinary.start // self.group)
        return range(first, max(ordinary.stop // self.group, first))

    def bits(self, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Bits of K per token and of V per group, the residual's last.

        Returns `k, v` uint8: one per token, one per group. Raises Refused: `tokens` is out of range.
        """
        require_int(tokens, 0, 1 << 24, "bit_allocator", "tokens")
        k = np.full(tokens, self.high, np.uint8)
        v = np.full(-(-tokens // self.group), self.high, np.uint8)
        for bits, low in ((k, self.low_tokens(tokens)), (v, self.low_groups(tokens))):
            bits[low.start : low.stop] = self.low
        return k, v


class BitAllocator(Sequential, Allocation):
    """Bit allocator, token by token: one event is a prefill of an empty cache, or one appended token."""

    name = "bit_allocator"
    events: ClassVar[tuple[str, ...]] = ("prefill", "append", "demote")
    counters: ClassVar[dict[str, str]] = {
        "demoted_tokens": "tokens whose K fell to the low bits when a token was appended, tokens of a prompt excluded",
        "demoted_groups": (
            "groups whose V fell to the low bits when a token was appended, tokens of a prompt excluded"
        ),
    }

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(Port("prefill", 20, meaning="tokens of a prompt; 0 = one token is appended"),),
            outputs=(
                Port("tokens", 32, meaning="stored tokens"),
                Port("demote_k", 1, meaning="the K of a token falls to the low bits"),
                Port("k_token", 32, meaning="token whose K falls; else 0"),
                Port("demote_v", 1, meaning="the V of a group falls to the low bits"),
                Port("v_group", 32, meaning="group whose V falls; else 0"),
                Port("low_tokens", 32, meaning="tokens whose K is low"),
                Port("low_groups", 32, meaning="groups whose V is low"),
            ),
        )

    @decides("D-harmonia-18")
    def opens(self, prefill: int) -> str:
        ordinary = self.high > self.low and self.state.tokens - self.n_local >= self.n_initial
        return "prefill" if prefill else "demote" if ordinary else "append"

    @decides("D-harmonia-17", "D-harmonia-18", "D-harmonia-19")
    def prefill(self, prefill: int) -> Changes:
        """Store a prompt with its final bits at once."""
        if self.state.tokens:
            raise Refused(
                f"{self.name}: prefill of {prefill} tokens needs an empty cache, got {self.state.tokens} tokens; reset"
            )
        low_tokens, low_groups = len(self.low_tokens(prefill)), len(self.low_groups(prefill))
        return {"tokens": prefill, "low_tokens": low_tokens, "low_groups": low_groups}

    def append(self, prefill: int) -> Changes:
        """Store a token; none falls."""
        return {"tokens": self.state.tokens + 1, "demote_k": 0, "k_token": 0, "demote_v": 0, "v_group": 0}

    @decides("D-harmonia-18")
    def demote(self, prefill: int) -> Changes:
        """Store a token; the one that leaves the local tokens falls to the low bits."""
        before = self.state
        token = before.tokens - self.n_local
        group = self._falling(token)
        v = int(group >= 0)
        return {
            "tokens": before.tokens + 1,
            "demote_k": 1,
            "k_token": token,
            "demote_v": v,
            "v_group": group * v,
            "low_tokens": before.low_tokens + 1,
            "low_groups": before.low_groups + v,
            "demoted_tokens": 1,
            "demoted_groups": v,
        }

    @decides("D-harmonia-17")
    def _falling(self, token: int) -> int:
        """The V group that falls with its last token, unless it has initial tokens; -1: none."""
        group, place = divmod(token, self.group)
        return group if place == self.group - 1 and group * self.group >= self.n_initial else -1

    def bits(self, tokens: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Bits of K per token and of V per group, by default for the stored tokens."""
        return super().bits(self.state.tokens if tokens is None else tokens)

    def fraction_low(self) -> Fraction:
        """Share of the stored tokens whose K has `low` bits; 0 for an empty cache."""
        return Fraction(self.state.low_tokens, max(self.state.tokens, 1))


PAPER = {"n_initial": 32, "n_local": 64, "high": 8, "low": 4}

UNIT: AnyUnit = Unit(
    unit_class=BitAllocator,
    paper="harmonia §III-B, Fig. 8",
    meaning="which tokens of a cache fall to fewer bits, and when",
    configs={"paper": Config(**PAPER), "local16": Config(**PAPER | {"n_initial": 40, "n_local": 16})},
    flags={
        "DEMOTES_K": Flag(0, "the K of a token falls", "demote_k"),
        "DEMOTES_V": Flag(1, "the V of a group falls", "demote_v"),
    },
)
State: type[DeclaredState] = BitAllocator.State
run: RunFunction[Result] = UNIT.run
