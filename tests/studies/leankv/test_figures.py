"""Tables and figures of `refemu study leankv`: values of the run and of the paper."""

from typing import Any

import pytest

from refemu import models
from refemu.studies.evaluation import Setting
from refemu.studies.leankv import experiments, figures, memory
from refemu.studies.leankv.experiments import placed, row_name
from refemu.studies.output import plot


@pytest.fixture
def setting() -> Setting:
    return Setting(models.load("tiny"), tuple(range(32)), 16, 12)


@pytest.fixture
def results() -> dict[str, Any]:
    """Rows whose losses grow with their place."""
    found: dict[str, Any] = {}
    listed = ["fp16", *(name for part in experiments.ROWS.values() for name in part)]
    for place, (name, before) in enumerate(dict.fromkeys(placed(listed))):
        shares = {"kept": 1 - place / 50, "low": place / 50, "payload": 1 - place / 40}
        found[row_name(name, before)] = {
            "scheme": name,
            **shares,
            **dict.fromkeys(("tokens", "pages", "read"), 0.5),
            "perplexity": 20.0 + place,
            "nll": 3.0,
            "windows": [20.0 + place, 22.0 + place],
            "losses": [3.0 + place / 100, 3.1 + place / 90],
            "payloads": [0.5, 0.6],
            "payload_error": 0.05,
        }
    layer = {"layer": 0, "prompts": [0.2, 0.4], "heads": [[0.1, 0.3], [0.5, 0.3]]}
    found["sparsity"] = [layer | {"layer": place} for place in range(3)]
    decades = {"least": 0.1, "most": 90.0, "percentiles": [0.1, 10.0], "bins": [[-14, 3], [25, 1]]}
    found["significance"] = [{"scores": decades, "norms": decades | {"percentiles": [1.0, 10.0]}}] * 3
    return found


def test_tables_hold_rows_with_changes_over_fp16(setting: Setting, results: dict[str, Any]) -> None:
    made = {table.name: table.document()["rows"] for table in figures.tables(setting, results, experiments.PARTS)}

    assert list(made) == ["rows", "sparsity", "significance"]
    first, second, *_ = made["rows"]
    assert (first["scheme"], first["change"]) == ("fp16", None)
    assert second["change"] == pytest.approx(100 * (2.718281828459045 ** ((0.01 + 1 / 90) / 2) - 1))
    assert {row["part"] for row in made["rows"]} == set(experiments.ROWS)
    assert made["sparsity"][0] == pytest.approx(
        {"layer": 0, "mean": 30, "error": 10, "least": 20, "most": 40, "least_head": 30, "most_head": 30}
    )
    assert made["significance"][0] == {"layer": 0, "scores": 2.0, "norms": 1.0}


def test_every_figure_is_drawn_and_labelled(setting: Setting, results: dict[str, Any]) -> None:
    made = figures.figures(setting, results, list(figures.FIGURES))

    assert [figure.name for figure in made] == list(figures.FIGURES)
    assert all("untrained random weights" in figure.caption for figure in made)
    assert plot.draw(made, "png").startswith(b"\x89PNG")


def test_budgets_are_two_curves_of_the_same_shares(setting: Setting, results: dict[str, Any]) -> None:
    (made,) = figures.figures(setting, results, ["fig8"])
    heads, equal = made.panels[0].series

    assert len(heads.x) == len(equal.x) == 3
    reference = experiments.row(results, "fp16")
    change = experiments.over(experiments.row(results, memory.MATCHED, memory.BUDGETS[2]), reference)
    assert equal.y[1] == change.percent and equal.error[1] == change.error


def test_memory_of_paper_is_that_of_its_table(setting: Setting, results: dict[str, Any]) -> None:
    """[leankv Table 1], and the shares of [leankv §3.3]."""
    fig9, fig4 = figures.figures(setting, results, ["fig9", "fig4"])
    without, five = fig9.panels[0].series[-2:]

    assert without.x[0] == pytest.approx((18.9 + 22.8 + 23.1 + 21.2 + 21.6) / 5) and set(without.y) == {0.0}
    assert set(five.y) == {5.0} and all("leankv Table 1" in series.source for series in (without, five))
    assert fig4.panels[0].series[1].y == (100.0, 50.0, 80.0, 40.0)


def test_figures_without_their_results_are_left_out(setting: Setting, results: dict[str, Any]) -> None:
    del results["sparsity"]

    assert [figure.name for figure in figures.figures(setting, results, ["fig2", "fig7"])] == ["fig7"]
