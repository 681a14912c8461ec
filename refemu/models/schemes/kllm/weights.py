"""Weights of a KLLM scheme: their stored values and scales, and the user's sample weights [kllm §III-C2, §V-A]."""

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.archive import Archive
from refemu.arith.checks import Refused
from refemu.formats.kllm.kmeans_norm import folded_bias
from refemu.models.config import ModelConfig
from refemu.models.encoder.config import BIAS
from refemu.models.model import Model
from refemu.models.schemes import model_share
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.tensors import widths

NORMS = {"q": "attn_norm", "k": "attn_norm", "v": "attn_norm", "gate": "ffn_norm", "up": "ffn_norm"}
#: linear layer after a norm -> the norm


def folded(config: KllmConfig) -> bool:
    """Whether the norms' gains are in the weights (D-kllm-18)."""
    return config.norm == "delayed" and config.gamma == "weights"


def stored(model: Model, config: KllmConfig, layer: int, name: str) -> np.ndarray:
    """The weight of linear layer `name` before quantization, float16 (out, in): rounded, then times the norm's gain."""
    weight = fp16.to_f16(model.tensor(f"blk.{layer}.{name}"))
    if name not in NORMS or not folded(config):
        return weight
    gain = fp16.to_f16(model.tensor(f"blk.{layer}.{NORMS[name]}"))
    return fp16.to_f16(weight.astype(np.float32) * gain.astype(np.float32))  # exact in float32: one rounding


def bias(model: Model, config: KllmConfig, layer: int, name: str) -> np.ndarray | None:
    """Bias added after a linear layer, float16 (out,), or None (D-kllm-40).

    Its own bias, rounded; after a delayed LayerNorm plus the sum of the norm's bias times the unquantized weights,
    exact and rounded once; for q with 1 / sqrt(head_dim) in it.
    """
    sizes: Any = model.config
    full = f"blk.{layer}.{name}"
    stored = fp16.to_f16(model.tensor(full + BIAS)) if full + BIAS in sizes.shapes else None
    norm = f"blk.{layer}.{NORMS.get(name, '')}{BIAS}"
    if config.norm == "delayed" and norm in sizes.shapes:
        stored = folded_bias(fp16.to_f16(model.tensor(norm)), fp16.to_f16(model.tensor(full)).T, stored)
    if stored is None or name != "q" or sizes.qk_norm or not model_share.scaled(model, alone=True):
        return stored
    return attention_scale(stored, sizes)


def scales(weight: np.ndarray) -> np.ndarray:
    """Largest magnitude of every output channel, float16 (out,); 1 if all are 0 (D-kllm-11)."""
    largest = np.abs(weight).max(axis=1)
    return np.where(largest > 0, largest, np.float16(1))


def attention_scale(scale: np.ndarray, sizes: ModelConfig) -> np.ndarray:
    """Scales or biases of wq times 1 / sqrt(head_dim): no index changes (D-kllm-35)."""
    return fp16.to_f16(scale.astype(np.float64) / np.sqrt(np.float64(sizes.scale_dim or sizes.head_dim)))


@dataclass(frozen=True, eq=False)
class UserWeights:
    """Sample weights from a file: float64 by tensor."""

    sha256: str | None = None
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def user_weights(config: KllmConfig, model: Model) -> UserWeights:
    """The file that `sensitivity` names; Refused: a tensor that is not quantized, another shape, not a number."""
    return UserWeights() if config.sensitivity is None else _read(config.sensitivity, model)


@lru_cache(maxsize=2)
def _read(path: str, model: Model) -> UserWeights:
    thing = f"sensitivity {path}"
    try:
        raw = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise Refused(f"{thing}: not a readable .npz: {error}") from error
    archive, known = Archive(raw, thing), shapes(model)
    for name in archive.names:
        if name not in known:
            raise Refused(f"{thing}: must name quantized tensors, got {name!r}")
        shape, _, dtype = archive.header(name)
        if shape != known[name] or dtype.kind != "f":
            raise Refused(f"{thing}: {name} must be floats of shape {known[name]}, got {dtype} of shape {shape}")
    arrays = {name: archive.array(name) for name in archive.names}
    return UserWeights(hashlib.sha256(raw).hexdigest(), {name: a.astype(np.float64) for name, a in arrays.items()})


def shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """Tensor -> shape of its sample weights: of a weight one each, of an activation one per channel."""
    sizes: Any = model.config
    linears = [name for group in sizes.groups for name in group]
    by_tensor: dict[str, tuple[int, ...]] = {}
    for layer in range(sizes.blocks):
        by_tensor |= {f"blk.{layer}.{name}": (size,) for name, size in widths(sizes).items()}
        by_tensor |= {f"blk.{layer}.w{name}": sizes.shapes[f"blk.{layer}.{name}"] for name in linears}
    return by_tensor
