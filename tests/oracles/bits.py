"""Packing of codes as one Python integer; element 0 in the least significant bits."""

from collections.abc import Sequence


def pack(codes: Sequence[int], width: int) -> bytes:
    """The bit stream of `codes`, little-endian, spare high bits of the last byte 0."""
    whole = sum(code << (i * width) for i, code in enumerate(codes))
    return whole.to_bytes(-(-len(codes) * width // 8), "little")


def unpack(data: bytes, width: int, count: int) -> list[int]:
    """The first `count` codes of a bit stream."""
    whole = int.from_bytes(data, "little")
    return [whole >> (i * width) & ((1 << width) - 1) for i in range(count)]


def signed(code: int, width: int) -> int:
    """The value of a two's complement code."""
    return code - (1 << width) if code >> (width - 1) else code
