"""The report: plain JSON with the names that tools outside read, and the count of differences."""

import json

import numpy as np
import pytest

from refemu.models.machine.report import Absent, Operation, Report, differences

OPERATION = Operation("blk.0.q", "olive_systolic", {"k": 4}, (1, 2, 4), 2, 1, 9, {"elements": 0.5}, {"sums": 2})
REPORT = Report("tiny", "olive-4", 0, "prompt", 1, 0.25, (OPERATION, OPERATION), (Absent("blk.0.norm", "fp16"),))


def test_json_has_the_names_of_the_contract() -> None:
    row = json.loads(json.dumps(REPORT.as_json()))

    assert list(row) == [
        "model",
        "scheme",
        "layer",
        "phase",
        "tokens",
        "prepare_seconds",
        "operations",
        "not_on_the_machine",
        "total",
    ]
    assert row["total"] is None
    assert list(row["operations"][0]) == [
        "name",
        "unit",
        "parameters",
        "shape",
        "elements",
        "differing",
        "cycles",
        "use",
        "words",
        "counts",
        "unchecked",
        "blocks",
    ]
    assert row["not_on_the_machine"] == [{"name": "blk.0.norm", "reason": "fp16"}]
    assert REPORT.differing == 2


def test_differences_count_bits_not_values() -> None:
    zeros = np.zeros(3, np.float32)

    assert differences(zeros, -zeros) == 3
    assert differences(np.array([np.nan], np.float16), np.array([np.nan], np.float16)) == 0
    assert differences(np.array([1, 2], np.uint8), np.array([1, 3], np.uint8)) == 1
    with pytest.raises(AssertionError):
        differences(np.zeros(2, np.uint8), np.zeros(2, np.uint16))
