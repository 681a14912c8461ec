"""V, grouped along tokens as they arrive: full groups are committed, the residual is converted again at every step.

Paper: [harmonia §III-A, Fig. 6b].
"""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import Bfp, BfpTensor
from refemu.units import AnyUnit, Config, Flag, Lanes, Port, Ports, Result, RunFunction, Unit
from refemu.units.declaration import Changes, DeclaredState, Sequential, constant, decides
from refemu.units.harmonia.bfp_aligner import Rounding

__all__ = ["GROUP", "UNIT", "Codes", "Growth", "State", "VGrouper", "run"]


GROUP = 32  #: Tokens under one exponent

Growth = Literal["reconvert", "realign"]  #: Growth of a group by one token (D-harmonia-20)


class Codes(NamedTuple):
    """Codes of some tokens, one group per channel."""

    sign: tuple[tuple[int, ...], ...]  #: by token, then by channel
    mantissa: tuple[tuple[int, ...], ...]  #: by token, then by channel
    exponent: tuple[int, ...]  #: by channel


class VGrouper(Sequential):
    """V grouper: one event appends one token's row of `channels` values."""

    name = "v_grouper"
    events: ClassVar[tuple[str, ...]] = ("prefill", "convert", "commit")
    counters: ClassVar[dict[str, str]] = {
        "conversions": "conversions of a group in all channels, temporary ones included",
        "commits": "groups of 32 tokens committed",
        "converted_elements": "elements converted; those of a partial group count again at every token",
        "residual_reads": "FP16 rows read for conversions, the new token's included",
    }
    registers: ClassVar[dict[str, str]] = {
        "committed": "codes of the full groups: signs and mantissas by token and channel, exponents by channel",
        "temporary": "temporary codes of the tokens of the partial group; None if there are none",
    }
    initial: ClassVar[dict[str, Any]] = {"committed": (), "temporary": None}
    channels: Annotated[int, 1, 1 << 16] = 64  #: KV heads x head dimension, 1 to 65536
    high: int = 8  #: mantissa bits
    #: convert from fp16 again, or shift stored magnitudes if an exponent rises, which needs truncation (D-harmonia-20)
    growth: Growth = "reconvert"
    rounding: Rounding = "truncate"  #: rounding of a magnitude, as for `Bfp`

    def check(self) -> None:
        if self.growth == "realign" and self.rounding != "truncate":
            raise Refused(f"{self.name}: growth='realign' needs rounding='truncate', got {self.rounding!r}")
        Bfp(self.high, GROUP, self.rounding)

    @constant
    @decides("D-harmonia-1", "D-harmonia-4", "D-harmonia-6")
    def format(self) -> Bfp:
        """Format of the codes."""
        return Bfp(self.high, GROUP, self.rounding)

    @constant
    def ports(self) -> Ports:
        channels = self.channels
        waiting = "rows of the residual; 0 for missing rows"
        residual = Port("residual", 16, (GROUP - 1) * channels, encoding="f16", meaning=waiting)
        return Ports(
            inputs=(Port("v", 16, channels, encoding="f16", meaning="the row of a token"),),
            outputs=(
                Port("commit", 1, meaning="the group is full, its codes are final"),
                Port("count", 6, meaning="tokens in the group"),
                Port("sign", 1, GROUP * channels, meaning="signs of the group, token by token; 0 for missing tokens"),
                Port("mantissa", self.high, GROUP * channels, meaning="mantissas of the group, token by token"),
                Port("exponent", 5, channels, meaning="exponent of every channel"),
                Port("tokens", 32, meaning="tokens so far"),
            ),
            state=() if self.growth == "realign" else (residual,),
        )

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject field 31."""
        self.format.validated(np.ascontiguousarray(inputs[0]), True, self.name)

    def prefill(self, v: ArrayLike) -> DeclaredState:
        """Store a prompt, float16 (tokens, channels), in an empty cache: full groups and a temporary one."""
        if self.state.tokens:
            raise Refused(f"{self.name}: prefill needs an empty cache, got {self.state.tokens} tokens; reset first")
        rows = np.asarray(v)
        if rows.dtype != np.float16 or rows.ndim != 2 or rows.shape[1] != self.channels:
            raise RefusedType(
                f"{self.name}: v must be float16 (tokens, {self.channels}), got {rows.dtype} {rows.shape}"
            )
        self.format.validated(rows, False, self.name)  # raises for infinity and NaN
        words = np.ascontiguousarray(rows).view(np.uint16)
        codes = [self._encode(words[start : start + GROUP]) for start in range(0, len(words), GROUP)]
        full = len(words) // GROUP
        temporary = codes[full] if len(codes) > full else None
        shown = self._shown(codes[-1], len(words) - GROUP * (len(codes) - 1), temporary is None) if codes else {}
        changes = {
            "index": self.state.index + 1,
            "tokens": len(words),
            "residual": self._filled(words[full * GROUP :]),
            "committed": tuple(codes[:full]),
            "temporary": temporary,
            "conversions": len(codes),
            "commits": full,
            "converted_elements": words.size,
            "residual_reads": len(words),
        }
        return self._commit("prefill", (), {**shown, **changes})

    def invariant(self, state: DeclaredState) -> bool:
        """A group has at most 32 tokens."""
        return state.count <= GROUP

    def opens(self, v: Lanes) -> str:
        return "commit" if self.state.count == GROUP - 1 else "convert"

    def convert(self, v: Lanes) -> Changes:
        """Store a token and convert the tokens of its group so far, temporarily."""
        rows, codes, changes = self._appended(v)
        return {**changes, "residual": self._filled(rows), "temporary": codes}

    def commit(self, v: Lanes) -> Changes:
        """Store the token that fills a group of 32, whose codes become final."""
        rows, codes, changes = self._appended(v)
        committed = {"committed": (*self.state.committed, codes), "temporary": None, "commits": 1}
        return {**changes, "residual": self._filled(rows[:0]), **committed}

    def _appended(self, v: Lanes) -> tuple[np.ndarray, Codes, dict[str, Any]]:
        """Rows and codes of the group with one more row, and what changes at each."""
        before, row = self.state, v
        count = before.count % GROUP + 1  # a full group starts over at 0
        waiting = before.residual[: (count - 1) * self.channels] if count > 1 else ()
        rows = np.array([*waiting, *row], np.uint16).reshape(count, -1)
        shifted = self._shifts and before.temporary is not None
        codes = self._grow(before.temporary, row) if shifted else self._encode(rows)
        counts = {"conversions": 1, "converted_elements": rows.size, "residual_reads": 1 if shifted else count}
        return rows, codes, {**self._shown(codes, count, count == GROUP), "tokens": before.tokens + 1, **counts}

    @property
    @decides("D-harmonia-20")
    def _shifts(self) -> bool:
        """Whether a group grows from its stored magnitudes."""
        return self.growth == "realign"

    def _filled(self, rows: np.ndarray) -> tuple[int, ...]:
        """The residual: at most 31 rows, then zeros."""
        return (*rows.reshape(-1).tolist(), *(0,) * ((GROUP - 1) * self.channels - rows.size))

    def _encode(self, rows: np.ndarray) -> Codes:
        """Convert FP16 rows, along tokens."""
        return _codes(self.format.encode(rows, 0, bits=True))

    @decides("D-harmonia-20")
    def _grow(self, stored: Codes, row: tuple[int, ...]) -> Codes:
        """Align stored magnitudes to exponents that the new row may have raised, and append the row."""
        old, new = self._tensor(stored), self.format.encode(np.array([row], np.uint16), 0, bits=True)
        top = np.maximum(old.exponent, new.exponent)
        both = [_codes(tensor.realign(top)) for tensor in (old, new)]
        return Codes(both[0].sign + both[1].sign, both[0].mantissa + both[1].mantissa, both[0].exponent)

    @decides("D-harmonia-3", "D-harmonia-20")
    def _shown(self, codes: Codes, count: int, full: bool) -> dict[str, Any]:
        """Output ports of a conversion: the group padded with zeros."""
        fill = (0,) * (GROUP - count) * self.channels
        sign, mantissa = (tuple(value for row in rows for value in row) + fill for rows in codes[:2])
        return {
            "commit": int(full),
            "count": count,
            "sign": sign,
            "mantissa": mantissa,
            "exponent": tuple(codes.exponent),
        }

    def _tensor(self, codes: Codes) -> BfpTensor:
        return self.format.tensor(np.array(codes.sign), np.array(codes.mantissa), np.array([codes.exponent]), 0)

    def groups(self) -> BfpTensor:
        """Codes of all tokens so far, (tokens, channels): committed groups, then the temporary conversion."""
        parts = [*self.state.committed, *([self.state.temporary] if self.state.temporary else [])]
        if not parts:
            raise Refused(f"{self.name}: the cache has no groups, got 0 tokens; append a token first")
        sign, mantissa = (np.concatenate([np.array(part[at]) for part in parts]) for at in (0, 1))
        return self.format.tensor(sign, mantissa, np.array([part.exponent for part in parts]), 0)


def _codes(tensor: BfpTensor) -> Codes:
    """Codes of one group of tokens as tuples."""
    sign, mantissa = (tuple(map(tuple, array.tolist())) for array in (tensor.sign, tensor.mantissa))
    return Codes(sign, mantissa, tuple(tensor.exponent[0].tolist()))


PAPER: dict[str, int | str] = {"channels": 4, "high": 8, "growth": "reconvert"}

UNIT: AnyUnit = Unit(
    unit_class=VGrouper,
    paper="harmonia §III-A, Fig. 6b",
    meaning="V in groups of 32 tokens while tokens arrive",
    configs={"paper": Config(**PAPER), "realign": Config(**PAPER | {"growth": "realign"})},
    flags={"COMMIT": Flag(0, "the group is full"), "RAISED": Flag(1, "a channel's exponent rose inside the group")},
)
State: type[DeclaredState] = VGrouper.State
run: RunFunction[Result] = UNIT.run
