"""Compiled form of layer_step: all events of a device by one kernel.

Paper: [leankv §4 Algorithm 1, §5.3, §6.1, §6.2].
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16, integers, threads
from refemu.arith.fp16_compiled import plain, ready, to_f32
from refemu.units.derivation import Arrays, Rejected, compiled_run
from refemu.units.leankv.generation_compressor.compiled import rule_of
from refemu.units.leankv.kernels.steps import TOTALS, all_events
from refemu.units.leankv.kv_compressor import compiled as kv_compressor
from refemu.units.leankv.layer_step import COUNTERS, STEP, UNIT, LayerStep
from refemu.units.leankv.layer_step.registers import DECIDED, MANAGED, OUTPUTS, WORDS, WRITTEN
from refemu.units.leankv.page_manager import PageManager
from refemu.units.leankv.page_manager.compiled.page_manager import sums_of
from refemu.units.leankv.paged_attention import Pages
from refemu.units.leankv.paged_attention import compiled as paged_attention
from refemu.units.leankv.paged_attention.compiled.page_reads import sections_of
from refemu.units.leankv.paged_attention.compiled.paged_attention import GRAIN, layout_of, numbers_of, settings_of

ALGORITHM1 = "algorithm1"
TOTALLED = (*PageManager.counters, *DECIDED, *WRITTEN, *WORDS)  #: counters in the order of the kernel's totals


class Devices:
    """Registers of many devices, D of them with R requests of H heads.

    Pages of device d are images d * pages onwards; cells hold numbers within a device.
    """

    def __init__(self, device: LayerStep, count: int) -> None:
        shape, heads, requests = device.shape, device.kv_heads, device.requests
        self.device: LayerStep = device
        self.count: int = count
        self.pages: Pages = device.layouts
        self.images: np.ndarray = device.layouts.high.empty(shape.pages * count)
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
        """Run all events of every device, (D, E, R, H, lanes), contiguous; False for an invalid one.

        Threads share the devices.
        """
        ready()
        unit, op = self.device.units[0], columns["op"]
        arithmetic, compressor = unit.attention.arithmetic, unit.compressor
        keep = np.stack([columns["keep_high"], columns["keep_low"]], axis=-1)
        both, q = np.stack([columns["key"], columns["value"]], axis=-2), columns["q"]
        vectors = (to_f32(fp16.values(patterns)) for patterns in (both, q))
        loads = (columns[name] for name in ("section", "score", "position"))
        limits = plain(columns["thresholds"]).view(np.float32)
        ports = op, columns["members"], columns["prompt"], keep, *loads, *vectors, columns["window"], limits
        outputs = tuple(shown[name].view(np.float32) if name == "p" else shown[name] for name in OUTPUTS)
        pools = self.cells, self.used, self.tokens, self.ring, self.ends
        numbers, settings = numbers_of(self.device.head_size, arithmetic), settings_of(self.pages, arithmetic)
        pages = *layout_of(self.pages), numbers, settings, sections_of(self.pages)
        storage = [array for page in self.pages.sections for array in kv_compressor.storage(page, self.pages.preset)]
        rule = np.array([*rule_of(compressor), arithmetic.gqa == "mean"], np.int64)
        images, held = (
            self.images.reshape(self.count, self.device.shape.pages, self.images.shape[-1]),
            (self.requests, self.loaded),
        )
        operands = (
            *(ports, outputs, tuple(registers.values()), pools, held, images, self.sizes),
            *(sums_of(self.device.shape.entries), pages, tuple(storage), rule),
        )
        totals, fine = np.zeros((self.count, TOTALS), np.int64), np.zeros(self.count, np.bool_)

        def run(first: int, last: int) -> None:
            fine[first:last] = all_events(*operands, totals, first, last)

        with np.errstate(all="ignore"):
            work = op.shape[1] * self.device.shape.entries * self.device.heads * self.device.slots
            threads.share_out(run, self.count, least=1 + GRAIN // max(1, work))
        if not fine.all():
            return False
        done = dict(zip(TOTALLED, integers.total(totals, axis=0).tolist(), strict=True))
        for name in (*MANAGED, *DECIDED, *WRITTEN, *WORDS):
            self.counts[name] += done[name]
        stepped = (op == STEP)[..., None] & (columns["members"] != 0)
        self._attended(registers["stored"][stepped].astype(np.int64).reshape(-1, 2))
        return True

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
