"""Map of a page for people: the bytes of every segment, or every byte. [leankv §5.2, §6.2]"""

from dataclasses import dataclass

import numpy as np

from refemu.arith.checks import require_int
from refemu.formats import html
from refemu.formats.leankv.affine import WORD
from refemu.formats.leankv.kv_layout import PageLayout


@dataclass(frozen=True)
class Segment:
    """Bytes [first, last] of a page."""

    name: str  #: of the segment, or "-" for bytes that hold nothing
    first: int
    last: int
    meaning: str

    @property
    def bytes(self) -> int:
        """How many."""
        return self.last - self.first + 1


def byte_map(page: PageLayout) -> list[Segment]:
    """Every byte of the page once, in the order of the addresses."""
    used = {
        "key": page.tokens * page.key_packs * 2,
        "key_meta": 4 * page.tokens * page.config.k_groups,
        "val": -(-page.tokens // page.v_vec) * page.v_vec * page.value_packs * 2,
        "val_meta": 4 * page.tokens * page.config.v_groups,
        "score": 4 * page.tokens,
        "pos": 4 * page.tokens,
    }
    rows, at = [], 0
    for name, first in page.offsets.items():
        if first > at:
            rows.append(Segment("-", at, first - 1, "unused"))
        if used[name]:
            rows.append(Segment(name, first, first + used[name] - 1, _meaning(page, name)))
        at = first + used[name]
    return [*rows, Segment("-", at, page.size - 1, "unused")] if at < page.size else rows


def to_html(page: PageLayout) -> str:
    """The bytes of the page as a table and a drawing."""
    rows = byte_map(page)
    title = f"UnifiedPage: {page.size} bytes, {page.tokens} {page.config.name} tokens of head size {page.head_size}"
    return html.table(
        title,
        ("segment", "bytes", "first", "last", "meaning"),
        [(row.name, row.bytes, row.first, row.last, row.meaning) for row in rows],
    ) + html.drawing("refemu.draw.leankv.page:page", page)


def _meaning(page: PageLayout, name: str) -> str:
    vectors = page.key_packs // (page.k_vec * page.k_group)
    blocks, rows = -(-page.tokens // page.v_vec), page.value_packs // page.v_group
    metadata = "fp16 scale and zero point of each token, groups: {}"
    return {
        "key": f"keys, {page.config.k_bits} bits: words [{vectors}, {page.tokens}, {page.k_group}, {page.k_vec}] = "
        "[vector, token, group, lane]",
        "key_meta": metadata.format(page.config.k_groups),
        "val": f"values, {page.config.v_bits} bits: words [{rows}, {blocks}, {page.v_group}, {page.v_vec}] = "
        "[row, token block, group, token]",
        "val_meta": metadata.format(page.config.v_groups),
        "score": "fp32 score of each token",
        "pos": "int32 position of each token",
    }[name]


def describe(page: PageLayout, byte: int) -> str:
    """One line: the token, and the features, metadata, score or position, that a byte of the page belongs to."""
    require_int(byte, 0, page.size - 1, "UnifiedPage", "byte")
    places = np.argwhere(page.slot_words == byte // 2)
    if not len(places):
        return f"byte {byte}: unused"
    slot, word = (int(i) for i in places[0])
    name = next(part for part, words in page.parts.items() if words.start <= word < words.stop)
    inside, half = word - page.parts[name].start, byte % 2
    return f"byte {byte}: {name} of slot {slot}, {_part(page, name, inside, half)}"


def _part(page: PageLayout, name: str, word: int, half: int) -> str:
    """Description of byte `half` of a word of a segment."""
    if name in ("key", "val"):
        bits = page.config.k_bits if name == "key" else page.config.v_bits
        if bits == WORD:
            return f"feature {word}, {('low', 'high')[half]} byte"
        first, count = word * WORD // bits + half * 8 // bits, 8 // bits
        return f"pack {word}, feature {first}" if count == 1 else f"pack {word}, features {first}-{first + count - 1}"
    if name in ("key_meta", "val_meta"):
        return f"{('scale', 'zero point')[word % 2]} of group {word // 2}, {('low', 'high')[half]} byte"
    return f"byte {2 * word + half} of 4"
