"""Tensors of a block under a KLLM scheme: quantized activations, and the linear layers that read them."""

from typing import Any

from refemu.models.config import ModelConfig
from refemu.models.machine.shapes import Shape
from refemu.models.model import Model
from refemu.models.schemes import model_share

INPUTS: dict[tuple[str, ...], str] = {
    ("q", "k", "v"): "attn_in",
    ("o",): "o_in",
    ("gate", "up"): "ffn_in",
    ("up",): "ffn_in",
    ("down",): "down_in",
}  #: linear layers of a block -> their input
HEADS = ("q", "k", "v")  #: activations that attention reads
NORMED = {"attn_in": "attn_norm", "ffn_in": "ffn_norm"}  #: activation after a norm -> the norm


def widths(sizes: ModelConfig | Shape) -> dict[str, int]:
    """Quantized activation of a block -> values per token; "gate" only if there is one."""
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    values = {
        "attn_in": sizes.width,
        "q": queries,
        "k": keys,
        "v": keys,
        "o_in": queries,
        "ffn_in": sizes.width,
        "gate": sizes.ffn,
        "up": sizes.ffn,
        "down_in": sizes.ffn,
    }
    return {name: size for name, size in values.items() if name != "gate" or sizes.gated}


def activations(sizes: ModelConfig | Shape) -> tuple[str, ...]:
    """The quantized activations of a block; each has its own codebook."""
    return tuple(widths(sizes))


def encoded(model: Model, layer: int) -> tuple[str, ...]:
    """The encoded activations of a block: those of its linear layers, those of its attention, or both."""
    sizes: Any = model.config
    linear, attention = layer in model_share.blocks(model), model_share.attends(model)
    return tuple(name for name in activations(sizes) if (attention if name in HEADS else linear))


def readers(sizes: ModelConfig) -> dict[str, tuple[str, ...]]:
    """Activation -> the linear layers that read it."""
    return {INPUTS[names]: names for names in sizes.groups}
