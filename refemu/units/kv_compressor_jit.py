"""Compiled twins of kv_compressor's functions and of its run. Read kv_compressor.py first. [leankv §4, §6.1]

`write` and `requantize` take the tokens of any number of heads together.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats import UnifiedPage, affine_jit, kv_page_jit
from refemu.units.kv_compressor import (
    APPEND_HIGH,
    APPEND_LOW,
    DROP,
    REPLACE,
    KvCompressor,
    PromptPlan,
    Result,
    places,
    require_finite,
)
from refemu.units.unit import admit_events


def write(page: UnifiedPage, preset: str, images: np.ndarray, pages: Any, slots: Any, key: np.ndarray,
          value: np.ndarray, score: Any, position: Any) -> None:
    """As `kv_compressor.write`."""
    kv_page_jit.write(page, images, pages, slots, _records(page, preset, key, value, score, position))


def _records(page: UnifiedPage, preset: str, key: np.ndarray, value: np.ndarray, score: Any,
             position: Any) -> np.ndarray:
    """`page.record` of what the formats of `preset` make of key and value (count, F)."""
    records = np.empty((len(key), page.record_words), np.uint16)
    for fmt, vectors, codes, metadata in ((page.config.key(preset), key, "key", "key_meta"),
                                          (page.config.value(preset), value, "val", "val_meta")):
        records[:, page.parts[codes]], records[:, page.parts[metadata]] = affine_jit.encode_words(fmt, vectors)
    for part, words in (("score", np.asarray(score, np.float32).view(np.uint32)),
                        ("pos", np.asarray(position, np.int32).view(np.uint32))):
        records[:, page.parts[part]] = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=-1)
    return records


def requantize(high: UnifiedPage, low: UnifiedPage, preset: str, images: np.ndarray, source: Any, target: Any) -> None:
    """As `kv_compressor.requantize`; no target is the source of another."""
    pages, slots = np.asarray(source, np.int64).reshape(-1, 2).T
    to_pages, to_slots = np.asarray(target, np.int64).reshape(-1, 2).T
    token = high.tokens_of(kv_page_jit.read(high, images, pages, slots), preset)
    key, value = (affine_jit.decode(t.format, t.code, t.scale, t.zero) for t in (token.key, token.value))
    write(low, preset, images, to_pages, to_slots, key, value, token.score, token.position)


def write_prompt(high: UnifiedPage, low: UnifiedPage | None, preset: str, images: np.ndarray, ids: Any,
                 plan: PromptPlan, key: np.ndarray, value: np.ndarray) -> None:
    """As `kv_compressor.write_prompt`."""
    for page, section, tokens in ((high, ids[0], plan.high), (low, ids[1], plan.low)):
        if page is not None and len(tokens):
            pages, slots = places(page, section, np.arange(len(tokens)))
            write(page, preset, images, pages, slots, key[tokens], value[tokens], plan.score[tokens],
                  plan.position[tokens])


def run(op: Any, victim: Any, low_slot: Any, key: Any, value: Any, score: Any, position: Any, **config: Any) -> Result:
    """As `kv_compressor.run`: all devices do their operation of one index together."""
    device = KvCompressor(**config)
    arrays = admit_events(device.name, device.ports.inputs, (op, victim, low_slot, key, value, score, position))
    shape = arrays[0].shape
    count, events = prod(shape[:-1]), shape[-1]
    flat = [array.reshape(count, events, *array.shape[len(shape) :]) for array in arrays]
    require_finite(np.stack(flat[3:5]))
    shown = (*device.ports.outputs, *device.ports.state)
    outputs: dict[str, Any] = {port.name: np.zeros((count, events, *([port.lanes] if port.lanes > 1 else [])),
                                                   port.result_dtype) for port in shown}
    heads = _Heads(device, count)
    for event in range(events):
        heads.step([array[:, event] for array in flat], {name: array[:, event] for name, array in outputs.items()})
    shaped = {name: array.reshape(*shape, *array.shape[2:]) for name, array in outputs.items()}
    counts = {"tokens_written": count * events, "requantized": heads.requantized, "pruned": heads.pruned}
    fields: dict[str, Any] = {**shaped, **counts}
    return Result(**fields)


class _Heads:
    """Pages and lengths of many devices: image 2 * i is the high page of device i, 2 * i + 1 its low one."""

    def __init__(self, device: KvCompressor, count: int) -> None:
        self.device, (self.high, self.low) = device, device.pages
        self.images = self.high.empty(2 * count)
        self.n_high, self.n_low = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.requantized = self.pruned = 0

    def step(self, inputs: list[np.ndarray], out: dict[str, np.ndarray]) -> None:
        """One operation of every device; what it shows goes into `out`."""
        op, victim, low_slot, key, value, score, position = inputs
        if not self._allowed(op, victim, low_slot):
            self._refuse(op, victim, low_slot)
        preset, high_page = self.device.preset, 2 * np.arange(len(op))
        moves = np.flatnonzero(op == REPLACE)
        target = np.stack([high_page[moves] + 1, low_slot[moves]], axis=1)
        if moves.size:
            source = np.stack([high_page[moves], victim[moves]], axis=1)
            requantize(self.high, self.low, preset, self.images, source, target)
            out["moved"][moves] = kv_page_jit.read(self.low, self.images, target[:, 0], target[:, 1])
        grown = (op == REPLACE) & (low_slot == self.n_low)
        self.requantized += moves.size
        self.pruned += int(np.count_nonzero(op == DROP)) + moves.size - int(np.count_nonzero(grown))
        vectors = fp16.values(key), fp16.values(value)
        slot = np.where(op == APPEND_HIGH, self.n_high, np.where(op == APPEND_LOW, self.n_low, victim))
        for page, rows in ((self.high, np.flatnonzero(op != APPEND_LOW)), (self.low, np.flatnonzero(op == APPEND_LOW))):
            if rows.size:
                pages = high_page[rows] + (page is self.low)
                write(page, preset, self.images, pages, slot[rows], vectors[0][rows], vectors[1][rows],
                      score[rows].view(np.float32), position[rows])
                out["written"][rows, : page.record_words] = kv_page_jit.read(page, self.images, pages, slot[rows])
        self.n_high += op == APPEND_HIGH
        self.n_low += (op == APPEND_LOW) | grown
        out["n_high"][:], out["n_low"][:] = self.n_high, self.n_low
        out["high"][:], out["low"][:] = self.images[::2], self.images[1::2]

    def _allowed(self, op: np.ndarray, victim: np.ndarray, low_slot: np.ndarray) -> bool:
        """Whether every device may do its operation."""
        takes, moves = (op == REPLACE) | (op == DROP), op == REPLACE
        grows_low = (op == APPEND_LOW) | (moves & (low_slot == self.n_low))
        bad = (takes & (victim >= self.n_high)) | (moves & (low_slot > self.n_low))
        bad |= ((op == APPEND_HIGH) & (self.n_high == self.high.tokens)) | (grows_low & (self.n_low == self.low.tokens))
        return not bad.any()

    def _refuse(self, op: np.ndarray, victim: np.ndarray, low_slot: np.ndarray) -> None:
        """Raise what the readable unit raises for the first device that may not."""
        for row in range(len(op)):
            state = self.device.state
            self.device.state = type(state)(**{**vars(state), "n_high": int(self.n_high[row]),
                                               "n_low": int(self.n_low[row])})
            self.device._require_slots(int(op[row]), int(victim[row]), int(low_slot[row]))
