"""The protocol of units: the rules that refemu's own units follow, for any unit.

A rule takes a unit and the name of one of its ready configurations, and raises AssertionError if it is broken.
`unit_rules(UNIT)` lists all for `pytest.mark.parametrize`, `unit_protocol(UNIT)` runs them.
"""

import copy
import dataclasses
import importlib
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.make import rows as golden_rows
from refemu.golden.rtl import keywords
from refemu.testing.protocol_cases import OWN, blocks, drawn, evaluated, neighbours, one_case, refused, require, rows
from refemu.units import descriptor_rules
from refemu.units.state_text import MOST
from refemu.units.unit import AnyUnit, Config

Check: TypeAlias = Callable[[AnyUnit, str], None]
_RULES: list[Check] = []


@dataclasses.dataclass(frozen=True)
class UnitRule:
    """A rule of the protocol for a unit in a configuration, to be called."""

    unit: AnyUnit  #: unit
    config: str  #: ready configuration
    check: Check  #: the rule

    def __call__(self) -> None:
        """Check the unit against the rule.

        Raises
        ------
        AssertionError
            The unit breaks it.
        """
        self.check(self.unit, self.config)

    def __str__(self) -> str:
        return f"{self.check.__name__}-{self.config}"


def unit_rules(unit: AnyUnit) -> tuple[UnitRule, ...]:
    """List the rules for each of a unit's ready configurations.

    Parameters
    ----------
    unit : Unit
        Unit.

    Returns
    -------
    tuple of UnitRule
        Rules; `str` of one is its name and configuration.
    """
    return tuple(UnitRule(unit, config, check) for config in unit.configs for check in _RULES)


def unit_protocol(unit: AnyUnit) -> None:
    """Check a unit against every rule that refemu's own units follow.

    Descriptor, cases, errors, states and their restoration, and equality of the compiled and the readable form.

    Parameters
    ----------
    unit : Unit
        Unit.

    Raises
    ------
    AssertionError
        The first rule that the unit breaks, with its name.
    """
    for rule in unit_rules(unit):
        try:
            rule()
        except (AssertionError, Refused, RefusedType) as error:
            raise AssertionError(f"{unit.name}: {rule}: {error}") from error


def rule(check: Check) -> Check:
    """Add a function to the rules."""
    _RULES.append(check)
    return check


@rule
def descriptor_follows_its_rules(unit: AnyUnit, name: str) -> None:
    """Names, flags and configurations are complete; `repr` gives name and meaning."""
    descriptor_rules.require(unit)
    require(unit.timing in ("combinational", "event"), f"timing is {unit.timing!r}")
    require(sorted(flag.bit for flag in unit.flags.values()) == list(range(len(unit.flags))), "flags leave a bit out")
    require(repr(unit) == f"<Unit {unit.name}: {unit.meaning}>", f"repr is {unit!r}")


@rule
def port_names_are_no_keywords(unit: AnyUnit, name: str) -> None:
    """No port or parameter is a keyword of Verilog, SystemVerilog or C: RTL and kernels use the names unchanged."""
    ports = unit.ports(unit.configs[name])
    keywords.require_names([port.name for port in (*ports.inputs, *ports.outputs)], unit.name)
    keywords.require_names([port.name for port in ports.state], unit.name)


@rule
def state_and_result_are_named_as_the_ports(unit: AnyUnit, name: str) -> None:
    """A State has every port, a Result every output, register and counter."""
    ports = unit.ports(unit.configs[name])
    state = {field.name for field in dataclasses.fields(unit.unit_class(**unit.configs[name]).snapshot())}
    result = {field.name for field in dataclasses.fields(unit.result)}
    lost = {"event", "index", *(port.name for port in ports.all)} - state
    require(not lost, f"the State lacks {sorted(lost)}")
    lost = {port.name for port in ports.outputs + ports.state} | set(unit.counters)
    require(lost <= result, f"the Result lacks {sorted(lost - result)}")
    require(len({port.name for port in ports.all}) == len(ports.all), "a port name occurs twice")


@rule
def device_and_config_evaluate_back(unit: AnyUnit, name: str) -> None:
    """`repr` of a device and of a configuration gives an equal one."""
    config, unit_class = unit.configs[name], unit.unit_class
    device = unit_class(**config)
    rebuilt = eval(repr(device), {unit_class.__name__: unit_class})
    same = repr(rebuilt) == repr(device) and rebuilt.snapshot() == device.snapshot()
    require(same, f"{device!r} evaluates to another device")
    again = eval(repr(config), {"Config": Config})
    require(again == config and {config, Config(**config)} == {config}, f"{config!r} evaluates to {again!r}")


@rule
def cases_fit_their_ports_and_say_why(unit: AnyUnit, name: str) -> None:
    """All cases have valid kinds, reasons, decisions, ports, shapes and values."""
    ports = {port.name: port for port in unit.ports(unit.configs[name]).inputs}
    for block in blocks(unit, name):
        require(block.kind in OWN and block.why, f"{block.kind} cases without a reason")
        require(re.fullmatch(r"(D-[a-z]+-\d+)?", block.decision), f"{block.decision!r} is not an id of a decision")
        require(set(block.inputs) == set(ports), f"{block.why}: ports are {sorted(block.inputs)}")
        for port, array in block.inputs.items():
            low, high = ports[port].limits
            require(array.size and array.dtype.kind in "iu", f"{block.why}: {port} is {array.dtype} {array.shape}")
            inside = low <= array.min() and array.max() <= high
            require(inside, f"{block.why}: {port} must be in [{low}, {high}], got {array.min()} to {array.max()}")
            axes = 1 + (unit.timing == "event") + len(ports[port].shape)
            require(array.ndim == axes, f"{block.why}: {port} needs {axes} axes, got shape {array.shape}")


@rule
def first_row_detects_a_missing_device(unit: AnyUnit, name: str) -> None:
    """The first row distinguishes the unit from one that is not connected."""
    config, block = unit.configs[name], blocks(unit, name)[0]
    first = {port: array[:1] for port, array in block.inputs.items()}
    lowest = {port.name: max(port.limits[0], 0) for port in unit.ports(config).inputs}
    zeros = {port: array * 0 + lowest[port] for port, array in first.items()}
    zeros = dict(unit.legal(config, zeros)) if unit.legal else zeros
    result, silent = (unit.evaluate(config, inputs, jit=False) for inputs in (first, zeros))
    outputs = [port.name for port in unit.ports(config).outputs]
    require(any(np.any(array) for array in first.values()), "the first stimulus is zero")
    require(any(np.any(getattr(result, port)) for port in outputs), "the first answer is zero")
    other = any(np.any(getattr(result, port) != getattr(silent, port)) for port in outputs)
    require(other, "the first answer equals that to a stimulus of zeros")


@rule
def cases_depend_on_the_seed_alone(unit: AnyUnit, name: str) -> None:
    """A seed always gives the same random cases, another seed different ones."""
    config = unit.configs[name]
    first, again, other = ([block.inputs for block in unit.cases(config, "random", seed)] for seed in (0, 0, 1))
    same = all(np.array_equal(a[port], b[port]) for a, b in zip(first, again, strict=True) for port in a)
    require(same, "one seed gives different cases")
    differ = any(not np.array_equal(a[port], b[port]) for a, b in zip(first, other, strict=True) for port in a)
    require(differ, "two seeds give the same cases, or there are no random cases")


@rule
def random_cases_of_a_range_are_those_of_its_seeds(unit: AnyUnit, name: str) -> None:
    """A range of seeds gives the cases of each seed in turn."""
    config = unit.configs[name]
    parts = [list(unit.cases(config, "random", seed)) for seed in (3, 4)]
    for number, block in enumerate(unit.cases(config, "random", range(3, 5))):
        for port, array in block.inputs.items():
            joined = np.concatenate([part[number].inputs[port] for part in parts])
            require(
                np.array_equal(array, joined), f"{block.why}: {port} of seeds 3 and 4 differs from that of the range"
            )


@rule
def marks_and_masks_are_those_of_the_descriptor(unit: AnyUnit, name: str) -> None:
    """Flags are declared, and have one bool per row; a mask has the shape of its output."""
    config = unit.configs[name]
    for block, result in zip(blocks(unit, name), evaluated(unit, name, jit=True), strict=True):
        shape = next(iter(block.inputs.values())).shape[: 1 + (unit.timing == "event")]
        marks = unit.mark(config, block.inputs, result) if unit.mark else {}
        masks = unit.care(config, block.inputs, result) if unit.care else {}
        require(set(marks) <= set(unit.flags), f"flags {sorted(set(marks) - set(unit.flags))} are not declared")
        for flag, mark in marks.items():
            fits = mark.shape == shape and mark.dtype == np.bool_
            require(fits, f"flag {flag} must be bool {shape}, got {mark.dtype} {mark.shape}")
        for key, mask in masks.items():
            want = getattr(result, key.removeprefix("out.")).shape
            require(mask.shape == want, f"mask {key} must have shape {want}, got {mask.shape}")


@rule
def refused_step_leaves_the_state(unit: AnyUnit, name: str) -> None:
    """Values outside a port and values other than integers raise an error and change nothing."""
    config, block = unit.configs[name], blocks(unit, name)[0]
    device: Any = unit.unit_class(**config)
    event = {
        port.name: array.reshape(-1, *array.shape[1 + (unit.timing == "event") :])[0].tolist()
        for port, array in ((port, block.inputs[port.name]) for port in unit.ports(config).inputs)
    }
    device.step(**event)
    while device.busy:
        device.step()
    before = device.snapshot()
    for port in unit.ports(config).inputs:
        outside = ((port.limits[1] + 1, Refused), (port.limits[0] - 1, Refused))
        for wrong, error in (*outside, (1.5, RefusedType), (True, RefusedType), ("1", RefusedType)):
            lanes = (wrong,) * port.count if port.shape else wrong
            with refused(error, rf"{unit.name}[:.] ?{port.name}"):
                device.step(**{**event, port.name: lanes})
    require(device.snapshot() == before, "a step that raised changed the state")


def _run_refuses(unit: AnyUnit, name: str, jit: bool) -> None:
    config, block = unit.configs[name], blocks(unit, name)[0]
    for port in unit.ports(config).inputs:
        good = {key: np.array(array, np.int64) for key, array in rows(unit, block.inputs, 1).items()}
        wide = {**good, port.name: np.full_like(good[port.name], port.limits[1] + 1)}
        real = {**good, port.name: good[port.name].astype(np.float32)}
        with refused(Refused, rf"{unit.name}: {port.name} {port.limits[1] + 1} at index \(0,.*is outside"):
            unit.evaluate(config, wide, jit)
        with refused(RefusedType, rf"{unit.name}\.{port.name}: integers are needed, got dtype float32"):
            unit.evaluate(config, real, jit)


@rule
def readable_run_refuses_what_does_not_fit_a_port(unit: AnyUnit, name: str) -> None:
    """A value outside its port and floats raise an error in `run`."""
    _run_refuses(unit, name, jit=False)


@rule
def compiled_form_rejects_misfits(unit: AnyUnit, name: str) -> None:
    """The compiled form raises the errors of the readable form, in the same words."""
    _run_refuses(unit, name, jit=True)


@rule
def no_rows_give_no_results_and_count_nothing(unit: AnyUnit, name: str) -> None:
    """Empty inputs give empty outputs of the right dtypes, and counters of 0, in both forms."""
    config, block = unit.configs[name], blocks(unit, name)[0]
    for jit in (False, True):
        result = unit.evaluate(config, {port: array[:0] for port, array in block.inputs.items()}, jit)
        for port in unit.ports(config).outputs:
            array = getattr(result, port.name)
            require(array.size == 0 and array.dtype == port.result_dtype, f"{port.name} is {array.dtype} {array.shape}")
        counted = [name for name in unit.counters if getattr(result, name)]
        require(not counted, f"{counted} count without a row")


@rule
def missing_and_unknown_ports_are_refused(unit: AnyUnit, name: str) -> None:
    """`evaluate` and `trace` raise an error that names the ports."""
    config = unit.configs[name]
    with refused(Refused, f"{unit.name}: inputs must be .*, got none"):
        unit.evaluate(config, {})
    with refused(Refused, f"{unit.name}: inputs must be .*, got bogus"):
        unit.trace(config, {"bogus": np.zeros(1, np.int64)})


@rule
def trace_shows_what_run_returns(unit: AnyUnit, name: str) -> None:
    """The last State of a trace has the last outputs and inputs, and all counters, of `run`."""
    config = unit.configs[name]
    ports = unit.ports(config)
    for block in blocks(unit, name):
        stimulus = one_case(unit, block.inputs, 0)
        last = list(unit.trace(config, stimulus))[-1]
        result = unit.evaluate(config, stimulus, jit=False)
        shown = [(port.name, getattr(result, port.name)[-1]) for port in ports.outputs]
        shown += [(port.name, stimulus[port.name][-1]) for port in ports.inputs]
        for port, want in shown:
            require(
                np.array_equal(np.array(getattr(last, port)), want), f"{block.why}: the trace shows a different {port}"
            )
        counters = [field.name for field in dataclasses.fields(result) if field.type is int]
        require(counters, "a Result needs at least one counter")
        for counter in counters:
            require(
                getattr(last, counter) == getattr(result, counter),
                f"{block.why}: the trace counts a different {counter}",
            )


@rule
def states_are_frozen_comparable_hashable_and_evaluate_back_while_short(unit: AnyUnit, name: str) -> None:
    """Two traces of one case have equal States, which cannot be written."""
    config, block = unit.configs[name], blocks(unit, name)[0]
    stimulus = one_case(unit, block.inputs, 0)
    states, again = (list(unit.trace(config, stimulus)) for _ in range(2))
    require(states == again and len({*states, *again}) == len(set(states)), "two traces of one case differ")
    names = {**vars(importlib.import_module(unit.run.__module__)), type(states[0]).__qualname__: type(states[0])}
    texts = {repr(state): state for state in states}
    back = all(eval(text, names) == state for text, state in texts.items() if "..." not in text)
    require(back, "the text of a State evaluates to a different one")
    require(all(len(text) <= MOST and len(str(state)) <= MOST for text, state in texts.items()), "a text is too long")
    with refused(dataclasses.FrozenInstanceError, "index"):
        states[0].index = 7


@rule
def restored_at_any_step_it_gives_the_same_rest(unit: AnyUnit, name: str) -> None:
    """A device restored to any of its States continues as before."""

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def any_step(data: st.DataObject) -> None:
        stimulus = data.draw(drawn(unit, name, most=4))
        device: Any = unit.unit_class(**unit.configs[name])
        states: list[Any] = [device.snapshot()]
        steps: list[dict[str, Any]] = []
        ports = unit.ports(unit.configs[name]).inputs
        for values in zip(*(stimulus[port.name].tolist() for port in ports), strict=True):
            steps.append({port.name: value for port, value in zip(ports, values, strict=True)})
            states.append(device.step(**steps[-1]))
            while device.busy:
                steps.append({})
                states.append(device.step())
        at = data.draw(st.integers(0, len(steps)))
        device.restore(states[at])
        require(device.snapshot() == states[at], "a restored device shows a different State")
        require(
            [device.step(**event) for event in steps[at:]] == states[at + 1 :],
            "a restored device continues differently",
        )

    any_step()


@rule
def restore_takes_only_its_own_state(unit: AnyUnit, name: str) -> None:
    """Restoring another object, or a State with a port out of range, raises an error and changes nothing."""
    device = unit.unit_class(**unit.configs[name])
    port = unit.ports(unit.configs[name]).all[0]
    outside = port.limits[1] + 1
    bad = dataclasses.replace(device.snapshot(), **{port.name: port.filled(outside)})
    before = device.snapshot()
    with refused(RefusedType, f"{unit.name}: state must be a State of this unit, got str"):
        device.restore("state")
    with refused(Refused, f"{unit.name}: {port.name} {outside}"):
        device.restore(bad)
    require(device.snapshot() == before, "a restore that raised changed the state")


@rule
def compiled_form_equals_unit_on_every_case(unit: AnyUnit, name: str) -> None:
    """Outputs, registers and counters of both forms are equal in every bit."""
    forms = (evaluated(unit, name, jit=jit) for jit in (False, True))
    for block, result, compiled_run in zip(blocks(unit, name), *forms, strict=True):
        require(result.equals(compiled_run), f"{block.why}: the compiled form gives different bits")


@rule
def compiled_form_equals_unit_on_drawn_inputs(unit: AnyUnit, name: str) -> None:
    """Both forms agree on stimuli that hypothesis draws."""

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def any_inputs(data: st.DataObject) -> None:
        stimulus, config = data.draw(drawn(unit, name, most=6)), unit.configs[name]
        before = copy.deepcopy(stimulus)
        same = unit.evaluate(config, stimulus, jit=False).equals(unit.evaluate(config, stimulus))
        require(same, f"the compiled form gives different bits on {before}")
        for port, array in stimulus.items():
            require(np.array_equal(array, before[port]), f"the compiled form changes its input {port}")

    any_inputs()


@rule
def other_configurations_have_stimuli(unit: AnyUnit, name: str) -> None:
    """Every valid configuration has valid cases, whether ready or not."""
    if name != next(iter(unit.configs)):
        return
    for text, config in neighbours(unit):
        left: list[str] = []
        stimuli = [block for kind in OWN for block in unit.stimuli(config, kind, 0, left.append)]
        require(stimuli, f"{text} has no cases: {left}")
        for block in stimuli:
            golden_rows.evaluate(unit, config, block, compiled_from=1)
