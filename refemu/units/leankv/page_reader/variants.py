"""Variants of the decisions of page_reader, and mistakes in its use of zero points."""

from collections.abc import Callable
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units import Changes, Lanes
from refemu.units.leankv.page_reader import PageReader
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices, overriding

PARTS = ("key_meta", "val_meta")  #: segments of scales and zero points
_device = overriding(PageReader)


def _highest_first(old: PageReader, self: PageReader, words: np.ndarray, bits: int) -> np.ndarray:
    codes = old._unpacked(words, bits).reshape(*words.shape, -1)
    return codes[..., ::-1].reshape(*words.shape[:-1], -1)


def _exact_value(self: PageReader, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, sign: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        return scale.astype(np.float64) * codes + np.float64(sign) * zero


def _stored_once(self: PageReader, values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        single = fp16.canonical(values.astype(np.float32))
    if self.output == "fp32":
        return single.view(np.uint32)
    return fp16.bits(fp16.to_f16(fp16.canonical(fp16.round16_of_f64(values))))


def _in_half(self: PageReader, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, sign: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        product = fp16.to_f32(fp16.narrow(fp16.canonical(scale * codes.astype(np.float32))))
        return fp16.to_f32(fp16.narrow(fp16.canonical(product + np.float32(sign) * zero)))


def _without_zero(self: PageReader, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, sign: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        return fp16.canonical(scale * codes.astype(np.float32))


def _zero_first(self: PageReader, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, sign: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        return fp16.canonical((codes.astype(np.float32) + np.float32(sign) * zero) * scale)


def _truncated(old: PageReader, self: PageReader, values: np.ndarray) -> np.ndarray:
    if self.output == "fp32":
        return old._stored(values)
    words, finite = fp16.bits(fp16.narrow(values)), np.isfinite(values)
    words[finite] = rounding.patterns(rounding.toward_zero16, values[finite])
    return words


def _saturated(old: PageReader, self: PageReader, values: np.ndarray) -> np.ndarray:
    words = old._stored(values)
    if self.output == "fp32":
        return words
    return np.where(np.isfinite(values) & (words & 0x7FFF == 0x7C00), words - np.uint16(1), words)


def _flushed(old: PageReader, self: PageReader, values: np.ndarray) -> np.ndarray:
    words = old._stored(values)
    return words if self.output == "fp32" else np.where(words & 0x7C00 == 0, words & np.uint16(0x8000), words)


def zeros_of(layout: UnifiedPage, part: str) -> np.ndarray:
    """Words with the zero points of "key_meta" or "val_meta": (tokens, groups)."""
    words: np.ndarray = layout.slot_words[:, layout.parts[part]][:, 1::2]
    return words


def _misread(text: str, sources: Callable[[UnifiedPage, str], np.ndarray]) -> Variant:
    """A device that reads the zero points of a part from other words of the page: (tokens, groups)."""

    def read(old: Any, self: PageReader, images: Lanes, entry: Lanes, n_high: int, n_low: int) -> Changes:
        pages = np.array(images, np.uint16).reshape(self.cells, -1)
        high = entry[: -(-n_high // self.layouts.high.tokens)]
        for cell, image in enumerate(pages.copy()):
            layout = self.layouts.sections[int(cell not in high)]
            for part in PARTS:
                pages[cell, zeros_of(layout, part)] = image[sources(layout, part)]
        changes: Changes = old.read(tuple(pages.ravel().tolist()), entry, n_high, n_low)
        return changes

    return _device(text, read=read)


def _of_first(layout: UnifiedPage, part: str) -> np.ndarray:
    words = zeros_of(layout, part)
    return np.broadcast_to(words[:1], words.shape)


def _of_other(layout: UnifiedPage, part: str) -> np.ndarray:
    groups = np.arange(zeros_of(layout, part).shape[1])
    words = zeros_of(layout, PARTS[1 - PARTS.index(part)])
    return words[:, groups % words.shape[1]]


VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-1", "preset", "paper", "diffkv"),
    *choices("D-leankv-12", "k_vec", 1, 2),
    *choices("D-leankv-12", "v_vec", 1, 4),
    _device("D-leankv-11: feature 0 is in the highest bits", _unpacked=_highest_first),
    _device(
        "D-leankv-11: words are big-endian",
        _unpacked=lambda old, self, words, bits: old._unpacked(words.byteswap(), bits),
    ),
    _device("D-leankv-74: the exact value is rounded to fp16 alone", _value=_exact_value, _stored=_stored_once),
    _device("D-leankv-74: product and difference are rounded to fp16 each", _value=_in_half),
    _device("D-arith-2: outputs are truncated", _stored=_truncated),
    _device("D-arith-2: outputs beyond fp16 are 65504", _stored=_saturated),
    _device("D-arith-2: subnormal outputs are 0", _stored=_flushed),
)
FAULTS: tuple[Variant, ...] = (
    _device("F-leankv-1: the zero point is not used", _value=_without_zero),
    _device("F-leankv-2: the zero point is subtracted before the multiplication", _value=_zero_first),
    _device(
        "F-leankv-3: scale and zero point are exchanged",
        _value=lambda old, self, codes, scale, zero, sign: old._value(codes, zero, scale, sign),
    ),
    _misread(
        "F-leankv-4: a token has the zero point of the next token",
        lambda layout, part: (words := zeros_of(layout, part)) + 2 * words.shape[1],
    ),
    _misread("F-leankv-5: all tokens of a page have the zero point of the first", _of_first),
    _misread("F-leankv-6: keys and values have each other's zero points", _of_other),
)
