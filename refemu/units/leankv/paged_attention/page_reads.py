"""Scores and positions of stored tokens, over all pages of the heads' table entries.

Paper: [leankv §5.2]. Slots count the high section first, then the low one.
"""

import numpy as np

from refemu.units.leankv import page_table
from refemu.units.leankv.page_table import HIGH, LOW
from refemu.units.leankv.paged_attention.arithmetic import Pages


def get_scores(
    pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Read scores and positions of stored tokens from their pages. [leankv §5.2]

    images: uint16 (pool, words), pages. cells: (..., L), table entries. lengths: (..., 2), tokens, high and low.
    Returns `scores, positions` uint32 (..., slots): patterns, high section first; zeros after the last token of a head.
    """
    sections = [_segment(pages, images, cells, lengths, section) for section in (HIGH, LOW)]
    wide, slot, high = sections[HIGH].shape[-2], np.arange(most(lengths)), lengths[..., :1]
    at = np.where(slot < high, slot, np.minimum(wide + slot - high, wide + sections[LOW].shape[-2] - 1))
    both = np.take_along_axis(np.concatenate(sections, axis=-2), at[..., None], -2)
    both = np.where((slot < high + lengths[..., 1:])[..., None], both, np.uint32(0))
    return both[..., 0], both[..., 1]


def most(lengths: np.ndarray) -> int:
    """Most slots of a head, at least 2: one lane would have no axis."""
    return max(2, int(np.max(lengths[..., 0] + lengths[..., 1])))


def _segment(pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, section: int) -> np.ndarray:
    """Patterns of score and position of a section's slots, (..., slots, 2) uint32."""
    page = pages.sections[section]
    count = max(1, -(-int(lengths[..., section].max(initial=0)) // page.tokens))
    ids = np.maximum(cells[..., :count] if section == HIGH else cells[..., ::-1][..., :count], 0)
    base = page.offsets["score"] // 2
    words = images[ids, base : base + 4 * page.tokens].astype(np.uint32)
    values = words[..., ::2] | words[..., 1::2] << np.uint32(16)
    pair = values.reshape(*ids.shape, 2, page.tokens).swapaxes(-1, -2)
    return pair.reshape(*ids.shape[:-1], count * page.tokens, 2)


def set_scores(pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, score: np.ndarray) -> None:
    """Write scores of stored tokens back into their pages. [leankv §5.2]

    images: uint16 (pool, words), pages, written in place. cells: (..., L), table entries. lengths: (..., 2), tokens,
    high and low. score: uint32 (..., slots), patterns, in the form of `get_scores`.
    """
    for index in np.ndindex(lengths.shape[:-1]):
        first = 0
        for section, count in enumerate(lengths[index].tolist()):
            page, slots = pages.sections[section], np.arange(count)
            ids, places = page_table.locate(
                np.broadcast_to(cells[index], (count, cells.shape[-1])), section, slots, page.tokens
            )
            words = page.slot_words[places][:, page.parts["score"]]
            values = score[index][first : first + count]
            images[ids[:, None], words] = np.stack([values & np.uint32(0xFFFF), values >> np.uint32(16)], axis=-1)
            first += count
