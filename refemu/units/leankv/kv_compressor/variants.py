"""Variants of the decisions of kv_compressor, and of its codes and records."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.rounding import Rounding, round_float
from refemu.arith.scalar32 import pattern16
from refemu.formats import UnifiedPage
from refemu.formats.leankv.affine import Affine
from refemu.formats.leankv.kv_page import PageTokens
from refemu.units.leankv.kv_compressor import APPEND_HIGH, APPEND_LOW, DROP, REPLACE, KvCompressor
from refemu.units.leankv.variants import rounding
from refemu.units.unit import Config
from refemu.units.variant import Variant


class _Coded(KvCompressor):
    """A compressor whose codes have other formats."""

    def other(self, fmt: Affine) -> Affine:
        """The format that replaces the preset's."""
        raise NotImplementedError

    def _record(self, page: UnifiedPage, key: Any, value: Any, score: Any, position: Any) -> np.ndarray:
        formats = page.config.key(self.preset), page.config.value(self.preset)
        codes = self.other(formats[0]).encode(key), self.other(formats[1]).encode(value)
        return page.record(*codes, score, position)

    def _victim(self) -> PageTokens:
        token = super()._victim()
        key, value = (replace(tensor, format=self.other(tensor.format)) for tensor in (token.key, token.value))
        return replace(token, key=key, value=value)


def _fields(**fields: Any) -> type[KvCompressor]:
    """A compressor whose formats differ in one field."""

    class Other(_Coded):
        def other(self, fmt: Affine) -> Affine:
            return replace(fmt, **fields)

    return Other


def _kind(kind: type[Affine]) -> type[KvCompressor]:
    """A compressor whose formats are of another class."""

    class Other(_Coded):
        def other(self, fmt: Affine) -> Affine:
            return kind(fmt.bits, fmt.groups, fmt.zero, fmt.quant_div, fmt.quantize_with, fmt.meta)

    return Other


def _rounds(mode: Rounding) -> type[Affine]:
    """Codes round in another way."""

    class Rounds(Affine):
        def _rounded(self, t: np.ndarray) -> np.ndarray:
            whole = round_float(np.where(np.isnan(t), np.float32(0), t), mode)
            return np.minimum(np.maximum(whole, 0), self.steps).astype(np.uint8)

    return Rounds


def _stores(pattern_of: Callable[[float], int]) -> type[Affine]:
    """Steps are stored another way; zero points are fp16 values and stay equal."""

    class Stores(Affine):
        def stored(self, x: np.ndarray) -> np.ndarray:
            return np.array([pattern_of(value) for value in x.ravel().tolist()], np.uint16).reshape(x.shape)

    return Stores


def _never_zero(x: float) -> int:
    """Pattern of the nearest fp16; for a positive value at least the smallest subnormal."""
    return pattern16(x) or int(x > 0)


class NanLargest(Affine):
    """0 / 0, in a group of equal features, has the largest code."""

    def _rounded(self, t: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(t), self.steps, super()._rounded(t)).astype(np.uint8)


class Copies(KvCompressor):
    """Low tokens are encoded from fp16 vectors that are stored in addition to the page."""

    @cached_property
    def vectors(self) -> dict[int, tuple[np.ndarray, ...]]:
        """Key and value by high slot."""
        return {}

    def _lowered(self) -> np.ndarray:
        token = self._victim()
        key, value = self.vectors[self.state.victim]
        return self._record(self.pages[1], key, value, token.score, token.position)

    def _slot(self, images: Sequence[np.ndarray]) -> int:
        slot = super()._slot(images)
        if self.state.op != APPEND_LOW:
            vectors = self.state.key, self.state.value
            self.vectors[slot] = tuple(fp16.values(np.array(pattern, np.uint16)) for pattern in vectors)
        return slot


class Shifted(KvCompressor):
    """Low codes are the high bits of the stored ones, with a step larger by that factor."""

    def _lowered(self) -> np.ndarray:
        token, low = self._victim(), self.pages[1]
        formats = low.config.key(self.preset), low.config.value(self.preset)
        parts = []
        for tensor, fmt in zip((token.key, token.value), formats, strict=True):
            step = fp16.to_f32(fp16.values(tensor.scale)) * np.float32(tensor.format.steps / fmt.steps)
            scale = fp16.bits(fp16.narrow(step))
            code = tensor.code >> np.uint8(tensor.format.bits - fmt.bits)
            parts.append(replace(tensor, format=fmt, code=code, scale=scale))
        return low.record(parts[0], parts[1], token.score, token.position)


class LastFillsHole(KvCompressor):
    """The last high token fills the slot of the victim, and the new token takes that of the last."""

    def _slot(self, images: Sequence[np.ndarray]) -> int:
        state = self.state
        if state.op not in (REPLACE, DROP):
            return super()._slot(images)
        self.put(images, APPEND_HIGH, state.victim, self.get(images, APPEND_HIGH, state.n_high - 1))
        return state.n_high - 1


def _records(change: Callable[[np.ndarray, UnifiedPage], np.ndarray]) -> Any:
    """A function on outputs that changes every record."""

    def answer(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
        high, low = KvCompressor(**config).pages
        of_low = (np.asarray(inputs["op"]) == APPEND_LOW)[..., None]
        written = np.where(of_low, change(result.written, low), change(result.written, high))
        return {"written": written, "moved": change(result.moved, low)}

    return answer


def _high_word_first(records: np.ndarray, page: UnifiedPage) -> np.ndarray:
    """Score and position have their high words first."""
    changed = records.copy()
    for name in ("score", "pos"):
        changed[..., page.parts[name]] = records[..., page.parts[name]][..., ::-1]
    return changed


def _first_highest(records: np.ndarray, page: UnifiedPage) -> np.ndarray:
    """The first code of a word is in its highest bits."""
    changed = records.copy()
    for name, width in (("key", page.config.k_bits), ("val", page.config.v_bits)):
        words = records[..., page.parts[name]].astype(np.uint32)
        turned = np.zeros_like(words)
        for low in range(0, 16, width):
            turned |= (words >> np.uint32(low) & np.uint32((1 << width) - 1)) << np.uint32(16 - width - low)
        changed[..., page.parts[name]] = turned.astype(np.uint16)
    return changed


def _at_end(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """The freed slot stays empty: the high section grows with every token that it takes."""
    takes = np.asarray(inputs["op"]) != APPEND_LOW
    return {"n_high": np.add.accumulate(takes, axis=-1, dtype=np.int64).astype(result.n_high.dtype)}


VARIANTS: tuple[Variant, ...] = (
    Variant("D-leankv-1", "the minimum is stored", unit_class=_fields(zero="min")),
    Variant("D-leankv-1", "-min is stored", unit_class=_fields(zero="neg_min")),
    Variant("D-leankv-2", "distances are multiplied by 1 / s", unit_class=_fields(quant_div="recip_mul")),
    Variant("D-leankv-2", "distances are divided by s", unit_class=_fields(quant_div="div")),
    Variant("D-leankv-3", "codes are computed with the stored step", unit_class=_fields(quantize_with="stored")),
    Variant("D-leankv-5", "codes halfway go up", unit_class=_kind(_rounds("half_up"))),
    Variant("D-leankv-5", "codes are truncated", unit_class=_kind(_rounds("floor"))),
    Variant("D-leankv-6", "0 / 0 has the largest code", unit_class=_kind(NanLargest)),
    Variant("D-leankv-7", "a step is never stored as 0", unit_class=_kind(_stores(_never_zero))),
    Variant("D-leankv-11", "feature 0 is in the highest bits", answer=_records(_first_highest)),
    Variant("D-leankv-15", "score and position have their high words first", answer=_records(_high_word_first)),
    Variant("D-leankv-30", "low tokens are encoded from separate fp16 vectors", unit_class=Copies),
    Variant("D-leankv-30", "low codes are the high bits of the stored ones", unit_class=Shifted),
    Variant("D-leankv-31", "the last token fills the freed slot", unit_class=LastFillsHole),
    Variant("D-leankv-31", "the freed slot stays empty", answer=_at_end),
    Variant("D-arith-2", "the stored step is truncated", unit_class=_kind(_stores(rounding.toward_zero16))),
    Variant("D-arith-2", "the stored step rounds half away from 0", unit_class=_kind(_stores(rounding.half_away16))),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-9": "the ports reject NaN and infinity, so no row of a set has them",
    "D-leankv-47": "the position is an input that the record holds unchanged: plan_prompt decides what a prompt "
    "stores there, before this port",
    "D-leankv-48": "the score is an input that the record holds unchanged: plan_prompt decides whose sum a prompt "
    "stores there, before this port",
    "D-leankv-61": "a slot is found where it was written, in any page: only the registers st.high and st.low show it",
}
