"""Variants of the decisions of page_reader, and mistakes in its use of zero points."""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.declaration import Changes
from refemu.units.leankv.page_reader import PageReader
from refemu.units.leankv.variants import rounding
from refemu.units.ports import Lanes
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


class ZeroDropped(PageReader):
    """The zero point is not used."""

    def _value(self, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, sign: int) -> np.ndarray:
        with np.errstate(all="ignore"):
            return fp16.canonical(scale * codes.astype(np.float32))


class ZeroScaled(PageReader):
    """The zero point is subtracted before the multiplication, or added if the page has the minimum."""

    def _value(self, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, sign: int) -> np.ndarray:
        with np.errstate(all="ignore"):
            return fp16.canonical((codes.astype(np.float32) + np.float32(sign) * zero) * scale)


class Exchanged(PageReader):
    """The first word of a group's metadata is its zero point."""

    def _value(self, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, sign: int) -> np.ndarray:
        return super()._value(codes, zero, scale, sign)


class Misread(PageReader):
    """Zero points are read from other words of the page."""

    def _sources(self, layout: UnifiedPage, part: str) -> np.ndarray:
        """Words from which the zero points of a part are read: (tokens, groups)."""
        raise NotImplementedError

    def read(self, images: Lanes, entry: Lanes, n_high: int, n_low: int) -> Changes:
        pages = np.array(images, np.uint16).reshape(self.cells, -1)
        high = entry[: -(-n_high // self.layouts.high.tokens)]
        for cell, image in enumerate(pages.copy()):
            layout = self.layouts.sections[int(cell not in high)]
            for part in PARTS:
                pages[cell, zeros_of(layout, part)] = image[self._sources(layout, part)]
        return super().read(tuple(pages.ravel().tolist()), entry, n_high, n_low)


class NextZero(Misread):
    """A token has the zero point of the next token, or what follows the last one in the page."""

    def _sources(self, layout: UnifiedPage, part: str) -> np.ndarray:
        words = zeros_of(layout, part)
        return words + 2 * words.shape[1]


class FirstZero(Misread):
    """All tokens of a page have the zero point of the first."""

    def _sources(self, layout: UnifiedPage, part: str) -> np.ndarray:
        words = zeros_of(layout, part)
        return np.broadcast_to(words[:1], words.shape)


class OtherZero(Misread):
    """Values have the zero point of the key, and keys that of the value."""

    def _sources(self, layout: UnifiedPage, part: str) -> np.ndarray:
        groups = np.arange(zeros_of(layout, part).shape[1])
        words = zeros_of(layout, PARTS[1 - PARTS.index(part)])
        return words[:, groups % words.shape[1]]


def zeros_of(layout: UnifiedPage, part: str) -> np.ndarray:
    """Words with the zero points of "key_meta" or "val_meta": (tokens, groups)."""
    words: np.ndarray = layout.slot_words[:, layout.parts[part]][:, 1::2]
    return words


PARTS = ("key_meta", "val_meta")  #: segments of scales and zero points
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
FAULTS: tuple[Variant, ...] = (
    Variant("F-leankv-1", "the zero point is not used", unit_class=ZeroDropped),
    Variant("F-leankv-2", "the zero point is subtracted before the multiplication", unit_class=ZeroScaled),
    Variant("F-leankv-3", "scale and zero point are exchanged", unit_class=Exchanged),
    Variant("F-leankv-4", "a token has the zero point of the next token", unit_class=NextZero),
    Variant("F-leankv-5", "all tokens of a page have the zero point of the first", unit_class=FirstZero),
    Variant("F-leankv-6", "keys and values have each other's zero points", unit_class=OtherZero),
)
