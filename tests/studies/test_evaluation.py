"""Settings: windows of a text, statistics of scores, labels of untrained models."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.backend import Jit
from refemu.models.scores import perplexity
from refemu.studies import evaluation, steps
from refemu.studies.evaluation import Setting, label, score, score_of, score_steps, seeded
from refemu.studies.results import ResultStore
from refemu.studies.steps import Bench


@pytest.mark.parametrize("prefill", [0, 4])
def test_scores_are_those_of_perplexity(prefill: int, tmp_path: Path) -> None:
    model = models.load("tiny")
    setting = Setting(model, tuple(range(3, 33)), 10, prefill)
    run = steps.run(score_steps(setting, "olive-8"), Bench(model, Jit(), ResultStore("olive", tmp_path)))
    scored = score(setting, run.results, "olive-8")
    direct = perplexity.perplexity(models.prepare(model, "olive-8"), setting.ids, 10, prefill)

    assert scored.losses == direct.windows
    assert scored.perplexity == pytest.approx(direct.perplexity)
    mean = math.fsum(direct.windows) / 3
    error = math.sqrt(math.fsum((loss - mean) ** 2 for loss in direct.windows) / 2 / 3)
    assert scored.error == pytest.approx(scored.perplexity * error)


def test_results_depend_on_scheme_text_and_prefill() -> None:
    model = models.load("tiny")
    plain = Setting(model, tuple(range(20)), 10)
    others = [
        score_steps(dataclasses.replace(plain, prefill=2), "fp16"),
        score_steps(dataclasses.replace(plain, ids=tuple(range(1, 21))), "fp16"),
        score_steps(plain, "fp16:acc=fp16"),
    ]

    assert all(each[0].depends != score_steps(plain, "fp16")[0].depends for each in others)


def test_one_window_has_no_error_changes_are_paired() -> None:
    assert score_of("fp16", [1.0]).error is None
    one, other = score_of("a", [1.0, 3.0]), score_of("b", [0.9, 2.9])
    change = one.over(other)

    assert change.percent == pytest.approx(100 * math.expm1(0.1)) and change.error == pytest.approx(0, abs=1e-9)


def test_untrained_models_are_labelled_by_content() -> None:
    tiny = models.load("tiny")

    assert seeded(tiny) and label(tiny) == "tiny (untrained random weights)"
    assert not seeded(dataclasses.replace(tiny, sha256="0" * 64))
    assert not seeded(dataclasses.replace(tiny, name="smollm2-135m"))
    assert not seeded(dataclasses.replace(tiny, name="mine"))


def test_encoders_are_rejected_by_name() -> None:
    with pytest.raises(Refused, match="study kllm: tiny-encoder is an encoder"):
        Setting(models.load("tiny-encoder"), (1, 2), 2).require_decoder("kllm")


def test_token_ids_have_a_digest_and_a_price() -> None:
    assert evaluation.digest([1, 2]) == evaluation.digest(np.array([1, 2], np.int32)) != evaluation.digest([2, 1])
    assert evaluation.token_macs(models.load("tiny"), 8) == models.load("tiny").config.macs(8)
    assert evaluation.token_macs(models.load("tiny-encoder"), 8) > 0


def test_paragraphs_fit_the_tokens() -> None:
    """Whole paragraphs, the last that fits included, long ones cut."""
    words, encoder = "Anne\n\n\n\nMr. Elliot\n\nMary", models.load("tiny-encoder")

    assert evaluation.paragraphs(encoder, words, 11, 99) == (tuple(b"Anne"),)
    assert evaluation.paragraphs(encoder, words, 11, 6) == (tuple(b"Anne"), tuple(b"Mr. El"))
    assert evaluation.paragraphs(encoder, words, 0, 9) == ()
