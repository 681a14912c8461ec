"""Tables and figures of `refemu study olive`: values of the run and of the paper."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from refemu import models
from refemu.models.backend import Jit
from refemu.studies import steps
from refemu.studies.evaluation import Setting, score
from refemu.studies.olive import experiments, figures
from refemu.studies.output import plot
from refemu.studies.results import ResultStore
from refemu.studies.steps import Bench

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "claims-olive.md").read_text()


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting(models.load("tiny"), tuple(range(60, 84)), 12)


@pytest.fixture(scope="module")
def results(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    bench = Bench(setting.model, Jit(), ResultStore("olive", tmp_path_factory.mktemp("kept")))
    return steps.run(experiments.steps(setting, experiments.PARTS), bench).results


def test_tables_hold_the_results_and_the_label(setting: Setting, results: dict[str, Any]) -> None:
    made = {table.name: table for table in figures.tables(setting, results, experiments.PARTS)}

    assert list(made) == ["pairs", "rounding_errors", "losses", "ladder"]
    assert all("untrained random weights" in made[name].title for name in ("pairs", "losses", "ladder"))
    ladder = {row["scheme"]: row for row in made["ladder"].document()["rows"]}
    for name in experiments.LADDER:
        one = score(setting, results, name)
        assert (ladder[name]["perplexity"], ladder[name]["error"]) == (one.perplexity, one.error)
        assert ladder[name]["windows"] == 2
    change = score(setting, results, "olive-4").over(score(setting, results, "fp16"))
    assert (ladder["olive-4"]["change"], ladder["olive-4"]["change_error"]) == (change.percent, change.error)
    least = [row for row in made["rounding_errors"].document()["rows"] if row["least"]]
    assert len(least) == 2


def test_every_figure_is_drawn_with_its_label(setting: Setting, results: dict[str, Any]) -> None:
    made = figures.figures(setting, results, list(figures.FIGURES))

    assert [figure.name for figure in made] == list(figures.FIGURES)
    assert all("untrained random weights" in figure.caption for figure in made)
    assert plot.draw(made, "png").startswith(b"\x89PNG")


def test_stated_values_are_marked_and_relative(setting: Setting, results: dict[str, Any]) -> None:
    (made,) = figures.figures(setting, results, ["table9"])
    measured, *stated = made.panels[0].series

    assert measured.source == "" and all(series.source == "[olive Tbl. 9]" for series in stated)
    assert stated[0].y[2] == 19.11 / 17.48  # GPT2-XL, 4-bit OliVe
    assert measured.y[2] == pytest.approx(
        score(setting, results, "olive-4").perplexity / score(setting, results, "fp16").perplexity
    )


def test_pairs_of_the_paper_add_up() -> None:
    """[olive Tbl. 2]: three kinds of pairs."""
    assert [round(pair[0] + pair[1] + pair[2], 2) for pair in figures.PAIRS.values()] == [100.0] * 4


@pytest.mark.model
@pytest.mark.slow
def test_order_of_default_study_is_that_of_claims(smollm2: Any, tmp_path: Path) -> None:
    """8 bits near fp16, 4 bits worse, ANT and int4 far worse [olive Tbl. 9]; clipping hurts most [olive Fig. 3]."""
    from refemu.models import text

    setting = Setting(smollm2, tuple(smollm2.tokenizer.encode(text.default())[:1024]), 128)
    found = steps.run(
        experiments.steps(setting, ("losses", "ladder")), Bench(smollm2, Jit(), ResultStore("olive", tmp_path))
    ).results
    ladder = [score(setting, found, name) for name in experiments.LADDER]
    lost = {name: score(setting, found, name) for name in experiments.LOST}

    assert [one.scheme for one in sorted(ladder, key=lambda one: one.perplexity)] == list(experiments.LADDER)
    for better, worse in itertools.pairwise(ladder):
        change = worse.over(better)
        assert change.error is not None and change.percent > 2.36 * change.error
    clip, victims, normals = (
        lost[f"olive-study:experiment={name}"] for name in ("clip", "prune_victims", "prune_normals")
    )
    assert clip.perplexity > 1000 * victims.perplexity > 1000 * normals.perplexity
    assert re.search(r"\| 8 bits are near FP32, 4 bits worse, ANT and int4 far worse .*\| same order \|", PAGE)
