"""Blocks of threads: reads by warp, occupancy and conflicts, by hand and by the oracle of the loads."""

import numpy as np
import pytest

from refemu.formats.leankv.hetero_kv import K4V2, K8V4
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.models.schemes.leankv.machine.warps import Multiprocessor, balance, bank_conflicts, occupancy, reads
from refemu.units.leankv.paged_attention import PAPER, Arithmetic, Pages, traffic

PAGES = Pages(UnifiedPage(128, K8V4), UnifiedPage(128, K4V2))


def test_warps_take_pages_of_a_section_in_turn() -> None:
    """70 high tokens are pages of 32, 32, 6; 61 low ones 60 and 1; two warps."""
    entry = [5, 9, 2, -1, -1, 7, 3]
    one, two = reads(PAGES, entry, 70, 61, 2)

    assert (one.pages, one.tokens, two.pages, two.tokens) == (3, 32 + 6 + 60, 2, 32 + 1)
    assert (one.expansions, two.expansions) == (2 * 128 * one.tokens, 2 * 128 * two.tokens)
    held = {5: (PAGES.high, 32), 9: (PAGES.high, 32), 2: (PAGES.high, 6), 3: (PAGES.low, 60), 7: (PAGES.low, 1)}
    for warp, ids in ((one, (5, 2, 3)), (two, (9, 7))):
        counts = [traffic(page, tokens, base=page.size * id).values() for id in ids for page, tokens in [held[id]]]
        assert warp.loads == sum(each.loads for parts in counts for each in parts)
        assert warp.sectors == sum(each.sectors for parts in counts for each in parts)


def test_idle_warps_lower_the_balance() -> None:
    sectors = [each.sectors for each in reads(PAGES, [0, 1, 2, 3], 64, 0, 8)]

    assert sectors.count(0) == 6 and balance(sectors) == pytest.approx(0.25)
    assert balance([0, 0]) == 1.0 and balance([3, 3, 3]) == 1.0


def test_occupancy_by_hand() -> None:
    """D-leankv-72: 8 warps, 1,024 tokens, one query head of 128: 256 + 4,096 + 64 bytes; 16 + 16 registers."""
    found = occupancy(PAGES, PAPER, 1, 1024)

    assert (found.threads, found.shared, found.registers) == (256, 256 + 4096 + 64, 32)
    assert (found.blocks, found.bound, found.share) == (6, "threads", 1.0)
    long = occupancy(PAGES, PAPER, 4, 4096)
    assert (long.blocks, long.bound) == ((100 << 10) // (1024 + 65536 + 256 + 1024), "shared")
    few = Multiprocessor(registers=256 * 32 * 2)
    assert (occupancy(PAGES, PAPER, 1, 1024, few).blocks, occupancy(PAGES, PAPER, 1, 1024, few).bound) == (
        2,
        "registers",
    )
    assert occupancy(PAGES, Arithmetic(warps=1), 1, 16).bound == "blocks"


def test_bank_conflicts_are_those_of_all_threads() -> None:
    """Words of 4 bytes in 32 banks, thread by thread: queries of fp16, everything else float32."""
    queries = [lane % 4 * 32 // 2 for lane in range(32)]
    accumulators = [lane % 8 * 16 for lane in range(32)]
    expected = {}
    for name, words in (("queries", queries), ("accumulators", accumulators)):
        expected[name] = max(len({word for word in words if word % 32 == bank}) for bank in range(32))

    assert bank_conflicts(PAGES, PAPER) == {**expected, "logits": 1, "probabilities": 1}
    assert (expected["queries"], expected["accumulators"]) == (2, 4)
    assert bank_conflicts(PAGES, Arithmetic(key_threads=32))["queries"] == 2  # words 0, 2, 4, ..., 62
    assert np.all(np.array(list(bank_conflicts(PAGES, Arithmetic(value_slots=16)).values())) >= 1)
