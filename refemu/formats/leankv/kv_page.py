"""The unified page: one region of memory that holds keys, values, metadata, scores and positions of many tokens.

Paper: [leankv §5.2, §6.2, Fig. 6]. Decisions: D-leankv-11 (packing), D-leankv-15 (score and position); those of the
layout are in kv_layout.py.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, first_index, require_integers, require_range
from refemu.formats.leankv import kv_page_map
from refemu.formats.leankv.affine import AffineTensor, Preset
from refemu.formats.leankv.kv_layout import PageLayout


@dataclass(frozen=True, eq=False)
class PageTokens:
    """Tokens as a page keeps them; arrays of one leading shape."""

    key: AffineTensor  #: (..., F)
    value: AffineTensor  #: (..., F)
    score: np.ndarray  #: (...) float32, the accumulated significance
    position: np.ndarray  #: (...) int32


@dataclass(frozen=True)
class UnifiedPage(PageLayout):
    """Pages of one layout: an image of a page is page_bytes / 2 words of 16 bits, uint16.

    A *record* is one token as `record_words` words: key codes, key metadata (scale, zero of each group), value codes,
    value metadata, score and position, low word first. `slot_words[slot]` gives the positions of its words in an image.

    References
    ----------
    [leankv §5.2, §6.2, Fig. 6]
    """

    def empty(self, pages: int | None = None) -> np.ndarray:
        """Make images of zeros.

        Parameters
        ----------
        pages : int, optional
            Number of images; by default one, without an axis of pages.

        Returns
        -------
        ndarray of uint16 (page_bytes / 2,) or (pages, page_bytes / 2)
            Images.
        """
        words = self.size // 2
        return np.zeros(words if pages is None else (pages, words), np.uint16)

    def record(
        self, key: AffineTensor, value: AffineTensor, score: ArrayLike = 0.0, position: ArrayLike = 0
    ) -> np.ndarray:
        """Make records of tokens.

        Parameters
        ----------
        key, value : AffineTensor (..., F)
            Encoded vectors, of the page's widths and groups.
        score : array_like of float32 (...)
            Significance.
        position : array_like of integers (...)
            Positions, int32.

        Returns
        -------
        ndarray of uint16 (..., record_words)
            Records.

        Raises
        ------
        Refused
            A vector has other widths, groups or features, or a position no 32 bits.
        """
        for tensor, bits, groups in (
            (key, self.config.k_bits, self.config.k_groups),
            (value, self.config.v_bits, self.config.v_groups),
        ):
            if (tensor.format.bits, tensor.format.groups, tensor.shape[-1]) != (bits, groups, self.head_size):
                raise Refused(f"{self._what}: a record takes {bits} bits in {groups} groups, got {tensor!r}")
        return self.record_of((key.words(), key.metadata()), (value.words(), value.metadata()), score, position)

    def record_of(
        self,
        key: tuple[np.ndarray, np.ndarray],
        value: tuple[np.ndarray, np.ndarray],
        score: ArrayLike = 0.0,
        position: ArrayLike = 0,
    ) -> np.ndarray:
        """Make records of vectors that are words already.

        Parameters
        ----------
        key, value : tuple of 2 ndarray of uint16 (..., words)
            Packed codes and metadata, as `AffineTensor.words` and `metadata` give them; widths are not checked.
        score : array_like of float32 (...)
            Significance.
        position : array_like of integers (...)
            Positions, int32.

        Returns
        -------
        ndarray of uint16 (..., record_words)
            Records.

        Raises
        ------
        Refused
            A position does not fit 32 bits.
        """
        shape = key[0].shape[:-1]
        places = require_range(position, -(1 << 31), 1 << 31, "UnifiedPage.record", "position").astype(np.int32)
        scores = np.asarray(score, np.float32)
        halves = (_halves(np.broadcast_to(words, shape)) for words in (scores, places))
        return np.concatenate([*key, *value, *halves], axis=-1)

    def tokens_of(self, records: np.ndarray, preset: Preset = "paper") -> PageTokens:
        """Read records, codes as `preset` defines them.

        Parameters
        ----------
        records : ndarray of uint16 (..., record_words)
            Records.
        preset : {"paper", "diffkv"}
            Preset of the codes.

        Returns
        -------
        PageTokens
            Keys, values, scores and positions.
        """
        key, key_meta, value, value_meta, score, position = (records[..., part] for part in self.parts.values())
        return PageTokens(
            self.config.key(preset).of_words(key, key_meta),
            self.config.value(preset).of_words(value, value_meta),
            _joined(score).view(np.float32),
            _joined(position).view(np.int32),
        )

    def write(self, image: np.ndarray, slot: ArrayLike, record: np.ndarray) -> None:
        """Write records into slots of an image; no other word changes.

        Parameters
        ----------
        image : ndarray of uint16 (page_bytes / 2,)
            Page, written in place.
        slot : array_like of integers (...)
            Slots.
        record : ndarray of uint16 (..., record_words)
            Records.

        Raises
        ------
        Refused
            A slot that the page does not have.
        RefusedType
            A dtype or shape is wrong.
        """
        place = self.slot_words[self.require_slots(slot)]
        words = np.asarray(record)
        if words.dtype != np.uint16 or words.shape != place.shape:
            raise RefusedType(
                f"UnifiedPage.write: records must be uint16 of shape {place.shape}, got {words.dtype} "
                f"of shape {words.shape}"
            )
        self._require_image(image)[place] = words

    def read(self, image: np.ndarray, slot: ArrayLike) -> np.ndarray:
        """Read records of slots of an image, as a copy.

        Parameters
        ----------
        image : ndarray of uint16 (page_bytes / 2,)
            Page.
        slot : array_like of integers (...)
            Slots.

        Returns
        -------
        ndarray of uint16 (..., record_words)
            Records.

        Raises
        ------
        Refused
            A slot that the page does not have.
        RefusedType
            A dtype or shape is wrong.
        """
        return self._require_image(image)[self.slot_words[self.require_slots(slot)]]

    def pack(self, records: np.ndarray) -> np.ndarray:
        """Make the image whose first slots hold records, zeros elsewhere.

        Parameters
        ----------
        records : ndarray of uint16 (count, record_words)
            Records.

        Returns
        -------
        ndarray of uint16 (page_bytes / 2,)
            Image.

        Raises
        ------
        Refused
            More records than slots.
        """
        image = self.empty()
        self.write(image, np.arange(len(records)), np.asarray(records))
        return image

    def unpack(self, image: np.ndarray) -> np.ndarray:
        """Read the records of every slot of an image.

        Parameters
        ----------
        image : ndarray of uint16 (page_bytes / 2,)
            Page.

        Returns
        -------
        ndarray of uint16 (N, record_words)
            Records.
        """
        return self.read(image, np.arange(self.tokens))

    def score(self, image: np.ndarray) -> np.ndarray:
        """Read the score segment of an image, as a copy.

        Parameters
        ----------
        image : ndarray of uint16 (page_bytes / 2,)
            Page.

        Returns
        -------
        ndarray of float32 (N,)
            Scores.
        """
        return _joined(self._require_image(image)[self.slot_words[:, self.parts["score"]]]).view(np.float32)

    def set_score(self, image: np.ndarray, slot: ArrayLike, score: ArrayLike) -> None:
        """Write scores of slots; no other word changes.

        Parameters
        ----------
        image : ndarray of uint16 (page_bytes / 2,)
            Page, written in place.
        slot : array_like of integers (...)
            Slots.
        score : array_like of float32 (...)
            Scores.

        Raises
        ------
        Refused
            A slot that the page does not have.
        """
        place = self.slot_words[self.require_slots(slot)][..., self.parts["score"]]
        self._require_image(image)[place] = _halves(np.broadcast_to(np.asarray(score, np.float32), place.shape[:-1]))

    def position(self, image: np.ndarray) -> np.ndarray:
        """Read the position segment of an image, as a copy.

        Parameters
        ----------
        image : ndarray of uint16 (page_bytes / 2,)
            Page.

        Returns
        -------
        ndarray of int32 (N,)
            Positions.
        """
        return _joined(self._require_image(image)[self.slot_words[:, self.parts["pos"]]]).view(np.int32)

    def to_bytes(self, image: np.ndarray) -> bytes:
        """Convert an image to memory, words little-endian.

        Parameters
        ----------
        image : ndarray of uint16 (page_bytes / 2,)
            Page.

        Returns
        -------
        bytes
            `page_bytes` bytes.
        """
        return self._require_image(image).astype("<u2").tobytes()

    def from_bytes(self, data: bytes) -> np.ndarray:
        """Read the image whose `to_bytes` is given.

        Parameters
        ----------
        data : bytes
            `page_bytes` bytes.

        Returns
        -------
        ndarray of uint16 (page_bytes / 2,)
            Image.

        Raises
        ------
        RefusedType
            A wrong number of bytes.
        """
        return self._require_image(np.frombuffer(data, "<u2").astype(np.uint16))

    def _require_image(self, image: np.ndarray) -> np.ndarray:
        if image.dtype != np.uint16 or image.shape != (self.size // 2,):
            raise RefusedType(
                f"UnifiedPage: an image must be uint16 of shape ({self.size // 2},), got {image.dtype} "
                f"of shape {image.shape}"
            )
        return image

    def _repr_html_(self) -> str:
        return kv_page_map.to_html(self)

    def require_slots(self, slot: ArrayLike) -> np.ndarray:
        """Check slots.

        Parameters
        ----------
        slot : array_like of integers
            Slots.

        Returns
        -------
        ndarray of integers
            The same slots.

        Raises
        ------
        Refused
            A slot that the page does not have.
        RefusedType
            Another dtype.
        """
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
