"""The table and the figure of `refemu study mix`: every value at the scheme that it belongs to."""

from typing import Any

import pytest

from refemu import models
from refemu.studies.evaluation import Setting
from refemu.studies.mix import experiments, figures
from refemu.studies.mix.experiments import ATTENTION, LINEAR, PAIRS
from refemu.studies.output import plot

BITS = dict(zip(ATTENTION, (16, 5, 8, 7), strict=True))


@pytest.fixture
def setting() -> Setting:
    return Setting(models.load("tiny"), tuple(range(24)), 12, 8)


@pytest.fixture
def results(setting: Setting) -> dict[str, Any]:
    """Losses that grow from pair to pair, by another amount in every window; bits by the attention."""
    values: dict[str, Any] = {}
    steps = experiments.steps(setting, experiments.PARTS)
    for place, step in enumerate(steps):
        window = place % 2
        nll = 3 + place // 2 / 10 * (1 + window / 4) + window / 5
        values[step.name] = {"nll": nll, "kv_bits": BITS[step.scheme.partition("+")[2]] + window}
    return values


def test_the_table_has_every_pair_over_the_first(setting: Setting, results: dict[str, Any]) -> None:
    (table,) = figures.tables(setting, results, experiments.PARTS)
    rows = table.document()["rows"]

    assert (table.name, [row["scheme"] for row in rows]) == ("pairs", list(PAIRS))
    assert [row["kv_bits"] for row in rows[:4]] == [16.5, 5.5, 8.5, 7.5]
    assert rows[0]["over"] is None and {row["over"] for row in rows[1:]} == {"fp16+fp16"}
    assert [row["change"] for row in rows[1:]] == sorted(row["change"] for row in rows[1:])
    assert rows[1]["change"] == pytest.approx(100 * (2.718281828**0.1125 - 1))
    assert all(row["change_error"] > 0 and row["windows"] == 2 for row in rows[1:])


def test_schemes_of_the_user_are_one_table(setting: Setting, results: dict[str, Any]) -> None:
    (table,) = figures.tables(setting, results, [], [PAIRS[5], PAIRS[2]])

    assert table.name == "schemes"
    assert [row["over"] for row in table.document()["rows"]] == [None, PAIRS[5]]
    assert figures.tables(setting, results, []) == []


def test_the_figure_has_bits_changes_and_errors(setting: Setting, results: dict[str, Any]) -> None:
    (figure,) = figures.figures(setting, results, list(figures.FIGURES))
    (table,) = figures.tables(setting, results, experiments.PARTS)
    rows = {row["scheme"]: row for row in table.document()["rows"]}

    pairs, alone = figure.panels
    assert [series.label for series in pairs.series] == [series.label for series in alone.series] == list(LINEAR)
    for series in (*pairs.series, *alone.series):
        assert series.x == (5.5, 7.5, 8.5, 16.5)  # kllm, leankv, harmonia, fp16
    for series in pairs.series[1:]:
        indexed = rows[f"{series.label}+kllm-a4"]
        assert series.y[0] == pytest.approx(1 + indexed["change"] / 100)
        assert series.error[0] == pytest.approx(indexed["change_error"] / 100)
    for series in alone.series:
        assert (series.y[3], series.error[3]) == (0, 0)  # fp16 over itself
        assert series.y[0] == pytest.approx(100 * (2.718281828**0.1125 - 1)) and (series.error[0] or 0) > 0
    assert "untrained random weights" in figure.caption and "leankv-k8v4 7.50" in figure.caption
    assert plot.draw([figure], "png").startswith(b"\x89PNG")
    assert figures.figures(setting, results, []) == []
