"""Tables and series of scores."""

import math

import pytest

from refemu import models
from refemu.studies.evaluation import Setting, score_of
from refemu.studies.output import scores

PLAIN, WORSE = score_of("fp16", [1.0, 2.0]), score_of("olive-4", [1.2, 2.4])


def test_row_has_spread_and_paired_change() -> None:
    first, second = scores.table("t", "a table", [("plain", PLAIN, PLAIN), ("4 bits", WORSE, PLAIN)]).document()["rows"]

    assert first["change"] is first["over"] is None
    assert second["over"] == "fp16" and second["windows"] == 2
    assert (second["least"], second["most"]) == pytest.approx((math.exp(1.2), math.exp(2.4)))
    assert second["change"] == pytest.approx(100 * math.expm1(0.3))
    assert second["change_error"] == pytest.approx(100 * math.exp(0.3) * 0.1)


def test_ratios_have_paired_errors_and_stated_places() -> None:
    series = scores.ratios("measured", ["4 bits"], [WORSE], PLAIN)
    stated = scores.stated("GPT2-XL", "[olive Tbl. 9]", {"4 bits": 19.11}, 17.48)

    assert series.y == pytest.approx((math.exp(0.3),)) and series.error == pytest.approx((math.exp(0.3) * 0.1,))
    assert (series.source, stated.source, stated.y) == ("", "[olive Tbl. 9]", (19.11 / 17.48,))


@pytest.mark.parametrize(
    ("tokens", "prefill", "words"),
    [
        (8, 0, "2 windows of 4 tokens; ± standard error over 2 windows"),
        (4, 2, "1 window of 4 tokens, the first 2 of each as a prompt; one window"),
    ],
)
def test_captions_name_model_windows_and_error(tokens: int, prefill: int, words: str) -> None:
    text = scores.about(Setting(models.load("tiny"), tuple(range(tokens)), 4, prefill))

    assert text.startswith("tiny (untrained random weights), ") and words in text
