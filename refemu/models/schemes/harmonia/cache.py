"""The KV cache of a Harmonia scheme: keys and values as block floating point codes [harmonia §III-A, §III-B].

Keys are shifted by the online offsets, then grouped along the head; values are grouped along the tokens, channel by
channel, the residual group converted again at every step [harmonia Fig. 6b]. Mantissas lie in `high` bits; a key or a
group that has fallen to `low` bits keeps its upper ones, zeros below, which is the same value (D-harmonia-36). The FP16
words stay beside the codes, as the residual's do in the paper (D-harmonia-33): a session that goes back converts anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from refemu.arith.checks import Refused, require_choice
from refemu.formats.groups import count
from refemu.formats.harmonia.bfp import Bfp, BfpTensor
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.steps import Units
from refemu.units.harmonia.bit_allocator import Allocation
from refemu.units.harmonia.k_offset import Offsets

FIRST = 64  #: tokens that a cache has room for before it first grows


@dataclass(frozen=True, eq=False)
class Held:
    """Codes that attention reads: views of the cache, good until it changes."""

    format: Bfp  #: of `high` bits
    k: tuple[np.ndarray, ...]  #: sign, mantissa (tokens, KV heads, head_dim); exponent of groups along the head
    v: tuple[np.ndarray, ...]  #: the same; groups along the tokens

    @property
    def tokens(self) -> int:
        """Keys."""
        return len(self.k[0])

    @property
    def heads(self) -> int:
        """KV heads."""
        return self.k[0].shape[1]

    def head(self, shared: int) -> tuple[BfpTensor, BfpTensor]:
        """Keys and values of one KV head, (tokens, head_dim)."""
        return self._tensor(self.k, shared, 1), self._tensor(self.v, shared, 0)

    def _tensor(self, parts: tuple[np.ndarray, ...], shared: int, axis: int) -> BfpTensor:
        sign, mantissa, exponent = (part[:, shared].copy() for part in parts)
        return BfpTensor(self.format, sign, mantissa, exponent, axis)


@dataclass(frozen=True, eq=False)
class Falling:
    """Codes of a prompt, of which every query has more at `low` bits than the one before; exponents are its last's."""

    high: Held
    low: tuple[np.ndarray, ...]  #: signs and mantissas of k and of v (tokens, KV heads, head_dim), zeros below
    falls: tuple[np.ndarray, np.ndarray]  #: tokens at which those of k, and of v, fall to `low`, int64; 0: never

    def by_query(self) -> Iterator[Held]:
        """Yield what each query sees. Every Held is good until the next one."""
        k, v = ((part[0].copy(), part[1].copy(), part[2]) for part in (self.high.k, self.high.v))
        for tokens in range(1, self.high.tokens + 1):
            for part, low, falls in ((k, self.low[:2], self.falls[0]), (v, self.low[2:], self.falls[1])):
                now = falls == tokens
                part[0][now], part[1][now] = low[0][now], low[1][now]
            groups = count(tokens, self.high.format.group)
            whole = groups * self.high.format.group
            yield Held(
                self.high.format,
                (k[0][:tokens], k[1][:tokens], k[2][:tokens]),
                (v[0][:whole], v[1][:whole], v[2][:groups]),
            )


class HarmoniaCache:
    """Keys behind the rotation, and values, of one layer.

    The first `append` is a prompt and converted at once. Later tokens wait until `advance` takes them in one by one:
    every step of the decode attends to another cache.
    """

    def __init__(
        self, heads: int, head_dim: int, context: int, config: HarmoniaConfig, units: Units, name: str = ""
    ) -> None:
        """heads: KV heads. context: tokens at most. name: of the layer, "blk.3", for refusals."""
        self.config: HarmoniaConfig = config
        self.units: Units = units
        self.name: str = name
        self.context: int = context
        self.rule: Allocation = allocation(config)
        self.format: Bfp = config.format(config.high)
        self.offsets: Offsets = offsets(config, heads, head_dim)
        self.offset: np.ndarray = np.zeros(
            heads * head_dim, np.uint16
        )  #: words that every key loses; frozen by the prompt
        self.first: np.ndarray = np.zeros(
            (0, heads, head_dim), np.uint16
        )  #: words of the prompt's keys, not shifted, until its attention is done
        self.prompt: int = 0  #: tokens of the first `append`
        self._length = self._done = 0
        shape, groups = (heads, head_dim), count(head_dim, config.group)
        self._rows = {
            name: np.zeros((FIRST, *shape), dtype)
            for name, dtype in (
                ("k", np.uint16),
                ("v", np.uint16),
                ("k_sign", np.uint8),
                ("k_mantissa", np.uint16),
                ("v_sign", np.uint8),
                ("v_mantissa", np.uint16),
            )
        }
        self._rows["k_exponent"] = np.zeros((FIRST, heads, groups), np.uint8)
        self._v_exponent = np.zeros((count(FIRST, config.group), *shape), np.uint8)

    def __len__(self) -> int:
        """Tokens held, those that wait included."""
        return self._length

    def __repr__(self) -> str:
        return f"HarmoniaCache({len(self)} of at most {self.context} tokens)"

    @property
    def taken(self) -> int:
        """Tokens whose codes are there."""
        return self._done

    @property
    def waiting(self) -> int:
        """Tokens that `advance` has not taken in."""
        return self._length - self._done

    def append(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Keys and values of some tokens, (tokens, heads, head_dim), fp16 values. On an empty cache: a prompt.

        Refused: more than the context, and what a conversion refuses; the cache is then as it was.
        """
        start, end = self._length, self._length + len(keys)
        if end > self.context:
            raise Refused(f"HarmoniaCache: at most {self.context} tokens fit, got {end}")
        k, v = (self.units.words(np.ascontiguousarray(x)) for x in (keys, values))
        self._require(v, "v")
        flat = k.reshape(len(k), -1)
        offset = self.offset
        if start == 0 and self.config.online:
            self._require(k, "k")
            offset = self.units.offsets(self.offsets, flat)
        shifted = self.units.shift(flat, offset).reshape(k.shape)
        codes = self.units.encode(self.format, shifted, name=f"{self.name}.k")
        self._grow(end)
        self.offset = offset
        self._write(start, end, k=shifted, v=v, k_sign=codes.sign, k_mantissa=codes.mantissa, k_exponent=codes.exponent)
        self._length = end
        if start == 0:
            self.prompt, self.first = end, k
            self._store(end)

    def settle(self) -> None:
        """The attention of the prompt is done: its keys as they came are needed no more."""
        self.first = np.zeros((0, *self.first.shape[1:]), np.uint16)

    def advance(self) -> dict[str, int]:
        """Take in the next waiting token: convert its group of V again, then demote what became ordinary.

        Returns the counts of this step by name.
        """
        if not self.waiting:
            raise Refused("HarmoniaCache: advance without a waiting token")
        tokens, before = self._done + 1, self._done
        group = before // self.config.group
        self._convert_v(group, group + 1, tokens)
        keys = range(self.rule.low_tokens(before).stop, self.rule.low_tokens(tokens).stop)
        groups = range(self.rule.low_groups(before).stop, self.rule.low_groups(tokens).stop)
        demoted_groups = len(groups) if self.rule.low_groups(tokens) else 0
        self._demote_k(keys)
        touched = {token // self.config.group for token in keys} if self.config.v_granularity == "token" else set()
        for touched_group in sorted(touched | set(groups)):
            self._convert_v(touched_group, touched_group + 1, tokens)
        self._done = tokens
        return {
            "v_conversions": 1,
            "v_commits": int(tokens % self.config.group == 0),
            "demoted_tokens": len(keys),
            "demoted_groups": demoted_groups,
        }

    def held(self) -> Held:
        """Codes of the tokens taken in so far."""
        tokens = self._done
        k = tuple(self._rows[f"k_{name}"][:tokens] for name in ("sign", "mantissa", "exponent"))
        v = (self._rows["v_sign"][:tokens], self._rows["v_mantissa"][:tokens], self._v_exponent[: self._groups(tokens)])
        return Held(self.format, k, v)

    def falling(self) -> "Falling":
        """The codes of a prompt as its queries have them under `prefill_window="query"` (D-harmonia-19)."""
        tokens = self._done
        high, low = zip(
            self._both(self._rows["k"][:tokens], -1, f"{self.name}.k"),
            self._both(self._rows["v"][:tokens], 0, f"{self.name}.v"),
            strict=True,
        )
        k_falls, v_falls = (np.zeros(tokens, np.int64) for _ in range(2))
        for seen in range(1, tokens + 1):
            for falls, fallen in ((k_falls, self._ordinary), (v_falls, self._low_v)):
                falls[fallen(seen, 0, tokens) & (falls == 0)] = seen
        return Falling(Held(self.format, *high), (*low[0], *low[1]), (k_falls, v_falls))

    def _both(self, words: np.ndarray, axis: int, name: str) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """Sign, mantissa and exponent of words at `high` bits, sign and mantissa of all of them at `low`."""
        high = self.units.encode(self.format, words, axis, name)
        low = self._codes(words, axis, np.ones(len(words), np.bool_), name)
        return (high.sign, high.mantissa, high.exponent), (low.sign, low.mantissa)

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens. Refused inside the prompt, which was converted as a whole."""
        if not 0 <= length <= self._length:
            raise Refused(f"HarmoniaCache: length must be in [0, {self._length}], got {length}")
        if 0 < length < self.prompt:
            raise Refused(f"HarmoniaCache: the prompt of {self.prompt} tokens is one, got length {length}")
        changed = length != self._done
        self._length = length
        if length == 0:
            self.prompt = self._done = 0
            self.offset = np.zeros_like(self.offset)
        elif changed:
            self._store(length)

    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """FP16 words of the keys less their offsets, and of the values, (tokens, heads, head_dim)."""
        return self._rows["k"][: self._length], self._rows["v"][: self._length]

    def storage_bits(
        self, exponent: bool = True, count_residual: Literal["bfp", "fp16"] = "bfp", metadata: bool = False
    ) -> int:
        """Bits of the codes of keys and values; without `exponent` only those of signs and mantissas.

        count_residual: the tokens of an open group of V as codes of `high` bits, or "fp16" (D-harmonia-33). metadata:
        with 16 bits per channel of offsets (D-harmonia-39).
        """
        require_choice(count_residual, ("bfp", "fp16"), "HarmoniaCache", "count_residual")
        tokens, groups, config = self._done, self._groups(self._done), self.config
        heads, dim = self._rows["k"].shape[1:]
        low = np.count_nonzero(self._ordinary(tokens, 0, tokens)) + np.count_nonzero(self._low_v(tokens, 0, tokens))
        total = heads * dim * (2 * tokens * (1 + config.high) - int(low) * (config.high - config.low))
        if count_residual == "fp16" and tokens % config.group:
            total += heads * dim * (tokens % config.group) * (15 - config.high)
            groups -= 1
        exponents = tokens * heads * count(dim, config.group) + groups * heads * dim
        return total + (5 * exponents if exponent else 0) + (16 * heads * dim if metadata else 0)

    def _groups(self, tokens: int) -> int:
        """Groups of V, an open one included."""
        return count(tokens, self.config.group)

    def _ordinary(self, tokens: int, start: int, end: int) -> np.ndarray:
        """Which of the tokens `start` to `end` are ordinary when there are `tokens`: their K has `low` bits."""
        low, places = self.rule.low_tokens(tokens), np.arange(start, end)
        return (places >= low.start) & (places < low.stop)

    def _low_v(self, tokens: int, start: int, end: int) -> np.ndarray:
        """Which of them have `low` bits of V (D-harmonia-17)."""
        if self.config.v_granularity == "token":
            return self._ordinary(tokens, start, end)
        low, groups = self.rule.low_groups(tokens), np.arange(start, end) // self.config.group
        return (groups >= low.start) & (groups < low.stop)

    def _store(self, tokens: int) -> None:
        """The codes of a cache of `tokens` tokens, all anew."""
        codes = self.units.encode(self.format, self._rows["k"][:tokens], name=f"{self.name}.k")
        self._write(0, tokens, k_sign=codes.sign, k_mantissa=codes.mantissa)
        self._convert_v(0, self._groups(tokens), tokens)
        self._demote_k(self.rule.low_tokens(tokens))
        self._done = tokens

    def _demote_k(self, tokens: range) -> None:
        if tokens:
            some = slice(tokens.start, tokens.stop)
            codes = self._codes(self._rows["k"][some], -1, np.ones(len(tokens), np.bool_), f"{self.name}.k")
            self._write(tokens.start, tokens.stop, k_sign=codes.sign, k_mantissa=codes.mantissa)

    def _convert_v(self, first: int, last: int, tokens: int) -> None:
        """Groups `first` to `last` of V, as far as there are tokens, in the bits of a cache of `tokens`."""
        start, end = first * self.config.group, min(last * self.config.group, tokens)
        low = self._low_v(tokens, start, end)
        codes = self._codes(self._rows["v"][start:end], 0, low, f"{self.name}.v")
        self._write(start, end, v_sign=codes.sign, v_mantissa=codes.mantissa)
        self._v_exponent[first:last] = codes.exponent

    def _codes(self, words: np.ndarray, axis: int, low: np.ndarray, name: str) -> BfpTensor:
        """Words (tokens, heads, head_dim) at `high` bits; tokens in `low` at `low` bits with zeros below."""
        codes = self.units.encode(self.format, words, axis, name)
        if not low.any():
            return codes
        fewer = demoted(codes, self.config.format(self.config.low), words, self.units)
        rows, shift = low[:, None, None], self.config.high - self.config.low
        return BfpTensor(
            codes.format,
            np.where(rows, fewer.sign, codes.sign),
            np.where(rows, fewer.mantissa << np.uint16(shift), codes.mantissa),
            codes.exponent,
            codes.axis,
        )

    def _require(self, words: np.ndarray, name: str) -> None:
        """Refuse infinity and NaN that a conversion does not admit, before anything is stored or an offset chosen."""
        if ((words & 0x7C00) == 0x7C00).any():
            self.units.encode(self.format, words, name=f"{self.name}.{name}")

    def _write(self, start: int, end: int, **parts: np.ndarray) -> None:
        for name, part in parts.items():
            self._rows[name][start:end] = part

    def _grow(self, tokens: int) -> None:
        room = len(self._rows["k"])
        if tokens <= room:
            return
        room = min(max(tokens, 2 * room), self.context)
        self._rows = {name: _longer(rows, room) for name, rows in self._rows.items()}
        self._v_exponent = _longer(self._v_exponent, count(room, self.config.group))


def allocation(config: HarmoniaConfig) -> Allocation:
    """The rule by which tokens and groups fall to `low` bits."""
    return Allocation(
        n_initial=config.n_initial, n_local=config.n_local, high=config.high, low=config.low, group=config.group
    )


def offsets(config: HarmoniaConfig, heads: int, head_dim: int) -> Offsets:
    """The rule by which channels of the keys get an offset (D-harmonia-24)."""
    return Offsets(
        channels=heads * head_dim,
        offset_k=config.offset_k,
        offset_scope=config.offset_scope,
        heads=heads,
        offset_sign=config.offset_sign,
    )


def demoted(codes: BfpTensor, fmt: Bfp, words: np.ndarray, units: Units) -> BfpTensor:
    """`codes` in the fewer bits of `fmt`: their upper bits, or where a conversion rounds, the words anew."""
    if fmt.rounding == "truncate":
        return codes.demote(fmt.mantissa_bits)
    return units.encode(fmt, words, codes.axis)


def _longer(rows: np.ndarray, room: int) -> np.ndarray:
    wider = np.zeros((room, *rows.shape[1:]), rows.dtype)
    wider[: len(rows)] = rows
    return wider
