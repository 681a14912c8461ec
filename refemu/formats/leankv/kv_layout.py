"""Layout of a page: start of its segments, number of tokens, size, and the place of every word.

Paper: [leankv §5.2, §6.2, Fig. 6]. Decisions: D-leankv-4 (metadata in a page is fp16), D-leankv-12 (units of the
layouts), D-leankv-13 (size of a page), D-leankv-14 (alignment).
"""

import functools
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property

import numpy as np

from refemu.arith.checks import Refused, require_int
from refemu.arith.records import parameters, plain_fields
from refemu.formats.leankv import hetero_kv
from refemu.formats.leankv.affine import WORD
from refemu.formats.leankv.hetero_kv import K4V2, K4V2_G24, K8V4, K8V4_G12, POSITION_BYTES, SCORE_BYTES, HeteroKV

ALIGN = (32, 128)  #: bytes: of the parts of a page; of its values and its end (D-leankv-14)
SEARCHED = range(800, 8001, 32)  #: sizes of a page in bytes that `page_bytes` chooses from
WEIGHED = (K8V4_G12, K8V4, K4V2_G24, K4V2)  #: pairs whose worst waste it makes least
SEGMENTS = ("key", "key_meta", "val", "val_meta", "score", "pos")  #: in the order of their addresses


def up(value: int, unit: int) -> int:
    """`value` rounded up to a multiple of `unit`."""
    return -(-value // unit) * unit


def offsets(
    head_size: int, pair: HeteroKV, tokens: int, v_vec: int = 2, align: tuple[int, int] = ALIGN
) -> dict[str, int]:
    """First byte of every segment of a page of `tokens` tokens, and `end`, the byte after the last position.

    Values take space for a multiple of `v_vec` tokens, keys never do; score and position are one block, whose second
    half is not aligned. `pair` has fp16 metadata.
    """
    small, large = align
    key_meta = up(tokens * head_size * pair.k_bits // 8, small)
    val = up(key_meta + 4 * tokens * pair.k_groups, large)
    val_meta = val + up(up(tokens, v_vec) * head_size * pair.v_bits // 8, small)
    score = val_meta + up(4 * tokens * pair.v_groups, small)
    pos = score + SCORE_BYTES * tokens
    return dict(
        zip((*SEGMENTS, "end"), (0, key_meta, val, val_meta, score, pos, pos + POSITION_BYTES * tokens), strict=True)
    )


def needed(head_size: int, pair: HeteroKV, tokens: int, v_vec: int = 2, align: tuple[int, int] = ALIGN) -> int:
    """Bytes of a page of `tokens` tokens."""
    score = offsets(head_size, pair, tokens, v_vec, align)["score"]
    return up(score + up((SCORE_BYTES + POSITION_BYTES) * tokens, align[0]), align[1])


def tokens_in(head_size: int, pair: HeteroKV, size: int, v_vec: int = 2, align: tuple[int, int] = ALIGN) -> int:
    """Most tokens that a page of `size` bytes takes, 0 if not even one fits."""
    tokens = size // pair.token_bytes(head_size)
    while tokens and needed(head_size, pair, tokens, v_vec, align) > size:
        tokens -= 1
    return tokens


@functools.cache
def page_bytes(head_size: int) -> int:
    """The smallest of SEARCHED whose worst share of unused bytes over WEIGHED is least (D-leankv-13)."""
    if head_size < 1 or head_size * 2 % 16:
        raise Refused(f"page_bytes: head size must be a positive multiple of 8, got {head_size}")
    return min(SEARCHED, key=lambda size: (waste(head_size, size), size))


def waste(head_size: int, size: int) -> Fraction:
    """Share of a page of `size` bytes that no token's bytes fill, the worst of WEIGHED."""
    return max(1 - Fraction(tokens_in(head_size, pair, size) * pair.token_bytes(head_size), size) for pair in WEIGHED)


@parameters
class PageLayout:
    """Layout of a page: the place of every word of every token, for one head size and precision pair.

    A *record* is one token as `record_words` words: key codes, key metadata (scale, zero of each group), value codes,
    value metadata, score and position, low word first. `slot_words[slot]` gives the positions of its words in an image.
    """

    head_size: int  #: F, features of a key and of a value
    config: HeteroKV  #: or the name of a ready pair
    page_bytes: int | None = None  #: None = `kv_layout.page_bytes(head_size)`
    max_tokens: int | None = None  #: an upper bound on `tokens`
    k_vec: int = 4  #: packs of a key side by side (D-leankv-12: a pack is a word of codes)
    k_group: int = 4  #: threads that share a key, each with packs of its own
    v_vec: int = 2  #: tokens of a value pack side by side
    v_group: int = 8  #: threads that share a value
    align: tuple[int, int] = ALIGN  #: bytes (D-leankv-14)

    def __post_init__(self) -> None:
        plain_fields(self)
        object.__setattr__(self, "config", hetero_kv.find(self.config))
        require_int(self.head_size, 1, 1 << 16, "UnifiedPage", "head_size")
        for name in ("k_vec", "k_group", "v_vec", "v_group"):
            require_int(getattr(self, name), 1, 1 << 10, "UnifiedPage", name)
        if self.config.meta != "fp16":
            raise Refused(f"UnifiedPage: metadata must be fp16, got {self.config.meta}")
        self._require_layout()
        if self.page_bytes is None:
            object.__setattr__(self, "page_bytes", page_bytes(self.head_size))
        require_int(self.page_bytes, 2, 1 << 30, "UnifiedPage", "page_bytes")
        if self.max_tokens is not None:
            require_int(self.max_tokens, 1, 1 << 30, "UnifiedPage", "max_tokens")
        if self.size % 2:
            raise Refused(f"UnifiedPage: page_bytes must be even, for words of 16 bits, got {self.size}")
        if not self.tokens:
            raise Refused(
                f"UnifiedPage: a page of {self.size} bytes holds no token of {self._what}, which takes "
                f"{needed(self.head_size, self.config, 1, self.v_vec, self.align)} bytes"
            )

    def _require_layout(self) -> None:
        """Reject codes that do not divide into words, vectors and groups of the layouts."""
        unit, config = self.k_vec * self.k_group, self.config
        sides = (
            ("key", config.k_bits, config.k_groups, unit, "Kvec * Kgroup", self.k_group, "Kgroup"),
            ("value", config.v_bits, config.v_groups, self.v_group, "Vgroup", self.v_group, "Vgroup"),
        )
        for side, bits, groups, unit, units, members, name in sides:
            packs, rest = divmod(self.head_size * bits, WORD)
            if rest:
                raise Refused(f"{self._what}: {side} codes must fill 16-bit words, got {self.head_size * bits} bits")
            if packs % unit:
                raise Refused(
                    f"{self._what}: 16-bit words per {side} must be a multiple of {units} = {unit}, got {packs}"
                )
            if groups and members % groups:
                raise Refused(f"{self._what}: {groups} {side} groups do not divide {name} {members}")

    @property
    def _what(self) -> str:
        return f"{self.config.name} at head size {self.head_size}"

    @property
    def size(self) -> int:
        """Bytes of a page, `page_bytes` as an int."""
        assert self.page_bytes is not None
        return self.page_bytes

    @cached_property
    def tokens(self) -> int:
        """N, the slots of a page: as many as fit, `max_tokens` at most."""
        most = tokens_in(self.head_size, self.config, self.size, self.v_vec, self.align)
        return most if self.max_tokens is None else min(most, self.max_tokens)

    @cached_property
    def offsets(self) -> Mapping[str, int]:
        """First byte of key, key_meta, val, val_meta, score, pos; they do not overlap."""
        return {name: byte for name, byte in self._bounds.items() if name != "end"}

    @property
    def end(self) -> int:
        """The byte after the last position."""
        return self._bounds["end"]

    @cached_property
    def _bounds(self) -> dict[str, int]:
        return offsets(self.head_size, self.config, self.tokens, self.v_vec, self.align)

    @property
    def key_packs(self) -> int:
        """P, words of the codes of a key."""
        return self.head_size * self.config.k_bits // WORD

    @property
    def value_packs(self) -> int:
        """Pv, words of the codes of a value."""
        return self.head_size * self.config.v_bits // WORD

    @cached_property
    def parts(self) -> Mapping[str, slice]:
        """Words of a record by segment."""
        counts = (self.key_packs, 2 * self.config.k_groups, self.value_packs, 2 * self.config.v_groups, 2, 2)
        parts, start = {}, 0
        for name, count in zip(SEGMENTS, counts, strict=True):
            parts[name] = slice(start, start + count)
            start += count
        return parts

    @property
    def record_words(self) -> int:
        """Words of one token."""
        return self.parts["pos"].stop

    def key_word(self, token: int, pack: int) -> int:
        """Word of a key pack inside its segment: layout [F/(Kvec*Kgroup), N, Kgroup, Kvec] of [leankv §6.2].

        Member g of a group of threads owns features g * F / Kgroup onwards, in vectors of Kvec packs.

        Parameters
        ----------
        token : int
            Slot of the token.
        pack : int
            Word of the token's key codes.

        Returns
        -------
        int
            Word of the segment.
        """
        vectors = self.key_packs // (self.k_vec * self.k_group)
        vector, lane = divmod(pack, self.k_vec)
        member, row = divmod(vector, vectors)
        return ((row * self.tokens + token) * self.k_group + member) * self.k_vec + lane

    def value_word(self, token: int, pack: int) -> int:
        """Word of a value pack inside its segment: layout [F/Vgroup, N/Vvec, Vgroup, Vvec] of [leankv §6.2].

        Member j of a group owns features j * F / Vgroup onwards; Vvec tokens are adjacent.

        Parameters
        ----------
        token : int
            Slot of the token.
        pack : int
            Word of the token's value codes.

        Returns
        -------
        int
            Word of the segment.
        """
        member, row = divmod(pack, self.value_packs // self.v_group)
        block, lane = divmod(token, self.v_vec)
        rows = up(self.tokens, self.v_vec) * self.v_group
        return row * rows + (block * self.v_group + member) * self.v_vec + lane

    @cached_property
    def slot_words(self) -> np.ndarray:
        """(N, record_words) int64, read-only: index in an image of every word of every slot."""
        base = {name: byte // 2 for name, byte in self.offsets.items()}
        table = np.array(
            [
                [
                    *(base["key"] + self.key_word(slot, i) for i in range(self.key_packs)),
                    *self._plain("key_meta", slot),
                    *(base["val"] + self.value_word(slot, i) for i in range(self.value_packs)),
                    *self._plain("val_meta", slot),
                    *self._plain("score", slot),
                    *self._plain("pos", slot),
                ]
                for slot in range(self.tokens)
            ],
            np.int64,
        )
        table.flags.writeable = False
        return table

    def _plain(self, segment: str, slot: int) -> range:
        """Words of a slot in a segment that keeps tokens one after the other."""
        part = self.parts[segment]
        count = part.stop - part.start
        first = self.offsets[segment] // 2 + slot * count
        return range(first, first + count)
