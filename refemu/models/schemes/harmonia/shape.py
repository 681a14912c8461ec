"""Cost of a model of known sizes on Harmonia's accelerator, without weights.

Paper: [harmonia §III, §IV, §V-A]. Decision: D-harmonia-62 (baselines on the same timeline).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.models.machine.report import Absent, Blocks, Cost
from refemu.models.machine.shapes import Linear, Shape
from refemu.models.schemes.harmonia.cache import allocation, offsets
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.machine import work
from refemu.models.schemes.harmonia.machine.block import OUTSIDE
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from refemu.models.schemes.harmonia.machine.ports import require_scheme
from refemu.models.schemes.harmonia.machine.products import Heads, attended, linear
from refemu.models.schemes.harmonia.widths import falls
from refemu.units.declaration import decides
from refemu.units.harmonia.k_offset import WINDOW

Costs = Iterator[tuple[str, Cost]]


def of_shape(
    config: HarmoniaConfig, shape: Shape, tokens: int, phase: str, batch: int, machine: HarmoniaMachine
) -> tuple[list[Blocks], list[Absent]]:
    """Cost of all blocks, which are equal, and of the head.

    tokens: of each prompt, or before the decode step. batch: requests.
    """
    require_scheme(config)
    if shape.encoder:
        raise Refused(f"cost: Harmonia's accelerator has a cache of keys and values, got the encoder {shape.name}")
    block = _Block(config, shape, tokens, phase, batch, machine)
    blocks = [Blocks(0, shape.blocks, tuple(block.costs()))]
    if shape.vocab:
        blocks.append(Blocks(-1, 1, (("linear", work.head(batch, shape.width, shape.vocab)),)))
    left_out = {name: OUTSIDE[name] for name in OUTSIDE if shape.gated or name != "gated"}
    return blocks, [Absent(name, reason) for name, reason in left_out.items()]


class _Block:
    """A block of a model."""

    def __init__(
        self, config: HarmoniaConfig, shape: Shape, tokens: int, phase: str, batch: int, machine: HarmoniaMachine
    ) -> None:
        self.config, self.shape, self.machine = config, shape, machine
        self.decode = phase == "decode"
        self.new = 1 if self.decode else tokens  #: new tokens of a request
        self.keys = tokens + self.decode  #: in the cache of a request
        self.batch = batch
        self.rows = batch * self.new

    def costs(self) -> Costs:
        """Costs in the order of the work."""
        for tensor, layers in self.shape.groups.items():
            if self.converts(tensor):
                copies = layers[-1].active if tensor == "down_in" else 1
                yield "quantize", work.converted(f"{tensor}.input", copies * self.rows, layers[0].inputs)
            for layer in layers:
                for copy, rows in enumerate(layer.rows(self.rows)):
                    name = layer.name if layer.experts == 1 else f"{layer.name}.{copy}"
                    yield "linear", self.linear(name, layer, rows)
            if tensor == "attn_in":
                if self.machine.design == "harmonia":
                    yield from self.prepared()
                yield from attended(self.heads(), self.machine)

    @decides("D-harmonia-62")
    def converts(self, tensor: str) -> bool:
        """Whether the input of linear layers is converted separately: not if the product before has done it."""
        if self.machine.design != "harmonia":
            return self.machine.design == "anda"
        if tensor == "o_in":
            return bool(self.shape.head_dim % 32)
        return tensor != "down_in" or self.shape.gated

    def linear(self, name: str, layer: Linear, rows: int) -> Cost:
        """A linear layer, or one of its experts that some token uses."""
        config: dict[str, Any] = {"kind": "final", "rows": rows, "inner": layer.inputs, "columns": layer.outputs}
        if layer.name in ("q", "k"):
            config |= {"kind": layer.name, "head_dim": self.shape.head_dim, "start": self.decode * WINDOW}
            config["rotation"] = "half" if self.shape.norm == "rms" else "none"
            if layer.name == "k" and self.config.online:
                config["window"] = min(WINDOW, self.keys)
        elif layer.name == "v":
            config["kind"] = "final" if self.decode else "v"
        elif layer.name == "gate" or (layer.name == "up" and not self.shape.gated):
            config |= {"kind": "final" if self.shape.gated else "linear"}
            config["activation"] = "silu" if self.shape.gated else "relu"
        if layer.name in ("k", "v"):
            config["m"] = self.config.high
        if self.shape.biases:
            config["bias_add"] = self.config.bias_add
        return work.cost(name, "linear", linear(config, self.machine), "weights", self.machine)

    def prepared(self) -> Costs:
        """The choice of the offsets, which is part of k, and the groups of V."""
        width = self.shape.kv_heads * self.shape.head_dim
        if self.config.online and not self.decode:
            rule = offsets(self.config, self.shape.kv_heads, self.shape.head_dim)
            tracked = min(WINDOW, self.new) * rule.channels
            yield "offset", Cost(comparisons=self.batch * (tracked + rule.chosen * (rule.scope - 1)))
        residual = (self.keys - 1) % 32 + 1 if self.decode else 0
        record = work.untimed("v.groups", "grouping")
        yield "grouping", Cost(conversions=self.batch * residual * width, works=(record,))

    def heads(self) -> Heads:
        """The attention of all requests, which are alike."""
        new, by_query = np.arange(self.keys - self.new, self.keys) + 1, self.config.prefill_window == "query"
        seen = new if by_query else np.full(self.new, self.keys)
        sizes = self.shape.heads, self.shape.kv_heads, self.shape.head_dim, self.keys
        bits = self.config.high, self.config.low
        return Heads(*sizes, seen, new, falls(allocation(self.config), self.keys), bits, self.batch)
