"""Online K offsets: half of the signed peak of the widest channels of the first tokens, subtracted from every key.

Paper: [harmonia §III-C, Fig. 10], [harmonia §IV-A (5)]. Decisions: D-harmonia-23 (half of the signed peak),
D-harmonia-24 (how many channels, and among which), D-harmonia-25 (after the rotary embedding), D-harmonia-26 (every
token is shifted, by offsets frozen after the window).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, at, first_index, require_choice, require_int
from refemu.arith.records import parameters
from refemu.units import k_offset_cases, unit
from refemu.units.unit import (
    Cases,
    Config,
    Flag,
    Port,
    Ports,
    Stepped,
    Unit,
    admit_events,
    choices,
    collect,
    fields,
    lanes,
)
from refemu.units.unit_cases import Seeds

WINDOW = 32  #: tokens that are looked at [harmonia §III-C]


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "track", "select", "apply" or "idle"
    index: int
    k: Any
    valid: int
    last: int
    offset: Any
    selected: Any
    k_out: Any
    out_valid: int
    ready: int
    peak: Any
    value: tuple[int, ...]  #: the words that had them
    rows: tuple[tuple[int, ...], ...]  #: tokens of the window, which wait in the temporary SRAM
    frozen: bool  #: the window is over
    chosen: int  #: channels selected so far
    applied: int  #: tokens put out
    comparisons: int  #: of magnitudes, while tracking
    select_comparisons: int
    subtractions: int
    gated_tokens: int  #: tokens after the window, which are not tracked


COUNTERS = ("comparisons", "select_comparisons", "subtractions", "gated_tokens")


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one row per event; counters over all devices."""

    offset: np.ndarray  #: uint16, (..., channels)
    selected: np.ndarray  #: bool, (..., channels)
    k_out: np.ndarray  #: uint16, (..., channels)
    out_valid: np.ndarray  #: bool
    ready: np.ndarray  #: bool
    peak: np.ndarray  #: uint16, (..., channels)
    comparisons: int
    select_comparisons: int
    subtractions: int
    gated_tokens: int


@parameters
class Offsets:
    """What is selected, and from how many tokens."""

    channels: int = 64  #: of the layer: KV heads x head dimension
    window: int = WINDOW  #: tokens that are tracked
    offset_k: int | None = None  #: channels per scope; None: one in 32, at least one (D-harmonia-24)
    offset_scope: str = "layer"  #: or "head"
    heads: int = 1  #: KV heads, for scope "head"
    offset_sign: str = "signed"  #: or "unsigned": half of the magnitude (D-harmonia-23)

    def __post_init__(self) -> None:
        for name, least in (("channels", 1), ("window", 1), ("heads", 1)):
            require_int(getattr(self, name), least, 1 << 20, "k_offset", name)
        require_choice(self.offset_scope, ("layer", "head"), "k_offset", "offset_scope")
        require_choice(self.offset_sign, ("signed", "unsigned"), "k_offset", "offset_sign")
        if self.channels % self.heads:
            raise Refused(f"k_offset: channels must be a multiple of heads, got {self.channels} and {self.heads}")
        if self.offset_k is not None:
            require_int(self.offset_k, 0, self.scope, "k_offset", "offset_k")

    @property
    def scope(self) -> int:
        """Channels among which `per_scope` are chosen."""
        return self.channels // self.heads if self.offset_scope == "head" else self.channels

    @property
    def per_scope(self) -> int:
        """Channels chosen in every scope."""
        return max(self.scope // 32, 1) if self.offset_k is None else self.offset_k

    @property
    def chosen(self) -> int:
        """Channels chosen in all."""
        return self.per_scope * (self.channels // self.scope)


class KOffsetGenerator(Stepped):
    """The block. One event tracks a token, selects a channel, or puts a token out."""

    name = "k_offset"

    def __init__(
        self,
        channels: int = 64,
        window: int = WINDOW,
        offset_k: int | None = None,
        offset_scope: str = "layer",
        heads: int = 1,
        offset_sign: str = "signed",
    ) -> None:
        """channels, window, offset_k, offset_scope, heads, offset_sign: as for Offsets."""
        self.rule = Offsets(channels, window, offset_k, offset_scope, heads, offset_sign)
        self.ports = ports({"channels": channels})
        zeros, row = (0,) * channels, lanes([0] * channels)
        self.state = State("reset", -1, row, 0, 0, row, row, row, 0, 1, row, zeros, (), False, *(0,) * 6)

    def step(self, k: Any, valid: Any, last: Any) -> State:
        """One event.

        k: fp16 words of a token, after the rotary embedding. valid: 0 = no token comes, and a frozen unit selects the
        next channel or puts out the next token of the window. last: the window ends with this token.
        Refused: a token while those of the window are still inside; infinity and NaN.
        """
        return self._event(*self.accept(k, valid, last))

    def _event(self, k: Any, valid: int, last: int) -> State:
        row, before = fields(k), self.state
        if valid and not before.ready:
            raise Refused(f"{self.name}: token in event {before.index + 1} while the window's tokens are inside")
        self.state = self._next(row, valid, last)
        inputs = {"k": k, "valid": valid, "last": last, "index": before.index + 1}
        busy = self.state.frozen and self.state.applied < len(self.state.rows)
        self.state = replace(self.state, **inputs, ready=int(not busy))
        return self.state

    def _next(self, row: tuple[int, ...], valid: int, last: int) -> State:
        state = self.state
        if valid and not state.frozen:
            return self._track(row, last)
        if state.frozen and state.chosen < self.rule.chosen:
            return self._select()
        if valid:
            return self._apply(row, gated=1)
        if state.frozen and state.applied < len(state.rows):
            return self._apply(state.rows[state.applied], gated=0)
        return replace(state, event="idle", out_valid=0, k_out=lanes([0] * self.rule.channels))

    def track(self, k: Any, last: bool = False) -> State:
        """A token of the window, float16 (channels,). Refused after the window, and beside other dtypes or shapes."""
        if self.state.frozen:
            raise Refused(f"{self.name}: track after the offsets are frozen")
        return self._event(lanes(self._words(k)), 1, int(last))

    def select(self) -> State:
        """Choose every channel that is left to choose. A window that is still open ends here (a short prompt)."""
        if not self.state.frozen:
            self.state = replace(self.state, frozen=True, ready=int(not self.state.rows))
        while self.state.chosen < self.rule.chosen:
            self._event(self._none, 0, 0)
        return self.state

    def apply(self, k: Any = None) -> State:
        """Put out the next token of the window, or with `k`, float16 (channels,), a later one.

        Refused: before `select`; a later token while some of the window are inside, and none where none is.
        """
        if not self.state.frozen or self.state.chosen < self.rule.chosen:
            raise Refused(f"{self.name}: apply before select")
        if k is not None:
            return self._event(lanes(self._words(k)), 1, 0)
        if self.state.ready:
            raise Refused(f"{self.name}: apply needs a token, those of the window are out")
        return self._event(self._none, 0, 0)

    def freeze(self, offset: Any) -> State:
        """Take over the offsets of a prompt, fp16 words (channels,): from here on tokens are shifted, none is tracked.

        Refused: after a token, more channels than are chosen, infinity and NaN.
        """
        if self.state.index >= 0:
            raise Refused(f"{self.name}: freeze after {self.state.index + 1} events")
        words = fields(self.accept(offset, 0, 0)[0])
        require_offsets(self.name, "offset", np.array(words), self.rule.chosen)
        chosen = lanes([int(word & 0x7FFF != 0) for word in words])
        self.state = replace(self.state, offset=lanes(words), selected=chosen, frozen=True, chosen=self.rule.chosen)
        return self.state

    @property
    def _none(self) -> Any:
        return lanes([0] * self.rule.channels)

    def _words(self, k: Any) -> tuple[int, ...]:
        """The words of one token's float16 row, checked."""
        return fields(self.accept(fp16.bits(k), 0, 0)[0])

    def _track(self, row: tuple[int, ...], last: int) -> State:
        """Every channel compares with its peak; strictly greater, so that the first token of equal ones stays."""
        state, peak, value = self.state, list(fields(self.state.peak)), list(self.state.value)
        for channel, word in enumerate(row):
            if word & 0x7FFF > peak[channel]:
                peak[channel], value[channel] = word & 0x7FFF, word
        rows = (*state.rows, row)
        return replace(
            state,
            event="track",
            peak=lanes(peak),
            value=tuple(value),
            rows=rows,
            out_valid=0,
            k_out=lanes([0] * len(row)),
            frozen=bool(last) or len(rows) == self.rule.window,
            comparisons=state.comparisons + len(row),
        )

    def _select(self) -> State:
        """The largest peak among the channels of the scope that are not chosen yet; the lower channel of equal ones."""
        state, rule = self.state, self.rule
        start = state.chosen // rule.per_scope * rule.scope
        selected, offset = list(fields(state.selected)), list(fields(state.offset))
        left = [channel for channel in range(start, start + rule.scope) if not selected[channel]]
        peak = fields(state.peak)
        best = max(left, key=lambda channel: (peak[channel], -channel))
        selected[best] = 1
        offset[best] = self.half(state.value[best])
        return replace(
            state,
            event="select",
            selected=lanes(selected),
            offset=lanes(offset),
            out_valid=0,
            k_out=lanes([0] * rule.channels),
            chosen=state.chosen + 1,
            select_comparisons=state.select_comparisons + rule.scope - 1,
        )

    def half(self, word: int) -> int:
        """Half of a value, to even where a subnormal's last bit is lost; its magnitude's for "unsigned"."""
        value = fp16.values(np.array([word & 0x7FFF if self.rule.offset_sign == "unsigned" else word]))
        return int(fp16.bits(fp16.to_f16(fp16.to_f32(value) / np.float32(2)))[0])

    def _apply(self, row: tuple[int, ...], gated: int) -> State:
        state = self.state
        offset = fields(state.offset)
        keys, shifts = (fp16.values(np.array(words)) for words in (row, offset))
        less = fp16.bits(fp16.to_f16(fp16.sub16(keys, shifts))).tolist()
        out = [new if shift & 0x7FFF else word for word, new, shift in zip(row, less, offset, strict=True)]
        return replace(
            state,
            event="apply",
            k_out=lanes(out),
            out_valid=1,
            applied=state.applied + 1,
            subtractions=state.subtractions + self.rule.chosen,
            gated_tokens=state.gated_tokens + gated,
        )

    def steps(self, k: Any, valid: Any, last: Any) -> Iterator[State]:
        """Yield the State after every event of one device; arguments as for `step`, (events,) or scalars."""
        rows, *flags = self.admitted(k, valid, last)
        if flags[0].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of events, got shape {flags[0].shape}")
        for event in zip(rows.tolist(), *(flag.tolist() for flag in flags), strict=True):
            yield self._event(lanes(fields(tuple(event[0]) if self.rule.channels > 1 else event[0])), *event[1:])

    def admitted(self, *values: Any) -> list[np.ndarray]:
        """Arrays of many events; refuses also infinity and NaN, with token and channel."""
        arrays = admit_events(self.name, self.ports.inputs, values)
        self._require_finite(arrays[0])
        return arrays

    def accept(self, *values: Any) -> list[Any]:
        """As for every unit; refuses also infinity and NaN."""
        accepted = super().accept(*values)
        self._require_finite(np.array(accepted[0]))
        return accepted

    def _require_finite(self, words: np.ndarray) -> None:
        bad = words & 0x7C00 == 0x7C00
        if bad.any():
            index = first_index(bad)
            raise Refused(f"{self.name}: k 0x{int(words[index]):04x}{at(index)} must be finite")

    def __repr__(self) -> str:
        rule = self.rule
        return (
            f"KOffsetGenerator(channels={rule.channels}, window={rule.window}, offset_k={rule.offset_k}, "
            f"offset_scope={rule.offset_scope!r}, heads={rule.heads}, offset_sign={rule.offset_sign!r})"
        )


def require_offsets(unit: str, name: str, words: np.ndarray, most: int) -> None:
    """Refuse offsets (..., channels) that are not finite, or of more than `most` channels."""
    bad = words & 0x7C00 == 0x7C00
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{unit}: {name} must be finite, got 0x{int(words[index]):04x}{at(index)}")
    count = np.count_nonzero(words & 0x7FFF, axis=-1)
    if (count > most).any():
        index = first_index(np.atleast_1d(count > most))
        raise Refused(
            f"{unit}: {name} must have at most {most} channels that are not 0, "
            f"got {int(np.atleast_1d(count)[index])}{at(index)}"
        )


def run(
    k: Any,
    valid: Any,
    last: Any,
    *,
    channels: int = 64,
    window: int = WINDOW,
    offset_k: int | None = None,
    offset_scope: str = "layer",
    heads: int = 1,
    offset_sign: str = "signed",
) -> Result:
    """Every event of one device or of many.

    k: fp16 words, (..., events, channels) ((..., events) for one channel). valid, last: 0 or 1, (..., events). They
    broadcast; each device, an index of the leading axes, starts from reset. channels, window, offset_k, offset_scope,
    heads, offset_sign: as for Offsets. Returns the Result. Refuses what `KOffsetGenerator.step` does.
    Paper: [harmonia §III-C], [harmonia §IV-A (5)].
    """
    device = KOffsetGenerator(channels, window, offset_k, offset_scope, heads, offset_sign)
    rows, *flags = device.admitted(k, valid, last)
    shape = flags[0].shape
    flat = prod(shape[:-1]), shape[-1]
    reset, states = device.state, list[State]()
    counts: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
    for events in zip(
        rows.reshape(*flat, channels).tolist(), *(flag.reshape(flat).tolist() for flag in flags), strict=True
    ):
        device.state = reset
        states += [device._event(lanes(row), *given) for row, *given in zip(*events, strict=True)]
        counts = {name: count + getattr(device.state, name) for name, count in counts.items()}
    shown: dict[str, Any] = collect(states, device.ports.outputs, shape)
    return Result(**shown, **counts)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    channels = config["channels"]
    return Ports(
        inputs=(
            Port("k", 16, channels, encoding="f16", meaning="a token's keys, after the rotary embedding"),
            Port("valid", 1, meaning="a token comes; else the unit goes on by itself"),
            Port("last", 1, meaning="the window ends with this token"),
        ),
        outputs=(
            Port("offset", 16, channels, encoding="f16", meaning="half of the peak; 0 where none is chosen"),
            Port("selected", 1, channels, meaning="chosen channels"),
            Port("k_out", 16, channels, encoding="f16", meaning="k - offset; 0 unless out_valid"),
            Port("out_valid", 1, meaning="a token is put out"),
            Port("ready", 1, meaning="the next event may bring a token"),
            Port("peak", 16, channels, encoding="f16", meaning="largest magnitude of the window so far"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see k_offset_cases.py."""
    return k_offset_cases.cases(config, kind, seed)


PAPER = {"channels": 8, "window": 4, "offset_k": 2, "offset_scope": "layer", "heads": 1, "offset_sign": "signed"}

UNIT = Unit(
    name="k_offset",
    paper="harmonia §III-C, §IV-A (5), Fig. 10",
    meaning="offsets of the widest key channels",
    configs={
        "paper": Config(**PAPER | {"channels": 32, "window": 32, "offset_k": None}),
        "small": Config(**PAPER),
        "head": Config(**PAPER | {"offset_k": 1, "offset_scope": "head", "heads": 2}),
    },
    ports=ports,
    run=run,
    twin="refemu.units.k_offset_jit:run",
    unit_class=KOffsetGenerator,
    timing="event",
    cases=cases,
    mark=k_offset_cases.mark,
    legal=k_offset_cases.legal,
    flags={"TRACKS": Flag(0, "a token of the window"), "SHIFTS": Flag(1, "a token is put out with some offset")},
    alternatives=(*choices("D-harmonia-23", "offset_sign", "unsigned"), *choices("D-harmonia-24", "offset_k", 1)),
)
