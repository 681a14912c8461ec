"""Online K offsets: half of the signed peak of the widest channels of the first tokens, subtracted from every key.

Paper: [harmonia §III-C, Fig. 10], [harmonia §IV-A (5)]. Decisions: D-harmonia-23 (half of the signed peak),
D-harmonia-24 (how many channels, and among which), D-harmonia-25 (after the rotary embedding), D-harmonia-26 (every
token is shifted, by offsets frozen after the window), D-harmonia-13 (a difference beyond FP16), D-arith-2 (rounding).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import Refused, at, first_index, require_int
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.units import stepped
from refemu.units.harmonia.cases import k_offset as k_offset_cases
from refemu.units.ports import Lanes, Port, Ports, fields, lanes
from refemu.units.stepped import Clocked
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = [
    "COUNTERS",
    "SCOPES",
    "SIGNS",
    "UNIT",
    "WINDOW",
    "KOffsetGenerator",
    "Offsets",
    "Result",
    "Scope",
    "Sign",
    "State",
    "run",
]


WINDOW = 32  #: Tokens that are tracked [harmonia §III-C]
SMALL = 64  #: Words of a temporary SRAM that is shown whole

Scope = Literal["layer", "head"]  #: Channels among which some are chosen: those of the layer, or of each head
SCOPES: tuple[Scope, ...] = ("layer", "head")  #: The choices of `Scope`
Sign = Literal["signed", "unsigned"]  #: Sign of an offset: that of the peak, or positive (D-harmonia-23)
SIGNS: tuple[Sign, ...] = ("signed", "unsigned")  #: The choices of `Sign`


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    #: "reset": no token yet; "track": a token of the window is stored, and its magnitudes are compared with the peaks
    #: of their channels; "select": the channel with the largest peak is chosen, and half of the peak becomes its
    #: offset; "apply": a token is put out, less the offsets; "idle": nothing is to do
    event: str
    index: int  #: number of the event since reset, from 0; -1 at reset
    k: Lanes
    valid: int
    last: int
    offset: Lanes
    selected: Lanes
    k_out: Lanes
    out_valid: int
    ready: int
    peak: Lanes
    negative: Lanes  #: signs of the words that had them
    rows: Lanes  #: tokens of the window, FP16 words one token after the other: the temporary SRAM in which they wait
    written: int  #: tokens in `rows`
    read: int  #: of them put out
    frozen: int  #: the window is over
    chosen: int  #: channels selected so far
    comparisons: int  #: comparisons of a magnitude with the peak of its channel
    select_comparisons: int  #: comparisons of two peaks, to choose channels
    subtractions: int  #: offsets subtracted, one for each token and chosen channel
    gated_tokens: int  #: tokens behind the window, which change no peak


COUNTERS = ("comparisons", "select_comparisons", "subtractions", "gated_tokens")  #: Counters of a run


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepped.Result):
    """Outputs and registers, then counters."""

    offset: np.ndarray
    selected: np.ndarray
    k_out: np.ndarray
    out_valid: np.ndarray
    ready: np.ndarray
    peak: np.ndarray
    negative: np.ndarray
    written: np.ndarray
    read: np.ndarray
    chosen: np.ndarray
    frozen: np.ndarray
    rows: np.ndarray | None = None  #: None for a temporary SRAM of more than `SMALL` words
    comparisons: int
    select_comparisons: int
    subtractions: int
    gated_tokens: int


@parameters
class Offsets:
    """Choice of channels: how many, among which, and from how many tokens."""

    channels: int = 64  #: of the layer: KV heads x head dimension
    window: int = WINDOW  #: tokens that are tracked
    offset_k: int | None = None  #: channels per scope; None: one in 32, at least one (D-harmonia-24)
    offset_scope: Scope = "layer"  #: or "head"
    heads: int = 1  #: KV heads, for scope "head"
    offset_sign: Sign = "signed"  #: or "unsigned": half of the magnitude (D-harmonia-23)

    def __post_init__(self) -> None:
        plain_fields(self)
        for name, least in (("channels", 1), ("window", 1), ("heads", 1)):
            require_int(getattr(self, name), least, 1 << 20, "k_offset", name)
        require_options(self, "k_offset")
        if self.channels % self.heads:
            raise Refused(f"k_offset: channels must be a multiple of heads, got {self.channels} and {self.heads}")
        if self.offset_k is not None:
            require_int(self.offset_k, 0, self.scope, "k_offset", "offset_k")
        require_int(self.channels * self.window, 1, 1 << 24, "k_offset", "channels times window")

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


class KOffsetGenerator(Clocked[State]):
    """K-offset generator: one event tracks a token, selects a channel, or puts a token out.

    References
    ----------
    [harmonia §III-C, Fig. 10, §IV-A]
    """

    name = "k_offset"

    def __init__(
        self,
        channels: int = 64,
        window: int = WINDOW,
        offset_k: int | None = None,
        offset_scope: Scope = "layer",
        heads: int = 1,
        offset_sign: Sign = "signed",
    ) -> None:
        """Configure the generator, as for `Offsets`.

        Parameters
        ----------
        channels : int
            KV heads x head dimension.
        window : int
            Tokens that are tracked.
        offset_k : int, optional
            Channels per scope; by default one in 32, at least one (D-harmonia-24).
        offset_scope : {"layer", "head"}
            Channels among which some are chosen.
        heads : int
            KV heads, for scope "head"; a divisor of `channels`.
        offset_sign : {"signed", "unsigned"}
            Half of the signed peak, or of its magnitude (D-harmonia-23).

        Raises
        ------
        Refused
            A parameter is out of range or an option unknown.
        """
        self.rule: Offsets = Offsets(channels, window, offset_k, offset_scope, heads, offset_sign)
        rule = self.rule
        self.channels: int = rule.channels
        self.window: int = rule.window
        self.heads: int = rule.heads
        self.offset_k: int | None = rule.offset_k
        self.offset_scope: Scope = rule.offset_scope
        self.offset_sign: Sign = rule.offset_sign
        self.ports: Ports = ports(asdict(rule))
        self.state: State = self.reset(State, ready=1, rows=lanes((0,) * (self.window * self.channels)))

    def step(self, k: Sequence[int] | int, valid: int, last: int) -> State:
        """Execute one event.

        With valid=0 no token comes, and a frozen unit selects the next channel or puts out the next token of the
        window. Refused are a token while those of the window are still inside, infinity and NaN.
        """
        return self._open(*self.accept(k, valid, last))

    def _open(self, k: Any, valid: int, last: int) -> State:
        number = self.state.index + 1
        if valid and not self.state.ready:
            raise Refused(f"{self.name}: token in event {number} while the window's tokens are inside")
        after = self._next(fields(k), valid, last)
        inside = after.frozen and after.read < after.written
        self.state = replace(after, k=k, valid=valid, last=last, index=number, ready=int(not inside))
        return self.state

    def _next(self, row: tuple[int, ...], valid: int, last: int) -> State:
        state = self.state
        if valid and not state.frozen:
            return self._track(row, last)
        if state.frozen and state.chosen < self.rule.chosen:
            return self._select()
        if valid:
            return self._apply(row, gated=1)
        if state.frozen and state.read < state.written:
            start = state.read * self.channels
            return self._apply(fields(state.rows)[start : start + self.channels], gated=0)
        return replace(state, event="idle", out_valid=0, k_out=self._none)

    def track(self, k: ArrayLike, last: bool = False) -> State:
        """Track one token of the window.

        Parameters
        ----------
        k : array_like of float16 (channels,)
            Keys after the rotary embedding.
        last : bool
            Whether the window ends with this token.

        Returns
        -------
        State
            Registers after the event.

        Raises
        ------
        Refused
            The window is over, or a key is infinite or NaN.
        RefusedType
            Another dtype or shape.
        """
        if self.state.frozen:
            raise Refused(f"{self.name}: track after the offsets are frozen")
        return self._open(lanes(self._words(k)), 1, int(last))

    def select(self) -> State:
        """Choose every channel that is left to choose; a window that is still open ends here, as of a short prompt.

        Returns
        -------
        State
            Registers after the last choice.
        """
        if not self.state.frozen:
            self.state = replace(self.state, frozen=1, ready=int(not self.state.written))
        while self.state.chosen < self.rule.chosen:
            self._open(self._none, 0, 0)
        return self.state

    def apply(self, k: ArrayLike | None = None) -> State:
        """Put out the next token of the window, or with `k` a later one.

        Parameters
        ----------
        k : array_like of float16 (channels,), optional
            Keys of a later token.

        Returns
        -------
        State
            Registers after the event.

        Raises
        ------
        Refused
            Channels are not selected, a later token comes while some of the window are inside, or none is left.
        """
        if not self.state.frozen or self.state.chosen < self.rule.chosen:
            raise Refused(f"{self.name}: apply before select")
        if k is not None:
            return self._open(lanes(self._words(k)), 1, 0)
        if self.state.ready:
            raise Refused(f"{self.name}: apply needs a token, those of the window are out")
        return self._open(self._none, 0, 0)

    def freeze(self, offset: ArrayLike) -> State:
        """Take over the offsets of a prompt: from here on tokens are shifted, none is tracked.

        Parameters
        ----------
        offset : array_like of uint16 (channels,)
            fp16 words.

        Returns
        -------
        State
            Registers with the offsets.

        Raises
        ------
        Refused
            After a token, or offsets of more channels than are chosen, infinite or NaN.
        """
        if self.state.index >= 0:
            raise Refused(f"{self.name}: freeze after {self.state.index + 1} events")
        words = fields(self.accept(offset, 0, 0)[0])
        require_offsets(self.name, "offset", np.array(words), self.rule.chosen)
        chosen = lanes([int(word & 0x7FFF != 0) for word in words])
        self.state = replace(self.state, offset=lanes(words), selected=chosen, frozen=1, chosen=self.rule.chosen)
        return self.state

    @property
    def _none(self) -> Any:
        return lanes([0] * self.channels)

    def _words(self, k: ArrayLike) -> tuple[int, ...]:
        """The words of one token's float16 row, checked."""
        return fields(self.accept(fp16.bits(k), 0, 0)[0])

    def _track(self, row: tuple[int, ...], last: int) -> State:
        """Every channel compares with its peak; strictly greater, so that the first token of equal ones stays."""
        state, peak, negative = self.state, list(fields(self.state.peak)), list(fields(self.state.negative))
        for channel, word in enumerate(row):
            if self._exceeds(word, peak[channel]):
                peak[channel], negative[channel] = word & 0x7FFF, word >> 15
        rows, start, written = fields(state.rows), state.written * self.channels, state.written + 1
        return replace(
            state,
            event="track",
            peak=lanes(peak),
            negative=lanes(negative),
            rows=lanes((*rows[:start], *row, *rows[start + self.channels :])),
            written=written,
            out_valid=0,
            k_out=self._none,
            frozen=int(last or written == self.rule.window),
            comparisons=state.comparisons + len(row),
        )

    def _exceeds(self, word: int, peak: int) -> bool:
        """Whether a word takes the place of a peak: strictly, so that the first token of equal ones stays."""
        return word & 0x7FFF > peak

    def _best(self, left: Sequence[int]) -> int:
        """The channel with the largest peak, the lower one of equal ones (D-harmonia-24)."""
        peak = fields(self.state.peak)
        return max(left, key=lambda channel: (peak[channel], -channel))

    def _select(self) -> State:
        """The largest peak among the channels of the scope that are not chosen yet; the lower channel of equal ones."""
        state, rule = self.state, self.rule
        start = state.chosen // rule.per_scope * rule.scope
        selected, offset = list(fields(state.selected)), list(fields(state.offset))
        left = [channel for channel in range(start, start + rule.scope) if not selected[channel]]
        best = self._best(left)
        selected[best] = 1
        offset[best] = self.half(fields(state.peak)[best] | fields(state.negative)[best] << 15)
        return replace(
            state,
            event="select",
            selected=lanes(selected),
            offset=lanes(offset),
            out_valid=0,
            k_out=self._none,
            chosen=state.chosen + 1,
            select_comparisons=state.select_comparisons + rule.scope - 1,
        )

    def half(self, word: int) -> int:
        """Half of a peak, rounded to even where a subnormal's last bit is lost.

        Parameters
        ----------
        word : int
            fp16 word.

        Returns
        -------
        int
            fp16 word, of the magnitude's half for "unsigned".
        """
        value = fp16.values(np.array([word & 0x7FFF if self.rule.offset_sign == "unsigned" else word]))
        return int(fp16.bits(self._rounded(value.astype(np.float64) / 2))[0])

    def _rounded(self, exact: np.ndarray) -> np.ndarray:
        """Halves and differences, exact in float64, as float16: infinity beyond it (D-harmonia-13, D-arith-2)."""
        return fp16.to_f16(exact)

    def _shifted(self, row: tuple[int, ...], gated: int) -> list[int]:
        """A token without its offsets (D-harmonia-26); gated: 1 behind the window."""
        offset = fields(self.state.offset)
        keys, shifts = (fp16.values(np.array(words)).astype(np.float64) for words in (row, offset))
        less = fp16.bits(self._rounded(keys - shifts)).tolist()
        return [new if shift & 0x7FFF else word for word, new, shift in zip(row, less, offset, strict=True)]

    def _apply(self, row: tuple[int, ...], gated: int) -> State:
        state, out = self.state, self._shifted(row, gated)
        return replace(
            state,
            event="apply",
            k_out=lanes(out),
            out_valid=1,
            read=state.read + 1 - gated,
            subtractions=state.subtractions + self.rule.chosen,
            gated_tokens=state.gated_tokens + gated,
        )

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse infinity and NaN."""
        words = inputs[0]
        bad = words & 0x7C00 == 0x7C00
        if bad.any():
            index = first_index(bad)
            raise Refused(f"{self.name}: k 0x{int(words[index]):04x}{at(index)} must be finite")


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


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    rule = Offsets(**config)
    channels = rule.channels
    rows = Port("rows", 16, rule.window * channels, encoding="f16", meaning="the temporary SRAM, token by token")
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
        state=(
            Port("negative", 1, channels, meaning="sign of the word that has it"),
            Port("written", rule.window.bit_length(), meaning="tokens in the temporary SRAM"),
            Port("read", rule.window.bit_length(), meaning="of them put out"),
            Port("chosen", max(rule.chosen.bit_length(), 1), meaning="channels selected so far"),
            Port("frozen", 1, meaning="the window is over: no token is tracked"),
            *([rows] if rows.lanes <= SMALL else []),
        ),
    )


PAPER: dict[str, int | str | None] = {
    "channels": 8,
    "window": 4,
    "offset_k": 2,
    "offset_scope": "layer",
    "heads": 1,
    "offset_sign": "signed",
}

UNIT: Unit[State, Result] = Unit(
    name="k_offset",
    paper="harmonia §III-C, §IV-A (5), Fig. 10",
    meaning="offsets of the widest key channels",
    configs={
        "paper": Config(**PAPER | {"channels": 32, "window": 32, "offset_k": None}),
        "small": Config(**PAPER),
        "head": Config(**PAPER | {"offset_k": 1, "offset_scope": "head", "heads": 2}),
    },
    ports=ports,
    unit_class=KOffsetGenerator,
    cases=k_offset_cases.cases,
    counters=COUNTERS,
    result=Result,
    mark=k_offset_cases.mark,
    legal=k_offset_cases.legal,
    flags={"TRACKS": Flag(0, "a token of the window"), "SHIFTS": Flag(1, "a token is put out with some offset")},
)
run: RunFunction[Result] = UNIT.run
