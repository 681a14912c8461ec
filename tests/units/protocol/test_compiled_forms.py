"""The compiled form of every unit gives the bits of the readable form, on all cases and on drawn inputs."""

import importlib
from pathlib import Path

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.arith.jit import jit_is_off
from refemu.testing import protocol
from refemu.units.unit import Unit
from tests.arith.interpreted import interpreted, loaded
from tests.units.protocol.blocks import CONFIGS, FIRST_CONFIGS, blocks, rows

#: units, and configurations, whose compiled form is NumPy or the readable form alone
WITHOUT_A_KERNEL = {
    "functional-exp",
    "functional-recip",
    "functional-sqrt",
    "prefix_sum",
    "prompt_compressor",
    "significance",
    "streaming_significance",
}
#: configurations whose cases are long, of units that have smaller ones
LONG = {"paged_attention-f128", "paged_attention-f64", "paged_attention-long", "paged_attention-odd"}
#: configurations whose readable form takes seconds, of units that have quicker ones
SECONDS = {
    *(
        "bfp_pe_array_clocked-by_slot",
        "harmonia_core-k",
        "harmonia_core-keys",
        "layer_step-head",
        "layer_step-head_diffkv",
    ),
    *("kllm_chip-column", "olive_systolic_clocked-int4_flint4"),
}
COMPILED_RUNS = [
    pytest.param(*case.values, id=case.id, marks=[pytest.mark.long] if case.id in SECONDS else []) for case in CONFIGS
]
INTERPRETED = [
    pytest.param(*case.values, id=case.id, marks=[pytest.mark.slow] if case.id in LONG else []) for case in CONFIGS
]


@pytest.mark.parametrize(("unit", "name"), COMPILED_RUNS)
def test_compiled_form_equals_unit_on_every_case(unit: Unit, name: str) -> None:
    protocol.compiled_form_equals_unit_on_every_case(unit, name)


@pytest.mark.long
@pytest.mark.parametrize(("unit", "name"), INTERPRETED)
def test_interpreted_kernel_equals_the_compiled_one(unit: Unit, name: str) -> None:
    """Every kernel that the compiled form reaches, those of formats and of arith included."""
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
        ("weighted_sum", "refemu.arith.kernels", "run_program"),
        ("kv_quantizer", "refemu.formats.leankv.compiled.affine", "_codes"),
        ("fp16_mac", "refemu.arith.kernels", "round16_all"),
    ],
)
def test_kernel_that_differs_from_python_is_detected(
    unit: str, module: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of arith and of a format, which a compiled form reaches without a kernel of its own."""
    name = next(iter(units.find(unit).configs))
    monkeypatch.setattr(getattr(importlib.import_module(module), kernel), "py_func", lambda *_: 0)
    with pytest.raises((AssertionError, Refused)):
        test_interpreted_kernel_equals_the_compiled_one(units.find(unit), name)


@pytest.mark.parametrize(("unit", "name"), FIRST_CONFIGS)
def test_compiled_form_equals_unit_on_drawn_inputs(unit: Unit, name: str) -> None:
    protocol.compiled_form_equals_unit_on_drawn_inputs(unit, name)


def test_every_rule_is_held_here() -> None:
    """No rule of the protocol is for plug-ins only."""
    named = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert all(f"protocol.{rule.check.__name__}" in named for rule in protocol.unit_rules(units.find("concat")))
