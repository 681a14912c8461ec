"""Variants of the decisions of page_reader."""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units.leankv.page_reader import PageReader
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices


class FirstHighest(PageReader):
    """The first feature of a word is in its highest bits."""

    def _unpacked(self, words: np.ndarray, bits: int) -> np.ndarray:
        codes = super()._unpacked(words, bits).reshape(*words.shape, -1)
        return codes[..., ::-1].reshape(*words.shape[:-1], -1)


class BytesSwapped(PageReader):
    """Words are big-endian."""

    def _unpacked(self, words: np.ndarray, bits: int) -> np.ndarray:
        return super()._unpacked(words.byteswap(), bits)


class RoundedOnce(PageReader):
    """The exact value is rounded to the output alone; float64 holds it."""

    def _value(self, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, sign: int) -> np.ndarray:
        with np.errstate(all="ignore"):
            return scale.astype(np.float64) * codes + np.float64(sign) * zero

    def _stored(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            single = fp16.canonical(values.astype(np.float32))
        return (
            single.view(np.uint32)
            if self.output == "fp32"
            else fp16.bits(fp16.to_f16(fp16.canonical(fp16.round16_of_f64(values))))
        )


class InHalf(PageReader):
    """Product and difference are rounded to fp16 each, as in a kernel that computes in half."""

    def _value(self, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, sign: int) -> np.ndarray:
        with np.errstate(all="ignore"):
            product = fp16.to_f32(fp16.narrow(fp16.canonical(scale * codes.astype(np.float32))))
            return fp16.to_f32(fp16.narrow(fp16.canonical(product + np.float32(sign) * zero)))


def _mapped(pattern_of: Any, values: np.ndarray) -> np.ndarray:
    """fp16 patterns of finite float32 values by a rounding; others as usual."""
    usual = fp16.bits(fp16.narrow(values))
    finite = np.isfinite(values)
    patterns = [pattern_of(value) for value in values[finite].tolist()]
    usual[finite] = np.array(patterns, np.uint16)
    return usual


class Truncated(PageReader):
    """fp16 outputs are truncated."""

    def _stored(self, values: np.ndarray) -> np.ndarray:
        return super()._stored(values) if self.output == "fp32" else _mapped(rounding.toward_zero16, values)


class Saturated(PageReader):
    """fp16 outputs beyond its range are 65504."""

    def _stored(self, values: np.ndarray) -> np.ndarray:
        words = super()._stored(values)
        if self.output == "fp32":
            return words
        beyond = np.isfinite(values) & (words & 0x7FFF == 0x7C00)
        return np.where(beyond, words - np.uint16(1), words)


class Flushed(PageReader):
    """Subnormal fp16 outputs are 0 with their sign."""

    def _stored(self, values: np.ndarray) -> np.ndarray:
        words = super()._stored(values)
        return words if self.output == "fp32" else np.where(words & 0x7C00 == 0, words & np.uint16(0x8000), words)


VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-1", "preset", "paper", "diffkv"),
    *choices("D-leankv-12", "k_vec", 1, 2),
    *choices("D-leankv-12", "v_vec", 1, 4),
    Variant("D-leankv-11", "feature 0 is in the highest bits", unit_class=FirstHighest),
    Variant("D-leankv-11", "words are big-endian", unit_class=BytesSwapped),
    Variant("D-leankv-74", "the exact value is rounded to fp16 alone", unit_class=RoundedOnce),
    Variant("D-leankv-74", "product and difference are rounded to fp16 each", unit_class=InHalf),
    Variant("D-arith-2", "outputs are truncated", unit_class=Truncated),
    Variant("D-arith-2", "outputs beyond fp16 are 65504", unit_class=Saturated),
    Variant("D-arith-2", "subnormal outputs are 0", unit_class=Flushed),
)
