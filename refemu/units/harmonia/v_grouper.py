"""V, grouped along tokens while they arrive: full groups are committed, the rest is converted again at every step.

Paper: [harmonia §III-A, Fig. 6b]. Decisions: D-harmonia-20 (reconvert, or shift what is stored), D-harmonia-33 (the
residual rows stay in FP16), D-harmonia-2 (why truncation makes both equal).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, require_choice, require_int
from refemu.formats import Bfp, BfpTensor
from refemu.units import stepped
from refemu.units.harmonia.bfp_aligner import Rounding
from refemu.units.harmonia.cases import v_grouper as v_grouper_cases
from refemu.units.ports import Lanes, Port, Ports, fields, lanes
from refemu.units.stepped import Clocked
from refemu.units.unit import Config, Flag, RunFunction, Unit

__all__ = ["COUNTERS", "GROUP", "GROWTHS", "UNIT", "Codes", "Growth", "Result", "State", "VGrouper", "run"]


GROUP = 32  #: Tokens under one exponent

Growth = Literal["reconvert", "realign"]  #: Growth of a group by one token (D-harmonia-20)
GROWTHS: tuple[Growth, ...] = ("reconvert", "realign")  #: The choices of `Growth`


class Codes(NamedTuple):
    """Codes of some tokens, one group per channel."""

    sign: tuple[tuple[int, ...], ...]  #: by token, then by channel
    mantissa: tuple[tuple[int, ...], ...]  #: by token, then by channel
    exponent: tuple[int, ...]  #: by channel


@dataclass(frozen=True)
class State:
    """Ports and registers after one token, and what happened since reset."""

    #: "reset": the cache is empty; "prefill": a prompt is stored: full groups are committed, the rest is converted for
    #: now; "convert": a token is stored, and the tokens of its group so far are converted for now; "commit": a token
    #: fills its group of 32, whose codes are final
    event: str
    index: int  #: number of the event since reset, from 0; -1 at reset
    v: Lanes
    commit: int
    count: int
    sign: tuple[int, ...]
    mantissa: tuple[int, ...]
    exponent: Lanes
    tokens: int  #: tokens stored
    residual: tuple[int, ...]  #: FP16 words of the tokens whose group is not full, token by token; 0 for tokens to come
    #: codes of the full groups: signs and mantissas by token and channel, exponents by channel
    committed: tuple[Codes, ...]
    #: codes of the tokens whose group is not full, as they are for now; None where there is none
    temporary: Codes | None
    conversions: int  #: conversions of a group in all channels, those for now included
    commits: int  #: groups of 32 tokens committed
    converted_elements: int  #: elements converted, those of a group that is not full anew at every token
    residual_reads: int  #: FP16 rows read for conversions, that of the new token included


COUNTERS = ("conversions", "commits", "converted_elements", "residual_reads")  #: Counters of a run


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepped.Result):
    """Outputs and registers, then counters."""

    commit: np.ndarray
    count: np.ndarray
    sign: np.ndarray
    mantissa: np.ndarray
    exponent: np.ndarray
    tokens: np.ndarray
    residual: np.ndarray | None = None  #: None for growth "realign", which does not read it
    conversions: int
    commits: int
    converted_elements: int
    residual_reads: int


class VGrouper(Clocked[State]):
    """V grouper: one event appends one token's row of `channels` values.

    References
    ----------
    [harmonia §III-A, Fig. 6b]
    """

    name = "v_grouper"

    def __init__(
        self, channels: int = 64, high: int = 8, growth: Growth = "reconvert", rounding: Rounding = "truncate"
    ) -> None:
        """Configure the grouper.

        Parameters
        ----------
        channels : int
            KV heads x head dimension, 1 to 65536.
        high : int
            Mantissa bits.
        growth : {"reconvert", "realign"}
            Convert from fp16 again, or shift stored magnitudes when an exponent rises, which needs truncation
            (D-harmonia-20).
        rounding : {"truncate", "half_even", "half_away", "floor"}
            As for `Bfp`.

        Raises
        ------
        Refused
            A parameter is out of range, an option unknown, or "realign" not beside truncation.
        """
        self.channels: int = require_int(channels, 1, 1 << 16, self.name, "channels")
        self.growth = require_choice(growth, GROWTHS, self.name, "growth")
        if growth == "realign" and rounding != "truncate":
            raise Refused(f"{self.name}: growth='realign' needs rounding='truncate', got {rounding!r}")
        self.format: Bfp = Bfp(high, GROUP, rounding)
        self.high: int = self.format.mantissa_bits
        self.rounding = self.format.rounding
        self.ports: Ports = ports({"channels": self.channels, "high": self.high, "growth": self.growth})
        self.state: State = self.reset(State, residual=self._filled(np.zeros(0)), committed=(), temporary=None)

    def step(self, v: Sequence[int] | int) -> State:
        """Append one row of fp16 words."""
        return self._open(*self.accept(v))

    def append(self, v_row: ArrayLike) -> State:
        """Append one token's row.

        Parameters
        ----------
        v_row : array_like of float16 (channels,)
            Finite values.

        Returns
        -------
        State
            Registers after the event.

        Raises
        ------
        Refused
            A value is infinite or NaN.
        RefusedType
            Another dtype or shape.
        """
        return self._open(lanes(self._words(v_row, (self.channels,)).tolist()))

    def prefill(self, v: ArrayLike) -> State:
        """Store a prompt in an empty cache: full groups, and one temporary conversion.

        Parameters
        ----------
        v : array_like of float16 (tokens, channels)
            Finite values.

        Returns
        -------
        State
            Registers after the event.

        Raises
        ------
        Refused
            The cache is not empty, or a value infinite or NaN.
        RefusedType
            Another dtype or shape.
        """
        if self.state.tokens:
            raise Refused(f"{self.name}: prefill needs an empty cache, got one of {self.state.tokens} tokens")
        words = self._words(v, (len(np.atleast_1d(v)), self.channels))
        codes = [self._encode(words[start : start + GROUP]) for start in range(0, len(words), GROUP)]
        full = len(words) // GROUP
        residual = self._filled(words[full * GROUP :])
        temporary = codes[full] if len(codes) > full else None
        shown = self._shown(codes[-1], len(words) - GROUP * (len(codes) - 1), temporary is None) if codes else {}
        self.state = replace(
            self.state,
            **shown,
            event="prefill",
            index=self.state.index + 1,
            tokens=len(words),
            residual=residual,
            committed=tuple(codes[:full]),
            temporary=temporary,
            conversions=len(codes),
            commits=full,
            converted_elements=words.size,
            residual_reads=len(words),
        )
        return self.state

    def _words(self, values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
        array = np.asarray(values)
        if array.dtype != np.float16 or array.shape != shape:
            raise RefusedType(
                f"{self.name}: float16 rows of {self.channels} channels are needed, got {array.dtype} {array.shape}"
            )
        self.format.admitted(array, False, self.name)  # refuses infinity and NaN
        return np.ascontiguousarray(array).view(np.uint16)

    def _open(self, v: Any) -> State:
        before, row = self.state, fields(v)
        count = before.count % GROUP + 1  # a full group waits no longer
        rows = np.array([*before.residual[: (count - 1) * self.channels], *row], np.uint16).reshape(count, -1)
        realigned = self.growth == "realign" and before.temporary is not None
        codes = self._grow(before.temporary, row) if realigned else self._encode(rows)
        full = count == GROUP
        self.state = self.latched(
            v,
            **self._shown(codes, count, full),
            event="commit" if full else "convert",
            tokens=before.tokens + 1,
            residual=self._filled(rows[:0] if full else rows),
            committed=(*before.committed, codes) if full else before.committed,
            temporary=None if full else codes,
            conversions=before.conversions + 1,
            commits=before.commits + int(full),
            converted_elements=before.converted_elements + rows.size,
            residual_reads=before.residual_reads + (1 if realigned else count),
        )
        return self.state

    def _filled(self, rows: np.ndarray) -> tuple[int, ...]:
        """The residual: rows that wait, 31 at most, then zeros."""
        return (*rows.reshape(-1).tolist(), *(0,) * ((GROUP - 1) * self.channels - rows.size))

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
        """Codes of all tokens so far: committed groups, then the temporary conversion.

        Returns
        -------
        BfpTensor
            (tokens, channels) along axis 0.

        Raises
        ------
        Refused
            The cache is empty.
        """
        parts = [*self.state.committed, *([self.state.temporary] if self.state.temporary else [])]
        if not parts:
            raise Refused(f"{self.name}: groups of an empty cache")
        sign, mantissa = (np.concatenate([np.array(part[at]) for part in parts]) for at in (0, 1))
        return self.format.tensor(sign, mantissa, np.array([part.exponent for part in parts]), 0)

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse field 31."""
        self.format.admitted(np.ascontiguousarray(inputs[0]), True, self.name)


def _codes(tensor: BfpTensor) -> Codes:
    """Codes of one group of tokens as tuples."""
    sign, mantissa = (tuple(map(tuple, array.tolist())) for array in (tensor.sign, tensor.mantissa))
    return Codes(sign, mantissa, tuple(tensor.exponent[0].tolist()))


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    channels = config["channels"]
    residual = Port(
        "residual", 16, (GROUP - 1) * channels, encoding="f16", meaning="rows that wait; 0 for those to come"
    )
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
        state=() if config.get("growth") == "realign" else (residual,),
    )


PAPER: dict[str, int | str] = {"channels": 4, "high": 8, "growth": "reconvert"}

UNIT: Unit[State, Result] = Unit(
    name="v_grouper",
    paper="harmonia §III-A, Fig. 6b",
    meaning="V in groups of 32 tokens while tokens arrive",
    configs={"paper": Config(**PAPER), "realign": Config(**PAPER | {"growth": "realign"})},
    ports=ports,
    unit_class=VGrouper,
    cases=v_grouper_cases.cases,
    counters=COUNTERS,
    result=Result,
    mark=v_grouper_cases.mark,
    closes=v_grouper_cases.closes,
    flags={"COMMIT": Flag(0, "the group is full"), "RAISED": Flag(1, "a channel's exponent rose inside the group")},
)
run: RunFunction[Result] = UNIT.run
