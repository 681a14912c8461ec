"""The byte map names every byte of a page once, and a byte what `slot_words` says."""

import pytest

from refemu.arith.checks import Refused
from refemu.formats import UnifiedPage
from refemu.formats.leankv import kv_page_map

PAGES = [
    UnifiedPage(128, "K8V4"),
    UnifiedPage(128, "K8V2"),
    UnifiedPage(64, "K16V16"),
    UnifiedPage(64, "K8V4", 500),
    UnifiedPage(64, "K8V4", 2304),
]


@pytest.mark.parametrize("page", PAGES)
def test_segments_cover_the_page_once(page: UnifiedPage) -> None:
    rows = kv_page_map.byte_map(page)

    assert [0, *(row.last + 1 for row in rows)] == [*(row.first for row in rows), page.size]
    assert {row.name: row.first for row in rows if row.name != "-"} == {
        name: byte for name, byte in page.offsets.items() if not (name.endswith("meta") and page.config.k_groups == 0)
    }
    assert sum(row.bytes for row in rows) == page.size


@pytest.mark.parametrize(
    ("byte", "meaning"),
    [
        (0, "key of slot 0, pack 0, feature 0"),
        (9, "key of slot 0, pack 16, feature 33"),
        (4096, "key_meta of slot 0, scale of group 0, low byte"),
        (4103, "key_meta of slot 1, zero point of group 0, high byte"),
        (4226, "val of slot 1, pack 0, features 0-1"),
        (6400, "score of slot 0, byte 0 of 4"),
        (6655, "pos of slot 31, byte 3 of 4"),
        (6656, "unused"),
    ],
)
def test_bytes_of_the_page_of_the_paper(byte: int, meaning: str) -> None:
    assert kv_page_map.describe(PAGES[0], byte) == f"byte {byte}: {meaning}"


@pytest.mark.parametrize("page", PAGES)
def test_as_many_bytes_are_used_as_records_have(page: UnifiedPage) -> None:
    used = [byte for byte in range(page.size) if "unused" not in kv_page_map.describe(page, byte)]

    assert len(used) == 2 * page.slot_words.size


def test_a_full_page_has_no_empty_segment() -> None:
    rows = kv_page_map.byte_map(PAGES[4])

    assert (rows[-1].name, rows[-1].last) == ("pos", PAGES[4].size - 1) and all(row.bytes > 0 for row in rows)


def test_sixteen_bits_show_features() -> None:
    assert kv_page_map.describe(PAGES[2], 3) == "byte 3: key of slot 0, feature 1, high byte"


def test_kv_page_map_rejects_bytes_outside() -> None:
    with pytest.raises(Refused, match=r"byte must be in \[0, 6783\], got 6784"):
        kv_page_map.describe(PAGES[0], 6784)
