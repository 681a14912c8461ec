"""Several sequences at once give the bits of each alone."""

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.sequences.batch import append_all

PROMPTS = [list(b"the cat sat on a mat"), list(b"a"), list(b"Vanity was the beginning")]
STEPS = [PROMPTS, [[5], [9, 2, 7], [250, 3]], [[7, 7], [1], [0]]]
CALIBRATION = list(b"It is a truth universally acknowledged. " * 2)
SCHEMES = ["fp16", "olive-4:low=90,high=130,step=10", "harmonia-kv8", "leankv", "fp16+leankv-k8v4"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_append_all_equals_each_append(scheme: str) -> None:
    prepared = models.prepare("tiny", scheme, calibration=CALIBRATION)
    together, alone = ([models.session(prepared) for _ in PROMPTS] for _ in range(2))
    for number, ids in enumerate(STEPS):
        found = append_all(together, ids, last=number == 1)
        for rows, session, each in zip(found, alone, ids, strict=True):
            assert rows.tobytes() == session.append(each, last=number == 1).tobytes()
        assert list(map(len, together)) == list(map(len, alone))


def test_append_all_that_raises_changes_no_session() -> None:
    prepared = models.prepare("tiny")
    sessions = [models.session(prepared) for _ in range(2)]
    before = [session.append([3]).copy() for session in sessions]
    with pytest.raises(Refused, match="token id 256"):
        append_all(sessions, [[4], [256]])

    assert [len(session) for session in sessions] == [1, 1]
    assert np.array_equal(before[0], before[1])


def test_append_all_rejects_lists_without_session() -> None:
    prepared = models.prepare("tiny")
    with pytest.raises(Refused, match="a list for each session of one prepared model, got 2 for 1"):
        append_all([models.session(prepared)], [[1], [2]])
