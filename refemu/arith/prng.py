"""Random words: splitmix64 addressed by counter, the only randomness of the package (D-arith-14).

Word i depends on the seed and i alone, so any part of a sequence can be made by itself, anywhere.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from refemu.arith.checks import Refused, RefusedType

__all__ = ["bell", "below", "stream", "words", "words_of"]


_STEP = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio, odd
_MIX = (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)  # splitmix64's two shift-multiply rounds
_BLOCK = 1 << 14  # words that fit in a second-level cache with their shifted copy


def words(seed: int, start: int, count: int) -> np.ndarray:
    """Generate words [start, start + count) of a sequence.

    Parameters
    ----------
    seed : int
        Seed below 2**64, as `stream` makes them.
    start, count : int
        First word and number of words.

    Returns
    -------
    ndarray of uint64 (count,)
        Words.

    Raises
    ------
    Refused
        A seed is out of range, or a start or count negative.
    """
    return words_of([seed], start, count)[0]


def words_of(seeds: Sequence[int], start: int, count: int) -> np.ndarray:
    """Generate the same words of several sequences.

    Parameters
    ----------
    seeds : sequence of int
        Seeds below 2**64, S of them.
    start, count : int
        First word and number of words.

    Returns
    -------
    ndarray of uint64 (S, count)
        Words.

    Raises
    ------
    Refused
        A seed is out of range, or a start or count negative.
    """
    for seed in (min(seeds, default=0), max(seeds, default=0)):
        if not 0 <= seed < 1 << 64:
            raise Refused(f"words: seed must be in [0, 2**64), got {seed}")
    if start < 0 or count < 0:
        raise Refused(f"words: start and count must be at least 0, got {start}, {count}")
    first = np.array(seeds, np.uint64) + np.uint64((start + 1) * _STEP % (1 << 64))  # modulo 2**64, as all that follows
    steps = np.arange(count, dtype=np.uint64) * np.uint64(_STEP)
    z, spare = np.empty((len(seeds), count), np.uint64), np.empty(_BLOCK, np.uint64)
    tall = max(1, _BLOCK // max(1, count))
    for row in range(0, len(seeds), tall):
        for column in range(0, count, _BLOCK):
            part = z[row : row + tall, column : column + _BLOCK]
            np.add.outer(first[row : row + tall], steps[column : column + _BLOCK], out=part)
            _mix(part, spare[: part.size].reshape(part.shape))
    return z


def _mix(z: np.ndarray, shifted: np.ndarray) -> None:
    """splitmix64's output function of `z`, in place; shifted: work space of the same size."""
    for shift, factor in _MIX:
        z ^= np.right_shift(z, np.uint64(shift), out=shifted)
        z *= np.uint64(factor)
    z ^= np.right_shift(z, np.uint64(31), out=shifted)


def stream(label: str, seed: int) -> int:
    """Derive the seed of a named sequence: the first 8 bytes, little-endian, of sha256 over `label/seed` in ASCII.

    Parameters
    ----------
    label : str
        Name of the sequence, one per purpose (unit/kind/port), in ASCII.
    seed : int
        The user's seed.

    Returns
    -------
    int
        Seed below 2**64.

    Raises
    ------
    Refused
        The label is not ASCII.
    """
    if not label.isascii():
        raise Refused(f"stream: label must be ASCII, got {label!r}")
    return int.from_bytes(hashlib.sha256(f"{label}/{seed}".encode("ascii")).digest()[:8], "little")


def below(w: np.ndarray, n: int) -> np.ndarray:
    """Map words to integers in [0, n), from their upper halves.

    Parameters
    ----------
    w : ndarray of uint64
        Words.
    n : int
        1 to 2**32.

    Returns
    -------
    ndarray of int64
        Integers, in the shape of w.

    Raises
    ------
    Refused
        `n` is out of range.
    RefusedType
        Another dtype.
    """
    if not 1 <= n <= 1 << 32:
        raise Refused(f"below: n must be in [1, 2**32], got {n}")
    return (((_require_words(w, "below") >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)).astype(np.int64)


def bell(w: np.ndarray) -> np.ndarray:
    """Map words to bell-shaped integers: the sum of the four 16-bit fields less its mean.

    Parameters
    ----------
    w : ndarray of uint64
        Words.

    Returns
    -------
    ndarray of int64
        -131070 to 131070, standard deviation 37,837.2.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    word = _require_words(w, "bell")
    fields = [((word >> np.uint64(low)) & np.uint64(0xFFFF)).astype(np.int64) for low in (0, 16, 32, 48)]
    return fields[0] + fields[1] + fields[2] + fields[3] - 131_070


def _require_words(w: np.ndarray, thing: str) -> np.ndarray:
    array = np.asarray(w)
    if array.dtype != np.uint64:
        raise RefusedType(f"{thing}: uint64 words are needed, got dtype {array.dtype}")
    return array
