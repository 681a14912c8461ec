"""Compiled forms of paged_attention/stored.py, over all heads at once. [leankv §5.2]"""

from functools import lru_cache

import numpy as np

from refemu.arith.fp16_compiled import plain
from refemu.arith.jit import kernel
from refemu.units.leankv.paged_attention.arithmetic import Pages
from refemu.units.leankv.paged_attention.heads import most


def get_scores(
    pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As the readable `get_scores`."""
    score, position = (np.empty((*lengths.shape[:-1], most(lengths)), np.uint32) for _ in range(2))
    flat = (array.reshape(-1, array.shape[-1]) for array in (score, position))
    gather(images, *_heads(cells, lengths), sections_of(pages), *flat)
    return score, position


def set_scores(pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, score: np.ndarray) -> None:
    """As the readable `set_scores`."""
    _scatter(images, *_heads(cells, lengths), sections_of(pages), plain(score).reshape(-1, score.shape[-1]))


def _heads(cells: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (
        plain(cells.astype(np.int32, copy=False)).reshape(-1, cells.shape[-1]),
        plain(lengths.astype(np.int64, copy=False)).reshape(-1, 2),
    )


@lru_cache(maxsize=32)
def sections_of(pages: Pages) -> np.ndarray:
    """(2, 3): tokens of a page, first words of scores and of positions."""
    return np.array(
        [(page.tokens, page.offsets["score"] // 2, page.offsets["pos"] // 2) for page in pages.sections], np.int64
    )


@kernel
def gather(images, cells, lengths, sections, score, position):  # type: ignore[no-untyped-def]
    """score, position (U, slots) <- those of the tokens (U, 2) in the pages of entries (U, L), zero-padded."""
    for u in range(cells.shape[0]):
        at = np.int64(0)
        for s in range(2):
            tokens = sections[s, 0]
            for first in range(0, lengths[u, s], tokens):
                cell = first // tokens
                image = images[cells[u, cell + s * (cells.shape[1] - 1 - 2 * cell)]]
                for i in range(min(tokens, lengths[u, s] - first)):
                    word, place = sections[s, 1] + 2 * i, sections[s, 2] + 2 * i
                    score[u, at] = np.uint32(image[word]) | (np.uint32(image[word + 1]) << np.uint32(16))
                    position[u, at] = np.uint32(image[place]) | (np.uint32(image[place + 1]) << np.uint32(16))
                    at += 1
        for i in range(at, score.shape[1]):
            score[u, i], position[u, i] = np.uint32(0), np.uint32(0)


@kernel
def _scatter(images, cells, lengths, sections, score):  # type: ignore[no-untyped-def]
    for u in range(cells.shape[0]):
        at = np.int64(0)
        for s in range(2):
            tokens = sections[s, 0]
            for index in range(lengths[u, s]):
                cell, word = index // tokens, sections[s, 1] + 2 * (index % tokens)
                image = images[cells[u, cell + s * (cells.shape[1] - 1 - 2 * cell)]]
                image[word] = np.uint16(score[u, at] & np.uint32(0xFFFF))
                image[word + 1] = np.uint16(score[u, at] >> np.uint32(16))
                at += 1
