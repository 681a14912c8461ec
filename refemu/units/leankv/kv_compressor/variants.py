"""Variants of the decisions of kv_compressor, and of its codes and records."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from refemu.units.variant import Variant, overriding

_device = overriding(KvCompressor)


def _coded(text: str, other: Callable[[Affine], Affine]) -> Variant:
    """A compressor whose codes have other formats than the preset's."""

    def record(self: KvCompressor, page: UnifiedPage, key: Any, value: Any, *rest: Any) -> np.ndarray:
        formats = page.config.key(self.preset), page.config.value(self.preset)
        return page.record(other(formats[0]).encode(key), other(formats[1]).encode(value), *rest)

    def victim(old: KvCompressor, self: KvCompressor) -> PageTokens:
        token = old._victim()
        key, value = (replace(tensor, format=other(tensor.format)) for tensor in (token.key, token.value))
        return replace(token, key=key, value=value)

    return _device(text, _record=record, _victim=victim)


def _fields(text: str, **fields: Any) -> Variant:
    """A compressor whose formats differ in one field."""
    return _coded(text, lambda fmt: replace(fmt, **fields))


def _kind(text: str, **members: Any) -> Variant:
    """A compressor whose formats have other methods."""
    kind: Any = overriding(Affine)(text, **members).unit_class
    return _coded(text, lambda fmt: kind(fmt.bits, fmt.groups, fmt.zero, fmt.quant_div, fmt.quantize_with, fmt.meta))


def _rounds(mode: Rounding) -> Callable[[Affine, np.ndarray], np.ndarray]:
    """Codes round in another way."""

    def rounded(self: Affine, t: np.ndarray) -> np.ndarray:
        whole = round_float(np.where(np.isnan(t), np.float32(0), t), mode)
        return np.minimum(np.maximum(whole, 0), self.steps).astype(np.uint8)

    return rounded


def _stores(text: str, pattern_of: Callable[[float], int]) -> Variant:
    """Steps are stored another way; zero points are fp16 values and stay equal."""
    return _kind(text, stored=lambda self, x: rounding.patterns(pattern_of, x))


def _nan_largest(old: Affine, self: Affine, t: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(t), self.steps, old._rounded(t)).astype(np.uint8)


def _lowered_copy(self: KvCompressor) -> np.ndarray:
    token = self._victim()
    key, value = vars(self)["vectors"][self.state.victim]
    return self._record(self.pages[1], key, value, token.score, token.position)


def _slot_with_copy(old: KvCompressor, self: KvCompressor, images: Sequence[np.ndarray]) -> int:
    slot = old._slot(images)
    if self.state.op != APPEND_LOW:
        patterns = self.state.key, self.state.value
        vars(self).setdefault("vectors", {})[slot] = tuple(fp16.values(np.array(each, np.uint16)) for each in patterns)
    return slot


def _lowered_shifted(self: KvCompressor) -> np.ndarray:
    """High bits of the stored codes, with a step larger by that factor."""
    token, low = self._victim(), self.pages[1]
    formats = low.config.key(self.preset), low.config.value(self.preset)
    parts = []
    for tensor, fmt in zip((token.key, token.value), formats, strict=True):
        step = fp16.to_f32(fp16.values(tensor.scale)) * np.float32(tensor.format.steps / fmt.steps)
        scale = fp16.bits(fp16.narrow(step))
        code = tensor.code >> np.uint8(tensor.format.bits - fmt.bits)
        parts.append(replace(tensor, format=fmt, code=code, scale=scale))
    return low.record(parts[0], parts[1], token.score, token.position)


def _slot_of_last(old: KvCompressor, self: KvCompressor, images: Sequence[np.ndarray]) -> int:
    state = self.state
    if state.op not in (REPLACE, DROP):
        return old._slot(images)
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
    _fields("D-leankv-1: the minimum is stored", zero="min"),
    _fields("D-leankv-1: -min is stored", zero="neg_min"),
    _fields("D-leankv-2: distances are multiplied by 1 / s", quant_div="recip_mul"),
    _fields("D-leankv-2: distances are divided by s", quant_div="div"),
    _fields("D-leankv-3: codes are computed with the stored step", quantize_with="stored"),
    _kind("D-leankv-5: codes halfway go up", _rounded=_rounds("half_up")),
    _kind("D-leankv-5: codes are truncated", _rounded=_rounds("floor")),
    _kind("D-leankv-6: 0 / 0 has the largest code", _rounded=_nan_largest),
    _stores("D-leankv-7: a step is never stored as 0", lambda step: pattern16(step) or int(step > 0)),
    Variant("D-leankv-11", "feature 0 is in the highest bits", answer=_records(_first_highest)),
    Variant("D-leankv-15", "score and position have their high words first", answer=_records(_high_word_first)),
    _device(
        "D-leankv-30: low tokens are encoded from separate fp16 vectors", _lowered=_lowered_copy, _slot=_slot_with_copy
    ),
    _device("D-leankv-30: low codes are the high bits of the stored ones", _lowered=_lowered_shifted),
    _device("D-leankv-31: the last token fills the freed slot", _slot=_slot_of_last),
    Variant("D-leankv-31", "the freed slot stays empty", answer=_at_end),
    _stores("D-arith-2: the stored step is truncated", rounding.toward_zero16),
    _stores("D-arith-2: the stored step rounds half away from 0", rounding.half_away16),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-9": "the ports reject NaN and infinity, so no row of a set has them",
    "D-leankv-47": "the position is an input that the record holds unchanged: plan_prompt decides what a prompt "
    "stores there, before this port",
    "D-leankv-48": "the score is an input that the record holds unchanged: plan_prompt decides whose sum a prompt "
    "stores there, before this port",
    "D-leankv-61": "a slot is found where it was written, in any page: only the registers st.high and st.low show it",
}
