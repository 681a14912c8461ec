"""Cost of a model of known sizes on KLLM's chip, without weights: every token has as many outliers as Orizuru pops.

Paper: [kllm §III-A, §IV, §V-A]. Decision: D-kllm-74 (the outliers of a token are spread evenly over its heads).
"""

from fractions import Fraction
from math import ceil

import numpy as np

from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.models.machine.report import Absent, Blocks, Cost
from refemu.models.machine.shapes import Linear, Shape
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.machine import works
from refemu.models.schemes.kllm.machine.attended import KvHead, attended
from refemu.models.schemes.kllm.machine.block import absent, require
from refemu.models.schemes.kllm.machine.options import KllmMachine
from refemu.models.schemes.kllm.machine.works import FP16, MASK, searched
from refemu.models.schemes.kllm.tensors import NORMED, activations
from refemu.units.declaration import decides
from refemu.units.kllm.kllm_chip import CLUSTERING

Costs = list[tuple[str, Cost]]
SOURCES: dict[str, tuple[str, ...]] = {"attn_in": ()}  #: as in the cost of a run; others: the operation before


def of_shape(
    config: KllmConfig, shape: Shape, tokens: int, phase: str, batch: int, machine: KllmMachine
) -> tuple[list[Blocks], list[Absent]]:
    """Cost of all blocks, which are equal, and of the head.

    tokens: of each prompt, or before the decode step. batch: requests.
    """
    require(config)
    block = _Block(config, shape, tokens, phase, batch, machine)
    blocks = [Blocks(0, shape.blocks, tuple(block.costs()))]
    if shape.vocab:
        record = works.head(batch, shape.width, shape.vocab, machine, ())
        macs = {"fp16": batch * shape.width * shape.vocab}
        words = {"weights": shape.width * shape.vocab, "activations": batch * shape.width}
        blocks.append(Blocks(-1, 1, (("linear", Cost(macs, words=words, works=(record,))),)))
    return blocks, absent([tensor for tensor in activations(shape) if config.static(tensor, block.function)])


class _Block:
    """A block of a model."""

    def __init__(
        self, config: KllmConfig, shape: Shape, tokens: int, phase: str, batch: int, machine: KllmMachine
    ) -> None:
        self.config, self.shape, self.machine = config, shape, machine
        self.new = tokens if phase == "prompt" else 1  #: new tokens of a request
        self.keys = tokens if phase == "prompt" else tokens + 1  #: in the cache of a request
        self.batch = batch
        self.rows = batch * self.new
        self.function = "gate" if shape.gated else "up"  #: argument of the feed-forward half's function

    def outliers(self, tensor: str, size: int) -> int:
        """Outliers of a token."""
        percent = self.config.percent(tensor)
        return 0 if percent is None else 2 * TopK(percent).count(size)

    def costs(self) -> Costs:
        """Costs in the order of the work."""
        shape, costs = self.shape, Costs()
        for tensor, layers in shape.groups.items():
            after = SOURCES.get(tensor)
            copies = layers[-1].active if tensor == "down_in" else 1
            costs += [self.quantized(tensor, layers[0].inputs, copies * self.rows, after)]
            if tensor in NORMED:
                costs += [self.normed(tensor, layers[0].inputs)]
            costs += [self.linear(tensor, layer) for layer in layers]
            if tensor == "attn_in":
                costs += self.attention()
            if tensor == "ffn_in":
                tokens = layers[-1].active * self.rows
                for layer in layers:
                    if layer.name in ("gate", "up"):
                        costs += [self.quantized(layer.name, shape.ffn, tokens, _names(layer, self.rows))]
                costs += self.activation(tokens)
        return costs

    def quantized(
        self, tensor: str, size: int, tokens: int, after: tuple[str, ...] | None, stored: str = ""
    ) -> tuple[str, Cost]:
        """Search and clustering of some tokens. stored: stream of the indices that go to the memory."""
        out, bits = self.outliers(tensor, size), self.config.act_bits
        static = self.config.static(tensor, self.function)
        search = works.Searched(0, 0) if static or not out else searched(size, out // 2, self.machine)
        moved = {stored: tokens * size * bits} if stored else {}
        if stored:
            moved["metadata"] = tokens * (size * MASK + FP16 + out * FP16)
        cost = Cost(
            comparisons=tokens * search.comparisons,
            conversions=tokens * (size - out),
            cycles=tokens * (search.cycles + -(-(size - out) // CLUSTERING)),
            works=works.quantized(tensor, np.full(tokens, size - out), search.cycles, after, moved),
        )
        return "quantize", cost

    def normed(self, tensor: str, size: int) -> tuple[str, Cost]:
        """The statistics of a norm."""
        out, moments = self.outliers(tensor, size), 1 + (self.shape.norm == "layer")
        macs = moments * self.rows * ((1 << self.config.act_bits) + out)
        record = works.normed(tensor, size, np.full(self.rows, out), macs, self.machine)
        counted = self.rows * (size - out)
        return "norm", Cost({"norm": macs}, index_operations=counted, works=(record,))

    def linear(self, tensor: str, layer: Linear) -> tuple[str, Cost]:
        """A linear layer, or the experts of one that some token uses."""
        k, out = layer.inputs, self.outliers(tensor, layer.inputs)
        norm = tensor in NORMED
        extra = int(self.shape.biases) + int(self.shape.norm == "layer" and norm)
        rows = layer.rows(self.rows)
        records = tuple(
            works.linear(
                works.Linear(name, layer.outputs, self.config.weight_bits, extra, norm),
                tensor,
                self.config.act_bits,
                k,
                np.full(count, out),
                self.machine,
            )
            for name, count in zip(_names(layer, self.rows), rows, strict=True)
        )
        outputs = sum(int(count) for count in rows) * layer.outputs
        entries = 1 << self.config.act_bits + self.config.weight_bits
        cycles = sum(int(record.cycles or 0) for record in records)
        macs = {"reduce": outputs * entries, "sparse": outputs * out}
        words = {"weights": outputs * k, "activations": sum(int(count) for count in rows) * k}
        return "linear", Cost(macs, outputs * (k - out), words=words, cycles=cycles, works=records)

    def attention(self) -> Costs:
        """q, k and v, then both products of every KV head of every request."""
        shape, widths = self.shape, {"q": self.shape.heads, "k": self.shape.kv_heads, "v": self.shape.kv_heads}
        sizes = {name: heads * shape.head_dim for name, heads in widths.items()}
        streams = {"q": "", "k": "keys", "v": "values"}
        encoded = [self.quantized(name, sizes[name], self.rows, (name,), streams[name]) for name in "qkv"]
        head = self.head(sizes)
        heads = [head] * (shape.kv_heads * self.batch)
        records = tuple(work for _, group in attended(heads, self.machine) for work in group)
        pairs = head.pairs * len(heads)
        macs = {"reduce": pairs << head.bits[0] + head.bits[1], "sparse": pairs * int(head.left_out[-1])}
        words = {"activations": pairs, "kv": 2 * pairs * head.dim}
        cycles = sum(int(record.cycles or 0) for record in records)
        return [*encoded, ("attention", Cost(macs, words=words, conversions=pairs, cycles=cycles, works=records))]

    @decides("D-kllm-74")
    def head(self, sizes: dict[str, int]) -> KvHead:
        """A KV head, with its share of the outliers of q, k and v."""
        shape, dim = self.shape, self.shape.head_dim
        group = shape.heads // shape.kv_heads
        share = {name: Fraction(self.outliers(name, size), size) for name, size in sizes.items()}
        causal = self.new == self.keys and not shape.encoder
        counts = np.arange(1, self.keys + 1) if causal else np.full(self.new, self.keys)
        seen = np.repeat(counts, group)
        left = min(dim, ceil(share["q"] * dim) + ceil(share["k"] * dim))
        values = -(-seen * share["v"].numerator // share["v"].denominator)
        outliers = ceil(share["k"] * dim * self.keys), ceil(share["v"] * dim * self.keys)
        bits = self.config.act_bits, self.config.act_bits, self.config.integer_bits
        return KvHead(seen, np.full(len(seen), left), values, outliers, dim, bits)

    def activation(self, tokens: int) -> Costs:
        """The activation, and its product with up; the paper gives them no clock."""
        function = self.function
        evaluations = tokens * ((1 << self.config.act_bits) + self.outliers(function, self.shape.ffn))
        records = [works.untimed(f"{function}.function", "activation", (f"index.{function}",))]
        counted, sparse = 0, 0
        if self.shape.gated:
            names = f"{function}.function", "index.up"
            records += [works.untimed("down_in.product", "activation", names)]
            counted, sparse = tokens * self.shape.ffn, tokens * self.outliers("up", self.shape.ffn)
        macs = {"sparse": sparse} if sparse else {}
        cost = Cost(macs, index_operations=counted, conversions=evaluations, works=tuple(records))
        return [("activation", cost)]


def _names(layer: Linear, rows: int) -> tuple[str, ...]:
    """Names of the records of a linear layer: one for each expert that some row uses."""
    if layer.experts == 1:
        return (layer.name,)
    return tuple(f"{layer.name}.{number}" for number in range(layer.used(rows)))
