"""KLLM's chip: no element of any operation differs from the scheme, and a wrong unit is noticed where it works."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models import machine
from refemu.models.machine import Phase
from refemu.models.schemes.kllm.machine import block
from refemu.units.kllm.kllm_chip import compiled as kllm_chip_compiled
from tests.models.machine import wrong

UNITS = {
    "orizuru_passes",
    "clustering",
    "index_norm",
    "pe_lane",
    "functional",
    "score_quantizer",
    "index_function",
    "index_product",
}


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize("layer", [1, pytest.param(0, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("scheme", ["kllm-a4", "kllm-a3", "kllm-a4-s"])
def test_tiny_is_equal(scheme: str, layer: int, phase: Phase) -> None:
    report = machine.run("tiny", scheme, layer, 16, phase)

    assert report.differing == 0
    assert {operation.unit for operation in report.operations} == UNITS - (
        {"orizuru_passes"} if "-s" in scheme else set()
    )
    assert all(operation.elements for operation in report.operations)


@pytest.mark.parametrize(
    ("unit", "port"),
    [
        ("orizuru_passes", "outlier_mask"),
        pytest.param("index_norm", "rms", marks=pytest.mark.long),
        pytest.param("index_product", "q", marks=pytest.mark.long),
        pytest.param("orizuru_passes", "root_max", marks=pytest.mark.long),
        pytest.param("clustering", "index", marks=pytest.mark.long),
        pytest.param("index_norm", "folded", marks=pytest.mark.long),
        pytest.param("score_quantizer", "q", marks=pytest.mark.long),
        pytest.param("score_quantizer", "scale", marks=pytest.mark.long),
        pytest.param("index_function", "entries", marks=pytest.mark.long),
    ],
)
def test_a_wrong_lane_is_noticed(unit: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = machine.run("tiny", "kllm-a4", 1, 4)
    wrong.answers(monkeypatch, unit, port)

    report = machine.run("tiny", "kllm-a4", 1, 4)

    assert clean.differing == 0
    assert unit in {operation.unit for operation in report.operations if operation.differing}


@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-opt"])
@pytest.mark.parametrize("layer", [0, 1])
def test_layer_norms_and_biases_are_equal(model: str, layer: int) -> None:
    """Shift, sums of the weights and biases enter the lanes; the function has no gate."""
    for phase in machine.PHASES:
        report = machine.run(model, "kllm-a4", layer, 9, phase)

        assert report.differing == 0
        assert {operation.kind for operation in report.operations} == {
            "quantize",
            "norm",
            "linear",
            "attention",
            "activation",
        }


@pytest.mark.parametrize("word", ["bias", "row_sum", "shift", "b_scale", "entry"])
def test_a_wrong_operand_of_the_lanes_is_noticed(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that is fed another word in one place."""
    right = kllm_chip_compiled.operands

    def wrong_operands(task: Any) -> Any:
        words = right(task)
        table, rows, columns = (array.copy() for array in (words.table, words.rows, words.columns))
        places = {"b_scale": columns[0], "row_sum": columns[1], "bias": columns[2], "shift": rows[1], "entry": table}
        places[word][:] ^= 0x0101  # a place that the last tile reads, whatever its size
        return replace(words, table=table, rows=rows, columns=columns)

    monkeypatch.setattr(kllm_chip_compiled, "operands", wrong_operands)

    report = machine.run("tiny-gpt2", "kllm-a4", 0, 4)

    differing = {operation.unit for operation in report.operations if operation.differing}
    assert differing - {"functional"} == {"pe_lane"}  # softmax takes the logits that the lanes wrote


def test_static_thresholds_are_named() -> None:
    report = machine.run("tiny", "kllm-a4-s", 0, 4)

    reasons = {entry.name: entry.reason for entry in report.not_on_the_machine}
    assert "D-kllm-30" in reasons["blk.0.attn_in.outliers"]
    assert "D-kllm-36" in reasons["blk.0.add"]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["kllm-a4", pytest.param("kllm-a3", marks=pytest.mark.slow)])
def test_smollm2_is_equal(scheme: str, smollm2: Any) -> None:
    """Blocks 0 and 15, a prompt and the step after it, from one preparation."""
    from refemu.models import schemes, text
    from refemu.models.machine import runner

    prepared = models.prepare(runner.shortened(smollm2, schemes.find(scheme), 15), scheme)
    ids = smollm2.tokenizer.encode(text.default())
    for layer in (0, 15):
        for phase in machine.PHASES:
            operations, _ = block.machine(prepared, layer, runner.recorded(prepared, layer, ids, 16, phase))
            assert {operation.unit for operation in operations} == UNITS
            assert not np.any([operation.differing for operation in operations])
