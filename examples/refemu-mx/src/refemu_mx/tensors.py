"""Tensors in MX and NVFP4 blocks along their last axis; the encoder units make the codes [ocp MX 1.0 §6.3].

Decisions: D-mx-12 (a shorter last block), D-mx-13 (which values share the factor of NVFP4), D-mx-14 (values of NVFP4).
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from refemu.arith import Refused, RefusedType
from refemu_mx import mx_encoder, nvfp4_encoder
from refemu_mx.elements import E2M1, E4M3, E8M0, ElementName
from refemu_mx.mx_encoder import Rule

Share: TypeAlias = Literal["tensor", "row"]
LARGEST = np.float32(448 * 6)  #: of a scale times an element of NVFP4


@dataclass(frozen=True, eq=False)
class MxTensor:
    """A tensor in MX blocks."""

    format: "MxFormat"  #: format
    scale: np.ndarray  #: E8M0 codes, uint8 (..., blocks)
    codes: np.ndarray  #: element codes, uint8 (..., n)

    def decode(self) -> np.ndarray:
        """Values, float32 (..., n): exact; infinite from 2**128 on, NaN under a scale of NaN."""
        scale = E8M0.decode(self.scale).astype(np.float32)
        with np.errstate(over="ignore"):
            return _times(mx_encoder.element_of(self.format.element, "MxFormat").decode(self.codes), scale, 32)


@dataclass(frozen=True)
class MxFormat:
    """MX blocks of 32 elements."""

    element: ElementName  #: format of an element
    rule: Rule = "floor"  #: of the scale (D-mx-1)

    def encode(self, x: np.ndarray) -> MxTensor:
        """Encode a tensor, float32 (..., n)."""
        blocks = _blocks(x, 32)
        result = mx_encoder.UNIT.run_compiled(blocks.view(np.uint32), element=self.element, rule=self.rule)
        return MxTensor(self, result.scale.astype(np.uint8), _joined(result.codes, x.shape[-1]))


@dataclass(frozen=True, eq=False)
class Nvfp4Tensor:
    """A tensor in NVFP4 blocks."""

    factor: np.ndarray  #: float32: of the tensor (), or of each row (..., 1)
    scale: np.ndarray  #: E4M3 codes, uint8 (..., blocks)
    codes: np.ndarray  #: E2M1 codes, uint8 (..., n)

    def decode(self) -> np.ndarray:
        """Values, float32 (..., n): element times scale, exact, and one rounded division by the factor (D-mx-14)."""
        return _times(E2M1.decode(self.codes), E4M3.decode(self.scale), 16) / self.factor


@dataclass(frozen=True)
class Nvfp4Format:
    """NVFP4 blocks of 16 elements."""

    share: Share = "tensor"  #: values under one factor: all, or those of a row, which is the last axis (D-mx-13)

    def encode(self, x: np.ndarray) -> Nvfp4Tensor:
        """Encode a tensor, float32 (..., n)."""
        blocks = _blocks(x, 16)
        factor = _factor(np.abs(x).max(axis=-1, keepdims=True) if self.share == "row" else np.abs(x).max(initial=0))
        each = np.ascontiguousarray(np.broadcast_to(factor, blocks.shape[:-1]))
        result = nvfp4_encoder.UNIT.run_compiled(each.view(np.uint32), blocks.view(np.uint32), order="reciprocal")
        return Nvfp4Tensor(factor, result.scale.astype(np.uint8), _joined(result.codes, x.shape[-1]))


def _factor(top: np.ndarray) -> np.ndarray:
    """448 * 6 divided by the largest magnitude: finite, and 1 for zeros and what is not finite."""
    usual = (top > 0) & np.isfinite(top)
    with np.errstate(over="ignore"):
        factor = np.divide(LARGEST, top, out=np.ones_like(top), where=usual)
    return np.minimum(factor, np.finfo(np.float32).max)


def _blocks(x: np.ndarray, length: int) -> np.ndarray:
    """(..., n) as (..., blocks, length), filled up with zeros (D-mx-12)."""
    if not isinstance(x, np.ndarray) or x.dtype != np.float32 or x.ndim == 0:
        got = f"{x.dtype} of {x.ndim} axes" if isinstance(x, np.ndarray) else type(x).__name__
        raise RefusedType(f"blocks: a float32 array of at least one axis is needed, got {got}")
    if x.shape[-1] == 0:
        raise Refused(f"blocks: the last axis must not be empty, got shape {x.shape}")
    count = -(-x.shape[-1] // length)
    if count * length > x.shape[-1]:
        x = np.concatenate([x, np.zeros((*x.shape[:-1], count * length - x.shape[-1]), np.float32)], axis=-1)
    return np.ascontiguousarray(x).reshape(*x.shape[:-1], count, length)


def _joined(codes: np.ndarray, count: int) -> np.ndarray:
    return codes.reshape(*codes.shape[:-2], -1)[..., :count].astype(np.uint8)


def _times(elements: np.ndarray, scale: np.ndarray, length: int) -> np.ndarray:
    """Elements (..., n) times the scale of their blocks (..., blocks), in float32."""
    if elements.shape[-1] % length == 0:
        return (elements.reshape(*scale.shape, length) * scale[..., None]).reshape(elements.shape)
    return elements * np.repeat(scale, length, axis=-1)[..., : elements.shape[-1]]
