"""Harmonia's accelerator: no element differs from the scheme, and a wrong unit is noticed where it works."""

from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import machine, schemes, text
from refemu.models.machine import Phase, runner
from refemu.models.schemes.harmonia.machine import block
from refemu.models.schemes.harmonia.machine.memory import Memory
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from refemu.units.harmonia import harmonia_core
from tests.models.machine import wrong
from tests.oracles.harmonia import units

PRODUCTS = ["q", "k", "v", "scores", "context", "o", "gate", "up", "down"]
UNITS = {"bfp_converter", "bit_allocator", "harmonia_core", "k_offset", "v_grouper"}
SCHEMES = ["harmonia-kv4", "harmonia-kv8", "harmonia-kv4-naive", "harmonia-kv4:prefill_window=end,online=false"]


def named(report: machine.Report) -> dict[str, machine.Operation]:
    return {operation.name.removeprefix(f"blk.{report.layer}."): operation for operation in report.operations}


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_tiny_is_equal(scheme: str, phase: Phase) -> None:
    """Every product, conversion, group and offset of a prompt beyond both windows, and of the step after it."""
    report = machine.run("tiny", scheme, 1, 136, phase)
    operations = named(report)

    assert report.differing == 0
    assert [name for name in operations if name in PRODUCTS] == PRODUCTS
    assert all(operations[name].unit == "harmonia_core" for name in PRODUCTS)
    online = "kv4" in scheme and "naive" not in scheme and "online" not in scheme and phase == "prompt"
    assert {operation.unit for operation in report.operations} == UNITS - (set() if online else {"k_offset"})
    rows = 1 if phase == "decode" else 136
    assert operations["scores"].shape == (4 * rows, 136 + (phase == "decode"), 16)
    assert operations["context"].shape == (4 * rows, 16, 136 + (phase == "decode"))
    assert all(operation.elements for operation in report.operations)
    reasons = {entry.name: entry.reason for entry in report.not_on_the_machine}
    assert "D-harmonia-51" in reasons["blk.1.gated"] and "D-harmonia-32" in reasons["blk.1.add"]


@pytest.mark.long
@pytest.mark.parametrize("phase", machine.PHASES)
def test_tiny_is_equal_with_192_tokens(phase: Phase) -> None:
    """Elements of all three modes, keys and groups of both widths."""
    report = machine.run("tiny", "harmonia-kv4", 0, 192, phase)

    assert report.differing == 0
    costs = report.costs
    assert set(costs["linear"].macs) == {"M8W4"} and set(costs["attention"].macs) == {"M8M8", "M8M4"}
    assert all(count > 0 for cost in costs.values() for count in cost.macs.values())
    assert named(report)["kv.bits"].words == {"K in 4 bits": 96 + (phase == "decode"), "V in 4 bits": 3}


@pytest.mark.parametrize(("model", "scheme"), [("tiny-gpt2", "harmonia-kv8"), ("tiny-opt", "harmonia-kv8")])
def test_biases_and_functions_without_a_gate_are_equal(model: str, scheme: str) -> None:
    """D-harmonia-29, D-harmonia-48: the conversion after the activation is the next layer's input."""
    for phase in machine.PHASES:
        report = machine.run(model, scheme, 1, 9, phase)
        operations = named(report)

        assert report.differing == 0
        assert "down.input" not in operations and "gate" not in operations
        assert operations["up"].parameters["activation"] in ("gelu_tanh", "relu")
        assert all(operations[name].parameters["bias_add"] == "after" for name in ("q", "k", "v", "o", "up", "down"))


@pytest.mark.parametrize(
    ("unit", "port", "phase"),
    [
        ("harmonia_core", "y", "prompt"),
        ("harmonia_core", "mantissa", "decode"),
        ("bfp_converter", "mantissa", "prompt"),
        ("k_offset", "k_out", "prompt"),
        ("k_offset", "offset", "prompt"),
        ("v_grouper", "mantissa", "prompt"),
        ("v_grouper", "exponent", "decode"),
    ],
)
def test_a_wrong_lane_is_noticed(unit: str, port: str, phase: Phase, monkeypatch: pytest.MonkeyPatch) -> None:
    if unit == "bfp_converter":
        from refemu.units.harmonia.bfp_converter import compiled as bfp_converter_compiled

        right = bfp_converter_compiled.convert

        def convert(x: np.ndarray, **options: Any) -> Any:
            done = right(x, **options)
            mantissa = done.tensor.mantissa.copy()
            mantissa[-1, -1] ^= 1
            return replace(done, tensor=replace(done.tensor, mantissa=mantissa))

        monkeypatch.setattr(bfp_converter_compiled, "convert", convert)
    else:
        wrong.answers(monkeypatch, unit, port)

    report = machine.run("tiny", "harmonia-kv4", 1, 64, phase)

    assert {operation.unit for operation in report.operations if operation.differing} == {unit}


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize("score", [True, False])
def test_one_width_for_all_codes_is_noticed(score: bool, phase: Phase, monkeypatch: pytest.MonkeyPatch) -> None:
    """AUD-harmonia-3: a core that sees every key, or every group of values, in 8 bits."""
    right = Memory.wide
    monkeypatch.setattr(Memory, "wide", lambda self, side: right(self, side) | np.uint8(side == score))

    report = machine.run("tiny", "harmonia-kv4", 0, 136, phase)

    wrong_ones = {name for name, operation in named(report).items() if operation.differing}
    held_low = phase == "decode"  # the cache then has no more than the upper nibbles
    assert wrong_ones == (set() if held_low else {"scores" if score else "context"})


@pytest.mark.long
@pytest.mark.parametrize(("options", "rule"), [("", 0), ("dataflow=column", 1), ("dataflow=row", 2)])
def test_dataflow_of_every_product_is_shown(options: str, rule: int) -> None:
    """D-harmonia-31: FDGF's choice, its tiles, and what either dataflow reads, as the oracle counts them."""
    report = machine.run("tiny", "harmonia-kv4", 0, 100, options=options)
    sizes = dict.fromkeys("qo", (100, 64, 64)) | dict.fromkeys("kv", (100, 64, 32)) | {"down": (100, 96, 64)}
    sizes |= dict.fromkeys(("gate", "up"), (100, 64, 96)) | {"scores": (200, 16, 100), "context": (200, 100, 16)}
    bits = {name: Fraction(293, 32) if name in ("scores", "context") else Fraction(33, 8) for name in sizes}

    assert report.differing == 0
    for name, operation in named(report).items():
        if name not in sizes:
            assert "dataflow" not in operation.counts
            continue
        rows, inner, columns = sizes[name]
        tiles = 64, min(64, 32 * -(-columns // 32))
        a, b = (rows * inner, inner * columns)
        reads = [(-(-columns // tiles[1]) * a, b), (a, -(-rows // tiles[0]) * b)]
        elements = [int(units.ema(*sizes[name], *tiles, way)) for way in (1, 2)]
        assert elements == [sum(each) for each in reads]
        stored = [ceil(left * Fraction(293, 32) + right * bits[name]) for left, right in reads]
        assert operation.counts == {
            "dataflow": rule or units.choose(*sizes[name], *tiles),
            **dict(zip(("tile rows", "tile columns"), tiles, strict=True)),
            **dict(zip(("elements column-major", "elements row-major"), elements, strict=True)),
            **dict(zip(("bits column-major", "bits row-major"), stored, strict=True)),
        }


def test_fewer_bits_force_the_dataflow_of_the_core() -> None:
    """D-harmonia-31: 136 tokens by 96 outputs are fewer elements column-major, and fewer bits row-major."""
    report = machine.run("tiny", "harmonia-kv4", 0, 136, options="dataflow=bits")
    gate = named(report)["gate"]

    assert report.differing == 0
    assert gate.parameters["force"] == gate.counts["dataflow"] == 2
    assert gate.counts["elements column-major"] < gate.counts["elements row-major"]
    assert gate.counts["bits column-major"] > gate.counts["bits row-major"]


def test_both_ways_of_codes_are_equal() -> None:
    """D-harmonia-46: a pass per set of codes takes more cycles, separate codes per row more words."""
    model = models.load("tiny")
    prepared = models.prepare(model, "harmonia-kv4")
    calls = runner.recorded(prepared, 0, model.tokenizer.encode(text.default()), 136, "prompt")
    sets, rows = (
        {operation.name: operation for operation in block.machine(prepared, 0, calls, HarmoniaMachine(codes=way))[0]}
        for way in harmonia_core.CODES
    )

    assert not np.any([operation.differing for operation in (*sets.values(), *rows.values())])
    for name in ("blk.0.scores", "blk.0.context"):
        assert sets[name].cycles > rows[name].cycles
        assert 4 * sets[name].words["B to the array"] < rows[name].words["B to the array"]


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("harmonia-kv4:group=64", "paper's datapath and 4 or 8 bits of KV, got group=64"),
        ("harmonia-kv4:preset=exact", "got preset=exact"),
        ("harmonia-kv4:low=5", "got high=8, low=5"),
        ("harmonia-kv4:scores=fp32", "got scores=fp32"),
    ],
)
def test_datapath_of_another_preset_is_rejected(scheme: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        machine.run("tiny", f"{scheme},offline=false", 0, 33)


@pytest.mark.long
@pytest.mark.model
@pytest.mark.parametrize("scheme", ["harmonia-kv8", "harmonia-kv4"])
def test_smollm2_is_equal(scheme: str, smollm2: Any) -> None:
    """Blocks 0 and 15, a prompt of 192 tokens and the step after it, from one preparation."""
    prepared = models.prepare(runner.shortened(smollm2, schemes.find(scheme), 15), scheme)
    ids = smollm2.tokenizer.encode(text.default())
    for layer in (0, 15):
        for phase in machine.PHASES:
            calls = runner.recorded(prepared, layer, ids, 192, phase)
            operations, _ = block.machine(prepared, layer, calls)
            assert not np.any([operation.differing for operation in operations])
            macs: dict[str, int] = {}
            for operation in operations:
                for mode, count in operation.cost.macs.items():
                    macs[mode] = macs.get(mode, 0) + count
            assert set(macs) == ({"M8W4", "M8M8", "M8M4"} if "kv4" in scheme else {"M8W4", "M8M8"})
            assert all(macs.values())


def test_the_core_has_every_parameter_of_its_products() -> None:
    report = machine.run("tiny", "harmonia-kv4", 0, 33)

    for operation in report.operations:
        if operation.unit == "harmonia_core":
            assert set(operation.parameters) == set(harmonia_core.UNIT.configs["linear"])
