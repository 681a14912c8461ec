"""Tables and figures of `refemu study harmonia`: values of the run and of the paper."""

from typing import Any

import pytest

from refemu import models
from refemu.models import schemes
from refemu.studies.evaluation import Setting, score
from refemu.studies.harmonia import experiments, figures
from refemu.studies.output import plot


@pytest.fixture
def setting() -> Setting:
    return Setting(models.load("tiny"), tuple(range(48)), 12)


@pytest.fixture
def results() -> dict[str, Any]:
    """Losses that grow with the place of a scheme; two layers of attention; two counts of each dataflow."""
    found: dict[str, Any] = {}
    for place, name in enumerate((*experiments.MANTISSAS, *experiments.WIDE, *experiments.CACHE)):
        for window in range(4):
            text = schemes.text(schemes.parse(name))
            found[f"{text}, window {window}"] = {"nll": 3 + place / 10 + window / (5 + place), "scored": 11}
    layer = {
        "initial": [0.5, 0.3],
        "local": [0.2, 0.4],
        "k": [8.0, 1.0, 2.0, 4.0],
        "v": [1.0, 1.0, 1.0, 2.0],
        "online": [4.0, 1.0, 2.0, 4.0],
        "offline": None,
        "both": None,
        "chosen": [0],
    }
    found["attention"] = [layer, layer | {"offline": layer["k"], "both": layer["online"]}]
    found["dataflows"] = [
        {"rows": rows, "dataflow": flow, "elements": flow * 1000} for rows in (1, 64) for flow in (1, 2)
    ]
    return found


def test_tables_of_every_part(setting: Setting, results: dict[str, Any]) -> None:
    made = {table.name: table.document()["rows"] for table in figures.tables(setting, results, experiments.PARTS)}

    assert list(made) == ["mantissas", "cache", "attention", "dataflows"]
    assert {row["windows"] for row in made["mantissas"]} == {2} and {row["windows"] for row in made["cache"]} == {4}
    over = [(row["scheme"], row["over"]) for row in made["cache"]]
    assert ("harmonia-kv4", figures.NONE) in over and (figures.NONE, "harmonia-kv4-naive") in over
    for row in made["cache"]:
        if row["over"]:
            one, other = (score(setting, results, row[name]) for name in ("scheme", "over"))
            assert (row["change"], row["change_error"]) == (one.over(other).percent, one.over(other).error)
    assert made["attention"][0] == pytest.approx(
        {"layer": 0, "initial": 40, "local": 30, "rest": 30, "k_ratio": 2, "v_ratio": 2, "offset": 0.5}
    )
    assert made["dataflows"][1]["formula_1"] == 64 * 64 * 4096 + 4096 * 4096


def test_every_figure_is_drawn_and_labelled(setting: Setting, results: dict[str, Any]) -> None:
    made = figures.figures(setting, results, list(figures.FIGURES))

    assert [figure.name for figure in made] == list(figures.FIGURES)
    assert all("untrained random weights" in figure.caption or figure.name == "dataflows" for figure in made)
    assert plot.draw(made, "png").startswith(b"\x89PNG")


def test_relative_accuracy_is_of_the_perplexity_of_fp16(setting: Setting, results: dict[str, Any]) -> None:
    (made,) = figures.figures(setting, results, ["fig4"])
    half = experiments.halved(setting)
    eight = score(half, results, "harmonia-kv8:act_mantissa=8,high=8,low=8,weights=fp16")

    assert made.panels[0].series[0].x == (8, 6, 5, 4)
    assert made.panels[0].series[0].y[0] == pytest.approx(
        100 * score(half, results, "fp16").perplexity / eight.perplexity
    )


def test_stated_losses_are_those_of_table_1(setting: Setting, results: dict[str, Any]) -> None:
    (made,) = figures.figures(setting, results, ["fig8"])
    measured, *stated = made.panels[0].series

    assert measured.source == "" and {series.source for series in stated} == {"[harmonia Table I]"}
    assert stated[0].y == (pytest.approx(100 * (6.19 / 5.78 - 1)),)
