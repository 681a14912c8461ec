"""The KV cache of a Harmonia scheme: keys and values as block floating point codes [harmonia §III-A, §III-B].

Keys are shifted by the online offsets, then grouped along the head; values are grouped along the tokens, channel by
channel, and the residual group is converted again at every step [harmonia Fig. 6b]. Mantissas have the width `high`; a
key or group demoted to `low` bits keeps its upper bits with zeros below, which is the same value (D-harmonia-36). FP16
words are stored for the residual group only (D-harmonia-33); the rest is codes of their own width, so a cache can be
rewound to marked positions only (D-harmonia-53).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from refemu.arith.checks import Refused, require_choice
from refemu.formats.groups import count
from refemu.formats.harmonia.bfp import Bfp, BfpTensor
from refemu.models.cache import Caches
from refemu.models.schemes.harmonia.codes import Codes, Fewer, Layout, Parts, Past, Store
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.steps import Units
from refemu.units.harmonia.bit_allocator import Allocation
from refemu.units.harmonia.k_offset import Offsets

Words = tuple[np.ndarray, np.ndarray]  #: FP16 words of keys and values (tokens, KV heads, head_dim)


@dataclass(frozen=True, eq=False)
class Held:
    """Codes that attention reads, valid until the cache changes."""

    format: Bfp  #: format of `high` bits
    keys: Codes  #: keys, with groups along the head
    values: Codes  #: values, with groups along the tokens

    @cached_property
    def k(self) -> Parts:
        """Sign, mantissa (tokens, KV heads, head_dim) and exponent of the keys."""
        return self.keys.parts()

    @cached_property
    def v(self) -> Parts:
        """Sign, mantissa and exponent of the values."""
        return self.values.parts()

    @property
    def tokens(self) -> int:
        """Keys."""
        return self.keys.tokens

    @property
    def heads(self) -> int:
        """KV heads."""
        return self.keys.heads

    def head(self, shared: int) -> tuple[BfpTensor, BfpTensor]:
        """Keys and values of one KV head, (tokens, head_dim)."""
        return self._tensor(self.keys, shared, 1), self._tensor(self.values, shared, 0)

    def _tensor(self, side: Codes, shared: int, axis: int) -> BfpTensor:
        sign, mantissa, exponent = (part[:, 0].copy() for part in side.parts(np.s_[shared : shared + 1]))
        return BfpTensor(self.format, sign, mantissa, exponent, axis)


@dataclass(frozen=True, eq=False)
class Falling:
    """Codes of a prompt, in which each query sees more at `low` bits than the query before; exponents of the last."""

    high: Held
    low: tuple[np.ndarray, ...]  #: signs and mantissas of k and v (tokens, KV heads, head_dim), padded with zeros
    falls: tuple[np.ndarray, np.ndarray]  #: cache lengths at which k, and v, are demoted to `low`, int64; 0: never

    def by_query(self) -> Iterator[Held]:
        """Yield the codes that each query sees; each is valid until the next one."""
        layout = self.high.keys.layout
        k, v = ((part[0].copy(), part[1].copy(), part[2]) for part in (self.high.k, self.high.v))
        for tokens in range(1, self.high.tokens + 1):
            for part, low, falls in ((k, self.low[:2], self.falls[0]), (v, self.low[2:], self.falls[1])):
                now = falls == tokens
                part[0][now], part[1][now] = low[0][now], low[1][now]
            groups = count(tokens, self.high.format.group)
            whole = groups * self.high.format.group
            yield Held(
                self.high.format,
                Codes.plain(layout, k[0][:tokens], k[1][:tokens], k[2][:tokens]),
                Codes.plain(layout, v[0][:whole], v[1][:whole], v[2][:groups]),
            )


class Place(NamedTuple):
    """A length of the cache, and what it has dropped since."""

    tokens: int
    prompt: int
    keys: Past
    values: Past
    residual: np.ndarray


class HarmoniaCache:
    """Rotated keys, and values, of one layer.

    The first `append` is a prompt and converted at once. Later tokens wait until `advance` processes them one by one:
    every step of the decode attends to another cache.
    """

    def __init__(
        self,
        heads: int,
        head_dim: int,
        context: int,
        config: HarmoniaConfig,
        units: Units,
        name: str = "",
        keeps_words: bool = False,
    ) -> None:
        """heads: KV heads. context: most tokens. name: of the layer, "blk.3", for errors. keeps_words: keep
        the FP16 words of all tokens, for observers that read them after attention.
        """
        self.config: HarmoniaConfig = config
        self.units: Units = units
        self.name: str = name
        self.context: int = context
        self.keeps_words: bool = keeps_words
        self.shape: tuple[int, int] = heads, head_dim
        self.rule: Allocation = allocation(config)
        self.format: Bfp = config.format(config.high)
        self.fewer: Bfp = config.format(config.low)
        self.offsets: Offsets = offsets(config, heads, head_dim)
        self.offset: np.ndarray = np.zeros(
            heads * head_dim, np.uint16
        )  #: offsets of the keys, words; frozen by the prompt
        self.prompt: int = 0  #: length of the first `append`
        self.first: np.ndarray = (
            self._none()
        )  #: words of the prompt's keys before the shift, until its attention is done
        self._words = self._none(), self._none()  #: words of shifted keys and of values, until then or always
        self._waiting = self._none(), self._none()  #: words of the tokens that wait for `advance`
        self._residual = self._none()  #: words of the open group of values
        layout = Layout(config, head_dim)
        self._keys = Store(layout, heads, count(head_dim, config.group))
        self._values = Store(layout, heads, head_dim)

    def __len__(self) -> int:
        """Tokens in the cache, waiting ones included."""
        return self.taken + self.waiting

    def __repr__(self) -> str:
        return f"HarmoniaCache({len(self)} of at most {self.context} tokens)"

    @property
    def taken(self) -> int:
        """Number of tokens with codes."""
        return len(self._keys)

    @property
    def waiting(self) -> int:
        """Number of tokens that wait for `advance`."""
        return len(self._waiting[0])

    def append(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Add keys and values (tokens, heads, head_dim), fp16 values. On an empty cache: a prompt.

        Raises Refused beyond the context, and for values that cannot be converted; the cache is then unchanged.
        """
        start, end = len(self), len(self) + len(keys)
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
        self._require(shifted, "k")
        if start:
            self._waiting = _joined(self._waiting, (shifted, v))
            return
        self.offset, self.prompt, self.first, self._words = offset, end, k, (shifted, v)
        self._take(shifted, v)

    def settle(self) -> None:
        """End the attention of the prompt and drop its words."""
        self.first = self._none()
        if not self.keeps_words:
            self._words = self._none(), self._none()

    def advance(self) -> dict[str, int]:
        """Process the next waiting token: convert its group of V again, then demote ordinary tokens.

        Returns the counts of this step by name.
        """
        if not self.waiting:
            raise Refused("HarmoniaCache: advance without a waiting token")
        before, (keys, values) = self.taken, self._waiting
        self._waiting = keys[1:], values[1:]
        self._take(keys[:1], values[:1])
        if self.keeps_words:
            self._words = _joined(self._words, (keys[:1], values[:1]))
        tokens, rule = self.taken, self.rule
        return {
            "v_conversions": 1,
            "v_commits": int(tokens % self.config.group == 0),
            "demoted_tokens": len(rule.low_tokens(tokens)) - len(rule.low_tokens(before)),
            "demoted_groups": len(rule.low_groups(tokens)) - len(rule.low_groups(before)),
        }

    def held(self) -> Held:
        """Codes of the tokens processed so far."""
        tokens, start = self.taken, len(self._values)
        tail = self._open(start, tokens) if start < tokens else None
        return Held(self.format, self._keys.codes(), self._values.codes(tail))

    def _open(self, start: int, tokens: int) -> BfpTensor:
        """The open group of values, tokens from `start` on."""
        low = self._low_values(tokens)
        if low and low.stop > start:
            return self._chosen(*self._both(self._residual, 0, "v"), self._low_v(tokens, start, tokens))
        return self.units.encode(self.format, self._residual, 0, f"{self.name}.v")

    def falling(self) -> "Falling":
        """Codes of a prompt as its queries see them under `prefill_window="query"` (D-harmonia-19).

        Raises Refused once its attention is done.
        """
        tokens, layout = self.taken, self._keys.layout
        if len(self._words[0]) != tokens:
            got = len(self._words[0])
            raise Refused(f"HarmoniaCache: a prompt has words only until its attention is done, got {got} of {tokens}")
        high, low = list[Codes](), list[np.ndarray]()
        for words, axis, name in zip(self._words, (-1, 0), "kv", strict=True):
            both = self._both(words, axis, name)
            fallen = self._chosen(*both, np.ones(tokens, np.bool_))
            high.append(Codes.plain(layout, both[0].sign, both[0].mantissa, both[0].exponent))
            low += [fallen.sign, fallen.mantissa]
        k_falls, v_falls = (np.zeros(tokens, np.int64) for _ in range(2))
        for seen in range(1, tokens + 1):
            for falls, some in ((k_falls, self._ordinary), (v_falls, self._low_v)):
                falls[some(seen, 0, tokens) & (falls == 0)] = seen
        return Falling(Held(self.format, *high), tuple(low), (k_falls, v_falls))

    def place(self) -> Place:
        """Current position, for `rewind`; no token may wait."""
        if self.waiting:
            raise Refused(f"HarmoniaCache: must have no waiting tokens at a mark, got {self.waiting}")
        return Place(self.taken, self.prompt, self._keys.past(), self._values.past(), self._residual)

    def rewind(self, place: Place) -> None:
        """Drop all tokens after a position of the past (D-harmonia-53)."""
        if place.tokens > self.taken:
            raise Refused(f"HarmoniaCache: a mark must be within the {self.taken} tokens so far, got {place.tokens}")
        self._waiting = self._none(), self._none()
        self._words = self._words[0][: place.tokens], self._words[1][: place.tokens]
        self._keys.rewind(place.keys)
        self._values.rewind(place.values)
        self._residual, self.prompt = place.residual, place.prompt
        if place.tokens == 0:
            self.first, self.offset = self._none(), np.zeros_like(self.offset)

    def words(self) -> Words:
        """FP16 words of the keys minus their offsets, and of the values, (tokens, heads, head_dim).

        Of a prompt until its attention is done, then of the waiting tokens; with `keeps_words` of all tokens.
        """
        return _joined(self._words, self._waiting)

    def storage_bits(
        self, exponent: bool = True, count_residual: Literal["bfp", "fp16"] = "bfp", metadata: bool = False
    ) -> int:
        """Size of the codes of keys and values in bits; without `exponent` signs and mantissas only.

        count_residual: count tokens of an open group of V as codes of `high` bits, or "fp16" (D-harmonia-33). metadata:
        add 16 bits per channel of offsets (D-harmonia-39).
        """
        require_choice(count_residual, ("bfp", "fp16"), "HarmoniaCache", "count_residual")
        tokens, config, (heads, dim) = self.taken, self.config, self.shape
        groups = count(tokens, config.group)
        low = np.count_nonzero(self._ordinary(tokens, 0, tokens)) + np.count_nonzero(self._low_v(tokens, 0, tokens))
        total = heads * dim * (2 * tokens * (1 + config.high) - int(low) * (config.high - config.low))
        if count_residual == "fp16" and tokens % config.group:
            total += heads * dim * (tokens % config.group) * (15 - config.high)
            groups -= 1
        exponents = tokens * heads * count(dim, config.group) + groups * heads * dim
        return total + (5 * exponents if exponent else 0) + (16 * heads * dim if metadata else 0)

    def _none(self) -> np.ndarray:
        """Words of no token."""
        return np.zeros((0, *self.shape), np.uint16)

    def _ordinary(self, tokens: int, start: int, end: int) -> np.ndarray:
        """Which of the tokens `start` to `end` are ordinary among `tokens`: their K has `low` bits."""
        low, places = self.rule.low_tokens(tokens), np.arange(start, end)
        return (places >= low.start) & (places < low.stop)

    def _low_v(self, tokens: int, start: int, end: int) -> np.ndarray:
        """Which of the tokens `start` to `end` have `low` bits of V (D-harmonia-17)."""
        low, places = self._low_values(tokens), np.arange(start, end)
        return (places >= low.start) & (places < low.stop)

    def _low_values(self, tokens: int) -> range:
        """Tokens with `low` bits of V."""
        if self.config.v_granularity == "token":
            return self.rule.low_tokens(tokens)
        groups, size = self.rule.low_groups(tokens), self.config.group
        return range(groups.start * size, groups.stop * size)

    def _take(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Convert the words of new tokens, pack complete groups, and demote ordinary tokens."""
        tokens, size = self.taken + len(keys), self.config.group
        self._keys.append(*self._packed(keys, -1, "k"))
        self._keys.fall(self.rule.low_tokens(tokens))
        waiting = np.concatenate([self._residual, values])
        whole = len(waiting) // size * size
        if whole:
            self._values.append(*self._packed(waiting[:whole], 0, "v"))
            waiting = waiting[whole:].copy()
        self._residual = waiting
        low = self._low_values(tokens)
        self._values.fall(range(low.start, min(low.stop, len(self._values))))

    def _packed(self, words: np.ndarray, axis: int, name: str) -> tuple[BfpTensor, Fewer | None]:
        """Words (tokens, heads, head_dim) at `high` bits, and at `low` where these are not the upper ones."""
        if self.fewer.rounding != "truncate":
            return self._both(words, axis, name)
        return self.units.encode(self.format, words, axis, f"{self.name}.{name}"), None

    def _both(self, words: np.ndarray, axis: int, name: str) -> tuple[BfpTensor, Fewer]:
        """Words (tokens, heads, head_dim) at `high` bits, and at `low`: upper bits, or a rounding conversion."""
        high = self.units.encode(self.format, words, axis, f"{self.name}.{name}")
        if self.fewer.rounding != "truncate":
            low = self.units.encode(self.fewer, words, axis)
            return high, (low.sign, low.mantissa)
        mantissa = high.mantissa >> np.uint16(self.config.high - self.config.low)
        return high, (self.fewer.stored_sign(high.sign, mantissa), mantissa)

    def _chosen(self, high: BfpTensor, low: Fewer, fallen: np.ndarray) -> BfpTensor:
        """Codes (tokens, heads, head_dim) at `high` bits; those of `fallen` tokens at `low`, padded with zeros."""
        rows, shift = fallen[:, None, None], np.uint16(self.config.high - self.config.low)
        sign, mantissa = np.where(rows, low[0], high.sign), np.where(rows, low[1] << shift, high.mantissa)
        return BfpTensor(self.format, sign, mantissa, high.exponent, high.axis)

    def _require(self, words: np.ndarray, name: str) -> None:
        """Raise Refused for infinity and NaN that a conversion rejects, before any change."""
        if ((words & 0x7C00) == 0x7C00).any():
            self.units.encode(self.format, words, name=f"{self.name}.{name}")


class HarmoniaCaches(Caches):
    """The caches of all layers; a mark of them includes what was demoted later."""

    def mark(self) -> list[Place]:
        """Current position of each cache."""
        return [cache.place() for cache in self]

    def rewind(self, tokens: int, mark: list[Place]) -> None:
        """Rewind each cache."""
        for cache, place in zip(self, mark, strict=True):
            cache.rewind(place)


def allocation(config: HarmoniaConfig) -> Allocation:
    """The rule by which tokens and groups are demoted to `low` bits."""
    return Allocation(
        n_initial=config.n_initial, n_local=config.n_local, high=config.high, low=config.low, group=config.group
    )


def offsets(config: HarmoniaConfig, heads: int, head_dim: int) -> Offsets:
    """The rule by which key channels get an offset (D-harmonia-24)."""
    return Offsets(
        channels=heads * head_dim,
        offset_k=config.offset_k,
        offset_scope=config.offset_scope,
        heads=heads,
        offset_sign=config.offset_sign,
    )


def _joined(words: Words, more: Words) -> Words:
    """Concatenate words of tokens."""
    if not len(words[0]):
        return more
    keys, values = (np.concatenate(pair) for pair in zip(words, more, strict=True))
    return keys, values
