"""Compiled form of layer_step.

Paper: [leankv §4 Algorithm 1, §5.3, §6.1, §6.2]. One kernel runs shares under Algorithm 1, for all events of a device.
Other rules, vectors of 16 bits and partitions run event by event: every stage is then a compiled unit, over all heads
of all requests of all devices that are at a generation step.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from refemu.arith import fp16, integers, threads
from refemu.arith.fp16_compiled import plain, ready, to_f32
from refemu.formats import UnifiedPage
from refemu.formats.leankv.compiled import kv_page as kv_page_compiled
from refemu.units.derivation import Arrays, Rejected, compiled_run
from refemu.units.leankv.generation_compressor import GenerationCompressor
from refemu.units.leankv.generation_compressor import compiled as generation_compressor
from refemu.units.leankv.kernels.steps import TOTALS, all_events, call, misplaced
from refemu.units.leankv.kv_compressor import compiled as kv_compressor
from refemu.units.leankv.layer_step import COUNTERS, LOAD, NONE, STEP, UNIT, LayerStep
from refemu.units.leankv.layer_step.registers import DECIDED, MANAGED, OUTPUTS, WORDS, WRITTEN
from refemu.units.leankv.page_table import HIGH, LOW
from refemu.units.leankv.paged_attention import Pages
from refemu.units.leankv.paged_attention import compiled as paged_attention
from refemu.units.leankv.paged_attention.compiled.page_reads import sections_of
from refemu.units.leankv.paged_attention.compiled.paged_attention import (
    GRAIN,
    attend_unchecked,
    layout_of,
    numbers_of,
    settings_of,
)
from refemu.units.leankv.prefix_sum.compiled import network

ALGORITHM1 = "algorithm1"
Rows: TypeAlias = tuple[np.ndarray, np.ndarray]  #: devices and requests
TOTALLED = (*MANAGED, *DECIDED, *WRITTEN, *WORDS)  #: counters in the order of the kernel's totals


class Devices:
    """Registers of many devices, D of them with R requests of H heads.

    Pages of device d are images d * pages onwards; cells hold numbers within a device. Rows of a step are pairs of
    arrays: devices and requests.
    """

    def __init__(self, device: LayerStep, count: int) -> None:
        shape, heads, requests = device.shape, device.kv_heads, device.requests
        self.device: LayerStep = device
        self.count: int = count
        self.heads: int = heads
        self.pages: Pages = device.layouts
        self.high: UnifiedPage
        self.low: UnifiedPage
        self.high, self.low = device.layouts.sections
        self.images: np.ndarray = self.high.empty(shape.pages * count)
        self.cells: np.ndarray = np.full((count, requests, heads, shape.length), -1, np.int32)
        self.used: np.ndarray = np.zeros((count, shape.entries, 2), np.int64)
        self.tokens: np.ndarray = np.zeros((count, requests, heads, 2), np.int64)
        self.ring: np.ndarray = np.tile(np.arange(shape.pages), (count, 1))
        self.ends: np.ndarray = np.tile(np.array([0, shape.pages]), (count, 1))
        self.requests: np.ndarray = np.zeros((count, requests, 2), np.int64)  #: tokens so far, tokens of the prompt
        self.loaded: np.ndarray = np.zeros((count, requests, heads, 2), np.int64)
        low = shape.low_tokens or 0
        self.sizes: np.ndarray = np.array(
            [shape.high_tokens, low, shape.reserve, shape.lazy_pages, shape.scrub, shape.max_len], np.int64
        )
        self.counts: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self._compressors: dict[int, GenerationCompressor] = {}
        self._first = np.arange(count) * shape.pages

    def fork(self) -> "Devices":
        """A copy of the registers and pages."""
        other = copy.copy(self)
        for name in ("images", "cells", "used", "tokens", "ring", "ends", "requests", "loaded"):
            setattr(other, name, getattr(self, name).copy())
        other.counts = dict(self.counts)
        return other

    def events(
        self, columns: Mapping[str, np.ndarray], shown: Mapping[str, np.ndarray], registers: Mapping[str, np.ndarray]
    ) -> bool:
        """Run all events of every device, (D, E, R, H, lanes), contiguous; False for an invalid one."""
        if self.compiled:
            return self._walk(columns, shown, registers)
        for event in range(columns["op"].shape[1]):
            inputs, outputs = ({name: x[:, event] for name, x in arrays.items()} for arrays in (columns, shown))
            if not self.event(inputs, outputs):
                return False
            for register, value in zip(registers.values(), self.registers(), strict=True):
                register[:, event] = value
        return True

    @property
    def compiled(self) -> bool:
        """Whether one kernel does all events."""
        unit = self.device.units[0]
        coded = all(kv_compressor.storage(page, self.pages.preset)[0].size for page in (self.high, self.low))
        chunk = self.pages.chunk(unit.attention.arithmetic)
        return generation_compressor.by_kernels(unit.compressor) and coded and (not chunk or self.device.slots <= chunk)

    def _walk(
        self, columns: Mapping[str, np.ndarray], shown: Mapping[str, np.ndarray], registers: Mapping[str, np.ndarray]
    ) -> bool:
        """`events` by one kernel; threads share the devices."""
        ready()
        unit, op = self.device.units[0], columns["op"]
        arithmetic, compressor = unit.attention.arithmetic, unit.compressor
        keep = np.stack([columns["keep_high"], columns["keep_low"]], axis=-1)
        vectors = (to_f32(fp16.values(columns[name])) for name in ("key", "value", "q"))
        loads = (columns[name] for name in ("section", "score", "position"))
        limits = plain(columns["thresholds"]).view(np.float32)
        ports = op, columns["members"], columns["prompt"], keep, *loads, *vectors, columns["window"], limits
        outputs = tuple(shown[name].view(np.float32) if name == "p" else shown[name] for name in OUTPUTS)
        pools = self.cells, self.used, self.tokens, self.ring, self.ends
        numbers, settings = numbers_of(self.high.head_size, arithmetic), settings_of(self.pages, arithmetic)
        pages = *layout_of(self.pages), numbers, settings, sections_of(self.pages)
        (sides, table), (low_sides, low_table) = (
            kv_compressor.storage(page, self.pages.preset) for page in (self.high, self.low)
        )
        queries, mean = compressor.score_queries or generation_compressor.EVERY, arithmetic.gqa == "mean"
        rule = np.array([queries, compressor.include_self, compressor.epoch, compressor.low, mean], np.int64)
        operands = (
            *(ports, outputs, tuple(registers.values()), pools, (self.requests, self.loaded)),
            *(self.images.reshape(self.count, self.ring.shape[1], self.images.shape[-1]), self.sizes, self._sums()),
            *(pages, (table, sides, low_table, low_sides), rule),
        )
        totals, fine = np.zeros((self.count, TOTALS), np.int64), np.zeros(self.count, np.bool_)

        def run(first: int, last: int) -> None:
            fine[first:last] = all_events(*operands, totals, first, last)

        with np.errstate(all="ignore"):
            work = op.shape[1] * self.device.shape.entries * self.device.heads * self.device.slots
            threads.share_out(run, self.count, least=1 + GRAIN // max(1, work))
        if not fine.all():
            return False
        for name, count in zip(TOTALLED, integers.total(totals, axis=0).tolist(), strict=True):
            self.counts[name] += count
        stepped = (op == STEP)[..., None] & (columns["members"] != 0)
        self._attended(registers["stored"][stepped].astype(np.int64).reshape(-1, 2))
        return True

    def event(self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray]) -> bool:
        """Run one event of every device, (D, R, H, lanes), outputs into `out`; False for an invalid one."""
        op = inputs["op"]
        devices, requests = np.nonzero((op == STEP)[:, None] & (inputs["members"] != 0))
        steps = devices, requests
        grow = np.stack([inputs["keep_high"], inputs["keep_low"]], axis=-1)
        decided = None
        if steps[0].size:
            decided = self._decide(steps, inputs)
            if decided is None:
                return False
            for section, delta in enumerate((decided.delta_high, decided.delta_low)):
                grow[devices, requests, :, section] = delta
        if not self._managed(inputs, grow, out["taken"]):
            return False
        if (op == LOAD).any() and not self._load(inputs, out):
            return False
        if decided is not None:
            self._step(steps, decided, inputs, out)
        return True

    def registers(self) -> list[np.ndarray]:
        """Registers in the form of the ports."""
        start, free = self.ends[:, 0] % self.device.shape.pages, self.ends[:, 1] - self.ends[:, 0]
        return [self.requests[..., 0], self.tokens, self.loaded, self.cells, start, free]

    def _decide(self, rows: Rows, inputs: Mapping[str, np.ndarray]) -> Any:
        """Decisions of all heads of `rows`; None for an invalid one."""
        seen, prompt = self.requests[rows].T
        fresh = seen == prompt
        if (seen == 0).any() or (fresh[:, None, None] & (self.loaded[rows] != self.tokens[rows])).any():
            return None
        lengths, window = self.tokens[rows], inputs["window"][rows[0]]
        score, position = paged_attention.get_scores(self.pages, self.images, self._entries(rows), lengths)
        policy = self.device.units[0].compressor.policy
        if policy == ALGORITHM1 and misplaced(position, lengths, seen - window):
            return None
        if policy == "static" and lengths[..., 1].any():
            return None
        shape = lengths.shape[:2]
        numbers = [np.broadcast_to(x[:, None], shape) for x in (seen, prompt, window)]
        limits = np.broadcast_to(inputs["thresholds"][rows[0], None], (*shape, 2))
        arrays = [score, position, lengths[..., 0], lengths[..., 1], *numbers, plain(limits)]
        decided, divisions, comparisons = generation_compressor.counted(self._compressor(score.shape[-1]), arrays)
        self.counts["share_divisions"] += divisions
        self.counts["comparisons"] += comparisons
        self.counts["plan_words"] += 4 * int(integers.total(lengths))
        return decided

    def _compressor(self, slots: int) -> GenerationCompressor:
        """The compressor for this number of slots."""
        if slots not in self._compressors:
            unit = self.device.units[0].compressor
            named = ("policy", "score_rule", "low", "keep_percent", "score_queries", "include_self", "epoch")
            self._compressors[slots] = GenerationCompressor(slots, **{name: getattr(unit, name) for name in named})
        return self._compressors[slots]

    def _managed(self, inputs: Mapping[str, np.ndarray], grow: np.ndarray, taken: np.ndarray) -> bool:
        """Make the calls of the memory managers."""
        totals, sums = np.zeros(5, np.int64), self._sums()
        pools = self.cells, self.used, self.tokens, self.ring, self.ends
        held, ports = (self.requests, self.loaded), (inputs["op"], inputs["members"], inputs["prompt"])
        done = call(*ports, grow, self.sizes, sums, *pools, *held, taken, totals)
        for name, count in zip(("allocated", "recycled", "levels", "adds", "pruned"), totals.tolist(), strict=True):
            self.counts[name] += count
        return bool(done)

    def _sums(self) -> np.ndarray:
        """Levels and additions of prefix sums over one element a head, and over two, by the number of requests."""
        heads = [count * self.heads for count in range(self.device.requests + 1)]
        return np.array([network(each) + network(2 * each) for each in heads], np.int64)

    def _entries(self, rows: Rows) -> np.ndarray:
        """Table entries of `rows` with the numbers of images."""
        cells = self.cells[rows]
        return np.where(cells < 0, -1, cells + self._first[rows[0], None, None]).astype(np.int32)

    def _places(self, rows: Rows, head: np.ndarray, section: int, slot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Image and slot of section slots."""
        page = self.pages.sections[section]
        cell = slot // page.tokens
        if section == LOW:
            cell = self.cells.shape[3] - 1 - cell
        return self.cells[*rows, head, cell] + self._first[rows[0]], slot % page.tokens

    def _load(self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray]) -> bool:
        """Write retained tokens of prompts into their slots."""
        section = np.where(inputs["op"][:, None, None] == LOAD, inputs["section"], NONE)
        for which, page in ((HIGH, self.high), (LOW, self.low)):
            *rows, head = np.nonzero(section == 1 + which)
            if not head.size:
                continue
            pair = rows[0], rows[1]
            slot, position = self.loaded[*pair, head, which], inputs["position"][*pair, head]
            if (slot >= self.tokens[*pair, head, which]).any() or (position >= self.requests[*pair, 1]).any():
                return False
            if not self.device.units[0].compressor.epoch and self._twice(pair, head, position):
                return False
            places = self._places(pair, head, which, slot)
            score = inputs["score"][*pair, head].astype(np.uint32).view(np.float32)
            self._write(page, places, pair, head, inputs, score, position, out["written"])
            self.loaded[*pair, head, which] += 1
        return True

    def _twice(self, rows: Rows, head: np.ndarray, position: np.ndarray) -> bool:
        """Whether a position is in the pages already."""
        held = self.loaded[*rows, head]
        cells = self._entries(rows)[np.arange(len(head)), head]
        slots = paged_attention.get_scores(self.pages, self.images, cells, held)[1]
        inside = np.arange(slots.shape[-1]) < (held[:, :1] + held[:, 1:])
        return bool((inside & (slots == position[:, None])).any())

    def _write(
        self,
        page: Any,
        places: tuple[np.ndarray, np.ndarray],
        rows: Rows,
        head: np.ndarray,
        inputs: Mapping[str, np.ndarray],
        score: Any,
        position: np.ndarray,
        out: np.ndarray,
    ) -> None:
        """Write tokens at the ports into their pages; return their records."""
        key, value = (fp16.values(inputs[name][*rows, head]) for name in ("key", "value"))
        kv_compressor.write(page, self.pages.preset, self.images, *places, key, value, score, position)
        out[*rows, head, : page.record_words] = kv_page_compiled.read(page, self.images, *places)
        self.counts["tokens_written"] += len(head)
        self.counts["record_words"] += len(head) * page.record_words

    def _step(self, rows: Rows, decided: Any, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray]) -> None:
        """Run moves, writes, attention and scores of `rows`."""
        for name in ("choice", "victim", "low_slot"):
            out[name][rows] = getattr(decided, name)
        row, head = (index.ravel() for index in np.indices((len(rows[0]), self.heads)))
        pair = rows[0][row], rows[1][row]
        taken = decided.victim.astype(np.int64).ravel()
        low_slot = decided.low_slot.astype(np.int64).ravel()
        places = self._places(pair, head, HIGH, taken)
        moves = np.flatnonzero(low_slot >= 0)
        if moves.size:
            moving = pair[0][moves], pair[1][moves]
            target = self._places(moving, head[moves], LOW, low_slot[moves])
            pairs = np.stack([place[moves] for place in places], axis=1), np.stack(target, axis=1)
            kv_compressor.requantize(self.high, self.low, self.pages.preset, self.images, *pairs)
            out["moved"][*moving, head[moves]] = kv_page_compiled.read(self.low, self.images, *target)
            self.counts["requantized"] += moves.size
            self.counts["move_words"] += moves.size * self.high.record_words
            self.counts["record_words"] += moves.size * self.low.record_words
        newest = self.requests[*rows, 0] - 1
        position = newest[row].astype(np.int32)
        self._write(self.high, places, pair, head, inputs, np.float32(0), position, out["written"])
        self._attend(rows, newest, inputs["q"], out)

    def _attend(self, rows: Rows, newest: np.ndarray, q: np.ndarray, out: Mapping[str, np.ndarray]) -> None:
        """Run attention and add to the scores."""
        arithmetic, lengths, cells = self.device.units[0].attention.arithmetic, self.tokens[rows], self._entries(rows)
        queries = to_f32(fp16.values(q[rows]))
        output, p = attend_unchecked(self.pages, queries, self.images, cells, lengths, arithmetic)
        position = np.broadcast_to(newest[:, None], lengths.shape[:2])
        options = arithmetic.include_self, arithmetic.gqa
        paged_attention.add_scores(self.pages, self.images, cells, lengths, p, position, *options)
        scores = paged_attention.get_scores(self.pages, self.images, cells, lengths)[0]
        most = min(scores.shape[-1], out["scores"].shape[-1])
        out["out"][rows] = fp16.bits(fp16.narrow(output))
        out["p"][*rows, ..., : p.shape[-1]] = p.view(np.uint32)
        out["scores"][*rows, :, :most] = scores[..., :most]
        self._attended(lengths.reshape(-1, 2))

    def _attended(self, lengths: np.ndarray) -> None:
        """Counters of attention over heads of these tokens (heads, 2)."""
        attention = self.device.units[0].attention
        local = np.arange(len(lengths) * attention.cells).reshape(-1, attention.cells)  # page ids within a head
        for name, count in paged_attention.counters(attention, local, lengths).items():
            renamed = {"pages": "pages_read", "divisions": "softmax_divisions"}.get(name, name)
            self.counts[renamed] += count


def by_port(device: LayerStep, inputs: Arrays, outputs: Arrays) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs by port, (D, E, R, H, lanes), and outputs likewise, cleared."""
    shape, heads = inputs[0].shape, (device.requests, device.kv_heads)
    wide = {"key": (*heads, device.head_size), "value": (*heads, device.head_size), "thresholds": (2,)}
    wide |= {"q": (*heads, device.heads, device.head_size), "op": (), "window": ()}
    wide |= {"prompt": heads[:1], "members": heads[:1]}
    columns, shown = {"members": np.ones((*shape, device.requests), np.int64)}, dict[str, np.ndarray]()
    for port, array in zip(device.ports.inputs, inputs, strict=True):
        dtype = array.dtype if port.name in ("q", "key", "value", "thresholds") else np.int64
        columns[port.name] = array.astype(dtype, copy=False).reshape(*shape, *wide.get(port.name, heads))
    for port, array in zip(device.ports.outputs, outputs, strict=True):
        array[...] = -1 if port.name == "taken" else 0
        lanes = port.count // device.shape.entries
        split = (device.heads, lanes // device.heads) if port.name in ("out", "p") else (lanes,) * (lanes > 1)
        shown[port.name] = array.reshape(*shape, *heads, *split)
    return columns, shown


def by_register(device: LayerStep, arrays: Arrays) -> dict[str, np.ndarray]:
    """Registers by port, (D, E, R, H, lanes)."""
    heads = device.requests, device.kv_heads
    wide = {"seen": heads[:1], "stored": (*heads, 2), "loaded": (*heads, 2), "cells": (*heads, device.shape.length)}
    return {
        port.name: array.reshape(*array.shape[:2], *wide.get(port.name, ()))
        for port, array in zip(device.ports.state, arrays, strict=True)
    }


def _ordered(device: LayerStep, columns: Mapping[str, np.ndarray]) -> bool:
    """Whether the thresholds of every step are valid."""
    compressor = device.units[0].compressor
    limits = plain(columns["thresholds"]).view(np.float32)[columns["op"] == STEP]
    if compressor.policy == ALGORITHM1:
        return not (limits[:, 0] > limits[:, 1]).any()
    return compressor.policy != "diffkv" or compressor.low or not (limits[:, 0] != limits[:, 1]).any()


@compiled_run(UNIT)
def run(device: Any, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All events of all devices."""
    devices, ports = Devices(device, len(inputs[0])), len(device.ports.outputs)
    columns, shown = by_port(device, inputs, outputs[:ports])
    registers = by_register(device, outputs[ports:])
    if not (_ordered(device, columns) and devices.events(columns, shown, registers)):
        raise Rejected
    return [devices.counts[name] for name in COUNTERS]
