"""OliVe's machine: no element differs from the scheme, and a wrong unit is noticed where it works."""

from typing import Any

import numpy as np
import pytest

from refemu import models, units
from refemu.arith import fp16
from refemu.formats.olive.ovp import quotient
from refemu.models import machine
from refemu.models.machine import Operation, Phase
from refemu.models.schemes.olive import machine as olive_machine
from refemu.models.schemes.olive import tap_sums
from refemu.models.schemes.olive.taps import patterns
from refemu.units.olive.olive_systolic_clocked import multiply
from tests.models.machine import wrong

LINEARS = ["q", "k", "v", "o", "gate", "up", "down"]


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize(
    "scheme", ["olive-4", "olive-8", "olive-4:eight_bit=down", "olive-4:overflow=saturate", "olive-8:preset=repo"]
)
def test_tiny_is_equal(scheme: str, layer: int, phase: Phase) -> None:
    report = machine.run("tiny", scheme, layer, 16, phase)

    products = [operation for operation in report.operations if operation.unit == "olive_systolic_clocked"]
    assert [operation.name for operation in products] == [f"blk.{layer}.{name}" for name in LINEARS]
    assert report.differing == 0
    stages = [operation for operation in report.operations if operation.unit == "olive_requant"]
    assert [operation.name for operation in stages] == [f"blk.{layer}.{name}.output" for name in LINEARS]
    assert [operation.shape for operation in stages] == [operation.shape[:2] for operation in products]
    for operation in products:
        tokens, outputs, _ = operation.shape
        assert operation.elements == tokens * outputs
        assert tokens == (16 if phase == "prompt" else 1)
        assert operation.cycles > 0 and 0 < operation.use["elements"] < 1


@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-opt"])
def test_biases_enter_the_output_stage(model: str) -> None:
    """D-olive-55."""
    report = machine.run(model, "olive-4", 0, 4, "decode")

    assert report.differing == 0
    assert not [entry for entry in report.not_on_the_machine if entry.name == "blk.0.rotate"]


def test_a_wrong_sum_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An element that is off by one edge: its sum lacks the last product."""

    def late(a_pairs: np.ndarray, b_pairs: np.ndarray, *options: Any, **named: Any) -> Any:
        right, short = (multiply(a_pairs[:, :last], b_pairs[:, :last], *options, **named) for last in (None, -1))
        right.d[-1, -1] = short.d[-1, -1] + (short.d[-1, -1] == right.d[-1, -1])
        return right

    monkeypatch.setattr(olive_machine, "multiply", late)
    report = machine.run("tiny", "olive-4", 0, 4)

    assert {operation.differing for operation in report.operations if operation.unit == "ovp_encoder"} == {0}
    assert {operation.differing for operation in report.operations if operation.unit != "ovp_encoder"} == {1}


@pytest.mark.parametrize(
    ("unit", "port"), [("ovp_encoder", "pair"), ("olive_requant", "y"), ("olive_requant", "scaled")]
)
def test_a_wrong_lane_is_noticed(unit: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong.answers(monkeypatch, unit, port)

    report = machine.run("tiny", "olive-4", 0, 4)

    assert {operation.unit for operation in report.operations if operation.differing} == {unit}
    assert all(operation.differing == 1 for operation in report.operations if operation.unit == unit)


def test_a_stage_without_its_bias_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every output with a bias of `tiny-gpt2` that is not 0 is another fp16 value, the float32 before is not."""
    right = olive_machine.stage_inputs
    monkeypatch.setattr(olive_machine, "stage_inputs", lambda *arguments: right(*arguments[:3], None))

    report = machine.run("tiny-gpt2", "olive-4", 0, 4)

    assert {operation.unit for operation in report.operations if operation.differing} == {"olive_requant"}


def test_layers_without_outliers_are_on_the_machine() -> None:
    report = machine.run("tiny", "olive-4:outliers=false", 0, 4)

    assert report.differing == 0 and report.as_json()["operations"][0]["parameters"]["fmt"].startswith("Ovp(")


@pytest.mark.parametrize("scheme", ["olive-4", "olive-8", "olive-4:preset=repo", "olive-8:preset=repo"])
@pytest.mark.parametrize(("first", "second"), [("q", "o"), ("up", "down")])
def test_encode_multiply_requant_encode_closes(scheme: str, first: str, second: str) -> None:
    """Pairs of the output stage are the second layer's input: all tensors of both are the scheme's, bit for bit."""
    prepared = models.prepare("tiny", scheme)
    parts = {name: part for part in prepared.parts() for name in part.names}
    begin, end = parts[f"blk.1.{first}"], parts[f"blk.1.{second}"]
    weight = next(weight for weight in begin.weights if weight.name == f"blk.1.{first}")
    x = np.random.default_rng(3).standard_normal((5, 64), np.float32).astype(np.float16).astype(np.float32)
    due = begin(x)
    columns = begin.columns[weight.name]
    after = fp16.to_f16(due.outputs[:, columns])
    following = end(after.astype(np.float32))

    values = patterns(quotient(x, np.asarray(begin.input.scale), -1), 64)
    encoder = units.find("ovp_encoder")
    pairs = encoder.evaluate(olive_machine.encoding(begin.fmt), {"value": values}).pair.reshape(5, -1)
    sums = _product(begin, weight, pairs)
    ports = olive_machine.stage_inputs(begin, weight, sums, None)
    ports["scale_next"] = np.asarray(end.input.scale, np.float32).view(np.uint32)
    answer = units.find("olive_requant").evaluate(olive_machine.encoding(end.fmt), ports)

    np.testing.assert_array_equal(pairs, due.pairs)
    np.testing.assert_array_equal(answer.scaled.reshape(5, -1), due.outputs[:, columns].view(np.uint32))
    np.testing.assert_array_equal(answer.y.reshape(5, -1), fp16.bits(after))
    np.testing.assert_array_equal(answer.pair.reshape(5, -1), following.pairs)
    np.testing.assert_array_equal(_product(end, end.weights[0], answer.pair.reshape(5, -1)), following.acc)


def _product(part: Any, weight: Any, pairs: np.ndarray) -> np.ndarray:
    """Sums of the array."""
    biases = tap_sums.bias(part.fmt), tap_sums.bias(weight.format)
    config = olive_machine.array_config(part, weight)
    return multiply(pairs, weight.pairs(), biases, wide=weight.format.width == 8, **config).d


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("olive-4:act_bits=none", "D-olive-41"),
        ("olive-4:skip=down", "D-olive-32"),
    ],
)
def test_layers_that_are_not_on_machine_are_named(spec: str, reason: str) -> None:
    report = machine.run("tiny", spec, 0, 4)

    assert [entry for entry in report.not_on_the_machine if entry.name == "blk.0.down" and reason in entry.reason]
    assert "blk.0.down" not in [operation.name for operation in report.operations]


def test_cycles_are_those_of_the_tiles() -> None:
    """Three tiles of 64 columns: 64 inputs, skew of 126, drain of 64 [D-olive-39]."""
    up = _named(machine.run("tiny", "olive-4", 0, 16).operations, "blk.0.up")

    assert up.shape == (16, 96, 64)
    assert up.cycles == 2 * (64 + 64 + 64 - 2 + 64)
    assert up.words == {"activations": 2 * 16 * 32, "weights": 96 * 32, "sums": 16 * 96}


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["olive-4", "olive-8"])
def test_smollm2_is_equal(scheme: str, smollm2: Any) -> None:
    """Blocks 0 and 15, a prompt and the step after it, from one preparation."""
    from refemu.models import schemes, text
    from refemu.models.machine import runner

    prepared = models.prepare(runner.shortened(smollm2, schemes.find(scheme), 15), scheme)
    ids = smollm2.tokenizer.encode(text.default())
    for layer in (0, 15):
        for phase in machine.PHASES:
            operations, _ = olive_machine.machine(prepared, layer, runner.recorded(prepared, layer, ids, 16, phase))
            assert [operation.unit for operation in operations].count("olive_systolic_clocked") == 7
            assert not np.any([operation.differing for operation in operations])


@pytest.mark.long
def test_use_of_the_array_on_smollm2(smollm2: Any) -> None:
    """docs/claims-measurements.md: 16 of 64 rows, K of K + 190 cycles."""
    report = machine.run(smollm2, "olive-4", 0, 16)

    products = [operation for operation in report.operations if operation.kind == "linear"]
    for part, least, most in (("elements", 0.188, 0.222), ("decoders", 0.235, 0.278)):
        shares = [operation.use[part] for operation in products]
        assert (round(min(shares), 3), round(max(shares), 3)) == (least, most)
    assert report.costs["linear"].cycles == 70_686
    for operation in products:
        k = operation.shape[2]
        assert abs(operation.use["elements"] - k / (k + 190) / 4) < 1e-12


def _named(operations: tuple[Operation, ...], name: str) -> Operation:
    return next(operation for operation in operations if operation.name == name)
