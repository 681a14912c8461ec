"""`models.perplexity` and `models.compare`: the command's numbers, notes, and rejected arguments."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.cli import main
from refemu.models import text

WORDS = "Vanity was the beginning and the end of Sir Walter Elliot's character. " * 3
CUT: dict[str, Any] = {"win": 32, "windows": 4}
LAST = 2  #: the last block of `tiny`


@pytest.mark.parametrize("scheme", ["fp16", "leankv-k4v2"])
def test_perplexity_equals_the_command(scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text(WORDS)
    line = ["ppl", "--model", "tiny", "--text", str(tmp_path / "a.txt"), "--win", "32", "--windows", "4", "--json"]
    assert main([*line, "--scheme", scheme]) == 0
    row = json.loads(capsys.readouterr().out)
    found = models.perplexity("tiny", WORDS, scheme=scheme, **CUT)

    assert (row["perplexity"], row["error"], row["scored"]) == (found.perplexity, found.error, found.scored)
    assert row["windows"] == list(found.windows) and row["text"]["ids_sha256"] == found.ids_sha256
    assert found == models.perplexity("tiny", tmp_path / "a.txt", scheme=scheme, **CUT)
    assert found == models.perplexity("tiny", ids=list(WORDS.encode()), scheme=scheme, **CUT)


def test_default_text_is_the_shipped_one() -> None:
    assert models.perplexity("tiny", **CUT) == models.perplexity("tiny", text.default(), **CUT)


def test_comparison_is_paired_by_window() -> None:
    plain, changed = (models.perplexity("tiny", WORDS, scheme=scheme, **CUT) for scheme in ("fp16", "harmonia-kv8"))
    change = models.compare(changed, plain)
    each = [a - b for a, b in zip(changed.losses, plain.losses, strict=True)]
    mean = math.fsum(each) / 4
    error = math.sqrt(math.fsum((x - mean) ** 2 for x in each) / 3 / 4)

    assert change.percent == pytest.approx(100 * math.expm1(mean))
    assert change.error == pytest.approx(100 * math.exp(mean) * error)
    assert changed.error is not None and plain.error is not None


def test_scores_of_other_windows_are_not_compared() -> None:
    first = models.perplexity("tiny", WORDS, **CUT)
    with pytest.raises(Refused, match="must have the same win, got 16 and 32"):
        models.compare(models.perplexity("tiny", WORDS, win=16, windows=8), first)
    with pytest.raises(Refused, match="must have the same prefill, got 16 and 0"):
        models.compare(models.perplexity("tiny", WORDS, scheme="leankv", **CUT), first)
    with pytest.raises(RefusedType, match="score must be a TextScore, got "):
        models.compare(first.perplexity, first)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Late(models.LinearScheme):
    """Changes values of the last block whose first channel is above a bound."""

    bound: float = float("inf")

    def values(self, layer: int, v: np.ndarray) -> np.ndarray:
        return np.where(v[..., :1] > self.bound, v + 1, v) if layer == LAST else v


def test_scheme_that_changes_nothing_says_so() -> None:
    null = models.perplexity("tiny", WORDS, scheme=Late(), **CUT)
    real = models.perplexity("tiny", WORDS, scheme="leankv-k4v1", **CUT)

    assert null.equals_fp16 and "equal those of scheme fp16 in all bits" in null.notes[-1]
    assert not real.equals_fp16 and not any("equal" in note for note in real.notes)
    assert null.losses == models.perplexity("tiny", WORDS, **CUT).losses
    assert (null.prefill, real.prefill) == (0, 16)


def test_difference_late_in_a_window_is_seen() -> None:
    """Logits of the first 20 tokens of every window are equal, so a comparison of these alone would be wrong."""
    early, late = [], []

    @dataclass(frozen=True)
    class Look(models.LinearScheme):
        """Records the values."""

        def values(self, layer: int, v: np.ndarray) -> np.ndarray:
            if layer == LAST:
                early.append(float(v[:20, :, 0].max()))
                late.append(float(v[20:, :, 0].max()))
            return v

    models.perplexity("tiny", WORDS, scheme=Look(), **CUT)
    assert max(late) > max(early)

    assert not models.perplexity("tiny", WORDS, scheme=Late(max(early)), **CUT).equals_fp16


def test_short_text_and_few_tokens_are_noted() -> None:
    found = models.perplexity("tiny", "Vanity")

    assert found.scored == 5 and found.error is None
    assert found.notes == (
        "the text has 6 tokens, less than one window of 512: a shorter window was scored",
        "only 5 tokens scored, and below 100 a perplexity says little; give a longer text",
    )
    assert models.perplexity("tiny", WORDS, **CUT).notes == ()


def test_overflow_is_noted() -> None:
    @dataclass(frozen=True)
    class Large(models.LinearScheme):
        """Weights whose products overflow fp16."""

        def weight(self, name: str, rows: np.ndarray) -> np.ndarray:
            return np.full_like(rows, 6e4) if name == "blk.2.down" else rows

    found = models.perplexity("tiny", WORDS, scheme=Large(), **CUT)

    assert math.isnan(found.perplexity)
    assert found.notes[0].startswith("logits of window 0 are NaN or infinite, so the perplexity says nothing")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"model": "tiny-encoder"}, "tiny-encoder: an encoder .* name a decoder of", id="encoder"),
        pytest.param({"ids": [1, 2, 3]}, "ids replace the text, got both", id="both"),
        pytest.param({"windows": 0}, "windows must be at least 1, got 0", id="windows"),
        pytest.param({"win": 1}, "win must be in", id="win"),
        pytest.param({"scheme": "leankv", "prefill": 0}, "reads its KV cache in decode steps only", id="prefill"),
    ],
)
def test_invalid_arguments_of_perplexity_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        models.perplexity(**{"model": "tiny", "text": WORDS, **options})


def test_prepared_scheme_is_used_for_its_model_only() -> None:
    prepared = models.prepare("tiny", "harmonia-kv8")

    assert models.perplexity("tiny", WORDS, scheme=prepared, **CUT).scheme == "harmonia-kv8"
    with pytest.raises(Refused, match="was prepared for model 'tiny', got 'tiny-qwen3'"):
        models.perplexity("tiny-qwen3", WORDS, scheme=prepared)
