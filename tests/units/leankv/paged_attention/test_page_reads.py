"""Scores and positions over the pages of table entries: what was written comes back, and both forms agree."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import prng
from refemu.formats import K4V2, K8V4, UnifiedPage
from refemu.units.leankv import page_table
from refemu.units.leankv.paged_attention import heads as page_reads
from refemu.units.leankv.paged_attention.arithmetic import Pages
from refemu.units.leankv.paged_attention.compiled import page_reads as page_reads_compiled

PAGES = Pages(UnifiedPage(64, K8V4, 640), UnifiedPage(64, K4V2, 640))
HIGH, LOW = (page.tokens for page in PAGES.sections)
modules = pytest.mark.parametrize("module", [page_reads, page_reads_compiled], ids=["unit", "compiled"])


def pool() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images of rubbish, entries (2, 3, L) without a page twice, lengths: full pages, one token, an empty section."""
    lengths = np.array([[[HIGH, 1], [1, 0], [2 * HIGH + 1, LOW]], [[3, 2 * LOW], [HIGH - 1, 0], [1, 1]]])
    cells = np.argsort(prng.words(1, 0, 6 * 5), kind="stable").astype(np.int32).reshape(2, 3, 5)
    words = prng.words(2, 0, 30 * PAGES.high.size // 2) & np.uint64(0xFFFF)
    return words.astype(np.uint16).reshape(30, -1), cells, lengths


def tokens(images: np.ndarray, cells: np.ndarray, lengths: np.ndarray) -> list[tuple[int, int]]:
    """(score, position) patterns of one head, token by token through the pages themselves."""
    found = []
    for section, count in enumerate(lengths.tolist()):
        page = PAGES.sections[section]
        for slot in range(count):
            ids, places = page_table.locate(cells[None], section, np.array([slot]), page.tokens)
            score, position = (read(images[ids[0]]).view(np.uint32)[places[0]] for read in (page.score, page.position))
            found.append((int(score), int(position)))
    return found


@modules
def test_heads_have_ordered_tokens_and_zero_padding(module: Any) -> None:
    images, cells, lengths = pool()

    score, position = module.get_scores(PAGES, images, cells, lengths)

    assert score.shape == (2, 3, lengths.sum(axis=-1).max())
    for index in np.ndindex(2, 3):
        own = tokens(images, cells[index], lengths[index])
        pairs = list(zip(score[index].tolist(), position[index].tolist(), strict=True))
        assert pairs == own + [(0, 0)] * (len(pairs) - len(own))


@modules
def test_scores_go_back_to_where_they_came_from(module: Any) -> None:
    """And no other word changes."""
    images, cells, lengths = pool()
    score, _ = module.get_scores(PAGES, images, cells, lengths)
    before = images.copy()
    module.set_scores(PAGES, images, cells, lengths, score ^ np.uint32(0x5A5A_A5A5))
    changed, _ = module.get_scores(PAGES, images, cells, lengths)

    used = np.arange(score.shape[-1]) < lengths.sum(axis=-1)[..., None]
    assert np.array_equal(changed, np.where(used, score ^ np.uint32(0x5A5A_A5A5), 0))
    assert np.count_nonzero(images != before) == 2 * lengths.sum()
    module.set_scores(PAGES, images, cells, lengths, score)
    assert np.array_equal(images, before)


@modules
def test_one_lane_is_two(module: Any) -> None:
    images, cells, _ = pool()
    score, _ = module.get_scores(PAGES, images, cells[:1, :1], np.array([[[1, 0]]]))

    assert score.shape == (1, 1, 2) and score[0, 0, 1] == 0
