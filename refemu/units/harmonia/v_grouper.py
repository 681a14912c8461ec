"""V, grouped along tokens while they arrive: full groups are committed, the rest is converted again at every step.

Paper: [harmonia §III-A, Fig. 6b]. Decisions: D-harmonia-20 (reconvert, or shift what is stored), D-harmonia-33 (the
residual rows stay in FP16), D-harmonia-2 (why truncation makes both equal).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.checks import Refused, RefusedType, require_choice, require_int
from refemu.formats import Bfp, BfpTensor
from refemu.units import unit, v_grouper_cases
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit_events, choices, collect, lanes
from refemu.units.unit_cases import Seeds

GROUP = 32  #: tokens under one exponent


class Codes(NamedTuple):
    """Groups of some tokens, one per channel: tuples by token and channel; by channel."""

    sign: tuple[tuple[int, ...], ...]
    mantissa: tuple[tuple[int, ...], ...]
    exponent: tuple[int, ...]


@dataclass(frozen=True)
class State:
    """Ports and registers after one token, and what happened since reset."""

    event: str  #: "reset", "prefill", "convert" (temporary) or "commit"
    index: int
    v: Any
    commit: int
    count: int
    sign: tuple[int, ...]
    mantissa: tuple[int, ...]
    exponent: Any
    tokens: int
    residual: tuple[tuple[int, ...], ...]  #: fp16 words of the rows that wait
    committed: tuple[Codes, ...]  #: full groups
    temporary: Codes | None  #: conversion of the residual
    conversions: int  #: of a group of all channels, temporary ones included
    commits: int
    converted_elements: int
    residual_reads: int  #: rows of the residual read for conversions


COUNTERS = ("conversions", "commits", "converted_elements", "residual_reads")


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one row per appended token; counters over all devices."""

    commit: np.ndarray  #: bool
    count: np.ndarray  #: uint8
    sign: np.ndarray  #: bool, (..., 32 * channels), token by token
    mantissa: np.ndarray  #: uint8 or uint16, same shape
    exponent: np.ndarray  #: uint8, (..., channels)
    tokens: np.ndarray  #: uint32
    conversions: int
    commits: int
    converted_elements: int
    residual_reads: int


class VGrouper(Stepped):
    """The block. One event appends one token's row of `channels` values."""

    name = "v_grouper"

    def __init__(
        self, channels: int = 64, high: int = 8, growth: str = "reconvert", rounding: str = "truncate"
    ) -> None:
        """channels: KV heads x head dimension. high: mantissa bits. growth: "reconvert", from fp16, or "realign", the
        stored magnitudes shift when an exponent rises (D-harmonia-20), which needs truncation. rounding: as for Bfp.
        """
        require_int(channels, 1, 1 << 16, self.name, "channels")
        require_choice(growth, ("reconvert", "realign"), self.name, "growth")
        if growth == "realign" and rounding != "truncate":
            raise Refused(f"{self.name}: growth='realign' needs rounding='truncate', got {rounding!r}")
        self.channels, self.growth, self.format = channels, growth, Bfp(high, GROUP, rounding)
        self.ports = ports({"channels": channels, "high": high})
        zeros = (0,) * (GROUP * channels)
        row = lanes([0] * channels)
        self.state = State("reset", -1, row, 0, 0, zeros, zeros, row, 0, (), (), None, 0, 0, 0, 0)

    def step(self, v: Any) -> State:
        """Append one row of fp16 words; returns the State after it."""
        (row,) = self.accept(v)
        return self._append(row if isinstance(row, tuple) else (row,))

    def append(self, v_row: Any) -> State:
        """Append one token's row, float16 (channels,); returns the State after it. Refused: another shape or dtype."""
        return self._append(tuple(self._words(v_row, (self.channels,)).tolist()))

    def prefill(self, v: Any) -> State:
        """Store a prompt, float16 (tokens, channels), in an empty cache: full groups, and one temporary conversion."""
        if self.state.tokens:
            raise Refused(f"{self.name}: prefill needs an empty cache, got one of {self.state.tokens} tokens")
        words = self._words(v, (len(np.atleast_1d(v)), self.channels))
        codes = [self._encode(words[start : start + GROUP]) for start in range(0, len(words), GROUP)]
        full = len(words) // GROUP
        residual = tuple(map(tuple, words[full * GROUP :].tolist()))
        temporary = codes[full] if len(codes) > full else None
        counts = len(codes), full, words.size, len(words)
        shown = self._shown(codes[-1], len(words) - GROUP * (len(codes) - 1), temporary is None) if codes else {}
        before = vars(self.state) | shown | dict(zip(COUNTERS, counts, strict=True))
        self.state = State(
            **before
            | {
                "event": "prefill",
                "index": self.state.index + 1,
                "tokens": len(words),
                "residual": residual,
                "committed": tuple(codes[:full]),
                "temporary": temporary,
            }
        )
        return self.state

    def _words(self, values: Any, shape: tuple[int, ...]) -> np.ndarray:
        array = np.asarray(values)
        if array.dtype != np.float16 or array.shape != shape:
            raise RefusedType(
                f"{self.name}: float16 rows of {self.channels} channels are needed, got {array.dtype} {array.shape}"
            )
        self.format.admitted(array, False, self.name)  # refuses infinity and NaN
        return np.ascontiguousarray(array).view(np.uint16)

    def _append(self, row: tuple[int, ...]) -> State:
        before = self.state
        residual = (*before.residual, row)
        realigned = self.growth == "realign" and before.temporary is not None
        codes = self._grow(before.temporary, row) if realigned else self._encode(np.array(residual, np.uint16))
        full = len(residual) == GROUP
        counts = (
            before.conversions + 1,
            before.commits + int(full),
            before.converted_elements + len(residual) * self.channels,
            before.residual_reads + (1 if realigned else len(residual)),
        )
        self.state = State(
            **self._shown(codes, len(residual), full),
            event="commit" if full else "convert",
            index=before.index + 1,
            v=lanes(row),
            tokens=before.tokens + 1,
            residual=() if full else residual,
            committed=(*before.committed, codes) if full else before.committed,
            temporary=None if full else codes,
            **dict(zip(COUNTERS, counts, strict=True)),
        )
        return self.state

    def _encode(self, rows: np.ndarray) -> Codes:
        """A conversion from FP16, along tokens."""
        return _codes(self.format.encode(rows, 0, bits=True))

    def _grow(self, stored: Codes | None, row: tuple[int, ...]) -> Codes:
        """The stored magnitudes under exponents that the new row may have raised, and the row itself beside them."""
        assert stored is not None  # the first row of a group is converted
        old, new = self._tensor(stored), self.format.encode(np.array([row], np.uint16), 0, bits=True)
        top = np.maximum(old.exponent, new.exponent)
        both = [_codes(tensor.realign(top)) for tensor in (old, new)]
        return Codes(both[0].sign + both[1].sign, both[0].mantissa + both[1].mantissa, both[0].exponent)

    def _shown(self, codes: Codes, count: int, full: bool) -> dict[str, Any]:
        """Output ports for a conversion: the group filled up with zeros."""
        fill = (0,) * (GROUP - count) * self.channels
        sign, mantissa = (tuple(value for row in rows for value in row) + fill for rows in codes[:2])
        return {
            "commit": int(full),
            "count": count,
            "sign": sign,
            "mantissa": mantissa,
            "exponent": lanes(codes.exponent),
        }

    def _tensor(self, codes: Codes) -> BfpTensor:
        return self.format.tensor(np.array(codes.sign), np.array(codes.mantissa), np.array([codes.exponent]), 0)

    def groups(self) -> BfpTensor:
        """All tokens so far, (tokens, channels) along axis 0: committed groups, then the temporary conversion."""
        parts = [*self.state.committed, *([self.state.temporary] if self.state.temporary else [])]
        if not parts:
            raise Refused(f"{self.name}: groups of an empty cache")
        sign, mantissa = (np.concatenate([np.array(part[at]) for part in parts]) for at in (0, 1))
        return self.format.tensor(sign, mantissa, np.array([part.exponent for part in parts]), 0)

    def steps(self, v: Any) -> Iterator[State]:
        """Yield the State after every token of one device; v: fp16 words (tokens, channels)."""
        rows = self.admitted(v)
        if rows.ndim != 1 + (self.channels > 1):
            raise Refused(f"{self.name}: steps takes one sequence of tokens, got shape {rows.shape}")
        for row in rows.reshape(-1, self.channels).tolist():
            yield self._append(tuple(row))

    def admitted(self, v: Any) -> np.ndarray:
        """Words (..., tokens, channels) as uint16; refuses also field 31."""
        (words,) = admit_events(self.name, self.ports.inputs, (v,))
        self.format.admitted(np.ascontiguousarray(words), True, self.name)
        return words

    def accept(self, *values: Any) -> list[Any]:
        """As for every unit; refuses also field 31."""
        accepted = super().accept(*values)
        self.format.admitted(np.array(accepted, np.uint16), True, self.name)
        return accepted

    def __repr__(self) -> str:
        return (
            f"VGrouper(channels={self.channels}, high={self.format.mantissa_bits}, growth={self.growth!r}, "
            f"rounding={self.format.rounding!r})"
        )


def _codes(tensor: BfpTensor) -> Codes:
    """Codes of one group of tokens as tuples."""
    sign, mantissa = (tuple(map(tuple, array.tolist())) for array in (tensor.sign, tensor.mantissa))
    return Codes(sign, mantissa, tuple(tensor.exponent[0].tolist()))


def run(v: Any, *, channels: int = 64, high: int = 8, growth: str = "reconvert", rounding: str = "truncate") -> Result:
    """Every token of one device or of many.

    v: fp16 words, (..., tokens, channels) ((..., tokens) for one channel); each device, an index of the leading axes,
    starts empty. channels, high, growth, rounding: as for VGrouper.
    Returns the Result: after every token, the conversion of its group so far. Refuses infinity and NaN.
    Paper: [harmonia §III-A, Fig. 6b].
    """
    grouper = VGrouper(channels, high, growth, rounding)
    words = grouper.admitted(v)
    shape = words.shape[: words.ndim - (channels > 1)]
    reset, states = grouper.state, list[State]()
    counts: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
    for device in words.reshape(prod(shape[:-1]), shape[-1], channels).tolist():
        grouper.state = reset
        states += [grouper._append(tuple(row)) for row in device]
        counts = {name: count + getattr(grouper.state, name) for name, count in counts.items()}
    shown: dict[str, Any] = collect(states, grouper.ports.outputs, shape)
    return Result(**shown, **counts)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    channels = config["channels"]
    return Ports(
        inputs=(Port("v", 16, channels, encoding="f16", meaning="the row of a token"),),
        outputs=(
            Port("commit", 1, meaning="the group is full and stored for good"),
            Port("count", 6, meaning="tokens in the group"),
            Port("sign", 1, GROUP * channels, meaning="of the group, token by token; 0 for tokens to come"),
            Port("mantissa", config["high"], GROUP * channels, meaning="same order"),
            Port("exponent", 5, channels, meaning="of every channel"),
            Port("tokens", 32, meaning="tokens so far"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see v_grouper_cases.py."""
    return v_grouper_cases.cases(config, kind, seed)


PAPER = {"channels": 4, "high": 8, "growth": "reconvert"}

UNIT = Unit(
    name="v_grouper",
    paper="harmonia §III-A, Fig. 6b",
    meaning="V in groups of 32 tokens while tokens arrive",
    configs={"paper": Config(**PAPER), "realign": Config(**PAPER | {"growth": "realign"})},
    ports=ports,
    run=run,
    twin="refemu.units.v_grouper_jit:run",
    unit_class=VGrouper,
    timing="event",
    cases=cases,
    mark=v_grouper_cases.mark,
    flags={"COMMIT": Flag(0, "the group is full"), "RAISED": Flag(1, "a channel's exponent rose inside the group")},
    alternatives=choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor"),
)
