"""What a unit is after reset, and the number of each event: the same in every unit, its exceptions by name."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.units.unit import Unit
from tests.units.protocol.blocks import CONFIGS, STRUCTURES, blocks, one_case

ONE16 = 0x3C00  #: 1.0 in fp16
ONE32 = 0x3F80_0000  #: 1.0 in float32
LOWEST16 = 0xFC00  #: -infinity in fp16
LOWEST32 = 0xFF80_0000  #: -infinity in float32

Reset = Mapping[str, Callable[[Any], Any]]


def always(value: Any) -> Callable[[Any], Any]:
    return lambda device: value


def each(port: str, value: int) -> Callable[[Any], Any]:
    """`value` in every lane of a port."""
    return lambda device: next(p for p in device.ports.all if p.name == port).filled(value)


TREES: Reset = {
    "k": lambda device: device.k,
    "p_mask": lambda device: (1,) * device.n,
    "q_mask": lambda device: (1,) * device.n,
    "root_max_valid": always(1),
    "root_min_valid": always(1),
}

STEPS: Reset = {
    "window": always(1),
    "taken": each("taken", -1),
    "cells": each("cells", -1),
    "free": lambda device: device.pages,
}

#: registers that are not 0 after reset: a port's smallest legal value, a free list, an empty page, a tree of one's own
NOT_ZERO: dict[str, Reset] = {
    "bfp_aligner": {"m": always(1)},
    "bfp_converter": {"m": always(1), "ready": always(1)},
    "bfp_pe": {"slot": always(3)},
    "bfp_pe_array_clocked": {"slot": each("slot", 3)},
    "clustering": {"element": always(-1), "scale": always(1)},
    "free_page_list": {
        "taken": each("taken", -1),
        "list_end": lambda device: device.pages - 1,
        "free": lambda device: device.pages,
        "ring": lambda device: tuple(range(device.pages)),
        "tail": lambda device: device.pages,
    },
    "functional": {"top": always(LOWEST16)},
    "generation_compressor": {"window": always(1), "slots": each("slots", -1)},
    "index_function": {"scale": always(ONE16)},
    "index_matmul": {
        "a_scale": lambda device: int(device.norm == "none"),
        "b_scale": lambda device: ONE16 if device.integer else 1,
    },
    "index_norm": {"scale": always(1)},
    "k_offset": {"ready": always(1)},
    "kllm_chip": {"b_scale": each("b_scale", 1), "top": always(LOWEST16)},
    "kv_quantizer": {"bits": always(1)},
    "layer_step": STEPS,
    "olive_requant": {
        "scale_a": always(ONE32),
        "scale_w": each("scale_w", ONE32),
        "scale_next": always(ONE32),
    },
    "orizuru": TREES,
    "orizuru_clocked": TREES,
    "page_manager": {
        "ids": each("ids", -1),
        "list_end": lambda device: device.shape.pages - 1,
        "free": lambda device: device.shape.pages,
        "ring": lambda device: tuple(range(device.shape.pages)),
        "tail": lambda device: device.shape.pages,
        "cells": each("cells", -1),
        "slots": lambda device: tuple(range(device.shape.slots)),
    },
    "pe_lane": {"turns": always(1), "ready": always(1), "fresh": always(1)},
    "page_reader": {"n_high": always(1)},
    "page_table": {"page": always(-1), "ids": each("ids", -1), "cells": each("cells", -1)},
    "paged_attention": {"n_high": always(1)},
    "prompt_compressor": {"window": always(1)},
    "score_quantizer": {"v_scale": each("v_scale", ONE16)},
    "streaming_significance": {"top": each("top", LOWEST32)},
}

#: units of several events that number every one of them
BY_EVENT = {"fdgf"}


def flat(value: Any) -> Iterator[Any]:
    """Every number in a register, however it is nested."""
    if isinstance(value, tuple | bytes):
        for item in value:
            yield from flat(item)
    else:
        yield value


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_every_port_and_register_has_its_reset_value(unit: Unit, name: str) -> None:
    device = unit.unit_class(**unit.configs[name])
    state = device.snapshot()
    special = NOT_ZERO.get(unit.name, {})
    wrong = {}
    for port in unit.ports(unit.configs[name]).all:
        value = getattr(state, port.name)
        want = special[port.name](device) if port.name in special else each(port.name, 0)(device)
        if tuple(flat(value)) != tuple(flat(want)):
            wrong[port.name] = value
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if isinstance(value, int) and field.name not in ("index", *special) and value != 0:
            wrong[field.name] = value

    assert wrong == {}
    assert set(special) <= {field.name for field in dataclasses.fields(state)}
    assert state.event in ("reset", "idle")


INSIDE_STEPS: dict[str, Callable[[Any], list[Any]]] = {
    "manager": lambda device: [device.manager.snapshot()],
    "heads": lambda device: [unit.state for unit in device.units],
}

#: registers inside registers that are not 0 after reset: all their values, in order
NOT_ZERO_INSIDE: dict[str, dict[str, Callable[[Any], list[Any]]]] = {
    "bfp_converter": {"comparing.m": lambda device: [1], "aligning.m": lambda device: [1]},
    "bfp_pe_array": {"work.group": lambda device: [-1] * device.groups * 8},
    "kllm_chip": {
        "lanes": lambda device: [lane.snapshot() for lane in device.array.lanes],
        "functional": lambda device: [device.functional and device.functional.snapshot()],
    },
    "layer_step": INSIDE_STEPS,
    "harmonia_core_clocked": {"core": lambda device: [device.core.snapshot()]},
    "harmonia_core": {"offsets": lambda device: [device.offsets.snapshot()]},
}


def inside(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every number in a register with its place; elements of tuples share one place."""
    if hasattr(value, "_fields"):
        for name, item in zip(value._fields, value, strict=True):
            yield from inside(f"{path}.{name}", item)
    elif isinstance(value, tuple | bytes):
        for item in value:
            yield from inside(path, item)
    else:
        yield path, value


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_every_register_inside_register_has_its_reset_value(unit: Unit, name: str) -> None:
    device = unit.unit_class(**unit.configs[name])
    state = device.snapshot()
    ports, special = {port.name for port in unit.ports(unit.configs[name]).all}, NOT_ZERO_INSIDE.get(unit.name, {})
    held: dict[str, list[Any]] = {}
    for field in dataclasses.fields(state):
        if field.name not in {"event", "index", *ports, *NOT_ZERO.get(unit.name, {})}:
            for path, value in inside(field.name, getattr(state, field.name)):
                held.setdefault(path, []).append(value)
    wrong = {
        path: values
        for path, values in held.items()
        if (values != special[path](device) if path in special else any(value not in (0, None) for value in values))
    }

    assert wrong == {}
    assert set(special) <= set(held)


@pytest.mark.parametrize(("unit", "name"), STRUCTURES)
def test_index_is_number_of_operation_or_of_event(unit: Unit, name: str) -> None:
    """-1 after reset, then one more with each operation; in the units of BY_EVENT, with each event of it."""
    if "index" in {port.name for port in unit.ports(unit.configs[name]).outputs}:
        assert unit.name == "clustering"  # an output of the paper has this name there
        return
    for block in blocks(unit, name):
        device = unit.unit_class(**unit.configs[name])
        numbers, want = [device.snapshot().index], [-1]
        inputs = one_case(unit, dict(block.inputs), 0)
        names = [port.name for port in unit.ports(unit.configs[name]).inputs]
        for event in zip(*(inputs[port].tolist() for port in names), strict=True):
            numbers.append(device.step(**dict(zip(names, event, strict=True))).index)
            want.append(want[-1] + 1)
            while device.busy:
                numbers.append(device.step().index)
                want.append(want[-1] + (unit.name in BY_EVENT))
        assert numbers == want, block.why


def test_exceptions_are_units() -> None:
    assert set(NOT_ZERO) | BY_EVENT <= set(units.names())
    assert np.float16(1).view(np.uint16) == ONE16 and np.float16(-np.inf).view(np.uint16) == LOWEST16
