"""splitmix64 by counter, on Python integers."""

import hashlib

MASK = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


def words(seed: int, start: int, count: int) -> list[int]:
    """Words start .. start + count - 1 of the stream `seed`."""
    return [mix((seed + (i + 1) * STEP) % 2**64) for i in range(start, start + count)]


def mix(z: int) -> int:
    """The finaliser of splitmix64."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def stream(label: str, seed: int) -> int:
    """The seed of a purpose: first 8 bytes, little-endian, of sha256 of "label/seed"."""
    return int.from_bytes(hashlib.sha256(f"{label}/{seed}".encode("ascii")).digest()[:8], "little")


def below(word: int, n: int) -> int:
    """A number in [0, n) from the high half of a word."""
    return (word >> 32) * n >> 32


def bell(word: int) -> int:
    """Sum of the four 16-bit fields, centred."""
    return sum(word >> shift & 0xFFFF for shift in (0, 16, 32, 48)) - 131070
