"""Rows of the machines: a phase that fails, or that differs, is not a result."""

import json

import pytest

from benchmarks.rows import machines


@pytest.mark.parametrize(("differing", "good"), [([0, 0], True), ([0, 1], False), ([1, 0], False), ([], False)])
def test_a_differing_or_absent_operation_is_seen(differing: list[int], good: bool) -> None:
    assert machines.equal(json.dumps({"operations": [{"differing": count} for count in differing]})) is good
