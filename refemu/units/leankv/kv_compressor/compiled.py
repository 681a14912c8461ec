"""Compiled forms of kv_compressor and of its functions between tensors. [leankv §4, §6.1]

`write` and `requantize` take the tokens of any number of heads together.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_compiled
from refemu.arith.checks import refuse_as
from refemu.arith.jit import kernel
from refemu.formats import UnifiedPage
from refemu.formats.leankv.affine import Preset
from refemu.formats.leankv.compiled import affine as affine_compiled
from refemu.formats.leankv.compiled import kv_page as kv_page_compiled
from refemu.units.derivation import Arrays, Rejected, compiled_run
from refemu.units.leankv.kernels.records import lower, put, store
from refemu.units.leankv.kv_compressor import APPEND_HIGH, APPEND_LOW, REPLACE, UNIT, KvCompressor, tokens


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
    fits = images.dtype == np.uint16 and images.ndim == 2 and images.shape[1] == page.size // 2
    for x in (key, value):
        fits &= x.shape == (len(key), page.head_size) and x.dtype in (np.float16, np.float32)
    if fits and images.flags.c_contiguous:
        table, sides = storage(page, preset)
        words, places = np.empty((2, len(key)), np.uint32), np.empty((2, len(key)), np.int64)
        words[0] = np.asarray(score, np.float32).view(np.uint32)
        words[1] = np.asarray(position, np.int32).view(np.uint32)
        places[0], places[1] = pages, slots
        vectors = (fp16_compiled.to_f32(x) if x.dtype == np.float16 else fp16_compiled.plain(x) for x in (key, value))
        with np.errstate(all="ignore"):
            if store(images, places, table, *vectors, sides, words):
                return
    coded = page.config.key(preset).encode(key), page.config.value(preset).encode(value)  # says what is invalid
    kv_page_compiled.write(page, images, pages, slots, page.record(*coded, score, position))


@functools.lru_cache(maxsize=32)
def storage(page: UnifiedPage, preset: Preset) -> tuple[np.ndarray, np.ndarray]:
    """Words of slots and sides of `storage`, as kernels/records.py has it."""
    sides = []
    for fmt, side in ((page.config.key(preset), "key"), (page.config.value(preset), "val")):
        starts = page.parts[side].start, page.parts[f"{side}_meta"].start
        sides.append((fmt.bits, fmt.groups, fmt.zero == "min", fmt.quant_div == "recip_mul", *starts))
    return page.slot_words.copy(), np.array(sides, np.int64)


def requantize(
    high: UnifiedPage, low: UnifiedPage, preset: Preset, images: np.ndarray, source: Any, target: Any
) -> None:
    """As `kv_compressor.requantize`; no target is the source of another."""
    pages, slots = np.asarray(source, np.int64).reshape(-1, 2).T
    to_pages, to_slots = np.asarray(target, np.int64).reshape(-1, 2).T
    token = high.tokens_of(kv_page_compiled.read(high, images, pages, slots), preset)
    key, value = (affine_compiled.decode(t.format, t.code, t.scale, t.zero) for t in (token.key, token.value))
    write(low, preset, images, to_pages, to_slots, key, value, token.score, token.position)


write_prompt = functools.partial(tokens.put_prompt, write)  #: As `kv_compressor.write_prompt`


@compiled_run(UNIT)
def run(device: KvCompressor, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all operations of all devices."""
    heads = Heads(device, len(inputs[0]))
    if not heads.run(inputs, outputs):
        raise Rejected
    requantized, pruned = heads.counts.tolist()
    return inputs[0].size, requantized, pruned


class Heads:
    """Pages and lengths of many devices: for each its high pages, then its low pages."""

    def __init__(self, device: KvCompressor, count: int) -> None:
        high, low = device.pages
        pages = device.high_pages + device.low_pages
        self.images: np.ndarray = high.empty(count * pages).reshape(count, pages, high.size // 2)
        self.stored: np.ndarray = np.zeros((count, 2), np.int64)
        self.counts: np.ndarray = np.zeros(2, np.int64)  #: tokens requantized and pruned
        self._rooms = np.array([device.counts, (high.tokens, low.tokens)], np.int64)
        self._storage = *storage(high, device.preset), *storage(low, device.preset)

    def run(self, inputs: Arrays, outputs: Arrays) -> bool:
        """Run operations (devices, events); False for an invalid one, before which all are done."""
        key, value, score, position = inputs[3:]
        vectors = fp16_compiled.to_f32(fp16.values(np.stack([key, value], axis=-2)))
        numbers = [array.astype(np.int64) for array in inputs[:3]]
        for output in outputs:
            output[...] = 0
        ports = *numbers, vectors, score.view(np.uint32), position.view(np.uint32)
        with np.errstate(all="ignore"):
            return bool(
                operations(ports, self.images, self.stored, self._rooms, self._storage, tuple(outputs), self.counts)
            )


@kernel
def operations(ports, images, stored, rooms, storage, shown, counts):  # type: ignore[no-untyped-def]
    """Whether all operations (D, E) are allowed.

    ports: op, victim, low slot, vectors of key and value (2, F), score, position. images: (D, pages, words). stored:
    (D, 2) tokens. rooms: pages of both sections, then tokens of their pages. storage: as kernels/records.py has it.
    shown: outputs and registers. counts: tokens requantized and pruned.
    """
    op, victim, low_slot, vectors, score, position = ports
    written, moved, n_high, n_low, high, low = shown
    for d in range(op.shape[0]):
        for e in range(op.shape[1]):
            kind, slot, to, held = op[d, e], victim[d, e], low_slot[d, e], stored[d]
            moves, section = kind == REPLACE, np.int64(kind == APPEND_LOW)
            if kind < REPLACE:
                slot = held[section]
            grows = (kind == APPEND_HIGH, kind == APPEND_LOW or (moves and to == held[1]))
            if (kind >= REPLACE and slot >= held[0]) or (moves and to > held[1]):
                return False
            for s in range(2):
                if grows[s] and held[s] == rooms[0, s] * rooms[1, s]:
                    return False
            image, inside = section * rooms[0, 0] + slot // rooms[1, section], slot % rooms[1, section]
            if moves:
                to_image, to_inside, size = rooms[0, 0] + to // rooms[1, 1], to % rooms[1, 1], vectors.shape[3]
                if not lower(images[d], image, inside, to_image, to_inside, storage, size, moved[d, e]):
                    return False
            token = vectors[d, e], score[d, e], position[d, e]
            if not put(images[d], image, inside, storage, section, *token, written[d, e]):
                return False
            counts[0] += moves
            counts[1] += np.int64(kind >= REPLACE) - np.int64(moves and grows[1])
            held[0] += grows[0]
            held[1] += grows[1]
            n_high[d, e], n_low[d, e] = held[0], held[1]
            high[d, e], low[d, e] = images[d, : rooms[0, 0]].reshape(-1), images[d, rooms[0, 0] :].reshape(-1)
    return True


class Stream:
    """One device, an operation at a time, for operations with hundreds of events."""

    def __init__(self, device: KvCompressor) -> None:
        self._device, self._heads = device, Heads(device, 1)

    def step(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Outputs and registers after an operation, in the form of a State; inputs from `accept`.

        Raises if the operation is invalid; nothing has changed then.
        """
        device, pages = self._device, self._device.counts[0]
        ports, every = device.ports.inputs, device.ports.outputs + device.ports.state
        arrays = [np.array([[value]], port.dtype) for value, port in zip(inputs, ports, strict=True)]
        shown = [np.zeros((1, 1, *port.shape), port.result_dtype) for port in every]
        if not self._heads.run(arrays, shown):
            (n_high, n_low), (images,) = self._heads.stored[0].tolist(), self._heads.images
            high, low = (tuple(part.ravel().tolist()) for part in (images[:pages], images[pages:]))
            device.state = replace(device.state, n_high=n_high, n_low=n_low, high=high, low=low)
            refuse_as(device.step, *inputs)
        values = (array[0, 0].tolist() for array in shown)
        pairs = zip(every, values, strict=True)
        return {port.name: tuple(value) if port.shape else value for port, value in pairs}

    def snapshot(self) -> tuple[np.ndarray, np.ndarray]:
        """Pages and lengths."""
        return self._heads.images.copy(), self._heads.stored.copy()

    def restore(self, state: tuple[np.ndarray, np.ndarray]) -> None:
        """Restore pages and lengths from `snapshot`."""
        self._heads.images[...], self._heads.stored[...] = state
