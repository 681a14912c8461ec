"""Calibration that `prepare` takes: token ids, a text, files; too few tokens are rejected."""

from pathlib import Path

import pytest

from refemu import models
from refemu.arith.checks import Refused

SCHEME = "olive-4:low=90,high=130,step=10"
WORDS = "It is a truth universally acknowledged."
IDS = list(b"the cat sat")


def test_calibration_text_is_its_token_ids(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(WORDS)
    given = [WORDS, tmp_path / "a.txt", tmp_path, list(WORDS.encode())]
    found = {
        models.run("tiny", IDS, models.prepare("tiny", SCHEME, calibration=each)).logits.tobytes() for each in given
    }

    assert len(found) == 1
    other = models.prepare("tiny", SCHEME, calibration=WORDS[::-1])
    assert models.run("tiny", IDS, other).logits.tobytes() not in found


@pytest.mark.parametrize("calibration", [[1], "t", [[3]]])
def test_one_calibration_token_is_rejected(calibration: list[int] | str) -> None:
    with pytest.raises(Refused, match="calibration: must have at least 2 tokens, got 1; give a longer text"):
        models.prepare("tiny", SCHEME, calibration=calibration)
