"""Perplexity: windows, scored tokens, rejected arguments."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.models.scores.perplexity import perplexity, surprise

IDS = list(b"Vanity was the beginning and the end of Sir Walter Elliot's character")


@cache
def prepared() -> Any:
    return models.prepare("tiny")


def nll(window: list[int], first: int) -> list[float]:
    """The definition, token by token, in Python floats."""
    logits, found = models.run("tiny", window, prepared()).logits.tolist(), []
    for at in range(first, len(window)):
        row = logits[at - 1]
        found.append(math.log(math.fsum(math.exp(v - max(row)) for v in row)) + max(row) - row[window[at]])
    return found


@pytest.mark.parametrize(("win", "prefill"), [(69, 0), (20, 0), (17, 5), (34, 33)])
def test_equals_the_definition(win: int, prefill: int) -> None:
    windows = [IDS[at : at + win] for at in range(0, len(IDS), win)]
    scored = [nll(window, max(prefill, 1)) for window in windows if len(window) > max(prefill, 1)]
    found = perplexity(prepared(), IDS, win=win, prefill=prefill)
    count = sum(map(len, scored))
    mean = math.fsum(map(math.fsum, scored)) / count

    assert count == found.scored
    assert len(scored) == len(found.windows)
    assert math.isclose(mean, found.nll, rel_tol=1e-12)  # two float64 orders of 256 terms
    assert math.isclose(math.exp(mean), found.perplexity, rel_tol=1e-12)


def test_a_window_of_one_token_is_dropped() -> None:
    assert perplexity(prepared(), IDS[:21], win=20) == perplexity(prepared(), IDS[:20], win=20)


def test_prompt_of_one_token_scores_what_none_does() -> None:
    """The first token of a window is never scored; token by token the logits are the same bits."""
    assert perplexity(prepared(), IDS, win=20, prefill=1) == perplexity(prepared(), IDS, win=20)


@pytest.mark.parametrize("scheme", ["leankv", "leankv-k8v4", "fp16+leankv"])
def test_scheme_that_only_steps_show_needs_a_prefill(scheme: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A window read as one prompt has fp16's perplexity, to the last digit."""
    with pytest.raises(Refused, match=r"reads its KV cache in decode steps only.* --prefill N, with N below --win"):
        perplexity(models.prepare("tiny", scheme), list(range(40)), 32)
    line = ["ppl", "--model", "tiny", "--scheme", scheme, "--win", "32", "--windows", "1"]
    assert main([*line, "--prefill", "0"]) == 2
    assert "--prefill N" in capsys.readouterr().err
    assert main(line) == 0
    assert "so the first 16 tokens of each window are its prompt" in capsys.readouterr().err
    assert perplexity(models.prepare("tiny", scheme), list(range(40)), 32, 16).scored == 16


def test_perplexity_reports_its_progress() -> None:
    told: list[tuple[str, int, int]] = []
    perplexity(prepared(), IDS, win=40, progress=lambda *step: told.append(step))

    assert told == [("perplexity", 0, 2), ("perplexity", 1, 2), ("perplexity", 2, 2)]


def test_loss_of_equal_logits_is_their_log_count() -> None:
    found = surprise(np.zeros((3, 256), np.float32), np.arange(3))

    assert found.tolist() == [math.log(256)] * 3


@pytest.mark.parametrize(
    ("ids", "win", "prefill", "message"),
    [
        pytest.param(IDS, 1, 0, r"perplexity: win must be in \[2, 2048\], the context of the model, got 1", id="win"),
        pytest.param(IDS, 2049, 0, r"win must be in \[2, 2048\], the context of the model, got 2049", id="context"),
        pytest.param(IDS, 20, 20, r"perplexity: prefill must be in \[0, 20\), got 20", id="prefill"),
        pytest.param([1], 20, 0, "perplexity: the text must have at least 2 tokens, got 1", id="one token"),
        pytest.param([], 20, 5, "perplexity: the text must have at least 6 tokens, got 0", id="empty"),
        pytest.param([1, 256], 20, 0, r"token id 256 at index \(1,\) is outside", id="id"),
    ],
)
def test_invalid_windows_are_rejected(ids: list[int], win: int, prefill: int, message: str) -> None:
    with pytest.raises(Refused, match=message):
        perplexity(prepared(), ids, win=win, prefill=prefill)
