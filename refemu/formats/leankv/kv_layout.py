"""The unified page: one region of memory that holds keys, values, metadata, scores and positions of many tokens.

Paper: [leankv §5.2, §6.2, Fig. 6]. Decisions: D-leankv-4 (metadata in a page is fp16), D-leankv-11 (packing),
D-leankv-12 (units of the layouts), D-leankv-13 (size), D-leankv-14 (alignment), D-leankv-15 (score and position).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, first_index, require_int, require_integers, require_range
from refemu.arith.records import parameters
from refemu.formats import hetero_kv, kv_layout
from refemu.formats.affine_tensor import WORD, AffineTensor
from refemu.formats.hetero_kv import HeteroKV


@dataclass(frozen=True, eq=False)
class PageTokens:
    """Tokens as a page keeps them; arrays of one leading shape."""

    key: AffineTensor  #: (..., F)
    value: AffineTensor  #: (..., F)
    score: np.ndarray  #: (...) float32, the accumulated significance
    position: np.ndarray  #: (...) int32


@parameters
class UnifiedPage:
    """Layout of a page for one head size and precision pair. An image is page_bytes / 2 words of 16 bits, uint16.

    A *record* is one token as `record_words` words: key codes, key metadata (scale, zero of each group), value codes,
    value metadata, score and position, low word first. `slot_words[slot]` says where in an image its words stand.
    """

    head_size: int  #: F, features of a key and of a value
    config: HeteroKV  #: or the name of a ready pair
    page_bytes: int | None = None  #: None = `kv_layout.page_bytes(head_size)`
    max_tokens: int | None = None  #: an upper bound on `tokens`
    k_vec: int = 4  #: packs of a key side by side (D-leankv-12: a pack is a word of codes)
    k_group: int = 4  #: threads that share a key, each with packs of its own
    v_vec: int = 2  #: tokens of a value pack side by side
    v_group: int = 8  #: threads that share a value
    align: tuple[int, int] = kv_layout.ALIGN  #: bytes (D-leankv-14)

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", hetero_kv.find(self.config))
        require_int(self.head_size, 1, 1 << 16, "UnifiedPage", "head_size")
        for name in ("k_vec", "k_group", "v_vec", "v_group"):
            require_int(getattr(self, name), 1, 1 << 10, "UnifiedPage", name)
        if self.config.meta != "fp16":
            raise Refused(f"UnifiedPage: metadata must be fp16, got {self.config.meta}")
        self._require_layout()
        if self.page_bytes is None:
            object.__setattr__(self, "page_bytes", kv_layout.page_bytes(self.head_size))
        require_int(self.page_bytes, 2, 1 << 30, "UnifiedPage", "page_bytes")
        if self.max_tokens is not None:
            require_int(self.max_tokens, 1, 1 << 30, "UnifiedPage", "max_tokens")
        if self.size % 2:
            raise Refused(f"UnifiedPage: page_bytes must be even, for words of 16 bits, got {self.size}")
        if not self.tokens:
            raise Refused(
                f"UnifiedPage: a page of {self.size} bytes holds no token of {self._what}, which takes "
                f"{kv_layout.needed(self.head_size, self.config, 1, self.v_vec, self.align)} bytes"
            )

    def _require_layout(self) -> None:
        """Refuse codes that do not divide into words, vectors and groups of the layouts."""
        sides = (
            (
                "key",
                self.config.k_bits,
                self.config.k_groups,
                self.k_vec * self.k_group,
                "Kvec * Kgroup",
                self.k_group,
                "Kgroup",
            ),
            ("value", self.config.v_bits, self.config.v_groups, self.v_group, "Vgroup", self.v_group, "Vgroup"),
        )
        for side, bits, groups, unit, units, members, name in sides:
            packs, rest = divmod(self.head_size * bits, WORD)
            if rest:
                raise Refused(f"{self._what}: {side} codes of {self.head_size * bits} bits are no whole 16-bit packs")
            if packs % unit:
                raise Refused(f"{self._what}: {packs} {side} packs are no multiple of {units} {unit}")
            if groups and members % groups:
                raise Refused(f"{self._what}: {groups} {side} groups do not divide {name} {members}")

    @property
    def _what(self) -> str:
        return f"{self.config.name} at head size {self.head_size}"

    @property
    def size(self) -> int:
        """`page_bytes` as the int that it is after construction."""
        assert self.page_bytes is not None
        return self.page_bytes

    @cached_property
    def tokens(self) -> int:
        """N, the slots of a page: as many as fit, `max_tokens` at most."""
        most = kv_layout.tokens_in(self.head_size, self.config, self.size, self.v_vec, self.align)
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
        return kv_layout.offsets(self.head_size, self.config, self.tokens, self.v_vec, self.align)

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
        for name, count in zip(kv_layout.SEGMENTS, counts, strict=True):
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
        """
        vectors = self.key_packs // (self.k_vec * self.k_group)
        vector, lane = divmod(pack, self.k_vec)
        member, row = divmod(vector, vectors)
        return ((row * self.tokens + token) * self.k_group + member) * self.k_vec + lane

    def value_word(self, token: int, pack: int) -> int:
        """Word of a value pack inside its segment: layout [F/Vgroup, N/Vvec, Vgroup, Vvec] of [leankv §6.2].

        Member j of a group owns features j * F / Vgroup onwards; Vvec tokens stand side by side.
        """
        member, row = divmod(pack, self.value_packs // self.v_group)
        block, lane = divmod(token, self.v_vec)
        rows = kv_layout.up(self.tokens, self.v_vec) * self.v_group
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

    def empty(self, pages: int | None = None) -> np.ndarray:
        """An image of zeros, or (pages, page_bytes / 2) of them."""
        words = self.size // 2
        return np.zeros(words if pages is None else (pages, words), np.uint16)

    def record(self, key: AffineTensor, value: AffineTensor, score: Any = 0.0, position: Any = 0) -> np.ndarray:
        """Records (..., record_words) of tokens: key, value (..., F); score float32 and position int32, (...)."""
        for tensor, bits, groups in (
            (key, self.config.k_bits, self.config.k_groups),
            (value, self.config.v_bits, self.config.v_groups),
        ):
            if (tensor.format.bits, tensor.format.groups, tensor.shape[-1]) != (bits, groups, self.head_size):
                raise Refused(f"{self._what}: a record takes {bits} bits in {groups} groups, got {tensor!r}")
        shape = key.shape[:-1]
        words = (
            key.words(),
            key.metadata(),
            value.words(),
            value.metadata(),
            _halves(np.broadcast_to(np.asarray(score, np.float32), shape)),
            _halves(
                np.broadcast_to(
                    require_range(position, -(1 << 31), 1 << 31, "UnifiedPage.record", "position").astype(np.int32),
                    shape,
                )
            ),
        )
        return np.concatenate(words, axis=-1)

    def tokens_of(self, records: np.ndarray, preset: str = "paper") -> PageTokens:
        """What records (..., record_words) hold, codes read as `preset` defines them."""
        key, key_meta, value, value_meta, score, position = (records[..., part] for part in self.parts.values())
        return PageTokens(
            self.config.key(preset).of_words(key, key_meta),
            self.config.value(preset).of_words(value, value_meta),
            _joined(score).view(np.float32),
            _joined(position).view(np.int32),
        )

    def write(self, image: np.ndarray, slot: Any, record: np.ndarray) -> None:
        """Put records (..., record_words) into slots (...) of `image`; no other word changes. Refuses a bad slot."""
        place = self.slot_words[self.require_slots(slot)]
        words = np.asarray(record)
        if words.dtype != np.uint16 or words.shape != place.shape:
            raise RefusedType(
                f"UnifiedPage.write: records must be uint16 of shape {place.shape}, got {words.dtype} "
                f"of shape {words.shape}"
            )
        self._require_image(image)[place] = words

    def read(self, image: np.ndarray, slot: Any) -> np.ndarray:
        """Records (..., record_words) of slots (...) of `image`, a copy. Refuses a bad slot."""
        return self._require_image(image)[self.slot_words[self.require_slots(slot)]]

    def pack(self, records: np.ndarray) -> np.ndarray:
        """The image whose first slots hold `records` (count, record_words), zeros elsewhere."""
        image = self.empty()
        self.write(image, np.arange(len(records)), np.asarray(records))
        return image

    def unpack(self, image: np.ndarray) -> np.ndarray:
        """Records (N, record_words) of every slot of `image`."""
        return self.read(image, np.arange(self.tokens))

    def score(self, image: np.ndarray) -> np.ndarray:
        """The score segment of `image`, (N,) float32, a copy."""
        return _joined(self._require_image(image)[self.slot_words[:, self.parts["score"]]]).view(np.float32)

    def set_score(self, image: np.ndarray, slot: Any, score: Any) -> None:
        """Write scores (...) of slots (...); no other word changes."""
        place = self.slot_words[self.require_slots(slot)][..., self.parts["score"]]
        self._require_image(image)[place] = _halves(np.broadcast_to(np.asarray(score, np.float32), place.shape[:-1]))

    def position(self, image: np.ndarray) -> np.ndarray:
        """The position segment of `image`, (N,) int32, a copy."""
        return _joined(self._require_image(image)[self.slot_words[:, self.parts["pos"]]]).view(np.int32)

    def to_bytes(self, image: np.ndarray) -> bytes:
        """The page in memory: `page_bytes` bytes, words little-endian."""
        return self._require_image(image).astype("<u2").tobytes()

    def from_bytes(self, data: bytes) -> np.ndarray:
        """The image whose `to_bytes` is `data`."""
        return self._require_image(np.frombuffer(data, "<u2").astype(np.uint16))

    def _require_image(self, image: np.ndarray) -> np.ndarray:
        if image.dtype != np.uint16 or image.shape != (self.size // 2,):
            raise RefusedType(
                f"UnifiedPage: an image must be uint16 of shape ({self.size // 2},), got {image.dtype} "
                f"of shape {image.shape}"
            )
        return image

    def _repr_html_(self) -> str:
        from refemu.formats import kv_page_map  # here, for it is made of pages

        return kv_page_map.to_html(self)

    def require_slots(self, slot: Any) -> np.ndarray:
        """`slot` as integers; refuses the first that the page does not have."""
        slots = require_integers(slot, "UnifiedPage: slot")
        bad = (slots < 0) | (slots >= self.tokens)
        if bad.any():
            raise Refused(
                f"UnifiedPage: slot {int(slots[first_index(bad)])}, page holds {self.tokens} {self.config.name} tokens"
            )
        return slots


def _halves(values: np.ndarray) -> np.ndarray:
    """(..., 2) words of 32-bit values, the low one first."""
    words = values.copy().view(np.uint32)
    return np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=-1).astype(np.uint16)


def _joined(halves: np.ndarray) -> np.ndarray:
    """The inverse of `_halves`: uint32."""
    return halves[..., 0].astype(np.uint32) | halves[..., 1].astype(np.uint32) << np.uint32(16)
