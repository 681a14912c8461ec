"""Online K offsets: half of the signed peak of the first tokens' widest channels, subtracted from every key.

Paper: [harmonia §III-C, Fig. 10], [harmonia §IV-A (5)].
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import Refused, reject, require_int
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.units import AnyUnit, Config, Flag, Lanes, Port, Ports, Result, RunFunction, Unit
from refemu.units.declaration import Changes, DeclaredState, Sequential, constant, decides

__all__ = ["UNIT", "WINDOW", "KOffsetGenerator", "Offsets", "Scope", "Sign", "State", "run"]


WINDOW = 32  #: Tokens that are tracked [harmonia §III-C]
SMALL = 64  #: most words of a temporary SRAM that is shown whole

Scope = Literal["layer", "head"]  #: scope of a choice: the channels of the layer, or of each head
Sign = Literal["signed", "unsigned"]  #: Sign of an offset: that of the peak, or positive (D-harmonia-23)


@parameters
class Offsets:
    """Choice of channels: how many, among which, and from how many tokens."""

    channels: Annotated[int, 1, 1 << 20] = 64  #: channels of the layer: KV heads x head dimension
    window: Annotated[int, 1, 1 << 20] = WINDOW  #: tokens that are tracked
    offset_k: int | None = None  #: channels per scope; None: one in 32, at least one (D-harmonia-24)
    offset_scope: Scope = "layer"  #: scope of a choice of channels
    heads: Annotated[int, 1, 1 << 20] = 1  #: KV heads, for scope "head"; a divisor of `channels`
    offset_sign: Sign = "signed"  #: half of the signed peak, or of its magnitude (D-harmonia-23)

    def __post_init__(self) -> None:
        plain_fields(self)
        self.check()

    def check(self) -> None:
        """Check sizes and options. Raises Refused: a size is out of range, or an option is unknown."""
        require_options(self, "k_offset")
        if self.channels % self.heads:
            raise Refused(f"k_offset: channels must be a multiple of heads, got {self.channels} and {self.heads}")
        if self.offset_k is not None:
            require_int(self.offset_k, 0, self.scope, "k_offset", "offset_k")
        require_int(self.channels * self.window, 1, 1 << 24, "k_offset", "channels times window")

    @property
    def scope(self) -> int:
        """Number of channels in a scope."""
        return self.channels // self.heads if self.offset_scope == "head" else self.channels

    @property
    def per_scope(self) -> int:
        """Number of channels chosen in every scope."""
        return max(self.scope // 32, 1) if self.offset_k is None else self.offset_k

    @property
    def chosen(self) -> int:
        """Number of channels chosen in all scopes."""
        return self.per_scope * (self.channels // self.scope)


class KOffsetGenerator(Sequential, Offsets):
    """K-offset generator: one event tracks a token, selects a channel, or puts a token out."""

    name = "k_offset"
    events: ClassVar[tuple[str, ...]] = ("track", "select", "apply", "idle")
    counters: ClassVar[dict[str, str]] = {
        "comparisons": "comparisons of a magnitude with the peak of its channel",
        "select_comparisons": "comparisons of two peaks, to choose channels",
        "subtractions": "offsets subtracted, one for each token and chosen channel",
        "gated_tokens": "tokens after the window, which change no peak",
    }
    initial: ClassVar[dict[str, int]] = {"ready": 1}

    @constant
    def ports(self) -> Ports:
        channels = self.channels
        rows = Port("rows", 16, self.window * channels, encoding="f16", meaning="the temporary SRAM, token by token")
        return Ports(
            inputs=(
                Port("k", 16, channels, encoding="f16", meaning="a token's keys, after the rotary embedding"),
                Port("valid", 1, meaning="a token comes; else the unit proceeds by itself"),
                Port("last", 1, meaning="the window ends with this token"),
            ),
            outputs=(
                Port("offset", 16, channels, encoding="f16", meaning="half of the peak of a chosen channel, else 0"),
                Port("selected", 1, channels, meaning="chosen channels"),
                Port("k_out", 16, channels, encoding="f16", meaning="k - offset; 0 unless out_valid"),
                Port("out_valid", 1, meaning="a token is put out"),
                Port("ready", 1, meaning="a token may come in the next event"),
                Port("peak", 16, channels, encoding="f16", meaning="largest magnitude of the window so far"),
            ),
            state=(
                Port("negative", 1, channels, meaning="sign of the word with the peak"),
                Port("written", self.window.bit_length(), meaning="tokens in the temporary SRAM"),
                Port("read", self.window.bit_length(), meaning="tokens of the window put out"),
                Port("chosen", max(self.chosen.bit_length(), 1), meaning="channels selected so far"),
                Port("frozen", 1, meaning="the window has ended: no token is tracked"),
                *([rows] if rows.count <= SMALL else []),
            ),
        )

    @constant
    def none(self) -> Lanes:
        """Inputs of an event without a token."""
        return (0,) * self.channels

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject infinity and NaN."""
        reject(inputs[0] & 0x7C00 == 0x7C00, f"{self.name}: k must be finite", inputs[0], ", got {:#06x}")

    def opens(self, k: Lanes, valid: int, last: int) -> str:
        before = self.state
        if valid and not before.ready:
            raise Refused(
                f"{self.name}: valid must be 0 until the window's tokens are out, got 1 in event {before.index + 1}"
            )
        if not before.frozen:
            return "track" if valid else "idle"
        if before.chosen < self.chosen:
            return "select"
        return "apply" if valid or before.read < before.written else "idle"

    def invariant(self, state: DeclaredState) -> bool:
        """The window is written before it ends, then read; all channels are chosen before a token is put out."""
        reads: bool = state.read <= state.written <= self.window and state.chosen <= self.chosen
        return reads and bool(state.frozen or (state.written < self.window and not state.read and not state.chosen))

    def go_on(self) -> DeclaredState:
        """Run an event without a token: select the next channel, or put out the next token of the window."""
        return self._open(self.none, 0, 0)

    def freeze(self, offset: ArrayLike) -> DeclaredState:
        """Take the offsets of a prompt, fp16 words: from now on tokens are shifted, none is tracked."""
        if self.state.index >= 0:
            raise Refused(
                f"{self.name}: freeze must come before any event, got {self.state.index + 1} events; reset first"
            )
        words = self.validate_event(offset, 0, 0)[0]
        require_offsets(self.name, "offset", np.array(words), self.chosen)
        selected = tuple([int(word & 0x7FFF != 0) for word in words])
        offsets = {"offset": words, "selected": selected, "frozen": 1, "chosen": self.chosen}
        return self._commit(self.state.event, (), offsets)

    def track(self, k: Lanes, valid: int, last: int) -> Changes:
        """Store a token of the window and compare its magnitudes with the peaks of their channels."""
        before, row = self.state, k
        rows, start, written = before.rows or (), before.written * self.channels, before.written + 1
        frozen = int(last or written == self.window)
        return {
            **self._peaks(row),
            "rows": (*rows[:start], *row, *rows[start + self.channels :]),
            "written": written,
            "out_valid": 0,
            "k_out": self.none,
            "frozen": frozen,
            "ready": 1 - frozen,
            "comparisons": len(row),
        }

    def _peaks(self, row: Sequence[int]) -> Changes:
        """Magnitudes and signs of the peaks with one more token."""
        peak, negative = list(self.state.peak), list(self.state.negative)
        for channel, word in enumerate(row):
            if self._exceeds(word, peak[channel]):
                peak[channel], negative[channel] = word & 0x7FFF, word >> 15
        return {"peak": tuple(peak), "negative": tuple(negative)}

    @decides("D-harmonia-23")
    def _exceeds(self, word: int, peak: int) -> bool:
        """Whether a word replaces a peak: strictly larger, so that the first of equal tokens stays."""
        return word & 0x7FFF > peak

    @decides("D-harmonia-24")
    def _best(self, left: Sequence[int]) -> int:
        """The channel with the largest peak; the lower one of equals."""
        peak = self.state.peak
        return max(left, key=lambda channel: (peak[channel], -channel))

    def select(self, k: Lanes, valid: int, last: int) -> Changes:
        """Choose the channel with the largest peak; half of the peak becomes its offset."""
        before = self.state
        start = before.chosen // self.per_scope * self.scope
        selected, offset = list(before.selected), list(before.offset)
        left = [channel for channel in range(start, start + self.scope) if not selected[channel]]
        best = self._best(left)
        selected[best] = 1
        offset[best] = self.half(before.peak[best] | before.negative[best] << 15)
        return {
            "selected": tuple(selected),
            "offset": tuple(offset),
            "out_valid": 0,
            "k_out": self.none,
            "chosen": before.chosen + 1,
            "select_comparisons": self.scope - 1,
        }

    def half(self, word: int) -> int:
        """Half of a peak, or of its magnitude; a subnormal's last bit is rounded to even."""
        value = fp16.values(np.array([word & 0x7FFF if self.offset_sign == "unsigned" else word]))
        return int(fp16.bits(self._rounded(value.astype(np.float64) / 2))[0])

    @decides("D-arith-2", "D-harmonia-13")
    def _rounded(self, exact: np.ndarray) -> np.ndarray:
        """Halves and differences, exact in float64, as float16: infinity beyond it."""
        return fp16.to_f16(exact)

    @decides("D-harmonia-26")
    def _shifted(self, row: tuple[int, ...], gated: int) -> list[int]:
        """Subtract the offsets from a token; gated: 1 after the window."""
        offset = self.state.offset
        keys, shifts = (fp16.values(np.array(words)).astype(np.float64) for words in (row, offset))
        less = fp16.bits(self._rounded(keys - shifts)).tolist()
        return [new if shift & 0x7FFF else word for word, new, shift in zip(row, less, offset, strict=True)]

    @decides("D-harmonia-26")
    def apply(self, k: Lanes, valid: int, last: int) -> Changes:
        """Put out a token, less the offsets."""
        before, start = self.state, self.state.read * self.channels
        row = k if valid else before.rows[start : start + self.channels]
        read = before.read + 1 - valid
        return {
            "k_out": tuple(self._shifted(row, valid)),
            "out_valid": 1,
            "read": read,
            "ready": int(read >= before.written),
            "subtractions": self.chosen,
            "gated_tokens": valid,
        }

    def idle(self, k: Lanes, valid: int, last: int) -> Changes:
        """Do nothing."""
        return {"out_valid": 0, "k_out": self.none}


def require_offsets(unit: str, name: str, words: np.ndarray, most: int) -> None:
    """Reject offsets (..., channels) that are not finite, or nonzero in more than `most` channels."""
    reject(words & 0x7C00 == 0x7C00, f"{unit}: {name} must be finite", words, ", got {:#06x}")
    count = np.atleast_1d(np.count_nonzero(words & 0x7FFF, axis=-1))
    reject(count > most, f"{unit}: {name} must have at most {most} channels that are not 0", count)


PAPER: dict[str, int | str | None] = {
    "channels": 8,
    "window": 4,
    "offset_k": 2,
    "offset_scope": "layer",
    "heads": 1,
    "offset_sign": "signed",
}

UNIT: AnyUnit = Unit(
    unit_class=KOffsetGenerator,
    paper="harmonia §III-C, §IV-A (5), Fig. 10",
    meaning="offsets of the widest key channels",
    configs={
        "paper": Config(**PAPER | {"channels": 32, "window": 32, "offset_k": None}),
        "small": Config(**PAPER),
        "head": Config(**PAPER | {"offset_k": 1, "offset_scope": "head", "heads": 2}),
    },
    flags={"TRACKS": Flag(0, "a token of the window"), "SHIFTS": Flag(1, "a token is put out with some offset")},
)
State: type[DeclaredState] = KOffsetGenerator.State
run: RunFunction[Result] = UNIT.run
