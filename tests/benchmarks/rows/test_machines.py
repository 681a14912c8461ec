"""Rows of the machines: a phase that fails, or that differs, is no result."""

import pytest

from benchmarks.rows import machines

EQUAL = '{"operations": [{"differing": 0}, {"differing": 0}]}'
DIFFERENT = '{"operations": [{"differing": 0}, {"differing": 1}]}'


@pytest.mark.parametrize(
    ("outputs", "good"),
    [
        ([EQUAL, EQUAL], True),
        ([EQUAL, DIFFERENT], False),
        ([DIFFERENT, EQUAL], False),
        ([EQUAL, '{"operations": []}'], False),
    ],
)
def test_both_phases_count(outputs: list[str], good: bool) -> None:
    assert machines.equal(outputs) is good
