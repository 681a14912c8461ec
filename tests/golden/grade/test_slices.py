"""Parts of a stimulus: few cases first, every row once, at most the stated number of values."""

import numpy as np
import pytest

from refemu.golden.grade import slices
from tests.golden.grade import plain


def test_small_parts_come_first() -> None:
    answers = plain.committed("flint_decoder-flint4")
    pieces = list(slices.parts(answers))

    assert pieces[0][0] == 0 and pieces[0][1].shape[0] <= slices.FIRST
    rows = [first + row for first, block in pieces for row in range(block.flags.size)]
    assert rows == list(range(answers.rows)) and slices.tried(answers) == answers.rows
    joined = np.concatenate([block.arrays["out.exponent"].reshape(-1) for _, block in pieces])
    assert joined.tolist() == answers.outputs["out.exponent"][:, 0].tolist()


def test_parts_have_limited_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case counts as WIDE values at most."""
    answers = plain.committed("olive_mac-wrap")
    monkeypatch.setattr(slices, "MOST", 600)
    monkeypatch.setattr(slices, "WIDE", 1 << 30)
    values = [
        block.cases.inputs[name][:1].size * block.shape[0]
        for _, block in slices.parts(answers)
        for name in block.cases.inputs
    ]

    assert 0 < slices.tried(answers) < answers.rows and np.sum(values) < 1200
    monkeypatch.setattr(slices, "WIDE", 1)
    assert slices.tried(answers) == answers.rows
