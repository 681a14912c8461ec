"""KLLM's chip: no element of any operation differs from the scheme, and a wrong unit is noticed where it works."""

from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models import machine
from refemu.models.machine import Phase
from refemu.models.schemes.kllm.machine import block
from tests.models.machine import wrong

UNITS = {
    "orizuru",
    "clustering",
    "index_norm",
    "kllm_chip",
    "index_matmul",
    "functional",
    "score_quantizer",
    "index_function",
    "index_product",
}


@pytest.mark.parametrize("phase", machine.PHASES)
@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("scheme", ["kllm-a4", "kllm-a3", "kllm-a4-s"])
def test_tiny_is_equal(scheme: str, layer: int, phase: Phase) -> None:
    report = machine.run("tiny", scheme, layer, 16, phase)

    assert report.differing == 0
    assert {operation.unit for operation in report.operations} == UNITS - ({"orizuru"} if "-s" in scheme else set())
    assert all(operation.elements for operation in report.operations)


@pytest.mark.parametrize(
    ("unit", "port"),
    [
        ("orizuru", "outlier_mask"),
        ("orizuru", "root_max"),
        ("clustering", "index"),
        ("index_norm", "rms"),
        ("kllm_chip", "y"),
        ("index_matmul", "y"),
        ("functional", "y"),
        ("score_quantizer", "q"),
        ("score_quantizer", "scale"),
        ("index_function", "entries"),
        ("index_product", "q"),
    ],
)
def test_a_wrong_lane_is_noticed(unit: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = machine.run("tiny", "kllm-a4", 1, 4)
    wrong.answers(monkeypatch, unit, port)

    report = machine.run("tiny", "kllm-a4", 1, 4)

    assert clean.differing == 0
    assert unit in {operation.unit for operation in report.operations if operation.differing}


def test_static_thresholds_are_named() -> None:
    report = machine.run("tiny", "kllm-a4-s", 0, 4)

    reasons = {entry.name: entry.reason for entry in report.not_on_the_machine}
    assert "D-kllm-30" in reasons["blk.0.attn_in.outliers"]
    assert "D-kllm-36" in reasons["blk.0.add"]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["kllm-a4", "kllm-a3"])
def test_smollm2_is_equal(scheme: str, smollm2: Any) -> None:
    """Blocks 0 and 15, a prompt and the step behind it, of one preparation."""
    from refemu.models import schemes, text
    from refemu.models.machine import runner

    prepared = models.prepare(runner.shortened(smollm2, schemes.find(scheme), 15), scheme)
    ids = smollm2.tokenizer.encode(text.default())
    for layer in (0, 15):
        for phase in machine.PHASES:
            operations, _ = block.machine(prepared, layer, runner.recorded(prepared, layer, ids, 16, phase))
            assert {operation.unit for operation in operations} == UNITS
            assert not np.any([operation.differing for operation in operations])
