"""Compiled forms of kv_compressor and of its functions between tensors. [leankv §4, §6.1]

`write` and `requantize` take the tokens of any number of heads together.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_compiled
from refemu.arith.jit import callee, kernel
from refemu.arith.kernels import narrow_all
from refemu.formats import UnifiedPage
from refemu.formats.leankv.affine import WORD, Preset
from refemu.formats.leankv.compiled import affine as affine_compiled
from refemu.formats.leankv.compiled import kv_page as kv_page_compiled
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.leankv.kv_compressor import (
    APPEND_HIGH,
    APPEND_LOW,
    DROP,
    REPLACE,
    UNIT,
    KvCompressor,
)
from refemu.units.leankv.kv_compressor.tokens import put_prompt


def write(
    page: UnifiedPage,
    preset: Preset,
    images: np.ndarray,
    pages: Any,
    slots: Any,
    key: np.ndarray,
    value: np.ndarray,
    score: Any,
    position: Any,
) -> None:
    """As `kv_compressor.write`."""
    if not _stored(page, preset, images, pages, slots, (key, value), score, position):
        kv_page_compiled.write(page, images, pages, slots, _records(page, preset, key, value, score, position))


def _stored(
    page: UnifiedPage,
    preset: Preset,
    images: np.ndarray,
    pages: Any,
    slots: Any,
    vectors: tuple[np.ndarray, np.ndarray],
    score: Any,
    position: Any,
) -> bool:
    """`write` by one kernel. Returns False, without a write, for invalid arguments."""
    sides, table = storage(page, preset)
    shape = len(vectors[0]), page.head_size
    fits = images.dtype == np.uint16 and images.ndim == 2 and images.shape[1] == page.size // 2
    if not sides.size or not fits or not images.flags.c_contiguous or any(x.shape != shape for x in vectors):
        return False
    key, value = (fp16_compiled.to_f32(x) if x.dtype == np.float16 else fp16_compiled.plain(x) for x in vectors)
    if key.dtype != np.float32 or value.dtype != np.float32:
        return False
    words = np.empty((2, shape[0]), np.uint32)
    words[0], words[1] = np.asarray(score, np.float32).view(np.uint32), np.asarray(position, np.int32).view(np.uint32)
    places = np.empty((2, shape[0]), np.int64)
    places[0], places[1] = pages, slots
    with np.errstate(all="ignore"):
        return bool(store(images, places, table, key, value, sides, words))


@functools.lru_cache(maxsize=32)
def storage(page: UnifiedPage, preset: Preset) -> tuple[np.ndarray, np.ndarray]:
    """`sides` of `store`, empty if it does not compute these formats, and its table."""
    formats = page.config.key(preset), page.config.value(preset)
    if not all(affine_compiled.fused(fmt) or fmt.bits == WORD for fmt in formats):
        return np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int64)
    sides = []
    for fmt, side in zip(formats, ("key", "val"), strict=True):
        starts = page.parts[side].start, page.parts[f"{side}_meta"].start
        sides.append((fmt.bits, fmt.groups, fmt.zero == "min", fmt.quant_div == "recip_mul", *starts))
    return np.array(sides, np.int64), page.slot_words.copy()


@kernel
def store(images, places, table, key, value, sides, words):  # type: ignore[no-untyped-def]
    """Records of key and value (count, F), with `words` (2, count) of score and position, into places (2, count).

    sides (2, 6): for key and value: bits, groups, last zero, multiplies, first word of codes and of metadata.
    Returns whether it was done: not with an invalid place or a vector that is not finite.
    """
    for i in range(places.shape[1]):
        if not (0 <= places[0, i] < images.shape[0] and 0 <= places[1, i] < table.shape[0]):
            return False
    records = np.empty((places.shape[1], table.shape[1]), np.uint16)
    if not _encoded(key, sides[0], records) or not _encoded(value, sides[1], records):
        return False
    for i in range(places.shape[1]):
        record, image, where, last = records[i], images[places[0, i]], table[places[1, i]], table.shape[1] - 4
        for w in range(last):
            image[where[w]] = record[w]
        for w in range(2):
            image[where[last + 2 * w]] = np.uint16(words[w, i] & np.uint32(0xFFFF))
            image[where[last + 2 * w + 1]] = np.uint16(words[w, i] >> np.uint32(16))
    return True


@callee
def _encoded(x, side, records):  # type: ignore[no-untyped-def]
    """Words and metadata of vectors x (count, F) into their parts of records; whether all are finite."""
    bits, groups = side[0], side[1]
    if bits == WORD:
        for i in range(x.shape[0]):
            narrow_all(x[i], records[i, side[4] : side[4] + x.shape[1]])
        return bool(np.isfinite(x).all())
    size, count = x.shape[1] * bits // 16, 2 * groups
    codes, meta = np.empty(2 * size * x.shape[0], np.uint8), np.empty(count * x.shape[0], np.uint16)
    rows = x.reshape(x.shape[0] * groups, x.shape[1] // groups)
    if affine_compiled.encode_groups(rows, bits, side[2] != 0, side[3] != 0, codes, meta) >= affine_compiled.INFINITY:
        return False
    for i in range(x.shape[0]):
        record, code = records[i], codes[2 * size * i :]
        for w in range(size):
            record[side[4] + w] = np.uint16(code[2 * w]) | np.uint16(np.uint16(code[2 * w + 1]) << np.uint16(8))
        for w in range(count):
            record[side[5] + w] = meta[count * i + w]
    return True


def _records(
    page: UnifiedPage, preset: Preset, key: np.ndarray, value: np.ndarray, score: Any, position: Any
) -> np.ndarray:
    """`page.record` of key and value (count, F) in the formats of `preset`."""
    records = np.empty((len(key), page.record_words), np.uint16)
    for fmt, vectors, codes, metadata in (
        (page.config.key(preset), key, "key", "key_meta"),
        (page.config.value(preset), value, "val", "val_meta"),
    ):
        records[:, page.parts[codes]], records[:, page.parts[metadata]] = affine_compiled.encode_words(fmt, vectors)
    for part, words in (
        ("score", np.asarray(score, np.float32).view(np.uint32)),
        ("pos", np.asarray(position, np.int32).view(np.uint32)),
    ):
        records[:, page.parts[part]] = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=-1)
    return records


def requantize(
    high: UnifiedPage, low: UnifiedPage, preset: Preset, images: np.ndarray, source: Any, target: Any
) -> None:
    """As `kv_compressor.requantize`; no target is the source of another."""
    pages, slots = np.asarray(source, np.int64).reshape(-1, 2).T
    to_pages, to_slots = np.asarray(target, np.int64).reshape(-1, 2).T
    token = high.tokens_of(kv_page_compiled.read(high, images, pages, slots), preset)
    key, value = (affine_compiled.decode(t.format, t.code, t.scale, t.zero) for t in (token.key, token.value))
    write(low, preset, images, to_pages, to_slots, key, value, token.score, token.position)


write_prompt = functools.partial(put_prompt, write)  #: As `kv_compressor.write_prompt`


@compiled_run(UNIT)
def run(device: KvCompressor, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run operations of the same index in all devices together."""
    (count, events), heads = inputs[0].shape, Heads(device, len(inputs[0]))
    names = [port.name for port in device.ports.outputs + device.ports.state]
    for output in outputs:
        output[...] = 0
    for event in range(events):
        shown = {name: output[:, event] for name, output in zip(names, outputs, strict=True)}
        heads.step([array[:, event] for array in inputs], shown)
    return count * events, heads.requantized, heads.pruned


class Heads:
    """Pages and lengths of many devices: for each its high pages, then its low pages."""

    def __init__(self, device: KvCompressor, count: int) -> None:
        self.device, (self.high, self.low) = device, device.pages
        self.pages = device.counts[0] + device.counts[1]
        self.images = self.high.empty(self.pages * count)
        self.n_high, self.n_low = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.requantized = self.pruned = 0

    def step(self, inputs: Sequence[np.ndarray], out: dict[str, np.ndarray]) -> None:
        """Run one operation of every device; outputs and registers go into `out`."""
        op, victim, low_slot, key, value, score, position = inputs
        if not self._allowed(op, victim, low_slot):
            self._refuse(op, victim, low_slot)
        preset = self.device.preset
        moves = np.flatnonzero(op == REPLACE)
        if moves.size:
            source, target = self._places(moves, 0, victim[moves]), self._places(moves, 1, low_slot[moves])
            pairs = (np.stack(place, axis=1) for place in (source, target))
            requantize(self.high, self.low, preset, self.images, *pairs)
            out["moved"][moves] = kv_page_compiled.read(self.low, self.images, *target)
        grown = (op == REPLACE) & (low_slot == self.n_low)
        self.requantized += moves.size
        self.pruned += int(np.count_nonzero(op == DROP)) + moves.size - int(np.count_nonzero(grown))
        vectors = fp16.values(key), fp16.values(value)
        slot = np.where(op == APPEND_HIGH, self.n_high, np.where(op == APPEND_LOW, self.n_low, victim))
        for section, page in enumerate(self.device.pages):
            rows = np.flatnonzero((op == APPEND_LOW) == section)
            if rows.size:
                places = self._places(rows, section, slot[rows])
                record = vectors[0][rows], vectors[1][rows], score[rows].view(np.float32), position[rows]
                write(page, preset, self.images, *places, *record)
                out["written"][rows, : page.record_words] = kv_page_compiled.read(page, self.images, *places)
        self.n_high += op == APPEND_HIGH
        self.n_low += (op == APPEND_LOW) | grown
        out["n_high"][:], out["n_low"][:] = self.n_high, self.n_low
        images = self.images.reshape(len(op), self.pages, self.high.size // 2)
        out["high"][:] = images[:, : self.device.counts[0]].reshape(out["high"].shape)
        out["low"][:] = images[:, self.device.counts[0] :].reshape(out["low"].shape)

    def _places(self, devices: np.ndarray, section: int, slot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Image and slot of section slots of some devices."""
        tokens = self.device.pages[section].tokens
        return devices * self.pages + section * self.device.counts[0] + slot // tokens, slot % tokens

    def _allowed(self, op: np.ndarray, victim: np.ndarray, low_slot: np.ndarray) -> bool:
        """Whether the operation of every device is allowed."""
        takes, moves = (op == REPLACE) | (op == DROP), op == REPLACE
        grows_low = (op == APPEND_LOW) | (moves & (low_slot == self.n_low))
        room = [pages * page.tokens for pages, page in zip(self.device.counts, self.device.pages, strict=True)]
        bad = (takes & (victim >= self.n_high)) | (moves & (low_slot > self.n_low))
        bad |= ((op == APPEND_HIGH) & (self.n_high == room[0])) | (grows_low & (self.n_low == room[1]))
        return not bad.any()

    def _refuse(self, op: np.ndarray, victim: np.ndarray, low_slot: np.ndarray) -> None:
        """Raise the readable unit's error for the first invalid operation."""
        for row in range(len(op)):
            n_high, n_low = int(self.n_high[row]), int(self.n_low[row])
            self.device.state = replace(self.device.state, n_high=n_high, n_low=n_low)
            self.device._require_slots(int(op[row]), int(victim[row]), int(low_slot[row]))


class Stream:
    """One device, an operation at a time, for operations with hundreds of events."""

    def __init__(self, device: KvCompressor) -> None:
        self._ports, self._heads = device.ports, Heads(device, 1)

    def step(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Outputs and registers after an operation, in the form of a State; inputs from `accept`.

        Raises if the operation is invalid; nothing has changed then.
        """
        arrays = [np.array([value], port.dtype) for value, port in zip(inputs, self._ports.inputs, strict=True)]
        every = self._ports.outputs + self._ports.state
        shown = {port.name: np.zeros((1, *port.shape), port.result_dtype) for port in every}
        self._heads.step(arrays, shown)
        return {name: tuple(array[0].tolist()) if array.ndim > 1 else int(array[0]) for name, array in shown.items()}

    def snapshot(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pages and lengths."""
        heads = self._heads
        return heads.images.copy(), heads.n_high.copy(), heads.n_low.copy()

    def restore(self, state: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Restore pages and lengths from `snapshot`."""
        images, n_high, n_low = state
        self._heads.images[...], self._heads.n_high[...], self._heads.n_low[...] = images, n_high, n_low
