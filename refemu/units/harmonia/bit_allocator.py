"""Initial-local bit allocation: the first and the latest tokens keep `high` bits, all others fall to `low`.

Paper: [harmonia §III-B, Fig. 8]. Decisions: D-harmonia-17 (V falls by whole groups), D-harmonia-18 (the local tokens
include the residual), D-harmonia-19 (a prompt counts no demotion).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_int
from refemu.arith.records import parameters, plain_fields
from refemu.units.harmonia.cases import bit_allocator as bit_allocator_cases
from refemu.units.ports import Port, Ports
from refemu.units.stepped import Clocked, Result
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["GROUP", "UNIT", "Allocation", "BitAllocator", "State", "run"]


GROUP = 32  #: Tokens of a V group


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    #: "reset": the cache is empty; "prefill": a prompt is stored; "append": a token is stored, and none loses bits;
    #: "demote": a token is stored, and the one that leaves the local tokens falls to the low bits
    event: str
    index: int  #: number of the event since reset, from 0; -1 at reset
    prefill: int
    tokens: int
    demote_k: int
    k_token: int
    demote_v: int
    v_group: int
    low_tokens: int
    low_groups: int
    demoted_tokens: int  #: tokens whose K fell to the low bits when one was appended, those of a prompt left out
    #: groups of tokens whose V fell to the low bits when one was appended, those of a prompt left out
    demoted_groups: int


@parameters
class Allocation:
    """Rule: token i of T is ordinary iff n_initial <= i < T - n_local; ordinary ones have `low` bits.

    A V group is low iff its `group` tokens exist and are all ordinary (D-harmonia-17). With high = low nothing is
    demoted.
    """

    n_initial: int = 32  #: first tokens that keep their bits
    n_local: int = 64  #: latest tokens that keep them, the residual included (D-harmonia-18)
    high: int = 8  #: mantissa bits, as tokens are stored first
    low: int = 4  #: mantissa bits of ordinary tokens
    group: int = GROUP  #: tokens of a V group

    def __post_init__(self) -> None:
        plain_fields(self)
        for name in ("n_initial", "n_local"):
            require_int(getattr(self, name), 0, 1 << 24, "bit_allocator", name)
        require_int(self.high, 1, 11, "bit_allocator", "high")
        require_int(self.low, 1, self.high, "bit_allocator", "low")
        require_int(self.group, 1, 1 << 16, "bit_allocator", "group")

    def low_tokens(self, tokens: int) -> range:
        """Tokens whose K has `low` bits.

        Parameters
        ----------
        tokens : int
            Tokens of the cache.

        Returns
        -------
        range
            Their numbers.
        """
        if self.high == self.low:
            return range(0)
        return range(self.n_initial, max(tokens - self.n_local, self.n_initial))

    def low_groups(self, tokens: int) -> range:
        """Groups whose V has `low` bits.

        Parameters
        ----------
        tokens : int
            Tokens of the cache.

        Returns
        -------
        range
            Their numbers.
        """
        ordinary = self.low_tokens(tokens)
        first = -(-ordinary.start // self.group)
        return range(first, max(ordinary.stop // self.group, first)) if ordinary else range(0)

    def bits(self, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Bits of K per token and of V per group, the residual's last.

        Parameters
        ----------
        tokens : int
            Tokens of the cache, 0 to 2**24.

        Returns
        -------
        k, v : ndarray of uint8
            One per token, one per group.

        Raises
        ------
        Refused
            `tokens` is out of range.
        """
        require_int(tokens, 0, 1 << 24, "bit_allocator", "tokens")
        k = np.full(tokens, self.high, np.uint8)
        v = np.full(-(-tokens // self.group), self.high, np.uint8)
        for bits, low in ((k, self.low_tokens(tokens)), (v, self.low_groups(tokens))):
            bits[low.start : low.stop] = self.low
        return k, v


class BitAllocator(Clocked[State]):
    """Bit allocator, token by token: one event is a prefill of an empty cache, or one appended token.

    References
    ----------
    [harmonia §III-B, Fig. 8]
    """

    name = "bit_allocator"

    def __init__(self, n_initial: int = 32, n_local: int = 64, high: int = 8, low: int = 4, group: int = GROUP) -> None:
        """Configure the rule, as for `Allocation`.

        Parameters
        ----------
        n_initial : int
            First tokens that keep their bits.
        n_local : int
            Latest tokens that keep them, the residual included (D-harmonia-18).
        high : int
            Mantissa bits as tokens are stored first, 1 to 11.
        low : int
            Mantissa bits of ordinary tokens, 1 to `high`.
        group : int
            Tokens of a V group.

        Raises
        ------
        Refused
            A parameter is out of range.
        """
        self.rule: Allocation = Allocation(n_initial, n_local, high, low, group)
        rule = self.rule
        self.n_initial: int = rule.n_initial
        self.n_local: int = rule.n_local
        self.group: int = rule.group
        self.high: int = rule.high
        self.low: int = rule.low
        self.ports: Ports = ports({})
        self.state: State = self.reset(State)

    def step(self, prefill: int) -> State:
        """Store a prompt of `prefill` tokens in an empty cache, or with 0 append one token.

        A prompt gets the bits of its end at once (D-harmonia-19). A prefill of a cache that is not empty is refused.
        """
        return self._open(*self.accept(prefill))

    def prefill(self, tokens: int) -> State:
        """Store a prompt in an empty cache.

        Parameters
        ----------
        tokens : int
            1 to 2**20 - 1.

        Returns
        -------
        State
            Registers after the event.

        Raises
        ------
        Refused
            The cache is not empty, or `tokens` out of range.
        """
        require_int(tokens, 1, (1 << 20) - 1, self.name, "tokens")
        return self._open(tokens)

    def append(self) -> State:
        """Store one token at `high` bits, then demote the one that has just become ordinary.

        Returns
        -------
        State
            Registers after the event.
        """
        return self._open(0)

    def _open(self, prefill: int) -> State:
        before = self.state
        if prefill and before.tokens:
            raise Refused(f"{self.name}: prefill of {prefill} tokens needs an empty cache, got one of {before.tokens}")
        self.state = self._prompt(prefill) if prefill else self._append()
        return self.state

    def _prompt(self, tokens: int) -> State:
        """The bits of the last token's window, without a demotion (D-harmonia-19)."""
        low_tokens, low_groups = len(self.rule.low_tokens(tokens)), len(self.rule.low_groups(tokens))
        return self.latched(tokens, event="prefill", tokens=tokens, low_tokens=low_tokens, low_groups=low_groups)

    def _append(self) -> State:
        before = self.state
        token = before.tokens - self.n_local  # the only one that can become ordinary now
        k = int(self.high > self.low and token >= self.n_initial)
        group = self._falling(token) if k else -1
        v = int(group >= 0)
        return self.latched(
            0,
            event="demote" if k else "append",
            tokens=before.tokens + 1,
            demote_k=k,
            k_token=token * k,
            demote_v=v,
            v_group=group * v,
            low_tokens=before.low_tokens + k,
            low_groups=before.low_groups + v,
            demoted_tokens=before.demoted_tokens + k,
            demoted_groups=before.demoted_groups + v,
        )

    def _falling(self, token: int) -> int:
        """The group of V that falls with a token, its last one, unless it holds initial tokens; -1: none."""
        group, place = divmod(token, self.group)
        return group if place == self.group - 1 and group * self.group >= self.n_initial else -1

    def bits(self, tokens: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Bits of K per token and of V per group.

        Parameters
        ----------
        tokens : int, optional
            Tokens of the cache; by default those that are stored.

        Returns
        -------
        k, v : ndarray of uint8
            As `Allocation.bits`.
        """
        return self.rule.bits(self.state.tokens if tokens is None else tokens)

    def fraction_low(self) -> Fraction:
        """Share of the stored tokens whose K has `low` bits; 0 of an empty cache.

        Returns
        -------
        Fraction
            0 to 1.
        """
        return Fraction(self.state.low_tokens, max(self.state.tokens, 1))


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in any configuration."""
    return Ports(
        inputs=(Port("prefill", 20, meaning="tokens of a prompt; 0 = one token is appended"),),
        outputs=(
            Port("tokens", 32, meaning="stored tokens"),
            Port("demote_k", 1, meaning="the K of a token falls"),
            Port("k_token", 32, meaning="which token; else 0"),
            Port("demote_v", 1, meaning="the V of a group falls"),
            Port("v_group", 32, meaning="which group; else 0"),
            Port("low_tokens", 32, meaning="tokens whose K is low"),
            Port("low_groups", 32, meaning="groups whose V is low"),
        ),
    )


PAPER = {"n_initial": 32, "n_local": 64, "high": 8, "low": 4}

UNIT: Unit[State, Result] = Unit(
    name="bit_allocator",
    paper="harmonia §III-B, Fig. 8",
    meaning="which tokens of a cache fall to fewer bits, and when",
    configs={"paper": Config(**PAPER), "local16": Config(**PAPER | {"n_initial": 40, "n_local": 16})},
    ports=ports,
    unit_class=BitAllocator,
    cases=bit_allocator_cases.cases,
    counters=("demoted_tokens", "demoted_groups"),
    mark=bit_allocator_cases.mark,
    legal=bit_allocator_cases.legal,
    flags={"DEMOTES_K": Flag(0, "the K of a token falls"), "DEMOTES_V": Flag(1, "the V of a group falls")},
)
run: RunFunction[Result] = UNIT.run
