"""Records of attention on KLLM's chip: logits, softmax, scores and context of the KV heads that are on the lanes at
once.

Paper: [kllm §III-A, §IV-A].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from refemu.arith.integers import total
from refemu.models.machine.work import Work
from refemu.models.schemes.kllm.machine import works
from refemu.models.schemes.kllm.machine.options import KllmMachine
from refemu.models.schemes.kllm.machine.works import FP16, MASK, Read


@dataclass(frozen=True, eq=False)
class KvHead:
    """What the cost of a KV head depends on."""

    seen: np.ndarray  #: int64 (rows,): keys that each row sees; a row is a query head of a token
    left_out: np.ndarray  #: int64 (rows,): most outliers in the sum of a logit
    values_out: np.ndarray  #: int64 (rows,): most outliers in a column of V, over the keys of a row
    outliers: tuple[int, int]  #: outliers of the keys, and of the values
    dim: int
    bits: tuple[int, int, int]  #: of q, of k and v, of an integer score

    @property
    def keys(self) -> int:
        """Keys of the cache."""
        return int(self.seen.max())

    @property
    def pairs(self) -> int:
        """Pairs of a row and a key that it sees."""
        return int(total(self.seen))


def attended(heads: Sequence[KvHead], machine: KllmMachine) -> Iterator[tuple[int, list[Work]]]:
    """Records by the first of the KV heads that are on the lanes at once."""
    entries = 1 << heads[0].bits[0] + heads[0].bits[1]
    batch = works.parts(_logits(heads[:1]), heads[0].bits[0], entries, machine)
    at_once = works.together(heads[0].keys, heads[0].dim, len(heads), max(part.number for part in batch), machine)
    groups: dict[tuple[int, ...], list[Work]] = {}  # by identity: the heads of a shape are one object
    for first in range(0, len(heads), at_once):
        some = heads[first : first + at_once]
        same = tuple(map(id, some))
        if same not in groups:
            groups[same] = _group(some, machine)
        yield first, [_numbered(work, first) for work in groups[same]]


def _numbered(work: Work, first: int) -> Work:
    """The record with the number of the first KV head in its name."""
    numbered = ("logits", "softmax", "scores", "context")
    after = tuple(f"{name}.{first}" if name in numbered else name for name in work.after or ())
    return replace(work, name=f"{work.name}.{first}", after=after)


def _logits(heads: Sequence[KvHead]) -> np.ndarray:
    """Rows of the logits of heads in parallel: lanes wait for the one with most outliers (D-kllm-48)."""
    return works.sized(heads[0].dim, heads[0].seen, np.maximum.reduce([head.left_out for head in heads]))


def _context(heads: Sequence[KvHead]) -> np.ndarray:
    """Rows of the product of scores and values, likewise."""
    return works.sized(heads[0].seen, heads[0].dim, np.maximum.reduce([head.values_out for head in heads]))


def _group(heads: Sequence[KvHead], machine: KllmMachine) -> list[Work]:
    """The operations of some KV heads at once."""
    a_bits, b_bits, score_bits = heads[0].bits
    keys_out, values_out = (max(head.outliers[side] for head in heads) for side in (0, 1))
    entries = 1 << a_bits + b_bits
    row = heads[0].keys * (heads[0].dim * MASK + FP16)
    macs = sum(int(head.pairs * head.dim) for head in heads)

    def product(name: str, sizes: np.ndarray, bits: int, table: int, read: Read, after: tuple[str, ...]) -> Work:
        rows = works.parts(sizes, bits, table, machine)
        return works.product(name, "attention", rows, table, read, macs, machine, heads=len(heads), after=after)

    keys, values = (Read(name, b_bits, row + out * FP16) for name, out in (("keys", keys_out), ("values", values_out)))
    logits = product("logits", _logits(heads), a_bits, entries, keys, ("index.q", "index.k"))
    seen = np.concatenate([head.seen for head in heads])
    softmax = works.softmax("softmax", seen, (logits.name,))
    scores = works.untimed("scores", "attention", (softmax.name,))
    context = product("context", _context(heads), score_bits, 1 << b_bits, values, (scores.name, "index.v"))
    return [logits, softmax, scores, context]
