"""Initial-local bit allocation: the first and the latest tokens keep `high` bits, all others fall to `low`.

Paper: [harmonia §III-B, Fig. 8]. Decisions: D-harmonia-17 (V falls by whole groups), D-harmonia-18 (the local tokens
include the residual), D-harmonia-19 (bits of a prefill are those at its end).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_int
from refemu.arith.records import parameters
from refemu.units import bit_allocator_cases, unit
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit_events, choices, collect
from refemu.units.unit_cases import Seeds

GROUP = 32  #: tokens of a V group


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "prefill", "append", or "demote" for an append that demotes
    index: int
    prefill: int
    tokens: int
    demote_k: int
    k_token: int
    demote_v: int
    v_group: int
    low_tokens: int
    low_groups: int
    demoted_tokens: int  #: K tokens whose bits fell, those of a prefill not counted
    demoted_groups: int  #: V groups whose bits fell


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one value per event; counters over all devices."""

    tokens: np.ndarray  #: uint32
    demote_k: np.ndarray  #: bool
    k_token: np.ndarray  #: uint32
    demote_v: np.ndarray  #: bool
    v_group: np.ndarray  #: uint32
    low_tokens: np.ndarray  #: uint32
    low_groups: np.ndarray  #: uint32
    demoted_tokens: int
    demoted_groups: int


@parameters
class Allocation:
    """The rule: token i of T is ordinary iff n_initial <= i < T - n_local; ordinary ones have `low` bits.

    A V group is low iff its `group` tokens exist and are all ordinary (D-harmonia-17). high = low: nothing is demoted.
    """

    n_initial: int = 32  #: first tokens that keep their bits
    n_local: int = 64  #: latest tokens that keep them, the residual included (D-harmonia-18)
    high: int = 8  #: mantissa bits, as tokens are stored first
    low: int = 4  #: mantissa bits of ordinary tokens
    group: int = GROUP  #: tokens of a V group

    def __post_init__(self) -> None:
        for name in ("n_initial", "n_local"):
            require_int(getattr(self, name), 0, 1 << 24, "bit_allocator", name)
        require_int(self.high, 1, 11, "bit_allocator", "high")
        require_int(self.low, 1, self.high, "bit_allocator", "low")
        require_int(self.group, 1, 1 << 16, "bit_allocator", "group")

    def low_tokens(self, tokens: int) -> range:
        """The tokens whose K has `low` bits."""
        if self.high == self.low:
            return range(0)
        return range(self.n_initial, max(tokens - self.n_local, self.n_initial))

    def low_groups(self, tokens: int) -> range:
        """The groups whose V has `low` bits."""
        ordinary = self.low_tokens(tokens)
        first = -(-ordinary.start // self.group)
        return range(first, max(ordinary.stop // self.group, first)) if ordinary else range(0)

    def bits(self, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Bits of K per token and of V per group (the residual's last), uint8, when there are `tokens` tokens."""
        require_int(tokens, 0, 1 << 24, "bit_allocator", "tokens")
        k = np.full(tokens, self.high, np.uint8)
        v = np.full(-(-tokens // self.group), self.high, np.uint8)
        for bits, low in ((k, self.low_tokens(tokens)), (v, self.low_groups(tokens))):
            bits[low.start : low.stop] = self.low
        return k, v


class BitAllocator(Stepped):
    """The rule kept token by token. One event is a prefill of an empty cache, or one appended token."""

    name = "bit_allocator"

    def __init__(self, n_initial: int = 32, n_local: int = 64, high: int = 8, low: int = 4, group: int = GROUP) -> None:
        """n_initial, n_local, high, low, group: as for Allocation."""
        self.rule = Allocation(n_initial, n_local, high, low, group)
        self.ports = ports({})
        self.state = State("reset", -1, *(0,) * 10)

    def step(self, prefill: int) -> State:
        """Store a prompt of `prefill` tokens in an empty cache, or with 0 append one token; returns the State after it.

        A prompt gets the bits of its end at once (D-harmonia-19). Refused: a prefill of a cache that is not empty.
        """
        return self._event(*self.accept(prefill))

    def prefill(self, tokens: int) -> State:
        """A prompt of `tokens` tokens, at least 1."""
        require_int(tokens, 1, (1 << 20) - 1, self.name, "tokens")
        return self._event(tokens)

    def append(self) -> State:
        """One token: stored at `high` bits, then what has just become ordinary is demoted."""
        return self._event(0)

    def _event(self, prefill: int) -> State:
        before = self.state
        if prefill and before.tokens:
            raise Refused(f"{self.name}: prefill of {prefill} tokens needs an empty cache, got one of {before.tokens}")
        if prefill:
            low = len(self.rule.low_tokens(prefill)), len(self.rule.low_groups(prefill))
            self.state = State("prefill", before.index + 1, prefill, prefill, 0, 0, 0, 0, *low, 0, 0)
            return self.state
        tokens = before.tokens + 1
        token = tokens - 1 - self.rule.n_local  # the only one that can become ordinary now
        k = int(self.rule.high > self.rule.low and token >= self.rule.n_initial)
        group, open_tokens = divmod(token + 1, self.rule.group)
        v = int(k and open_tokens == 0 and (group - 1) * self.rule.group >= self.rule.n_initial)
        self.state = State(
            "demote" if k else "append",
            before.index + 1,
            prefill,
            tokens,
            k,
            token * k,
            v,
            (group - 1) * v,
            before.low_tokens + k,
            before.low_groups + v,
            before.demoted_tokens + k,
            before.demoted_groups + v,
        )
        return self.state

    def bits(self, tokens: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """`Allocation.bits` of `tokens` tokens, by default of those that are stored."""
        return self.rule.bits(self.state.tokens if tokens is None else tokens)

    def fraction_low(self) -> Fraction:
        """Share of the stored tokens whose K has `low` bits; 0 of none."""
        return Fraction(self.state.low_tokens, max(self.state.tokens, 1))

    def steps(self, prefill: Any) -> Iterator[State]:
        """Yield the State after every event of one device; prefill: (events,)."""
        (events,) = admit_events(self.name, self.ports.inputs, (prefill,))
        if events.ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of events, got shape {events.shape}")
        for event in events.tolist():
            yield self._event(event)

    def __repr__(self) -> str:
        rule = self.rule
        return (
            f"BitAllocator(n_initial={rule.n_initial}, n_local={rule.n_local}, high={rule.high}, low={rule.low}, "
            f"group={rule.group})"
        )


def run(
    prefill: Any, *, n_initial: int = 32, n_local: int = 64, high: int = 8, low: int = 4, group: int = GROUP
) -> Result:
    """Every event of one device or of many.

    prefill: (..., events): tokens of a prompt, first event only, or 0 for an appended token; below 2**20. n_initial,
    n_local, high, low, group: as for Allocation. Each device, an index of the leading axes, starts empty.
    Returns the Result. Paper: [harmonia §III-B, Fig. 8].
    """
    allocator = BitAllocator(n_initial, n_local, high, low, group)
    (events,) = admit_events(allocator.name, allocator.ports.inputs, (prefill,))
    reset, states = allocator.state, list[State]()
    demoted = [0, 0]
    for device in events.reshape(prod(events.shape[:-1]), events.shape[-1]).tolist():
        allocator.state = reset
        states += [allocator._event(event) for event in device]
        demoted = [demoted[0] + allocator.state.demoted_tokens, demoted[1] + allocator.state.demoted_groups]
    return Result(
        **collect(states, allocator.ports.outputs, events.shape), demoted_tokens=demoted[0], demoted_groups=demoted[1]
    )


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


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see bit_allocator_cases.py."""
    return bit_allocator_cases.cases(kind, seed)


PAPER = {"n_initial": 32, "n_local": 64, "high": 8, "low": 4}

UNIT = Unit(
    name="bit_allocator",
    paper="harmonia §III-B, Fig. 8",
    meaning="which tokens of a cache fall to fewer bits, and when",
    configs={"paper": Config(**PAPER), "local16": Config(**PAPER | {"n_initial": 40, "n_local": 16})},
    ports=ports,
    run=run,
    twin="refemu.units.bit_allocator_jit:run",
    unit_class=BitAllocator,
    timing="event",
    cases=cases,
    mark=bit_allocator_cases.mark,
    legal=bit_allocator_cases.legal,
    flags={"DEMOTES_K": Flag(0, "the K of a token falls"), "DEMOTES_V": Flag(1, "the V of a group falls")},
    alternatives=choices("D-harmonia-18", "n_local", 32, 95),
)
