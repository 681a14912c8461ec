"""Compiled forms of `UnifiedPage.write` and `.read`, for one image or for slots of many. Read kv_page.py first.

Paper: [leankv §5.2, §6.2]. The layout enters as `slot_words`, made once per page format: moving records by the loops
of the layouts themselves was four times slower.
"""

import functools
from typing import Any

import numpy as np

from refemu.arith.checks import RefusedType, require_range
from refemu.arith.jit import kernel
from refemu.formats.leankv.kv_page import UnifiedPage


def write(page: UnifiedPage, images: np.ndarray, pages: Any, slots: Any, records: np.ndarray) -> None:
    """Put records (count, record_words) into slots (count,) of images[pages] (count,); no other word changes.

    images: (pages, page_bytes / 2) uint16, written in place. Raises like `UnifiedPage.write`.
    """
    places = _places(page, images, pages, slots)
    if records.dtype != np.uint16 or records.shape != (len(places), page.record_words):
        raise RefusedType(
            f"UnifiedPage.write: records must be uint16 of shape {(len(places), page.record_words)}, got "
            f"{records.dtype} of shape {records.shape}"
        )
    _scatter(images, places, _table(page), np.ascontiguousarray(records))


def read(page: UnifiedPage, images: np.ndarray, pages: Any, slots: Any) -> np.ndarray:
    """Records (count, record_words) of slots (count,) of images[pages] (count,)."""
    places = _places(page, images, pages, slots)
    records = np.empty((len(places), page.record_words), np.uint16)
    _gather(images, places, _table(page), records)
    return records


def unpack(page: UnifiedPage, image: np.ndarray) -> np.ndarray:
    """`page.unpack(image)`: records (N, record_words)."""
    return read(page, image[None], np.zeros(page.tokens, np.int64), np.arange(page.tokens))


def pack(page: UnifiedPage, records: np.ndarray) -> np.ndarray:
    """`page.pack(records)`: the image whose first slots hold them."""
    images = page.empty(1)
    write(page, images, np.zeros(len(records), np.int64), np.arange(len(records)), records)
    return images[0]


def _places(page: UnifiedPage, images: np.ndarray, pages: Any, slots: Any) -> np.ndarray:
    """(count, 2) image and slot of every record, checked."""
    if (
        images.dtype != np.uint16
        or images.ndim != 2
        or images.shape[1] != page.size // 2
        or not images.flags.c_contiguous
    ):
        raise RefusedType(
            f"UnifiedPage: images must be contiguous uint16 of shape (pages, {page.size // 2}), got "
            f"{images.dtype} of shape {images.shape}"
        )
    ids, slot = np.broadcast_arrays(
        require_range(pages, 0, len(images), "UnifiedPage", "page"), page.require_slots(slots)
    )
    return np.stack([ids, slot], axis=-1).astype(np.int64)


@functools.lru_cache(maxsize=32)
def _table(page: UnifiedPage) -> np.ndarray:
    """`page.slot_words` in an array that a kernel may be given: writable."""
    return page.slot_words.copy()


@kernel
def _scatter(images, places, table, records):  # type: ignore[no-untyped-def]
    for i in range(places.shape[0]):
        image, words, record = images[places[i, 0]], table[places[i, 1]], records[i]
        for w in range(record.size):
            image[words[w]] = record[w]


@kernel
def _gather(images, places, table, records):  # type: ignore[no-untyped-def]
    for i in range(places.shape[0]):
        image, words, record = images[places[i, 0]], table[places[i, 1]], records[i]
        for w in range(record.size):
            record[w] = image[words[w]]
