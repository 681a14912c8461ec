"""Every unit keeps the protocol: descriptor, twin, states, snapshots, refusals, cases. New units join by name."""

import dataclasses
import importlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu import units
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.jit import jit_is_off
from refemu.golden import keywords
from refemu.units.unit import KINDS, Cases, Config, Port, Unit
from refemu.units.unit_cases import admitted
from tests.arith.interpreted import interpreted, loaded

CONFIGS = [
    pytest.param(units.find(unit), name, id=f"{unit}-{name}")
    for unit in units.names()
    for name in units.find(unit).configs
]
UNITS = [pytest.param(units.find(unit), id=unit) for unit in units.names()]
OWN = KINDS[:-1]  # "model" comes from taps
#: units, and configurations, whose twin is NumPy or the readable form alone
WITHOUT_A_KERNEL = {
    "functional-exp",
    "functional-recip",
    "functional-sqrt",
    "generation_compressor-cumulative",
    "generation_compressor-diffkv",
    "generation_compressor-static",
    "generation_compressor-wide_cumulative",
    "prefix_sum",
    "prompt_compressor",
    "significance",
}


def blocks(unit: Unit, name: str) -> Iterator[Cases]:
    for kind in OWN:
        yield from unit.cases(unit.configs[name], kind, 0)


def rows(unit: Unit, inputs: dict[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """About `count` rows from the start of a block."""
    per_case = next(iter(inputs.values())).shape[1] if unit.timing == "event" else 1
    return {port: array[: -(-count // per_case)] for port, array in inputs.items()}


def one_case(unit: Unit, inputs: dict[str, np.ndarray], case: int) -> dict[str, np.ndarray]:
    return {port: array[case] if unit.timing == "event" else array[case : case + 1] for port, array in inputs.items()}


def test_names_are_the_modules() -> None:
    assert {"flint_decoder", "olive_mac", "outlier_decoder", "ovp_decoder"} <= set(units.names())
    assert list(units.names()) == sorted(units.names())


def test_unknown_unit_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Refused, match="unknown unit 'ovp_decode'; did you mean 'ovp_decoder'"):
        units.find("ovp_decode")


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_port_names_are_no_keywords(unit: Unit, name: str) -> None:
    """Of Verilog, SystemVerilog or C: RTL and kernels use them as they are."""
    ports = unit.ports(unit.configs[name])
    keywords.require_names([port.name for port in (*ports.inputs, *ports.outputs)], unit.name)
    keywords.require_names([port.name for port in ports.state], unit.name)


@pytest.mark.parametrize("unit", UNITS)
def test_descriptor_is_complete(unit: Unit) -> None:
    assert unit is units.find(unit.name)
    assert unit.configs and unit.meaning and re.match(r"(olive|kllm|harmonia|leankv) §", unit.paper)
    assert unit.timing in ("combinational", "event")
    assert sorted(flag.bit for flag in unit.flags.values()) == list(range(len(unit.flags)))
    assert repr(unit) == f"<Unit {unit.name}: {unit.meaning}>"


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_state_and_result_are_named_as_the_ports(unit: Unit, name: str) -> None:
    ports = unit.ports(unit.configs[name])
    device = unit.unit_class(**unit.configs[name])
    state = {field.name for field in dataclasses.fields(device.snapshot())}
    result = importlib.import_module(unit.run.__module__).Result

    assert {"event", "index"} | {port.name for port in ports.all} <= state
    assert {port.name for port in ports.outputs + ports.state} <= {field.name for field in dataclasses.fields(result)}
    assert len({port.name for port in ports.all}) == len(ports.all)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_cases_fit_their_ports_and_say_why(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    ports = {port.name: port for port in unit.ports(config).inputs}
    for block in blocks(unit, name):
        assert block.kind in OWN and block.why and re.fullmatch(r"(D-[a-z]+-\d+)?", block.decision)
        assert set(block.inputs) == set(ports)
        for port, array in block.inputs.items():
            low, high = ports[port].limits
            assert array.size and array.dtype.kind in "iu" and low <= array.min() and array.max() <= high
            assert array.ndim == 1 + (unit.timing == "event") + (ports[port].lanes > 1)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_first_row_tells_a_device_from_none(unit: Unit, name: str) -> None:
    """Stimulus not zero; answer neither zero nor what an all-zero stimulus gives."""
    config, block = unit.configs[name], next(blocks(unit, name))
    first = {port: array[:1] for port, array in block.inputs.items()}
    lowest = {port.name: max(port.limits[0], 0) for port in unit.ports(config).inputs}
    zeros = {port: array * 0 + lowest[port] for port, array in first.items()}
    result, silent = (unit.evaluate(config, inputs, jit=False) for inputs in (first, zeros))
    outputs = [port.name for port in unit.ports(config).outputs]

    assert any(np.any(array) for array in first.values())
    assert any(np.any(getattr(result, port)) for port in outputs)
    assert any(np.any(getattr(result, port) != getattr(silent, port)) for port in outputs)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_cases_depend_on_the_seed_alone(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    first, again, other = ([block.inputs for block in unit.cases(config, "random", seed)] for seed in (0, 0, 1))

    assert all(np.array_equal(a[port], b[port]) for a, b in zip(first, again, strict=True) for port in a)
    assert any(not np.array_equal(a[port], b[port]) for a, b in zip(first, other, strict=True) for port in a)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_marks_and_masks_are_those_of_the_descriptor(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    for block in blocks(unit, name):
        result = unit.evaluate(config, block.inputs)
        shape = next(iter(block.inputs.values())).shape[: 1 + (unit.timing == "event")]
        marks = unit.mark(config, block.inputs, result) if unit.mark else {}
        masks = unit.care(config, block.inputs, result) if unit.care else {}

        assert set(marks) <= set(unit.flags)
        assert all(mark.shape == shape and mark.dtype == np.bool_ for mark in marks.values())
        assert all(mask.shape == getattr(result, key.removeprefix("out.")).shape for key, mask in masks.items())


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_twin_equals_unit_on_every_case(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    for block in blocks(unit, name):
        assert unit.evaluate(config, block.inputs, jit=False).equals(unit.evaluate(config, block.inputs)), block.why


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_interpreted_kernel_equals_the_compiled_one(unit: Unit, name: str) -> None:
    """Every kernel that the twin reaches, those of formats and of arith included."""
    config = unit.configs[name]
    cases = [rows(unit, dict(block.inputs), 1024) for block in blocks(unit, name)]
    compiled = [unit.evaluate(config, inputs) for inputs in cases]
    with interpreted(loaded()) as ran:
        assert all(unit.evaluate(config, inputs).equals(result) for inputs, result in zip(cases, compiled, strict=True))

    assert jit_is_off() or bool(ran) == WITHOUT_A_KERNEL.isdisjoint({unit.name, f"{unit.name}-{name}"})


@pytest.mark.skipif(jit_is_off(), reason="asks about compiled code")
@pytest.mark.parametrize(
    ("unit", "module", "kernel"),
    [
        ("weighted_sum", "refemu.arith.float_jit", "run_program"),
        ("kv_quantizer", "refemu.formats.affine_jit", "_codes"),
        ("fp16_mac", "refemu.arith.float_jit", "round16_all"),
    ],
)
def test_a_kernel_that_says_otherwise_as_python_is_seen(
    unit: str, module: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of arith and of a format, which a twin reaches without a kernel of its own."""
    name = next(iter(units.find(unit).configs))
    monkeypatch.setattr(getattr(importlib.import_module(module), kernel), "py_func", lambda *_: 0)
    with pytest.raises((AssertionError, Refused)):
        test_interpreted_kernel_equals_the_compiled_one(units.find(unit), name)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_trace_shows_what_run_returns(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    ports = unit.ports(config)
    for block in blocks(unit, name):
        inputs = one_case(unit, dict(block.inputs), 0)
        last = list(unit.trace(config, inputs))[-1]
        result = unit.evaluate(config, inputs, jit=False)
        counters = [field.name for field in dataclasses.fields(result) if field.type is int]

        assert all(
            np.array_equal(np.array(getattr(last, port.name)), getattr(result, port.name)[-1]) for port in ports.outputs
        )
        assert all(np.array_equal(np.array(getattr(last, port.name)), inputs[port.name][-1]) for port in ports.inputs)
        assert counters and all(getattr(last, counter) == getattr(result, counter) for counter in counters)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_states_are_frozen_comparable_hashable_and_evaluate_back(unit: Unit, name: str) -> None:
    config, block = unit.configs[name], next(blocks(unit, name))
    inputs = one_case(unit, dict(block.inputs), 0)
    states, again = (list(unit.trace(config, inputs)) for _ in range(2))

    assert states == again and len({*states, *again}) == len(set(states))
    assert all(eval(repr(state), dict(vars(importlib.import_module(unit.run.__module__)))) == state for state in states)
    with pytest.raises(dataclasses.FrozenInstanceError):
        states[0].index = 7


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_device_and_config_evaluate_back(unit: Unit, name: str) -> None:
    config, unit_class = unit.configs[name], unit.unit_class
    device = unit_class(**config)
    rebuilt = eval(repr(device), {unit_class.__name__: unit_class})

    assert repr(rebuilt) == repr(device) and rebuilt.snapshot() == device.snapshot()
    assert eval(repr(config), {"Config": Config}) == config and hash(config) == hash(Config(**config))


def values(port: Port) -> st.SearchStrategy[Any]:
    low, high = port.limits
    if port.kind == "f32":  # patterns of finite values, most of them where formats decide something
        finite = st.floats(-300, 300, width=32) | st.floats(width=32, allow_nan=False, allow_infinity=False)
        lane = finite.map(lambda x: int(np.float32(x).view(np.uint32)))
    else:
        lane = integers(low, high).map(lambda value: int(admitted(port, np.array(value))))
    return lane if port.lanes == 1 else st.lists(lane, min_size=port.lanes, max_size=port.lanes)


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.one_of(st.sampled_from([low, high, 0, high >> 1, (high >> 1) + 1]), st.integers(low, high))


def drawn(data: st.DataObject, unit: Unit, config: Config, most: int = 6) -> dict[str, np.ndarray]:
    """Any values of the ports; where a unit refuses some of them or their combinations, it says what to take."""
    inputs = drawn_ports(data, unit, config, most)
    return dict(unit.legal(config, inputs)) if unit.legal else inputs


def drawn_ports(data: st.DataObject, unit: Unit, config: Config, most: int) -> dict[str, np.ndarray]:
    wide = [port for port in unit.ports(config).inputs if port.lanes > 16]
    if wide:  # drawn lane by lane this would take seconds
        rng = np.random.default_rng(data.draw(st.integers(0, 999)))
        return {port.name: drawn_lanes(data, port, rng) for port in unit.ports(config).inputs}
    count = data.draw(st.integers(1, most))
    return {
        port.name: np.array(data.draw(st.lists(values(port), min_size=count, max_size=count)), port.dtype)
        for port in unit.ports(config).inputs
    }


def drawn_lanes(data: st.DataObject, port: Port, rng: np.random.Generator) -> np.ndarray:
    """One row of a port: random lanes between two drawn places and the smallest value elsewhere, so that hypothesis can
    shrink a failure to the lanes that matter.
    """
    values = rng.integers(*port.limits, (1, port.lanes), np.int64, endpoint=True)
    count = data.draw(st.integers(0, port.lanes) | st.just(port.lanes))
    first = data.draw(st.integers(0, port.lanes - count))
    lane = np.arange(port.lanes)
    values = np.where((first <= lane) & (lane < first + count), values, max(port.limits[0], 0))
    return admitted(port, values if port.lanes > 1 else values[:, 0]).astype(port.dtype)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_twin_equals_unit_on_drawn_inputs(unit: Unit, name: str, data: st.DataObject) -> None:
    config = unit.configs[name]
    inputs = drawn(data, unit, config)

    assert unit.evaluate(config, inputs, jit=False).equals(unit.evaluate(config, inputs))


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_restored_at_any_step_it_gives_the_same_rest(unit: Unit, name: str, data: st.DataObject) -> None:
    config = unit.configs[name]
    inputs = drawn(data, unit, config)
    device = unit.unit_class(**config)
    events = [[array[i].tolist() for array in inputs.values()] for i in range(len(next(iter(inputs.values()))))]
    states, given = [device.snapshot()], []
    for event in events:
        given.append(event)
        states.append(device.step(*event))
        while device.busy:
            given.append([])
            states.append(device.step())
    at = data.draw(st.integers(0, len(given)))
    device.restore(states[at])

    assert device.snapshot() == states[at]
    assert [device.step(*event) for event in given[at:]] == states[at + 1 :]


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_restore_takes_only_its_own_state(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    device = unit.unit_class(**config)
    port = unit.ports(config).all[0]
    outside = port.limits[1] + 1
    bad = dataclasses.replace(device.snapshot(), **{port.name: outside if port.lanes == 1 else (outside,) * port.lanes})
    before = device.snapshot()
    with pytest.raises(RefusedType, match=f"{unit.name}: restore takes a State of this unit, got str"):
        device.restore("state")
    with pytest.raises(Refused, match=f"{unit.name}: {port.name} {outside}"):
        device.restore(bad)

    assert device.snapshot() == before


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_refused_step_leaves_the_state(unit: Unit, name: str) -> None:
    config, block = unit.configs[name], next(blocks(unit, name))
    device = unit.unit_class(**config)
    event = [
        array.reshape(-1, *array.shape[1 + (unit.timing == "event") :])[0].tolist()
        for array in (block.inputs[port.name] for port in unit.ports(config).inputs)
    ]
    device.step(*event)
    while device.busy:
        device.step()
    before = device.snapshot()
    for position, port in enumerate(unit.ports(config).inputs):
        for wrong, error in (
            (port.limits[1] + 1, Refused),
            (port.limits[0] - 1, Refused),
            (1.5, RefusedType),
            (True, RefusedType),
            ("1", RefusedType),
        ):
            lanes = wrong if port.lanes == 1 else [wrong] * port.lanes
            with pytest.raises(error, match=rf"{unit.name}[:.] ?{port.name}"):
                device.step(*event[:position], lanes, *event[position + 1 :])

    assert device.snapshot() == before


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
@pytest.mark.parametrize("jit", [False, True], ids=["unit", "twin"])
def test_run_refuses_what_does_not_fit_a_port(unit: Unit, name: str, jit: bool) -> None:
    config, block = unit.configs[name], next(blocks(unit, name))
    for port in unit.ports(config).inputs:
        good = {key: np.array(array, np.int64) for key, array in rows(unit, dict(block.inputs), 1).items()}
        wide = {**good, port.name: np.full_like(good[port.name], port.limits[1] + 1)}
        real = {**good, port.name: good[port.name].astype(np.float32)}
        with pytest.raises(Refused, match=rf"{unit.name}: {port.name} {port.limits[1] + 1} at index \(0,.*is outside"):
            unit.evaluate(config, wide, jit)
        with pytest.raises(RefusedType, match=rf"{unit.name}\.{port.name}: integers are needed, got dtype float32"):
            unit.evaluate(config, real, jit)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
@pytest.mark.parametrize("jit", [False, True], ids=["unit", "twin"])
def test_no_rows_give_no_results_and_count_nothing(unit: Unit, name: str, jit: bool) -> None:
    config, block = unit.configs[name], next(blocks(unit, name))
    result = unit.evaluate(config, {port: array[:0] for port, array in block.inputs.items()}, jit)

    assert all(
        getattr(result, port.name).size == 0 and getattr(result, port.name).dtype == port.result_dtype
        for port in unit.ports(config).outputs
    )
    assert not any(getattr(result, field.name) for field in dataclasses.fields(result) if field.type is int)


@pytest.mark.parametrize("unit", UNITS)
def test_missing_and_unknown_ports_are_refused(unit: Unit) -> None:
    config = next(iter(unit.configs.values()))
    with pytest.raises(Refused, match=f"{unit.name}: inputs must be .*, got none"):
        unit.evaluate(config, {})
    with pytest.raises(Refused, match=f"{unit.name}: inputs must be .*, got bogus"):
        unit.trace(config, {"bogus": np.zeros(1, np.int64)})
