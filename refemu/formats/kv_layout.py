"""Where the segments of a page start, how many tokens it takes, and how large it should be.

Paper: [leankv §5.2]. Decisions: D-leankv-13 (size of a page), D-leankv-14 (alignment).
"""

import functools
from fractions import Fraction

from refemu.arith.checks import Refused
from refemu.formats.hetero_kv import K4V2, K4V2_G24, K8V4, K8V4_G12, POSITION_BYTES, SCORE_BYTES, HeteroKV

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

    Values take room for a multiple of `v_vec` tokens, keys never do; score and position are one block, whose second
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
