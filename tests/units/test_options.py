"""Every option of every unit has an effect on the unit's cases, is rejected, or is listed with the reason."""

import typing
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.units import parameters
from refemu.units.unit import KINDS, Config

pytestmark = pytest.mark.long

Options = Mapping[str, Any]


class Idle(NamedTuple):
    """Values of a parameter that change nothing on the cases of some configurations."""

    units: str
    parameter: str
    when: Callable[[Options], bool]  #: of the parameters of a configuration
    reason: str


def always(_: Options) -> bool:
    return True


CORE, STEPS = "harmonia_core harmonia_core_clocked", "layer_step"
IDLE = [
    Idle("pe_lane kllm_chip", "merge", lambda c: c["lane_mapping"] == "counter", "set kllm_chip-counter has both"),
    Idle("kllm_chip", "carry", lambda c: c["k"] <= c["sizes"][1], "a column fits a slab"),
    Idle("bfp_converter", "special", always, "'error' refuses infinities and NaN, so no case has any"),
    Idle("bfp_pe_array_clocked", "overlap", lambda c: c["partial"] == "fp32", "set long has one tile"),
    Idle("fdgf", "b_type", lambda c: c["ema_unit"] == "elements", "elements are counted whatever their bits"),
    Idle(CORE, "rotation", lambda c: c["kind"] not in ("q", "k"), "only queries and keys are rotated"),
    Idle(CORE, "codes", lambda c: c["b_type"] != "mixed", "only rows that see both widths share the array"),
    Idle(CORE, "partial", lambda c: c["kind"] in ("score", "context", "linear", "k"), "cases have exact partial sums"),
    Idle("harmonia_core_clocked", "pitch", lambda c: c["inner"] <= 32, "one pass, or passes of one group"),
    Idle("generation_compressor", "score_rule", lambda c: c["policy"] != "algorithm1", "only Algorithm 1 has the rule"),
    Idle("generation_compressor", "low", lambda c: c["policy"] == "static", "a budget prunes, and moves nothing"),
    Idle(STEPS, "score_rule", lambda c: c["policy"] != "algorithm1", "only Algorithm 1 has the rule"),
    Idle(STEPS, "score_rule", lambda c: c["low"] is None, "no case of one precision is decided by the rule"),
    Idle(STEPS, "epoch", lambda c: c["policy"] == "diffkv", "no case is decided by the stored positions"),
    Idle(f"{STEPS} paged_attention", "partition_score", always, "no case is cut and has scores of two chunks"),
    Idle(f"{STEPS} paged_attention", "gqa", lambda c: c["heads"] == 1, "one query head has nobody to join"),
    Idle("index_function", "mode", lambda c: c["mode"] == "token", "the port `scale` has the static scale too"),
    Idle("index_function", "mode", lambda c: c["function"] == "relu", "relu and a positive scale change places"),
    Idle("k_offset", "offset_scope", lambda c: c["heads"] == 1, "one head is the layer"),
    Idle("orizuru_clocked", "total_order", always, "no case of 16 inputs has zeros of both signs"),
    Idle("prompt_compressor", "low_cumsum", lambda c: c["rule"] != "cumulative", "only that rule adds shares"),
]


def values(hint: Any) -> list[Any]:
    """Values that a type lists: of Literals, bools, and unions of these with None."""
    if hint is bool:
        return [False, True]
    if typing.get_origin(hint) is typing.Literal:
        return list(typing.get_args(hint))
    listed = list(chain.from_iterable(map(values, typing.get_args(hint))))
    return [None, *listed] if listed and type(None) in typing.get_args(hint) else listed


def changed(unit: Any, config: Options) -> Iterator[tuple[str, Config]]:
    """Configurations of the same ports that differ in one listed option."""
    hints = typing.get_type_hints(unit.unit_class.__init__)
    for name in config:
        for value in dict.fromkeys(values(hints[name])):
            other = Config(**{**config, name: value})
            try:
                unit.unit_class(**other)
                if value != config[name] and unit.ports(other) == unit.ports(config):
                    yield name, other
            except Refused:
                continue


def answers(unit: Any, config: Config, inputs: Mapping[str, np.ndarray]) -> Any:
    """Outputs, registers and counters; None for invalid inputs."""
    try:
        return [np.asarray(value) for value in vars(unit.evaluate(config, inputs)).values()]
    except Refused:
        return None


def equal(left: Any, right: Any) -> bool:
    """Whether two results are the same, or both errors."""
    if left is None or right is None:
        return left is right
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def idle(name: str) -> list[tuple[str, Config, str]]:
    """Configurations and options of a unit without an effect on the cases of that configuration."""
    unit, found = units.find(name), []
    for ready in unit.configs.values():
        config = parameters.full(unit, ready)
        blocks = [block.inputs for kind in KINDS[:3] for block in unit.stimuli(ready, kind, 0)]
        for option, other in changed(unit, config):
            if all(equal(answers(unit, config, inputs), answers(unit, other, inputs)) for inputs in blocks):
                found.append((option, config, f"{name} {parameters.text(unit, ready)}: {option}={other[option]}"))
    return found


@pytest.mark.parametrize("name", units.names())
def test_options_without_effect_are_listed(name: str) -> None:
    listed = [each for each in IDLE if name in each.units.split()]
    found = idle(name)

    without = [said for option, config, said in found if not any(covers(each, option, config) for each in listed)]
    assert not without
    unused = [each for each in listed if not any(covers(each, option, config) for option, config, _ in found)]
    assert not [(each.units, each.parameter) for each in unused if len(each.units.split()) == 1]


def covers(each: Idle, option: str, config: Options) -> bool:
    return each.parameter == option and each.when(config)


def test_an_option_of_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that overlooks its option."""
    unit = units.find("significance")
    right = type(unit).evaluate
    monkeypatch.setattr(
        type(unit), "evaluate", lambda self, config, inputs: right(self, Config(**{**config, "gqa": "max"}), inputs)
    )

    assert {option for option, _, _ in idle("significance")} == {"gqa"}
