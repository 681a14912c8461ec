"""Records of the operations of a block from the tensors of a run: what `works` needs, read off sizes and masks.

Paper: [kllm §III-A, §III-C2, §IV-A]. The machine and the cost of a run make their records here.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.integers import matmul, total
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.machine.work import Work
from refemu.models.schemes.kllm.machine import works
from refemu.models.schemes.kllm.machine.attended import KvHead, attended
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.machine.works import FP16, MASK, Searched, searched
from refemu.models.schemes.kllm.operands import Group, Weight

#: operations whose results a tensor is; others: the one before. The last context on the lanes ends last.
SOURCES: dict[str, tuple[str, ...]] = {"attn_in": (), "ffn_in": ("o",)}
STORED = {"k": "keys", "v": "values"}  #: streams of the indices that go to the memory


def search(ports: Ports, tensor: str, size: int) -> Searched:
    """Orizuru for a token of a tensor; nothing for static thresholds."""
    k = ports.outliers(tensor, size)
    return searched(size, k, ports.machine) if k else Searched(0, 0)


def encoded(ports: Ports, tensor: str, a: KMeansTensor) -> tuple[Work, Work]:
    """Records of the search and the clustering of a tensor; keys and values go to the memory."""
    (tokens, size), stored = a.shape, dict[str, int]()
    if tensor in STORED:
        stored = {STORED[tensor]: a.mask.size * a.bits}
        stored["metadata"] = tokens * (size * MASK + FP16) + a.outlier.size * FP16
    after = SOURCES.get(tensor, (tensor,) if tensor in ("q", "k", "v", "gate", "up") else None)
    inliers = size - np.count_nonzero(a.mask, axis=1)
    return works.quantized(tensor, inliers, search(ports, tensor, size).cycles, after, stored)


def normed(ports: Ports, group: Group, a: KMeansTensor, macs: int) -> Work:
    """The record of a norm. macs: products of its statistics."""
    return works.normed(group.tensor, a.shape[1], np.count_nonzero(a.mask, axis=1), macs, ports.machine)


def weighted(ports: Ports, group: Group, weight: Weight, a: KMeansTensor) -> Work:
    """The record of a linear layer."""
    n, (_, k) = weight.tensor.shape[0], a.shape
    extra = int(group.norm == "layer") + (weight.bias is not None)
    layer = works.Linear(weight.name, n, weight.tensor.bits, extra, bool(group.norm))
    return works.linear(layer, group.tensor, a.bits, k, np.count_nonzero(a.mask, axis=1), ports.machine)


def functions(ports: Ports, gated: bool) -> tuple[Work, ...]:
    """Records of the activation, and of its product with up: the paper gives them no clock."""
    name = ports.operands.function
    record = works.untimed(f"{name}.function", "activation", (f"index.{name}",))
    product = works.untimed("down_in.product", "activation", (record.name, "index.up"))
    return (record, product) if gated else (record,)


class Left(NamedTuple):
    """What rows of a product read, and leave out of the counts."""

    limits: list[tuple[int, int]]  #: positions and columns of every row
    out: list[np.ndarray]  #: positions that each column leaves out, of every row

    @property
    def most(self) -> np.ndarray:
        """Most left out positions of every row, int64."""
        rows = zip(self.limits, self.out, strict=True)
        return np.array([out[:width].max(initial=0) for (_, width), out in rows], np.int64)


class Masks(NamedTuple):
    """Outliers of a KV head, and of its query heads."""

    queries: np.ndarray  #: (rows, dim)
    keys: np.ndarray  #: (keys, dim)
    values: np.ndarray  #: (keys, dim)
    seen: np.ndarray  #: (rows,) keys that each row sees

    @property
    def logits(self) -> Left:
        """Rows of the logits."""
        each, key = (np.count_nonzero(side, axis=1) for side in (self.queries, self.keys))
        both = matmul(self.queries.astype(np.int64), self.keys.astype(np.int64).T)
        dim, seen = self.queries.shape[1], self.seen.tolist()
        return Left([(dim, count) for count in seen], [each[row] + key - both[row] for row in range(len(seen))])

    @property
    def context(self) -> Left:
        """Rows of the product of scores and values."""
        dim, seen = self.queries.shape[1], self.seen.tolist()
        out = [np.count_nonzero(self.values[:count], axis=0) for count in seen]
        return Left([(count, dim) for count in seen], out)


def masks(ports: Ports, q: KMeansTensor, cache: Any) -> list[Masks]:
    """Outliers of every KV head."""
    tokens, length, sizes = q.shape[0], len(cache), ports.operands.sizes
    group, dim = sizes.heads // sizes.kv_heads, sizes.head_dim
    seen = np.repeat(np.arange(length - tokens + 1, length + 1), group)
    sides, heads = [cache.k.tensor(length).mask, cache.v.tensor(length).mask], []
    for head in range(sizes.kv_heads):
        mine = q.mask[:, head * group * dim : (head + 1) * group * dim].reshape(len(seen), dim)
        keys, values = (side[:, head * dim : (head + 1) * dim] for side in sides)
        heads.append(Masks(mine, keys, values, seen))
    return heads


def attention(ports: Ports, bits: tuple[int, int], heads: Sequence[Masks]) -> dict[int, list[Work]]:
    """Records by the first KV head of those that are on the lanes at once. bits: of q, and of k and v."""
    sized = []
    for head in heads:
        outliers = [int(total(np.count_nonzero(side, axis=1))) for side in (head.keys, head.values)]
        dim = head.queries.shape[1]
        widths = *bits, ports.operands.config.integer_bits
        sized.append(KvHead(head.seen, head.logits.most, head.context.most, (outliers[0], outliers[1]), dim, widths))
    return dict(attended(sized, ports.machine))
