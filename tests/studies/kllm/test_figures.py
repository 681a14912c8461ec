"""Tables and figures of `refemu study kllm`: values of the run and of the paper."""

from typing import Any

import pytest

from refemu import models
from refemu.models import schemes
from refemu.studies.evaluation import Setting
from refemu.studies.kllm import experiments, figures
from refemu.studies.output import plot


@pytest.fixture
def setting() -> Setting:
    return Setting(models.load("tiny"), tuple(range(24)), 12)


@pytest.fixture
def results() -> dict[str, Any]:
    """Losses that grow with the place of a scheme; centroids and counts of the right shapes."""
    found: dict[str, Any] = {}
    names = [name for part in ("ladder", "shares", "breakdown") for name in experiments.names(part)]
    for place, name in enumerate(dict.fromkeys(schemes.text(schemes.parse(name)) for name in names)):
        for window in range(2):
            found[f"{name}, window {window}"] = {"nll": 3 + place / 10 + window / 5, "scored": 11}
    row = {"all": [float(i) for i in range(16)], "inliers": [i / 2 for i in range(16)], "thresholds": [1.0, 3.0]}
    other = {"all": [i + 0.5 for i in range(16)], "inliers": [i / 2 for i in range(16)], "thresholds": [2.0, 2.0]}
    found["centroids"] = [[row, other], [row, row]]
    found["orizuru"] = [{"inputs": 64, "k": 1, "comparisons": 106}, {"inputs": 128, "k": 1, "comparisons": 204}]
    return found


def test_tables_of_every_part(setting: Setting, results: dict[str, Any]) -> None:
    made = {table.name: table.document()["rows"] for table in figures.tables(setting, results, experiments.PARTS)}

    assert list(made) == ["ladder", "shares", "breakdown", "centroids", "orizuru"]
    assert [row["scheme"] for row in made["ladder"]] == list(experiments.LADDER)
    assert made["ladder"][0]["change"] is None and made["ladder"][3]["over"] == "fp16"
    assert [row["change"] for row in made["ladder"][1:]] == sorted(row["change"] for row in made["ladder"][1:])
    centroids = {row["what"]: row for row in made["centroids"]}
    assert centroids["centroids, with outliers"]["rmse"] == 0.25  # mean of 0.5 and 0
    assert centroids["centroids, without 1 % of outliers"]["rmse"] == 0
    assert centroids["thresholds of the tokens, over their mean"]["rmse"] == 0.25
    assert [row["stated"] for row in made["centroids"]] == [0.14, 0.01, 0.29]
    assert made["orizuru"][0] == {"inputs": 64, "k": 1, "comparisons": 106, "stated": 108, "apart": 138}


def test_schemes_of_the_user_are_one_table(setting: Setting, results: dict[str, Any]) -> None:
    (table,) = figures.tables(setting, results, [], ["kllm-a4", "kllm-a3"])

    assert [row["over"] for row in table.document()["rows"]] == [None, "kllm-a4"]


def test_every_figure_is_drawn_and_labelled(setting: Setting, results: dict[str, Any]) -> None:
    made = figures.figures(setting, results, list(figures.FIGURES))

    assert [figure.name for figure in made] == list(figures.FIGURES)
    assert all("untrained random weights" in figure.caption or figure.name == "orizuru" for figure in made)
    assert plot.draw(made, "png").startswith(b"\x89PNG")


def test_stated_values_are_those_of_the_tables(setting: Setting, results: dict[str, Any]) -> None:
    """[kllm Table II, Table IV, §V-D]: the last steps of the breakdown are rows of Table II, 1 % is one of Table IV."""
    assert figures.STATED["LLaMA-2-7B"][4:] == figures.BROKEN[2:]
    assert figures.SHARED[1] == figures.STATED["LLaMA-2-7B"][3]
    (made,) = figures.figures(setting, results, ["table2"])
    measured, stated, _ = made.panels[0].series
    assert (measured.source, stated.source) == ("", "[kllm Table II]")
    assert stated.y[2] == 5.90 / 5.47
